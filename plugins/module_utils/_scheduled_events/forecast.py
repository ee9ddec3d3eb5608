# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the preparation of a VM fits into the notice of an event, by its history. No clock, no I/O."""

import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .document import EVENT_TYPES, LEAST_NOTICE
from .history import PHASE_BEGAN, PHASE_ENDED, Fact
from .runs import OK

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
