# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events forecast``: whether the preparation of this VM fits into the notice of an event."""

import argparse
import math
from typing import List

from _scheduled_events import forecast
from _scheduled_events.document import EVENT_TYPES

from ..unit import config, status
from . import commands, history
from .output import complain, say, say_json


def show_forecast(chosen: argparse.Namespace) -> int:
    """Compare the preparations of the history with the least notice; the exit status is that of a monitoring plugin."""
    margin = config.load(chosen.config).margin
    facts, problems = history.found(chosen)
    seconds = forecast.preparations(facts)
    needed = forecast.needed(seconds)
    found = [] if needed is None else forecast.forecast(needed, margin=margin, event_types=_types(chosen.types))
    code = status.UNKNOWN if needed is None else status.OK if all(each.fits for each in found) else status.WARNING
    if chosen.json:
        shown = [dict(each._asdict(), fits=each.fits) for each in found]
        known = {"preparations": len(seconds), "needed": needed, "margin": margin}
        say_json({**known, "event_types": shown, "problems": problems, "exit_code": code})
    elif needed is None:
        say("UNKNOWN: the history has no preparation that ended well")
    else:
        took = f"95 % of the preparations ({len(seconds)}) took {needed:.1f} s or less"
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
            raise commands.CommandError(f"--types: expected some of {known}, separated by commas, not {name}")
    return names


def _words(found: forecast.Forecast) -> str:
    if found.fits:
        return f"{found.event_type} fits with {math.floor(found.given - found.needed)} s to spare"
    return f"{found.event_type}: {math.ceil(found.needed)} s needed, {found.given:g} given"
