# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated platform: scopes of VMs, their events, and the state machine. No I/O; time comes from a clock."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable

from scheduled_events_emulator.checks import InputError, shown
from scheduled_events_emulator.clock import Clock, iso
from scheduled_events_emulator.events import (
    ADVISORY,
    CANCELED,
    CLEARED,
    COMPLETED,
    SCHEDULED,
    STARTED,
    Event,
    EventSpec,
)
from scheduled_events_emulator.fleet import APPROVES, Fleet, Machine, Scope

KEPT_ENDED_EVENTS = 1000
KEPT_ENTRIES = 100_000  # of the journal


class NoSuchEvent(LookupError):
    """No event in the array has this id."""


class WrongPhase(ValueError):
    """The event is not in the phase that the request needs."""


@dataclass
class ScopeState:
    """The array of events of a scope, in order of announcement, and how often it changed.

    Changes are counted per event type too, since an api-version that does not know a type shows no change either.
    """

    events: dict[str, Event] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)

    def changed(self, event_type: str) -> None:
        """Count a change of the array that concerns events of ``event_type``."""
        self.changes[event_type] = self.changes.get(event_type, 0) + 1

    def revision(self, visible: Iterable[str]) -> int:
        """Return how many changes the array of the ``visible`` types has seen."""
        return sum(self.changes.get(event_type, 0) for event_type in visible)


@dataclass(order=True)
class _Timer:
    due: float
    order: int
    is_live: Callable[[], bool] = field(compare=False)
    act: Callable[[float], None] = field(compare=False)


class Journal:
    """The ordered log: approvals as posted, and every transition of every event.

    Entries are numbered from 1; the oldest are dropped beyond ``KEPT_ENTRIES``.
    """

    def __init__(self, real_at: Callable[[float], float]) -> None:
        self._real_at = real_at
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT_ENTRIES)
        self._last = 0

    def record(self, kind: str, moment: float, **details: Any) -> None:
        """Add an entry of ``kind`` that happened at the emulator time ``moment``."""
        self._last += 1
        entry = {"seq": self._last, "kind": kind, "at": iso(moment), "at_real": round(self._real_at(moment), 3)}
        entry.update(details)
        self._entries.append(entry)

    def since(self, seq: int = 0) -> list[dict[str, Any]]:
        """Return the entries after number ``seq``, oldest first."""
        return [entry for entry in self._entries if entry["seq"] > seq]


def _without(machine: Machine, spec: EventSpec) -> EventSpec:
    """The event without a VM that was deallocated."""
    return replace(spec, vms=tuple(name for name in spec.vms if name.lower() != machine.name.lower()))


