# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happened to each event, on each of its VMs, from the facts of their histories. Private to the collection.

No clock and no I/O. Everything that a report shows comes from here; the outputs only draw or write it.
"""

from __future__ import annotations

import typing as t
from types import MappingProxyType

from ...module_utils._scheduled_events import condition, document, history
from ...module_utils._scheduled_events.announced import is_drill
from ...module_utils._scheduled_events.history import Fact
from ...module_utils._scheduled_events.rules import APPROVE, IGNORE
from ...module_utils._scheduled_events.runs import NOTHING
from ...module_utils._scheduled_events.text import counted, some
from ...module_utils._scheduled_events.transitions import AGAIN
from .lives import PREPARE, Stretch, last_of, lives, prepared_of, returned_of, runs_of

RECOVER = "recover"
MAINTENANCE = "Maintenance"  # in place of the type of an event
LEAST_OUT = 60.0  # seconds in which all VMs of an event are out of service, if that is worth a look
LEAST_EXCESS = 10.0  # seconds by which a pause is longer than announced, if that is worth a look
WAITS = (condition.WAITS, condition.WAITS_RAISED)
NOT_YET = (condition.WAITS, condition.WAITS_PREPARED, condition.DEFERRED, condition.PREPARE_NEXT)
# What ends without an operator.
NO_PROBLEM = (condition.RECOVERY_WAITS, condition.LEFT_TO_CONTROLLER, condition.HELD_FOR_LEADER)
# The owner wants these events to start at NotBefore.
CHOSEN = (condition.HELD_BY_RULE, f"{condition.HELD_BY_POLICY}: ")


class Lane(t.NamedTuple):
    """What happened to one event on one host. Times are seconds since the epoch, ``None`` if they are not known.

    :param last: by phase, the run that counts.
    :param prepared: when its last preparation ended well, if it was not undone since.
    :param waits: when it began to wait in service for the moment that a rule chose.
    :param held: why the event or the VM was held last, if nothing followed.
    :param unprepared: why nothing had prepared the VM when the event started; empty if that was right.
    :param refused: the last refusal of an acknowledgement, if none was accepted.
    :param drill: how a drill ended that announced the event, ``began`` if its end is not known, empty without a drill.
        ``drill_reason``: why it did not pass.
    :param ignored: the rule under which nothing was done for it; empty if something was.
    :param is_watched: false if the host only acknowledged it, such as an operator for another VM.
    :param is_absent: whether the event names the VM, and its history, which was read, does not have the event.
    :param impact: the largest: ``rebooted``, ``paused``, ``none``, or empty if nothing was measured.
    :param announced_seconds: of impact, by Azure, -1 if it does not know; ``measured_seconds``: what was measured.
    """

    host: str
    vm_name: str
    seen: float
    stretches: tuple[Stretch, ...] = ()
    last: t.Mapping[str, Stretch] = MappingProxyType({})
    prepared: float | None = None
    acknowledged: float | None = None
    by: str = ""
    via: str = ""
    rule: str = ""
    started: float | None = None
    over: float | None = None
    returned: float | None = None
    not_before: float | None = None
    waits: float | None = None
    held: str = ""
    unprepared: str = ""
    refused: str = ""
    impact: str = ""
    announced_seconds: float | None = None
    measured_seconds: float | None = None
    event_type: str = ""
    ignored: str = ""
    is_maintenance: bool = False
    is_watched: bool = True
    is_absent: bool = False
    drill: str = ""
    drill_reason: str = ""

    @property
    def margin(self) -> float | None:
        """Seconds between the end of its preparation and NotBefore; below 0 if it ended later."""
        if self.prepared is None or self.not_before is None:
            return None
        return round(self.not_before - self.prepared, 3)

    @property
    def times(self) -> list[float]:
        """All times at which something happened."""
        ends = [each.end for each in self.stretches] + [each.begin for each in self.stretches]
        points = [self.seen, self.acknowledged, self.started, self.over, self.returned, *ends]
        return sorted(point for point in points if point is not None)

    @property
    def problem(self) -> str:
        """Why it needs a look; empty if nothing went wrong."""
        if self.is_absent:
            return "its history does not have the event, which names it"
        return (
            self._problem_of_preparation
            or self._problem_of_phases
            or self._problem_of_impact
            or self._problem_of_waiting
            or self._problem_of_drill
        )

    @property
    def _problem_of_preparation(self) -> str:
        prepare = self.last.get(PREPARE)
        if prepare is not None and prepare.failed:
            return f"the preparation failed: {prepare.reason or prepare.outcome}"
        if prepare is not None and self.started is not None and (prepare.end is None or prepare.end > self.started):
            return "the event started before the preparation ended"
        if prepare is not None and prepare.end is None and self.over is not None and not self.was_cancelled:
            return "the preparation did not end"
        if self.margin is not None and self.margin < 0:
            return f"the preparation ended {-self.margin:g} s after NotBefore"
        if self.unprepared and self.prepared is None:
            return f"the event started and nothing had prepared for it: {self.unprepared}"
        return ""

    @property
    def _problem_of_phases(self) -> str:
        recover = self.last.get(RECOVER)
        if recover is not None and recover.failed:
            return f"the recovery failed: {recover.reason or recover.outcome}"
        others = (each for each in self.last.values() if each.failed)
        return next((f"the phase {each.phase} failed: {each.reason or each.outcome}" for each in others), "")

    @property
    def _problem_of_impact(self) -> str:
        """An impact that is larger than announced. The seconds of a reboot do not compare with those announced."""
        if self.impact == history.REBOOTED and self.event_type == "Freeze":
            return "announced as a Freeze, and the VM rebooted"
        measured, announced = self.measured_seconds, self.announced_seconds
        if self.impact != history.PAUSED or measured is None or announced is None or announced < 0:
            return ""
        if measured - announced <= max(announced, LEAST_EXCESS):
            return ""
        return f"it was paused for {measured:g} s, announced were {announced:g} s"

    @property
    def _problem_of_waiting(self) -> str:
        if self.refused:
            return f"the acknowledgement was refused: {self.refused}"
        return f"held: {self.held}" if self.held and not self.held.startswith(NO_PROBLEM) else ""

    @property
    def _problem_of_drill(self) -> str:
        if self.drill == "failed":
            return f"the drill failed: {self.drill_reason}"
        if self.drill == "aborted":
            return self.drill_reason or "it was aborted"
        return ""

    @property
    def is_open(self) -> bool:
        """Whether something of it has no end."""
        return bool(self.unfinished) or any(each.end is None for each in self.stretches)

    @property
    def was_cancelled(self) -> bool:
        """Whether it was over before it could start."""
        return self.impact != history.REBOOTED and _is_cancelled(self.started, self.over, self.not_before)

    @property
    def unfinished(self) -> str:
        """What the history does not have yet; empty if the event is over and the host returned."""
        if self.is_maintenance:
            ended = self.returned is not None or self._problem_of_phases
            return "" if ended else "the maintenance has not ended"
        if not self.is_watched or (self.ignored and not self.stretches):
            return ""
        if self.over is None:
            return "the event is not over"
        recover = self.last.get(RECOVER)
        if recover is not None and recover.end is None:
            return "the recovery has not ended"
        if PREPARE in self.last and self.returned is None:
            return "the host has not returned"
        return "the drill has no verdict" if self.drill == "began" else ""


class EventStory(t.NamedTuple):
    """One event, or one maintenance of the owner, on all hosts whose histories have it.

    :param event_id: of a maintenance: its name and its id.
    :param resources: the first VMs that it names; ``resource_count``: how many it names, ``None`` if it is not known.
    """

    event_id: str
    event_type: str
    event_source: str
    resources: tuple[str, ...]
    resource_count: int | None
    lanes: tuple[Lane, ...]

    @property
    def began(self) -> float:
        """When the first host saw it."""
        return min(lane.seen for lane in self.lanes)

    @property
    def acknowledgement(self) -> Lane | None:
        """The lane of the host that acknowledged it first."""
        senders = [lane for lane in self.lanes if lane.acknowledged is not None]
        return min(senders, key=lambda lane: lane.acknowledged or 0.0, default=None)

    @property
    def not_before(self) -> float | None:
        return max((lane.not_before for lane in self.lanes if lane.not_before is not None), default=None)

    @property
    def margin(self) -> float | None:
        """The smallest margin of its VMs, in seconds."""
        return min((lane.margin for lane in self.lanes if lane.margin is not None), default=None)

    @property
    def finding(self) -> str:
        """Why the event needs a look although each of its VMs went well; empty if nothing is to be found."""
        ends = [(lane.prepared, lane.started or lane.over) for lane in self.lanes]
        known = [(prepared, end) for prepared, end in ends if prepared is not None and end is not None]
        if len(known) < max(2, self.resource_count or 0) or len(known) < len(ends) or self.acknowledgement:
            return ""
        seconds = min(end for _prepared, end in known) - max(prepared for prepared, _end in known)
        if seconds < LEAST_OUT:
            return ""
        out = f"all of its VMs were out of service for {seconds:.0f} s until it began"
        return f"nothing acknowledged the event, and {out}"

    @property
    def problems(self) -> dict[str, str]:
        """By host, why it needs a look."""
        finding = self.finding
        found = {lane.host: lane.problem or finding for lane in self.lanes}
        return {host: problem for host, problem in found.items() if problem}

    @property
    def unfinished(self) -> dict[str, str]:
        """By host, what its history does not have yet."""
        return {lane.host: lane.unfinished for lane in self.lanes if lane.unfinished}

    @property
    def is_maintenance(self) -> bool:
        return any(lane.is_maintenance for lane in self.lanes)


class Story(t.NamedTuple):
    """All events, the newest first.

    :param unread: by host, why facts of its history are missing.
    """

    events: tuple[EventStory, ...]
    hosts: tuple[str, ...]
    unread: t.Mapping[str, tuple[str, ...]]

    def since(self, moment: float) -> Story:
        """The same without the events of which nothing has happened since then, in seconds since the epoch."""
        events = (event for event in self.events if any(lane.times[-1] >= moment for lane in event.lanes))
        return self._replace(events=tuple(events))

    @property
    def is_good(self) -> bool:
        return not self.unread and not any(event.problems for event in self.events)

    @property
    def verdict(self) -> str:
        """The report in a sentence or two."""
        bad = [event for event in self.events if event.problems]
        unfinished = [event for event in self.events if event.unfinished and not event.problems]
        lines = []
        if bad:
            names = sorted({host for event in bad for host in event.problems})
            verb = "needs" if len(bad) == 1 else "need"
            lines.append(f"{_each_kind(bad, self.events)} {verb} a look, on {some(names)}.")
        elif self.events:
            lines.append(f"{_each_kind(self.events)}, no problem{' so far' if unfinished else ''}.")
        else:
            lines.append(f"No event in the {'history' if len(self.hosts) == 1 else 'histories'}.")
        if unfinished:
            names = sorted({host for event in unfinished for host in event.unfinished})
            verb = "is" if len(unfinished) == 1 else "are"
            lines.append(f"{_each_kind(unfinished)} {verb} not finished, on {some(names)}.")
        ignored = sum(all(lane.ignored for lane in event.lanes) for event in self.events)
        if ignored:
            lines.append(f"{counted(ignored, 'event')} {'was' if ignored == 1 else 'were'} ignored by a rule.")
        margins = [(event.margin, event) for event in self.events if event.margin is not None]
        if margins:
            smallest, event = min(margins, key=lambda each: each[0])
            lines.append(f"Smallest margin before NotBefore: {round(smallest, 1):g} s ({event.event_type}).")
        if self.unread:
            lines.append(f"The history is incomplete on {some(sorted(self.unread))}.")
        return " ".join(lines)


def tell(
    histories: t.Mapping[str, t.Sequence[Fact]],
    unread: t.Mapping[str, t.Sequence[str]],
    names: t.Mapping[str, str] = MappingProxyType({}),
) -> Story:
    """Put the facts of hosts together.

    :param histories: by host, its facts in any order.
    :param unread: by host, why facts are missing.
    :param names: by host, the name of its VM. A host whose VM is not known is not missed in the events that name it.
    """
    by_event: dict[tuple[str, int], dict[str, list[Fact]]] = {}
    heard: dict[str, set[str]] = {}  # the hosts that know an id, and their VMs
    for host, facts in histories.items():
        for key, of_event in lives(facts).items():
            by_event.setdefault(key, {})[host] = of_event
            heard.setdefault(key[0], set()).update({host.lower()}, (fact.vm_name.lower() for fact in of_event))
    missing = {host: tuple(reasons) for host, reasons in unread.items() if reasons}
    unknown = {names[host].lower() for host in missing.keys() & names.keys()}
    read: dict[str, list[str]] = {}
    for host in sorted(histories.keys() & names.keys()):
        if names[host].lower() not in unknown:
            read.setdefault(names[host].lower(), []).append(host)
    begins = {host: min((fact.time for fact in facts), default=0.0) for host, facts in histories.items()}
    events = [_with_absent(_event(hosts), heard[key[0]], read, begins) for key, hosts in by_event.items()]
    events.sort(key=lambda event: event.began, reverse=True)
    return Story(tuple(events), tuple(sorted({*histories, *missing})), missing)


def _event(hosts: t.Mapping[str, t.Sequence[Fact]]) -> EventStory:
    facts = [fact for of_host in hosts.values() for fact in of_host]
    named = max(facts, key=lambda fact: len(fact.resources))
    return EventStory(
        event_id=facts[0].maintenance or facts[0].event_id,
        event_type=MAINTENANCE if facts[0].maintenance else _last(facts, "event_type"),
        event_source=_last(facts, "event_source"),
        resources=named.resources,
        resource_count=max((fact.resource_count for fact in facts if fact.resource_count is not None), default=None),
        lanes=tuple(_lane(host, hosts[host]) for host in sorted(hosts)),
    )


def _with_absent(
    event: EventStory, heard: set[str], read: t.Mapping[str, t.Sequence[str]], begins: t.Mapping[str, float]
) -> EventStory:
    """The event with the hosts that it names and that have not heard of it. A drill names VMs that do not see it.

    :param heard: in lower case, the hosts that know its id and the names of their VMs.
    :param read: by the name of a VM in lower case, its hosts, if each of them was read.
    :param begins: by host, when its history begins: an older VM had its name if the event was over by then.
    """
    end = max(time for lane in event.lanes for time in lane.times)
    named = set() if is_drill(event.event_id) else {name.lower() for name in event.resources} - heard
    absent = [
        Lane(host, name, event.began, is_watched=False, is_absent=True)
        for name in sorted(named)
        for host in read.get(name, ())
        if host.lower() not in heard and begins[host] <= end
    ]
    return event._replace(lanes=(*event.lanes, *absent))


def _lane(host: str, all_facts: t.Sequence[Fact]) -> Lane:
    drills = [fact for fact in all_facts if fact.kind == history.DRILLED]
    facts = [fact for fact in all_facts if fact.kind != history.DRILLED] or drills
    first: dict[str, Fact] = {}
    last: dict[str, Fact] = {}
    for fact in facts:
        first.setdefault(fact.kind, fact)
        last[fact.kind] = fact
    acknowledged = first.get(history.ACKNOWLEDGED)
    impact = max((fact for fact in facts if fact.kind == history.IMPACT), key=_size, default=None)
    return Lane(
        host=host,
        vm_name=_last(facts, "vm_name"),
        seen=facts[0].time,
        stretches=tuple(each for _writer, each in runs_of(facts)),
        last=last_of(facts),
        prepared=prepared_of(facts),
        acknowledged=_time(acknowledged),
        by=acknowledged.by if acknowledged else "",
        via=acknowledged.via if acknowledged else "",
        rule=acknowledged.rule if acknowledged else "",
        started=_time(first.get(history.STARTED)),
        over=_over(facts),
        returned=returned_of(facts),
        not_before=_last(facts, "not_before", None),  # a started event has none
        waits=next((fact.time for fact in facts if fact.kind == history.HELD and fact.reason.startswith(WAITS)), None),
        held=_held(facts),
        unprepared=_unprepared(facts),
        refused=last[history.REFUSED].reason if history.REFUSED in last and not acknowledged else "",
        impact=impact.outcome if impact else "",
        announced_seconds=_last(facts, "announced_seconds", None),
        measured_seconds=impact.measured_seconds if impact else None,
        event_type=_last(facts, "event_type"),
        ignored=_ignored(facts),
        is_maintenance=bool(facts[0].maintenance),
        is_watched=any(fact.source != history.OPERATOR for fact in facts),
        drill=drills[-1].outcome if drills else "began" if is_drill(facts[0].key) else "",
        drill_reason=drills[-1].reason if drills else "",
    )


def _size(impact: Fact) -> tuple[bool, float]:
    return impact.outcome == history.REBOOTED, impact.measured_seconds or 0.0


def _over(facts: t.Sequence[Fact]) -> float | None:
    """When it was over, unless it was announced again since then."""
    over = None
    for fact in facts:
        if fact.kind == history.OVER:
            over = fact.time
        elif fact.kind == history.SEEN and fact.reason == AGAIN:
            over = None
    return over


def _ignored(facts: t.Sequence[Fact]) -> str:
    """The rule under which nothing is done for it, if all who saw it ignore it."""
    rules = {fact.source: fact.rule for fact in facts if fact.kind == history.SEEN}
    return next(iter(rules.values())) if rules and all(map(_ignores, rules.values())) else ""


def _ignores(rule: str) -> bool:
    return rule.endswith(f": {IGNORE}")


def approves(rule: str) -> bool:
    return rule.endswith(f": {APPROVE}")


def _held(facts: t.Sequence[Fact]) -> str:
    """Why it was held last, unless something followed that ended it."""
    held = ""
    for fact in facts:
        if fact.kind == history.HELD:
            held = "" if fact.reason.startswith(NOT_YET) else fact.reason
        elif _ends_wait(fact) or fact.kind in (history.STARTED, history.OVER, history.RETURNED):
            held = ""
    return held


def _ends_wait(fact: Fact) -> bool:
    if fact.kind == history.SEEN and _ignores(fact.rule):  # a new rule
        return True
    if fact.kind == history.PHASE_BEGAN:
        return fact.phase in (PREPARE, RECOVER) or bool(fact.maintenance)
    return fact.kind == history.ACKNOWLEDGED


def _unprepared(facts: t.Sequence[Fact]) -> str:
    """Why it was held when it started, or passed NotBefore unseen, unless the owner wants that."""
    held = idle = ""
    has_run = False
    # A rule of the unit, or of the role beside it, may want no preparation.
    may_be_idle = any(approves(fact.rule) or _ignores(fact.rule) for fact in facts if fact.kind == history.SEEN)
    seen = [fact for fact in facts if fact.kind == history.SEEN and not _ignores(fact.rule)]
    if facts[0].kind == history.SEEN and seen and seen[0].event_status == document.STARTED:
        held = "" if approves(seen[0].rule) else "it had started when it was seen first"
    rebooted = any(fact.outcome == history.REBOOTED for fact in facts if fact.kind == history.IMPACT)
    not_before = None if rebooted else _last(facts, "not_before", None)
    for fact in facts:
        if fact.kind == history.HELD:
            is_chosen = fact.reason.startswith(CHOSEN)
            may_be_idle = may_be_idle or (is_chosen and not has_run)  # then nothing is configured that prepares
            held = "" if is_chosen or approves(fact.rule) else fact.reason
        elif _ends_wait(fact):
            held, idle, has_run = "", "", True
        elif fact.kind == history.PHASE_ENDED and fact.phase == PREPARE and fact.outcome == NOTHING:
            idle = "" if may_be_idle else fact.reason or "no prepare hook prepared this VM"
        elif fact.kind == history.STARTED or (
            fact.kind == history.OVER and not _is_cancelled(None, fact.time, not_before)
        ):
            return held or idle
    return ""


def _is_cancelled(started: float | None, over: float | None, not_before: float | None) -> bool:
    return started is None and over is not None and not_before is not None and over < not_before


def _last(facts: t.Sequence[Fact], name: str, unknown: t.Any = "") -> t.Any:
    """The last value that is known."""
    return next((getattr(fact, name) for fact in reversed(facts) if getattr(fact, name) != unknown), unknown)


def _time(fact: Fact | None) -> float | None:
    return fact.time if fact else None


def _each_kind(events: t.Sequence[EventStory], of: t.Sequence[EventStory] = ()) -> str:
    """The number of events and of maintenances, each of how many of all."""
    counts = []
    for what, is_maintenance in (("event", False), ("maintenance", True)):
        number, every = (sum(event.is_maintenance == is_maintenance for event in each) for each in (events, of))
        if number:
            counts.append(f"{number} of {counted(every, what)}" if of else counted(number, what))
    return " and ".join(counts)
