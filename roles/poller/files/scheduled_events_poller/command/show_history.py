# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events history``: what happened to the events of this VM."""

import argparse
import re
import time
from typing import List, Tuple

from _scheduled_events import history, history_file
from _scheduled_events.document import format_epoch
from _scheduled_events.history import Fact

from .output import complain, histories, say, say_json, say_table

_DURATION = re.compile(r"(\d{1,9})([smhdw])\Z", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)Z?)?\Z", re.ASCII)


def show_history(chosen: argparse.Namespace) -> int:
    """Show the facts, also while the unit is stopped."""
    now = time.time()
    facts, problems = history_file.read(*histories(chosen), now=now, since=chosen.since)
    if chosen.json:
        say_json({"facts": [history.as_json(fact) for fact in facts], "problems": problems})
    elif facts:
        heading = ("TIME", "EVENT ID", "TYPE", "SOURCE", "FACT", "DETAILS")
        say_table([heading, *(_row(fact) for fact in facts)])
    elif not problems:
        say("no facts")
    for problem in problems:
        complain(f"scheduled-events: {problem}")
    return 1 if problems else 0


def since_of(text: str) -> float:
    """The time that an argument names, in seconds since the epoch."""
    duration = _DURATION.match(text)
    if duration:
        return time.time() - int(duration.group(1)) * _SECONDS[duration.group(2)]
    moment = _TIME.match(text)
    if moment:
        try:
            return history.parse_moment(f"{moment.group(1)}T{moment.group(2) or '00:00:00'}.000Z")
        except ValueError:  # such as the 30th of February
            pass
    raise argparse.ArgumentTypeError(
        f"expected a duration like 90m, 12h or 7d, or a time of UTC like 2026-01-31 or 2026-01-31T12:00:00Z, not {text}"
    )


def _row(fact: Fact) -> Tuple[str, ...]:
    cells = (
        history.format_moment(fact.time),
        fact.event_id,
        fact.event_type,
        fact.source,
        " ".join(filter(None, (fact.kind.replace("_", " "), fact.phase, fact.outcome))),
        "; ".join(_details(fact)),
    )
    return tuple(cell or "-" for cell in cells)


def _details(fact: Fact) -> List[str]:
    details = [fact.event_status, fact.maintenance and f"maintenance {fact.maintenance}", fact.reason]
    if fact.by:
        details.append(f"by {fact.by}")
    if fact.via:
        details.append(f"through the {fact.via}")
    details.append(fact.rule)
    if fact.kind == history.SEEN and fact.not_before is not None:
        details.append(f"NotBefore {format_epoch(fact.not_before)}")
    announced = fact.announced_seconds
    if announced is not None:
        details.append("announced: not known" if announced < 0 else f"announced: {announced:g} s")
    if fact.measured_seconds is not None:
        details.append(f"measured: {fact.measured_seconds:g} s")
    return [detail for detail in details if detail]
