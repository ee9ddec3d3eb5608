# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events forecast``: whether the preparation of this VM fits into the notice of an event."""

import argparse
import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from _scheduled_events.document import EVENT_TYPES, LEAST_NOTICE
from _scheduled_events.history import PHASE_BEGAN, PHASE_ENDED, Fact
from _scheduled_events.runs import OK

from ..unit import config, status
from . import show_history
from .output import CommandError, complain, say, say_json

SHARE = 0.95  # of the preparations are not longer than what is needed


class Forecast(NamedTuple):
    """Of one type of event: ``needed`` and ``given`` are seconds."""

    event_type: str
    needed: float
    given: float

    @property
    def fits(self) -> bool:
        return self.needed <= self.given


def preparations(facts: Sequence[Fact]) -> List[float]:
    """The seconds of each preparation that ended well."""
    began: Dict[Tuple[str, str, str], float] = {}
    seconds = []
    for fact in facts:
        run = (fact.source, fact.run, fact.key)
        if fact.phase != "prepare":
            continue
        if fact.kind == PHASE_BEGAN:
            began[run] = fact.time
        elif fact.kind == PHASE_ENDED and run in began:
            duration = fact.time - began.pop(run)
            if fact.outcome == OK and duration >= 0:  # less than nothing: the clock was set
                seconds.append(duration)
    return seconds


def needed(seconds: Sequence[float]) -> Optional[float]:
    """The 95th percentile, by the nearest rank; ``None`` without a preparation."""
    ordered = sorted(seconds)
    return ordered[math.ceil(SHARE * len(ordered)) - 1] if ordered else None


def forecast(seconds: float, *, margin: float, event_types: Sequence[str] = EVENT_TYPES) -> List[Forecast]:
    """Compare with the least notice of each type, less the margin before NotBefore.

    :param seconds: what is needed.
    """
    # A margin that is longer than the notice does not count, as for hooks.
    notices = [(event_type, LEAST_NOTICE[event_type]) for event_type in event_types]
    return [Forecast(name, seconds, notice - margin if notice > margin else notice) for name, notice in notices]


def show_forecast(chosen: argparse.Namespace) -> int:
    """Compare the preparations of the history with the least notice; the exit status is that of a monitoring plugin."""
    margin = config.load(chosen.config).margin
    facts, problems = show_history.found(chosen)
    seconds = preparations(facts)
    enough = needed(seconds)
    found = [] if enough is None else forecast(enough, margin=margin, event_types=_types(chosen.types))
    code = status.UNKNOWN if enough is None else status.OK if all(each.fits for each in found) else status.WARNING
    if chosen.json:
        shown = [dict(each._asdict(), fits=each.fits) for each in found]
        known = {"preparations": len(seconds), "needed": enough, "margin": margin}
        say_json({**known, "event_types": shown, "problems": problems, "exit_code": code})
    elif enough is None:
        say("UNKNOWN: the history has no preparation that ended well")
    else:
        took = f"95 % of the preparations ({len(seconds)}) took {enough:.1f} s or less"
        say(f"{'OK' if code == status.OK else 'WARNING'}: {took}; hooks end {margin:g} s before NotBefore")
        for each in found:
            say(f"  {_words(each)}")
    for problem in problems:
        complain(f"scheduled-events: {problem}")
    return code


def _types(text: str) -> List[str]:
    names = [name.strip() for name in text.split(",")] if text else list(EVENT_TYPES)
    for name in names:
        if name not in EVENT_TYPES:
            known = ", ".join(EVENT_TYPES)
            raise CommandError(f"--types: expected some of {known}, separated by commas, not {name}")
    return names


def _words(found: Forecast) -> str:
    if found.fits:
        return f"{found.event_type} fits with {math.floor(found.given - found.needed)} s to spare"
    return f"{found.event_type}: {math.ceil(found.needed)} s needed, {found.given:g} given"
