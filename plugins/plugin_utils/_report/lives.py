# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which facts of a host are about the same event, or the same maintenance of the owner, and its phases there.

Private to the collection.

The polling unit and the plays write facts of the same event, each with what it saw. An id that is announced again
after its recovery stands for another event. A maintenance of the owner has no EventId: all its facts name it.
"""

from __future__ import annotations

import bisect
import typing as t

from ...module_utils._scheduled_events import history
from ...module_utils._scheduled_events.history import Fact
from ...module_utils._scheduled_events.runs import NOTHING, OK
from ...module_utils._scheduled_events.transitions import AGAIN

# Seconds by which one writer can learn later than another that an event is over: an answer can take that long.
LATE = 125.0


PREPARE, STARTED = "prepare", "started"
MAINTENANCE = "maintenance "  # the beginning of the key of a maintenance; no EventId has a space


def lives(facts: t.Sequence[Fact]) -> dict[tuple[str, int], list[Fact]]:
    """The facts of each event, by its id, and the number of the event with this id."""
    by_id: dict[str, list[Fact]] = {}
    for fact in sorted(facts, key=lambda each: each.time):
        if fact.maintenance:
            by_id.setdefault(MAINTENANCE + fact.maintenance, []).append(fact)
        elif fact.event_id or fact.kind == history.HELD:  # an event without an id can only be held
            by_id.setdefault(fact.key, []).append(fact)
    return {(key, number): life for key, of_id in by_id.items() for number, life in enumerate(_lives_of(of_id))}


def _lives_of(facts: t.Sequence[Fact]) -> list[list[Fact]]:
    """Put the parts of the writers together that overlap. Operators and drills say something about what others saw."""
    found: list[tuple[set[str], list[Fact]]] = []
    beside = (history.OPERATOR, history.DRILL)
    remarks = [fact for fact in facts if fact.source in beside]
    of_others = [fact for fact in facts if fact.source not in beside]
    for writer, part in sorted(_parts(of_others), key=lambda each: each[1][0].time):
        if found and writer not in found[-1][0] and part[0].time <= _end(found[-1][1]) + LATE:
            found[-1][0].add(writer)
            found[-1][1].extend(part)
        else:
            found.append(({writer}, list(part)))
    if remarks and not found:
        return [remarks]
    begins = [life[0].time for _writers, life in found]
    for fact in remarks:
        found[max(0, bisect.bisect_right(begins, fact.time) - 1)][1].append(fact)
    return [sorted(life, key=lambda each: each.time) for _writers, life in found]


def _parts(facts: t.Sequence[Fact]) -> list[tuple[str, list[Fact]]]:
    """What each writer knows of each event."""
    found: list[tuple[str, list[Fact]]] = []
    last: dict[str, list[Fact]] = {}
    ends: dict[str, float] = {}
    for fact in facts:
        writer = writer_of(fact)
        if writer not in last or (fact.kind == history.SEEN and _is_another(fact, last[writer][0], writer, ends)):
            last[writer] = []
            found.append((writer, last[writer]))
        last[writer].append(fact)
        if fact.kind == history.OVER:
            ends[writer] = fact.time
    return found


def _is_another(seen: Fact, first: Fact, writer: str, ends: t.Mapping[str, float]) -> bool:
    """Whether it is announced again: after its end by this writer, or long after its end by another one."""
    if seen.reason == AGAIN:
        return False
    return any(
        first.time <= end and (who == writer or end + LATE < seen.time)  # the writer may have been away
        for who, end in ends.items()
    )


def writer_of(fact: Fact) -> str:
    """The plays of all roles share what they remember on the host."""
    return fact.source if fact.source == history.POLLER else history.RESPOND


def _end(facts: t.Sequence[Fact]) -> float:
    return max((fact.time for fact in facts if fact.kind == history.OVER), default=float("inf"))


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


def last_of(facts: t.Sequence[Fact]) -> dict[str, Stretch]:
    """By phase, the run that counts: the last one. Where those of several writers overlap, such as that of the unit
    and that of the job that its hook launched, the one that failed, that has not ended, or that ended last."""
    found: dict[str, list[tuple[str, Stretch]]] = {}
    for writer, each in runs_of(facts):
        before = found.get(each.phase, [])
        overlap = [(who, run) for who, run in before if who != writer and (run.end is None or run.end > each.begin)]
        found[each.phase] = [*overlap, (writer, each)]
    return {phase: max((run for _writer, run in runs), key=_weight) for phase, runs in found.items()}


def _weight(run: Stretch) -> tuple[bool, bool, float]:
    return run.failed, run.end is None, run.begin if run.end is None else run.end


def prepared_of(facts: t.Sequence[Fact]) -> float | None:
    """When its last preparation ended well. A writer that prepares once more found that its preparation was undone."""
    prepared, undone = {}, 0.0
    for writer, run in runs_of(facts):
        if run.phase == PREPARE:
            undone = run.begin if writer in prepared else undone
            if run.outcome == OK and run.end is not None:
                prepared[writer] = run.end
    return max((end for end in prepared.values() if end >= undone), default=None)


def returned_of(facts: t.Sequence[Fact]) -> float | None:
    """When all that prepared the host had put it back: the unit, and the job or play beside it."""
    prepared = {writer for writer, run in runs_of(facts) if run.phase in (PREPARE, STARTED) and run.outcome != NOTHING}
    ends = {writer_of(fact): fact.time for fact in facts if fact.kind == history.RETURNED}
    return max(ends.values(), default=None) if prepared <= ends.keys() else None


def runs_of(facts: t.Sequence[Fact]) -> list[tuple[str, Stretch]]:
    """The phases with their writers, in the order in which they began."""
    found: list[Stretch] = []
    runs: list[tuple[str, str]] = []  # the writer of each, and the name of the run
    for fact in facts:
        if fact.kind == history.PHASE_BEGAN:
            if fact.source == history.POLLER and fact.run and _run_of(fact) in runs:
                continue  # its end comes first where the clock was set back: each run of the unit has its own name
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
