# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phases of an event on a VM, and which of their runs count. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events import history
from ...module_utils._scheduled_events.history import Fact
from ...module_utils._scheduled_events.runs import NOTHING, OK
from .lives import writer_of


class Stretch(t.NamedTuple):
    """A phase on a VM. Times are seconds since the epoch.

    :param end: ``None`` if the history does not have it.
    :param outcome: empty if the history does not have it.
    """

    phase: str
    begin: float
    end: float | None = None
    outcome: str = ""
    reason: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in ("", OK, NOTHING)


def stretches_of(facts: t.Sequence[Fact]) -> tuple[Stretch, ...]:
    """The phases in the order in which they began."""
    return tuple(each for _writer, each in _runs(facts))


def last_of(facts: t.Sequence[Fact]) -> dict[str, Stretch]:
    """By phase, the run that counts: the last one. Where those of several writers overlap, such as that of the unit
    and that of the job that its hook launched, the one that failed, that has not ended, or that ended last."""
    found: dict[str, list[tuple[str, Stretch]]] = {}
    for writer, each in _runs(facts):
        before = found.get(each.phase, [])
        overlap = [(who, run) for who, run in before if who != writer and (run.end is None or run.end > each.begin)]
        found[each.phase] = [*overlap, (writer, each)]
    return {phase: max((run for _writer, run in runs), key=_weight) for phase, runs in found.items()}


def _weight(run: Stretch) -> tuple[bool, bool, float]:
    return run.failed, run.end is None, run.begin if run.end is None else run.end


def _runs(facts: t.Sequence[Fact]) -> list[tuple[str, Stretch]]:
    """The phases with their writers, in the order in which they began."""
    found: list[Stretch] = []
    runs: list[tuple[str, str]] = []  # the writer of each, and the name of the run
    for fact in facts:
        if fact.kind == history.PHASE_BEGAN:
            runs.append(_run_of(fact))
            found.append(Stretch(fact.phase, fact.time))
        elif fact.kind == history.PHASE_ENDED:
            number = _open_run(fact, found, runs)
            if number is None:  # its begin is older than the history
                runs.append(_run_of(fact))
                found.append(Stretch(fact.phase, fact.time, fact.time, fact.outcome, fact.reason))
            else:
                found[number] = found[number]._replace(end=fact.time, outcome=fact.outcome, reason=fact.reason)
    return [(writer, each) for (writer, _run), each in zip(runs, found, strict=True)]


def _run_of(fact: Fact) -> tuple[str, str]:
    return writer_of(fact), fact.run


def _open_run(fact: Fact, stretches: t.Sequence[Stretch], runs: t.Sequence[tuple[str, str]]) -> int | None:
    """The number of the run that the fact ends. A power cut leaves runs that never end."""
    opened = [n for n, each in enumerate(stretches) if each.phase == fact.phase and each.end is None]
    return next((n for n in reversed(opened) if runs[n] == _run_of(fact)), None)
