# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict of a drill: what the host did, against what its owner expects. Private to the collection. No I/O."""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.history import Fact
from .._report.lives import PREPARE
from .._report.story import CHOSEN, Lane, tell
from .load import Counts

PASSED, FAILED, ABORTED = "passed", "failed", "aborted"

# What is measured, in words and with its unit. ``margin`` has a least value, the others have a highest one.
FIGURES = {
    "hear": "seconds from the announcement until the host saw the event",
    "prepare": "seconds that the preparation took",
    "acknowledge": "seconds from the end of the preparation to the acknowledgement",
    "margin": "seconds between the end of the preparation and NotBefore",
    "back": "seconds from the end of the event until the host had returned",
    "lost": "lost requests",
    "slow": "slow requests",
    "redirected": "redirected requests",
}
AT_LEAST = ("margin",)

Figures = dict[str, t.Optional[float]]


class Verdict(t.NamedTuple):
    """How the drill of one host ended.

    :param outcome: passed, failed, or aborted: it was ended before it could show anything.
    :param problems: why it did not pass, each with its phase and its figure.
    """

    outcome: str
    problems: tuple[str, ...]
    figures: Figures
    requests: int
    acknowledges: bool = True  # false for a host that passes without an acknowledgement

    @property
    def text(self) -> str:
        """The verdict in one line."""
        known = [f"{name} {round(value, 1):g}" for name, value in self.figures.items() if value is not None]
        shown = f" ({', '.join(known)}; requests {self.requests})" if known else ""
        only_prepared = self.outcome == PASSED and not self.acknowledges
        reasons = ("prepared, not acknowledged",) if only_prepared else self.problems
        return f"{self.outcome}{': ' if reasons else ''}{'; '.join(reasons)}{shown}"


def lane_of(facts: t.Sequence[Fact], host: str, event_id: str) -> Lane | None:
    """What the history says about the event, which has no verdict yet; ``None`` as long as the host has not seen it."""
    mine = [fact for fact in facts if fact.key == event_id.lower()]
    events = tell({host: mine}, {}).events
    return events[0].lanes[0]._replace(drill="") if events else None


def figures_of(lane: Lane | None, announced: float | None, counts: Counts | None) -> Figures:
    """The figures of a drill; ``None`` for what did not happen.

    :param announced: when the event was announced, in seconds since the epoch; ``None`` if only Azure knows it.
    """
    figures: Figures = dict.fromkeys(FIGURES)
    if counts is not None:
        figures.update({name: float(getattr(counts, name)) for name in ("lost", "slow", "redirected")})
    if lane is None:
        return figures
    prepare = [each for each in lane.stretches if each.phase == PREPARE]
    figures["hear"] = _between(announced, lane.seen)
    if prepare:
        figures["prepare"] = _between(prepare[0].begin, lane.last[PREPARE].end)
    figures["acknowledge"] = _between(lane.prepared or lane.seen, lane.acknowledged)
    figures["margin"] = lane.margin
    figures["back"] = _between(lane.over, lane.returned)
    return figures


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(max(0.0, end - begin), 3)


def problems_of(lane: Lane | None, *, acknowledges: bool) -> tuple[str, ...]:
    """What went wrong so far.

    :param acknowledges: whether the owner wants the host to acknowledge the event, or only to prepare.
    """
    if lane is None:
        return ("the host did not see the event",)
    if not acknowledges and lane.held.startswith(CHOSEN):
        lane = lane._replace(held="")
    if lane.problem:
        return (lane.problem,)
    if acknowledges:
        return () if lane.acknowledged is not None else ("the event was not acknowledged",)
    return () if lane.prepared is not None else ("nothing was prepared",)


def unfinished(lane: Lane | None) -> tuple[str, ...]:
    """What has not ended."""
    if lane is None or not lane.unfinished or lane.problem.startswith("the recovery"):
        return ()
    return (lane.unfinished,)


def exceeded_limits(figures: Figures, limits: t.Mapping[str, float | None], counts: Counts | None) -> tuple[str, ...]:
    """The figures that are beyond their limits. What did not happen has no figure, and is another problem.

    :param limits: by figure; ``None`` for a figure without a limit.
    :param counts: which name the first lost request.
    """
    problems = []
    for name, limit in limits.items():
        value = figures[name]
        if limit is None or value is None:
            continue
        if (value < limit) if name in AT_LEAST else (value > limit):
            first = f", the first {counts.first_failures[0].text}" if name == "lost" and counts else ""
            problems.append(f"{name} is {value:g}, limit {limit:g} ({FIGURES[name]}{first})")
    return tuple(problems)
