# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a batch of a rolling maintenance may begin. Private to the collection: facts in, a decision out.

Every host reports ages, measured by its own clock, and the control node uses its own clock. So no two clocks have to
agree.
"""

from __future__ import annotations

import math
import re
import typing as t

from ...module_utils._scheduled_events.document import ADVISORY
from ...module_utils._scheduled_events.text import shown

Event = t.Mapping[str, t.Any]

WAIT, SKIP, RESPOND, FAIL = "wait", "skip", "respond", "fail"
ROLLING_MAINTENANCE = "rolling_maintenance"  # the holder of the role; a live run of it has a mark as well
INSIST_FOR = 30.0  # seconds that another gate has to withdraw


class GateError(Exception):
    """The batch can never begin. The message says what to do."""


class Seen(t.NamedTuple):
    """The observed state of one host.

    ``problem``: why it cannot be reached, or why its events cannot be read. ``unmarked``: why it could not be marked as
    under maintenance, if it was to be. ``mark``: that of another run, as the survey of a gate shows it.
    ``unfinished``: the ``owner`` and ``by`` of the maintenance that a run began there and did not end.
    ``drained_because``: what is wrong with what says whether it is drained; empty if nothing is.
    ``waiting``: the ids of events that its polling unit does not prepare for yet, so that it is in service.
    ``document``: ``vm_name`` and ``events``; None if they cannot be read. ``records``: what was done, by the name of
    the maintenance. ``boot_id``: of the machine. ``returning_for``: the holder that puts it back into its load balancer
    now; empty if there is none.
    """

    host: str
    reached: bool = True
    problem: str = ""
    unmarked: str = ""
    mark: t.Mapping[str, t.Any] | None = None
    unfinished: t.Mapping[str, t.Any] = {}
    drained: bool = False
    drained_because: str = ""
    document: t.Mapping[str, t.Any] | None = None
    records: t.Mapping[str, t.Mapping[str, t.Any]] = {}
    boot_id: str = ""
    returning_for: str = ""
    waiting: t.Sequence[str] = ()


class Round(t.NamedTuple):
    """One maintenance of the ``hosts``. ``began``: monotonic seconds of the control node."""

    id: str
    hosts: t.Sequence[str]
    began: float


class Memory(t.NamedTuple):
    """The memory between two looks. ``left_at``: when an event left last, in monotonic seconds; None without one."""

    events: t.Sequence[str] = ()
    left_at: float | None = None
    round: Round | None = None


class GateSettings(t.NamedTuple):
    """``budget`` is a number of hosts; ``settle`` and ``resume_within`` are seconds.

    ``names``: of the maintenance of each host of the play. ``owner``: of this gate's marks. ``new_round``: the id of a
    round that begins now. ``closed``: the window that no batch may begin before; empty: one is open.
    """

    play_hosts: t.Sequence[str]
    fleet: t.Sequence[str]
    batch: t.Sequence[str]
    budget: int
    on_event: str
    settle: float
    resume_within: float
    names: t.Mapping[str, str]
    owner: str
    new_round: str
    closed: str = ""


class Decision(t.NamedTuple):
    """``batch``: the hosts to maintain; ``own``: those that are due and have an event, each with the ids of its events;
    ``settle_left``: seconds.

    ``insists``: nothing but gates that came later are in the way. They withdraw, so this one keeps its marks.
    """

    open: bool
    batch: list[str]
    done: list[str]
    own: dict[str, list[str]]
    skipped: list[str]
    waits_for: list[str]
    settle_left: float
    insists: bool
    memory: Memory

    @property
    def only_settling(self) -> bool:
        """Whether only the settling time keeps the gate shut."""
        return self.settle_left > 0 and len(self.waits_for) == 1


def decide(seen: t.Sequence[Seen], settings: GateSettings, *, memory: Memory, now: float) -> Decision:
    """Decide on a batch.

    :param seen: every host of the play and of the fleet.
    :param memory: of the decision before in this run.
    :param now: monotonic seconds of the control node.
    :raises GateError: two of the hosts are the same VM.
    """
    _refuse_twins(seen)
    current, done = _round(seen, settings, memory.round, now)
    events = _events(seen)
    of_host = {each.host: _events_of(each, events) for each in seen}
    due = [host for host in settings.batch if host not in done]
    own = {host: [event["event_id"] or "" for event in of_host[host]] for host in due if of_host[host]}
    skipped = list(own) if settings.on_event == SKIP else []
    batch = [host for host in due if host not in skipped]
    fleet_events = {event["event_id"] or "" for host in settings.fleet for event in of_host.get(host, [])}
    all_read = all(each.document is not None for each in seen)
    recalled = _recall(memory, fleet_events, current, all_read=all_read, now=now)
    settle_left = 0.0 if recalled.left_at is None else max(0.0, recalled.left_at + settings.settle - now)
    obstacles = _judge(seen, of_host, batch, settings)
    without = [each._replace(mark=None) if _withdraws(each.mark, settings.owner) else each for each in seen]
    insists = bool(obstacles) and settle_left == 0 and not _judge(without, of_host, batch, settings)
    if batch and settle_left > 0:
        obstacles = [*obstacles, f"{settle_left:.0f} s more, since an event has ended"]
    return Decision(
        open=not obstacles,
        batch=batch,
        done=[host for host in settings.batch if host in done],
        own=own,
        skipped=skipped,
        waits_for=obstacles,
        settle_left=settle_left,
        insists=insists,
        memory=recalled,
    )


def refuse_too_large(batch: t.Sequence[str], fleet: t.Sequence[str], budget: int) -> None:
    """Refuse a batch for which the gate can never open.

    :raises GateError: it is larger than the budget.
    """
    needed = [host for host in batch if host in fleet]
    if len(needed) > budget:
        raise GateError(
            f"The batch has {len(needed)} hosts of the fleet ({', '.join(needed)}), but "
            f"rolling_maintenance_max_unavailable allows {budget} of {len(fleet)}. Make serial smaller, or "
            "rolling_maintenance_max_unavailable larger"
        )


def pause(waited: float, decision: Decision) -> float:
    """Seconds until the next look: an eighth of the seconds ``waited``, so that hours need few looks."""
    if decision.insists:
        return 1.0
    return max(1.0, decision.settle_left) if decision.only_settling else min(max(waited / 8, 2.0), 60.0)


def budget_of(max_unavailable: t.Any, hosts: int) -> int:
    """Return the allowed number of the ``hosts`` for a number or a percentage (rounded down).

    :raises GateError: naming the value, unless it allows at least one.
    """
    text = str(max_unavailable).strip()
    digits = text.removesuffix("%")
    if not re.fullmatch("[0-9]{1,9}", digits):
        raise GateError(
            f"rolling_maintenance_max_unavailable is {shown(text, 60)}, expected a number such as 2 or a "
            "percentage such as 25%"
        )
    allowed = int(digits) * hosts // 100 if text.endswith("%") else int(digits)
    if allowed < 1:
        raise GateError(
            f"rolling_maintenance_max_unavailable is {text}, which allows none of {hosts} hosts; expected at least one"
        )
    return allowed


def lost_hosts(
    all_hosts: t.Sequence[str],
    active: t.Sequence[str],
    batch: t.Sequence[str],
    progress: t.Mapping[str, str],
) -> list[str]:
    """The hosts that failed, or whose maintenance did not end, so that no further one may begin.

    A host of the same batch that left the play before the gate, by ``meta: end_host``, is none of them.

    :param active: the hosts that are still in the play.
    :param batch: those of them that are in this batch.
    :param progress: by host ``gate``, ``began``, ``done`` or ``failed``.
    """
    reached_gate = max((all_hosts.index(host) for host in progress if host in all_hosts), default=-1)
    lost = []
    for index, host in enumerate(all_hosts):
        removed = host not in active and index <= reached_gate
        unfinished = host not in batch and progress.get(host) in ("began", "failed")
        if removed or unfinished:
            lost.append(host)
    return lost


def _refuse_twins(seen: t.Sequence[Seen]) -> None:
    machines: dict[tuple[str, str], str] = {}
    for each in seen:
        if each.boot_id and each.document is not None:
            first = machines.setdefault((each.boot_id, each.document["vm_name"].lower()), each.host)
            if first != each.host:
                raise GateError(
                    f"{first} and {each.host} are the same VM, {each.document['vm_name']}, so the budget would count "
                    "it twice. Leave one of them out of the play and of rolling_maintenance_fleet"
                )


def _round(
    seen: t.Sequence[Seen], settings: GateSettings, current: Round | None, now: float
) -> tuple[Round, frozenset[str]]:
    """The round that goes on, or a new one; and the hosts that are done in it."""
    names = settings.names
    records = {each.host: each.records[names[each.host]] for each in seen if names.get(each.host) in each.records}
    fresh = {host: record for host, record in records.items() if record["age"] < settings.resume_within}
    if current is not None:
        return current, _done_in(fresh, current.id, now - current.began)
    rounds: dict[str, tuple[float, float, t.Sequence[str]]] = {}
    for record in sorted(records.values(), key=lambda each: each["age"], reverse=True):  # the youngest one counts
        begin = rounds.get(record["round"], (math.inf,))[0]
        begin = min(begin, record["age"] + record["since_begin"])  # a host that lies must not make others count as done
        rounds[record["round"]] = (begin, record["age"], record["hosts"])
    for round_id, (begin, youngest, hosts) in sorted(rounds.items(), key=lambda each: each[1][0]):
        done = _done_in(records, round_id, begin)
        stopped = [host for host in hosts if host in settings.play_hosts and host not in done]
        if stopped and youngest < settings.resume_within:
            everyone = [*hosts, *(host for host in settings.play_hosts if host not in hosts)]
            return Round(round_id, everyone, now - begin), _done_in(fresh, round_id, begin)
    return Round(settings.new_round, list(settings.play_hosts), now), frozenset()


def _done_in(records: t.Mapping[str, t.Mapping[str, t.Any]], round_id: str, since: float) -> frozenset[str]:
    """The hosts that were done in the round, or in another one after it had begun."""
    return frozenset(host for host, record in records.items() if record["round"] == round_id or record["age"] <= since)


def _events(seen: t.Sequence[Seen]) -> list[Event]:
    every = [event for each in seen if each.document is not None for event in each.document["events"]]
    by_id = {_key(event): event for event in every if _key(event)}
    return [*by_id.values(), *(event for event in every if not _key(event))]


def _key(event: Event) -> str:
    """The id, as ids are compared; empty for an event without one."""
    return (event["event_id"] or "").lower()


def _events_of(host: Seen, events: t.Sequence[Event]) -> list[Event]:
    """Its own, and those that other hosts saw earlier than it did."""
    if host.document is None:
        return []
    name = host.document["vm_name"].lower()
    own = [event for event in host.document["events"] if event["affects_this_vm"] and _is_waited_for(event)]
    ids = {_key(event) for event in own}
    named = [event for event in events if name in [resource.lower() for resource in event["resources"]]]
    return own + [event for event in named if _is_waited_for(event) and _key(event) not in ids]


def _is_waited_for(event: Event) -> bool:
    """A hint of Azure keeps no maintenance waiting."""
    return bool(event["event_status"] != ADVISORY)


def _unfit(host: Seen) -> str:
    """Why nothing certain is known of the host; empty if that is not so."""
    if not host.reached:
        return "cannot be reached"
    if host.unmarked:
        return f"cannot be marked as under maintenance: {host.unmarked}"
    return f"its events cannot be read: {host.problem}" if host.document is None else ""


def _reason(host: Seen, events: t.Sequence[Event], owner: str) -> str:
    unfit = _unfit(host)
    if unfit:
        return unfit
    if events:
        first = events[0]
        until = f", NotBefore {first['not_before']}" if first["not_before"] else ""
        return f"{first['event_type']} {first['event_status']}{until}"
    returning = f"is put back into its load balancer for {host.returning_for}" if host.returning_for else ""
    drained = ": ".join(filter(None, ["drained", host.drained_because])) if host.drained else ""
    return _marked_by(host.mark, owner) or returning or _left_by(host) or drained


def _marked_by(mark: t.Mapping[str, t.Any] | None, owner: str) -> str:
    if mark is None or not mark["live"]:
        return ""
    who = _run_of(mark["by"])
    if mark["owner"].rpartition("/")[0] == owner.rpartition("/")[0]:
        who = "this run"
    return f"{who} asks for it" if mark["stage"] == "asking" else f"under maintenance by {who}"


def _left_by(host: Seen) -> str:
    """Nothing shows whether what that run began there still runs, or whether the host is well."""
    if not host.unfinished:
        return ""
    return (
        f"its maintenance by {_run_of(host.unfinished['by'])} did not end. Run it again on this host, or look at the "
        "host and name it in rolling_maintenance_checked_hosts"
    )


def _run_of(by: t.Mapping[str, t.Any]) -> str:
    known = {"node", "pid"} <= set(by)
    return f"another run ({by['node']}, process {by['pid']})" if known else "a run that is not known"


def _withdraws(mark: t.Mapping[str, t.Any] | None, owner: str) -> bool:
    """Whether the mark is of a gate that withdraws when it sees one of ``owner``.

    Both have marked before they looked, so at least one sees the other, and both know which of them it is to be.
    """
    if mark is None or not mark["live"] or mark["stage"] != "asking":
        return False
    return bool(mark["owner"] > owner and mark["age"] < INSIST_FOR)


def _recall(memory: Memory, events: set[str], current: Round, *, all_read: bool, now: float) -> Memory:
    before = set(memory.events)
    if not all_read:  # an event that could not be read has not ended
        return Memory(sorted(before | events), memory.left_at, current)
    return Memory(sorted(events), now if before - events else memory.left_at, current)


def _judge(
    seen: t.Sequence[Seen], of_host: t.Mapping[str, list[Event]], batch: list[str], settings: GateSettings
) -> list[str]:
    """The hosts that keep the gate shut for the batch, each with the reason."""
    if not batch:
        return []
    told = {each.host: _reason(each, _felt(each, of_host[each.host], batch), settings.owner) for each in seen}
    reasons = {host: reason for host, reason in told.items() if reason}
    # A host of the batch may be drained: it counts once, however unavailable it is.
    # But a service that is just coming back must not be drained: the run that puts it back waits for its answer.
    shut_by = [
        each.host
        for each in seen
        if of_host[each.host]
        or _unfit(each)
        or (each.mark is not None and each.mark["live"])
        or each.returning_for not in ("", ROLLING_MAINTENANCE)
    ]
    obstacles = [host for host in batch if host in shut_by]
    unavailable = [host for host in settings.fleet if host in reasons and host not in batch]
    needed = len([host for host in batch if host in settings.fleet])
    if len(unavailable) + needed > settings.budget:
        obstacles += unavailable
    return [*filter(None, [settings.closed]), *(f"{host} ({reasons[host]})" for host in obstacles)]


def _felt(host: Seen, events: t.Sequence[Event], batch: t.Sequence[str]) -> list[Event]:
    """The events that count for the host: outside of the batch, not those for which it waits in service."""
    return [event for event in events if host.host in batch or event["event_id"] not in host.waiting]
