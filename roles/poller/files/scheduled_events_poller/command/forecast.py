# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events forecast``: whether the preparation of this VM fits into the notice of an event."""

import argparse
import math
import time
from typing import List, NamedTuple, Sequence

from _scheduled_events import history_file, terms
from _scheduled_events.document import EVENT_TYPES, LEAST_NOTICE, format_epoch
from _scheduled_events.history import Fact, needed, preparations
from _scheduled_events.policies import hooks_end_by, lead_time
from _scheduled_events.rules import rule_for
from _scheduled_events.text import counted
from _scheduled_events.time_windows import next_opening

from ..unit import config, status
from .commands import engine_config, sample_event
from .output import complain, histories, say, say_json


class Forecast(NamedTuple):
    """Of one type of event: ``needed`` and ``given`` are seconds."""

    event_type: str
    needed: float
    given: float

    @property
    def fits(self) -> bool:
        return self.needed <= self.given


def forecast(seconds: float, *, margin: float, event_types: Sequence[str] = EVENT_TYPES) -> List[Forecast]:
    """Compare with what hooks have of the least notice of each type.

    :param seconds: what is needed.
    """
    given = {name: hooks_end_by(LEAST_NOTICE[name], now=0.0, margin=margin) for name in event_types}
    return [Forecast(name, seconds, given[name]) for name in event_types]


def show_forecast(chosen: argparse.Namespace) -> int:
    """Compare the preparations of the history with the least notice; the exit status is that of a monitoring plugin."""
    settings = config.load(chosen.config)
    margin, types = settings.margin, chosen.event_types
    facts, problems = history_file.read(*histories(chosen), now=time.time())
    seconds = preparations(facts)
    enough = needed(seconds)
    found = [] if enough is None else forecast(enough, margin=margin, event_types=types)
    code = status.UNKNOWN if enough is None else status.OK if all(each.fits for each in found) else status.WARNING
    if chosen.json:
        shown = [dict(each._asdict(), fits=each.fits) for each in found]
        known = {"preparations": len(seconds), "needed": enough, "margin": margin}
        say_json({**known, "forecasts": shown, "problems": problems, "exit_code": code})
    elif enough is None:
        say("UNKNOWN: the history has no preparation that ended well")
    else:
        took = f"{counted(len(seconds), 'preparation')}, of which 95 % took {enough:.1f} s or less"
        say(f"{'OK' if code == status.OK else 'WARNING'}: {took}; hooks end {margin:g} s before NotBefore")
        decided = engine_config(settings, "this-vm", chosen)
        for each in found:
            say(f"  {_words(each)}{_window(each.event_type, decided, now=time.time())}")
    if not chosen.json:
        say(f"  {_read(chosen, facts)}")
    for problem in problems:
        complain(f"scheduled-events: {problem}")
    return code


def _read(chosen: argparse.Namespace, facts: Sequence[Fact]) -> str:
    """What the forecast follows from: the facts, their times and their directories."""
    times = f", from {format_epoch(facts[0].time)} to {format_epoch(facts[-1].time)}" if facts else ""
    return f"read: {len(facts)} facts in {' and '.join(histories(chosen))}{times}"


def _window(event_type: str, decided: terms.Config, *, now: float) -> str:
    """Whether the next window of the rule for an event of this type is within the least notice."""
    event = sample_event(decided.vm_name, event_type, not_before=now + LEAST_NOTICE[event_type])
    opening = next_opening(rule_for(event, decided.rules).windows, now)
    if opening is None:
        return ""
    latest = now + LEAST_NOTICE[event_type] - lead_time(event, decided)
    when = "is open now" if opening[0] <= now else f"opens at {format_epoch(opening[0])}"
    return f"; window {opening[1]} {when}, {'within' if opening[0] <= latest else 'after'} the least notice"


def types_of(text: str) -> List[str]:
    """The types that an argument names."""
    names = [name.strip() for name in text.split(",")] if text else list(EVENT_TYPES)
    for name in names:
        if name not in EVENT_TYPES:
            known = ", ".join(EVENT_TYPES)
            raise argparse.ArgumentTypeError(f"expected some of {known}, separated by commas, not {name}")
    return names


def _words(found: Forecast) -> str:
    if found.fits:
        return f"{found.event_type} fits with {math.floor(found.given - found.needed)} s to spare"
    return f"{found.event_type}: {math.ceil(found.needed)} s needed, {found.given:g} given"