class Platform:
    """Events come, are approved, start and go. Call ``sync`` before reading: time passes only there.

    ``publish`` is called with each event whose fields have changed, and with the time.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        journal: Journal,
        cotenant_delay: float = 0,
        *,
        publish: Callable[[Event, float], None] | None = None,
    ) -> None:
        self.fleet = fleet
        self.clock = clock
        self.journal = journal
        self._cotenant_delay = cotenant_delay  # default of the seconds from approval to Started
        self._publish = publish
        self._scopes: dict[Scope, ScopeState] = {fleet.scope(machine): ScopeState() for machine in fleet.machines}
        self._timers: list[_Timer] = []
        self._order = itertools.count()
        self._known_ids: set[str] = set()
        self._followers: dict[str, list[EventSpec]] = {}
        self.ended: deque[Event] = deque(maxlen=KEPT_ENDED_EVENTS)
        self.now = clock.now()

    # Time

    def sync(self) -> float:
        """Carry out what is due by the clock, in order, and return the emulator time."""
        moment = self.clock.now()
        self._run_until(moment)
        self.now = max(self.now, moment)
        return self.now

    def _run_until(self, moment: float) -> None:
        while self._timers and self._timers[0].due <= moment:
            timer = heapq.heappop(self._timers)
            if timer.is_live():
                self.now = max(self.now, timer.due)
                timer.act(self.now)

    def next_change(self) -> float | None:
        """Return when the next change of state is due if nothing is approved or steered until then."""
        while self._timers and not self._timers[0].is_live():
            heapq.heappop(self._timers)
        return self._timers[0].due if self._timers else None

    # Reading

    def scope_state(self, machine: Machine) -> ScopeState:
        """Return the array that ``machine`` sees."""
        return self._scopes[self.fleet.scope(machine)]

    def events(self) -> list[Event]:
        """Return the events of all arrays in order of announcement."""
        live = [event for scope in self._scopes.values() for event in scope.events.values()]
        return sorted(live, key=lambda event: event.created_at)

    def find(self, event_id: str) -> Event:
        """Return the live event ``event_id``, in any case. Raises NoSuchEvent."""
        for scope in self._scopes.values():
            if event_id.lower() in scope.events:
                return scope.events[event_id.lower()]
        raise NoSuchEvent(f"event {shown(event_id)}: not in any VM's document, expected the id of a live event")

    # What the operator of the simulation does

    def reserve(self, specs: Sequence[EventSpec]) -> None:
        """Check that ``specs`` can be scheduled, now or later, and claim their ids. Raises InputError."""
        ids = [spec.event_id.lower() for spec in specs]
        for spec in specs:
            self._scope_of(spec)
        for event_id in ids:
            if event_id in self._known_ids or ids.count(event_id) > 1:
                raise InputError(f"event_id: {shown(event_id)} was used before, expected a new id")
        self._known_ids.update(ids)

    def schedule(self, spec: EventSpec) -> Event:
        """Announce an event now. Raises InputError when it names VMs of more than one scope or an id used before."""
        self.reserve([spec])
        return self.announce(spec)

    def announce(self, spec: EventSpec) -> Event:
        """Announce an event whose id was reserved."""
        event = Event(
            spec=spec,
            scope=self._scope_of(spec),
            resources=[self.fleet.find(name).resource_name for name in spec.vms],
            created_at=self.now,
            overrides=dict(spec.overrides),
        )
        scope = self._scopes[event.scope]
        scope.events[spec.event_id.lower()] = event
        if spec.is_advisory:
            self._advise(event)
            return event
        by_policy = spec.auto_approve or self._is_approved_by_policies(spec)
        if spec.direct_started or by_policy:
            self._start(event, self.now, "policy" if by_policy else "no_notice")
            return event
        # NotBefore is shown in whole seconds and nothing starts before it, so it is rounded up.
        event.not_before = math.ceil(self.now + spec.notice)
        scope.changed(spec.event_type)
        self._log("scheduled", event, not_before=iso(event.not_before))
        self._in_phase(event, SCHEDULED, event.not_before, partial(self._start, reason="not_before"))
        if spec.cancel_after is not None:
            self._in_phase(event, SCHEDULED, self.now + spec.cancel_after, partial(self._remove, outcome=CANCELED))
        return event

    def _is_approved_by_policies(self, spec: EventSpec) -> bool:
        """Whether a user restarts or redeploys VMs whose policies approve that beforehand."""
        policies = [self.fleet.find(name).policy.get(f"userInitiated{spec.event_type}", {}) for name in spec.vms]
        return spec.source == "User" and all(each.get(APPROVES) for each in policies)

    def _advise(self, event: Event) -> None:
        """Show a hint, which neither starts nor can be acknowledged."""
        event.status = ADVISORY
        self._scopes[event.scope].changed(event.spec.event_type)
        self._log("advised", event)
        self._in_phase(event, ADVISORY, self.now + event.spec.started_for, partial(self._remove, outcome=COMPLETED))

    def follow(self, event_id: str, spec: EventSpec) -> None:
        """Have ``spec``, whose id was reserved, announced at the moment at which event ``event_id`` has gone."""
        self._followers.setdefault(event_id.lower(), []).append(spec)

    def cancel(self, event_id: str) -> None:
        """Withdraw a Scheduled event: no impact happened. Raises NoSuchEvent, WrongPhase."""
        self._remove(self._expect(event_id, SCHEDULED, "complete it instead"), self.now, CANCELED)

    def start(self, event_id: str) -> None:
        """Start a Scheduled event now, whatever its NotBefore. Raises NoSuchEvent, WrongPhase."""
        self._start(self._expect(event_id, SCHEDULED, "it has already started"), self.now, "forced")

    def complete(self, event_id: str) -> None:
        """Remove a Started event, or a hint, now. Raises NoSuchEvent, WrongPhase."""
        event = self.find(event_id)
        if event.status != ADVISORY:
            self._expect(event_id, STARTED, "start or cancel it instead")
        self._remove(event, self.now, COMPLETED)

    def override(self, event_id: str, overrides: dict[str, Any]) -> None:
        """Replace the raw field overrides of a live event. Raises NoSuchEvent."""
        event = self.find(event_id)
        if overrides != event.overrides:
            event.overrides = dict(overrides)
            self._scopes[event.scope].changed(event.spec.event_type)
            self._log("overridden", event)

    def deallocate(self, machine: Machine) -> list[str]:
        """Stop and deallocate a VM: its events are cleared. Returns their ids."""
        own = [each for each in self.scope_state(machine).events.values() if machine.resource_name in each.resources]
        alone = [event for event in own if len(event.resources) == 1]
        for event in own:
            if event in alone:
                self._end(event, self.now, CLEARED)
                continue
            event.resources.remove(machine.resource_name)
            self._scopes[event.scope].changed(event.spec.event_type)
            self._log("cleared", event, vm=machine.name)
        for specs in self._followers.values():
            specs[:] = [_without(machine, spec) for spec in specs]
        for event in alone:
            self._go_on_after(event)
        cleared = [event.event_id for event in own]
        self.journal.record("deallocated", self.now, vm=machine.name, event_ids=cleared)
        return cleared

    def restart(self, machine: Machine) -> list[str]:
        """Restart a VM by hand, which clears no event."""
        self.journal.record("restarted", self.now, vm=machine.name)
        return []

    # What a VM does

    def approve(self, machine: Machine, event_ids: Sequence[str], *, partly: bool) -> tuple[list[str], list[str]]:
        """Take the StartRequests of ``machine``; the ids newly acknowledged, and the unknown ones.

        Unless ``partly``, one unknown id keeps all from being approved.
        """
        own = self.scope_state(machine).events.values()
        # No request can name an event that shows no id, or one that is not a text.
        array = {event.shown_id.lower(): event for event in own if isinstance(event.shown_id, str)}
        unknown = [event_id for event_id in event_ids if event_id.lower() not in array]
        if unknown and not partly:
            return [], unknown
        events = [array[event_id.lower()] for event_id in event_ids if event_id not in unknown]
        newly = [event for event in events if event.status == SCHEDULED and event.approved_at is None]
        for event in events:
            event.approvals.append({"vm": machine.name, "at": iso(self.now)})
        approved = []
        for event in newly:
            if event.approved_at is None:
                event.approved_at = self.now
                approved.append(event.event_id)
                self._log("approved", event, vm=machine.name)
        for event in newly:
            self._when_all_approved(event)
        return approved, unknown

    # The state machine

    def _in_phase(self, event: Event, phase: str, due: float, act: Callable[[Event, float], None]) -> None:
        """Have ``act`` called with the time when ``due`` is reached, if the event is still in the phase then."""
        timer = _Timer(max(due, self.now), next(self._order), lambda: event.status == phase, partial(act, event))
        heapq.heappush(self._timers, timer)

    def _when_all_approved(self, event: Event) -> None:
        """Plan the early start, once every event that has to wait for the others is approved."""
        peers = self._peers(event)
        if any(peer.approved_at is None for peer in peers):
            return
        for peer in peers:
            delay = self._cotenant_delay if peer.spec.cotenant_delay is None else peer.spec.cotenant_delay
            self._in_phase(peer, SCHEDULED, self.now + delay, partial(self._start, reason="approved"))
        # An approval without delay starts the event at once.
        self._run_until(self.now)

    def _start(self, event: Event, moment: float, reason: str) -> None:
        event.status = STARTED
        event.started_at = moment
        self._scopes[event.scope].changed(event.spec.event_type)
        self._log("started", event, reason=reason)
        self._in_phase(event, STARTED, moment + event.spec.started_for, partial(self._remove, outcome=COMPLETED))

    def _remove(self, event: Event, moment: float, outcome: str) -> None:
        self._end(event, moment, outcome)
        self._go_on_after(event)

    def _end(self, event: Event, moment: float, outcome: str) -> None:
        scope = self._scopes[event.scope]
        del scope.events[event.event_id.lower()]
        event.status = outcome
        event.ended_at = moment
        self.ended.append(event)
        scope.changed(event.spec.event_type)
        self._log("cancelled" if outcome == CANCELED else "removed", event, outcome=outcome)

    def _go_on_after(self, event: Event) -> None:
        """Go on with what waited for an event: Terminates beside it, and events to be announced after it."""
        for other in [peer for peer in self._peers(event) if peer.approved_at is not None][:1]:
            self._when_all_approved(other)
        self._announce_after(event.event_id)

    def _announce_after(self, event_id: str) -> None:
        for spec in self._followers.pop(event_id.lower(), []):
            if spec.vms:
                self.announce(spec)
            else:  # all of its VMs were deallocated since it was planned
                self._announce_after(spec.event_id)

    # Details

    def _scope_of(self, spec: EventSpec) -> Scope:
        scopes = {self.fleet.scope(self.fleet.find(name)) for name in spec.vms}
        if len(scopes) > 1:
            raise InputError(
                f"vms: {shown(list(spec.vms))} are in {len(scopes)} scopes (standalone VM, availability set, placement"
                " group, cloud service), expected VMs of one scope: schedule one event for each scope"
            )
        return scopes.pop()

    def _peers(self, event: Event) -> list[Event]:
        """The Scheduled events that wait for one another's approval: Terminates of one scope at the same time.

        That is docs/contract.md, section 13.19.
        """
        if event.spec.event_type != "Terminate":
            return [event] if event.status == SCHEDULED else []
        array = self._scopes[event.scope].events.values()
        same = [other for other in array if other.spec.event_type == "Terminate" and other.status == SCHEDULED]
        return [other for other in same if other.not_before == event.not_before]

    def _expect(self, event_id: str, phase: str, instead: str) -> Event:
        event = self.find(event_id)
        if event.status != phase:
            raise WrongPhase(f"event {event.event_id} is {event.status}, not {phase}: {instead}")
        return event

    def _log(self, kind: str, event: Event, **details: Any) -> None:
        about = {"event_id": event.event_id, "type": event.spec.event_type, "vms": list(event.resources)}
        self.journal.record(kind, self.now, **about, **details)
        if self._publish and kind != "approved":  # which changes no field
            self._publish(event, self.now)
