# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's shell for playbooks: one turn of a host. Private to the collection: it may change in any release.

A task list runs on the controller, so what a boot is for the polling unit is the controller's run here: a phase is lost
when the run that had begun it is, and outlives a reboot of the host.
"""

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ._scheduled_events import engine
from ._scheduled_events import rules as decisions
from ._scheduled_events.approval import ApprovalFailed, approve
from ._scheduled_events.client import ImdsClient, ImdsError, Refused
from ._scheduled_events.condition import condition
from ._scheduled_events.document import Document, ScheduledEvent, describe, one_of, parse
from ._scheduled_events.files import write_atomically
from ._scheduled_events.runs import FAILED, OK, PHASES
from ._scheduled_events.state import EventState, Run, State, StateError, StateFile
from ._scheduled_events.state import dump as dump_state
from ._scheduled_events.state import parse as parse_state

STATE_FILE, LEASE_FILE, LOCK_FILE = "respond.json", "respond.lease", "respond.lock"

# A phase of a play ends when its tasks do; silence is not judged here. NotBefore bounds what the tasks ask for.
LONGEST_PHASE = 7 * 24 * 3600.0

POLL_GAP = 1.0  # seconds between two polls
SHORT_LEASE = 60.0  # seconds, for a run that polls or takes its next step at once


class Wish(NamedTuple):
    """What the controller asks of a turn. Times are in seconds.

    :param run: identity of the controller's run; ``host``: name of this host in its inventory.
    :param owner: where the run is, for another controller that meets its lease.
    :param first: whether it is the run's first turn on this host.
    :param abandoned: a run that does not exist any more; its lease does not count.
    :param monotonic: of the controller, now.
    :param slice: how long to poll on the host while there is nothing to do.
    :param phase_lease: how long the tasks of a phase may take before another run takes this one for dead.
    :param known: ``marker`` of the turn before; the turn ends as soon as it changes.
    :param outcome: of the phase that was handed out: ``request_ids``, ``ok``, ``reason``.
    :param acknowledge: keys of events that are to be acknowledged now.
    :param defer: seconds before NotBefore at which a maintenance of this host no longer keeps it from preparing.
    :param maintenance: whether such a maintenance is under way, asked again at each poll.
    """

    run: str
    host: str
    owner: Dict[str, Any]
    state_directory: str
    first: bool
    abandoned: str
    monotonic: float
    slice: float
    phase_lease: float
    known: str
    outcome: Optional[Dict[str, Any]]
    acknowledge: Sequence[str]
    event_types: Sequence[str]
    event_sources: Sequence[str]
    may_acknowledge: bool
    margin: float
    defer: float
    maintenance: Callable[[], bool]
    check_mode: bool
    state: str


class Locked(Exception):
    """Another run has this host; ``lease`` says which."""

    def __init__(self, lease: Dict[str, Any]) -> None:
        super().__init__("another run has this host")
        self.lease = lease


class Lease:
    """Who may take steps on this host: a file that says until when, changed under a lock of the kernel."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._path = os.path.join(wish.state_directory, LEASE_FILE)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while the lease is looked at and the state changes.

        :raises Locked: another run has the lease, and it has not run out.
        """
        if not os.path.isdir(self._wish.state_directory):
            yield  # no run has left anything here
            return
        with open(os.path.join(self._wish.state_directory, LOCK_FILE), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._look()
            yield

    def _look(self) -> None:
        lease = self._read()
        wish = self._wish
        if lease is None or (lease["run"], lease["host"]) == (wish.run, wish.host) or lease["run"] == wish.abandoned:
            return
        if 0 < lease["expires"] - time.time() <= lease["seconds"]:  # else it ran out, or the clock went back
            raise Locked(lease)

    def _read(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                lease = json.load(file)
            float(lease["expires"]) + float(lease["seconds"])
            return {**lease, "run": str(lease["run"]), "host": str(lease["host"])}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def renew(self, seconds: float) -> None:
        """Keep the host for this run.

        :raises OSError: it cannot be written.
        """
        wish = self._wish
        lease = {"run": wish.run, "host": wish.host, "owner": wish.owner, "seconds": seconds}
        lease["expires"] = time.time() + seconds
        write_atomically(self._path, json.dumps(lease).encode(), mode=0o600)

    def end(self) -> None:
        """Give the host back."""
        for name in (LEASE_FILE, LOCK_FILE):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._wish.state_directory, name))


class Memory:
    """The state of the engine: in a file of the host, or, in check mode, with the controller."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._file = StateFile(os.path.join(wish.state_directory, STATE_FILE))

    def load(self) -> State:
        """The state as this run takes it up.

        :raises StateError: the file holds something else.
        :raises OSError: it cannot be read.
        """
        if self._wish.state:
            return parse_state(self._wish.state)
        fresh = State(serial=int(time.time() * 1000))
        try:
            return self._file.load() or fresh
        except StateError:
            with open(self._file.path, encoding="utf-8") as file:
                taken_over = _of_version_0_1_0(json.load(file))
            if taken_over is None:
                raise
            return taken_over

    def save(self, state: State) -> None:
        """Make it durable; nothing is kept of a host without events.

        :raises OSError: it cannot be made so.
        """
        if self._wish.check_mode:
            return
        if state.events:
            os.makedirs(self._wish.state_directory, mode=0o755, exist_ok=True)
            self._file.save(state)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file.path)


def _of_version_0_1_0(raw: Any) -> Optional[State]:
    """What the role respond of 0.1.0 remembered: by event id, the event and ``preparing``, ``prepared`` or ``started``."""
    try:
        described = {event_id: (value["state"], value["event"]) for event_id, value in raw.items()}
        events = {}
        for number, (event_id, (state, event)) in enumerate(described.items(), 1):
            azure = {
                "EventId": event_id,
                "EventType": event["event_type"],
                "EventStatus": event["event_status"],
                "Resources": event["resources"],
                "NotBefore": event["not_before"],
            }
            [read] = parse(json.dumps({"Events": [azure]}), api_version="2020-07-01").events
            phase = "started" if state == "started" else "prepare"
            run = Run(
                request_id=f"0.1.0-{number}",
                serial=number,
                outcome="running" if state == "preparing" else OK,
                event_type=read.event_type or "",
            )
            events[read.key] = EventState(event=read, first_seen=0.0, runs={phase: run}, ran=True, owed=True)
        return State(serial=int(time.time() * 1000), events=events)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


class Turn:
    """One turn on the host."""

    def __init__(self, client: ImdsClient, vm_name: str, wish: Wish) -> None:
        self._client = client
        self._vm_name = vm_name
        self._wish = wish
        self._lease = Lease(wish)
        self._memory = Memory(wish)
        self._began = time.monotonic()
        self._story: List[str] = []
        self._problems: List[str] = []
        self._document: Optional[Document] = None
        self._acknowledged: List[str] = []

    def take(self) -> Dict[str, Any]:
        """Take the outcome, acknowledge, decide; poll until there is something to do, something changes or the slice
        is over.

        :raises Locked: another run has this host until the end of the slice.
        :raises ImdsError: the service refuses, or the run's first request gets no answer.
        :raises StateError: what an earlier run remembered cannot be read.
        :raises OSError: the state cannot be kept.
        """
        results: List[engine.Result] = list(self._outcome())
        while True:
            try:
                with self._lease.held():
                    shown = self._step(results)
                results = []
                if self._is_news(shown):
                    return shown
            except (Locked, ImdsError) as error:
                if isinstance(error, Refused) or self._is_over() or (self._wish.first and isinstance(error, ImdsError)):
                    raise
                self._problems = [str(error)]
            if self._is_over():
                return shown
            time.sleep(min(POLL_GAP, max(0.0, self._left())))

    def _outcome(self) -> Iterator[engine.Result]:
        outcome = self._wish.outcome
        for request_id in outcome["request_ids"] if outcome else ():
            ended = OK if outcome and outcome["ok"] else FAILED
            yield engine.HookResult(request_id, ended, str(outcome["reason"]) if outcome else "")

    def _left(self) -> float:
        return self._wish.slice - (time.monotonic() - self._began)

    def _is_over(self) -> bool:
        return self._left() <= 0

    def _is_news(self, shown: Dict[str, Any]) -> bool:
        return shown["next"] != "wait" or shown["marker"] != self._wish.known or bool(shown["again"])

    # One step of the engine

    def _step(self, results: Sequence[engine.Result]) -> Dict[str, Any]:
        config = self._config()
        state = self._memory.load()
        self._document = self._client.fetch() if self._wish.first else self._client.poll()
        if self._wish.first and self._document is not None:
            results = [*results, *(engine.Retry(key) for key in state.events)]
        results = [*results, *self._acknowledge(state, config)]
        now = engine.Moment(time.time(), self._wish.monotonic + time.monotonic() - self._began, self._wish.run)
        after, actions = engine.step(state, self._document, results, now, config)
        self._memory.save(after)
        for action in actions:
            if isinstance(action, engine.Report):
                self._note(action, after, state)
        shown = self._show(after, actions, config)
        if not self._wish.check_mode and after.events:
            self._lease.renew(SHORT_LEASE if shown["next"] == "wait" else self._wish.phase_lease)
        elif not after.events:
            self._lease.end()
        self._wish = self._wish._replace(first=False, acknowledge=(), state=shown["state"])
        return shown

    def _config(self) -> engine.Config:
        wish = self._wish
        wanted: Tuple[decisions.Rule, ...] = ()
        if wish.event_types or wish.event_sources:
            types, sources = tuple(wish.event_types), tuple(wish.event_sources)
            only = decisions.Rule(decisions.PREPARE, event_types=types, event_sources=sources)
            wanted = (only, decisions.Rule(decisions.IGNORE))
        return engine.Config(
            vm_name=self._vm_name,
            hooks=frozenset(PHASES) - {"failed"},
            rules=wanted,
            hook_timeout=LONGEST_PHASE,
            margin=wish.margin,
            approve=engine.ANY if wish.may_acknowledge else engine.NEVER,
            parallel=False,
            defer=wish.defer if wish.maintenance() else None,
        )

    def _acknowledge(self, state: State, config: engine.Config) -> List[engine.Result]:
        keys = [key for key in self._wish.acknowledge if key in state.events]
        if not keys:
            return []
        decided = {
            key: engine.Approve(
                key,
                state.events[key].event.event_id or "",
                state.events[key].event.event_type,
                decisions.PREPARE,
                alone=False,
            )
            for key in keys
        }

        def may_approve(event: ScheduledEvent) -> bool:
            return engine.still_agrees(decided[event.key], event, config)

        try:
            outcome = approve(
                self._client,
                [action.event_id for action in decided.values()],
                may_approve=may_approve,
                dry_run=self._wish.check_mode,
            )
        except (ApprovalFailed, ImdsError) as error:
            refused = isinstance(error, Refused) or isinstance(error.__cause__, Refused)
            self._problems.append(f"not acknowledged, and tried again: {error}")
            return [engine.ApprovalResult(key, accepted=False, error=str(error), refused=refused) for key in keys]
        accepted = {event_id.lower() for event_id in outcome.approved}
        self._acknowledged.extend(outcome.approved)
        reason = "the document read right before does not allow it"
        return [
            engine.ApprovalResult(key, accepted=key in accepted, error="" if key in accepted else reason)
            for key in keys
        ]

    # What the controller reads

    def _note(self, report: engine.Report, after: State, before: State) -> None:
        entry = after.events.get(report.key) or before.events.get(report.key)
        name = f"{entry.event.event_type} {entry.event.event_id}" if entry else report.key or "an event"
        if report.kind == engine.ACKNOWLEDGED and entry is not None:
            self._story.append(f"{name} acknowledged{_before_not_before(entry.event)}")
        elif report.kind == engine.SEEN and entry is not None:
            self._story.append(f"{name} seen as {entry.event.event_status}, of {', '.join(entry.event.resources)}")
        elif report.kind == engine.ENDED:
            how = "done" if report.outcome == OK else f"{report.outcome}: {report.text}"
            self._story.append(f"{name} {report.phase} {how}")
        elif report.kind == engine.UNNAMED:
            self._problems.append("an event of this VM has no EventId: it can be neither prepared nor acknowledged")
        elif report.kind == engine.PROBLEM:
            self._problems.append(report.text)
        elif report.kind == engine.OVER:
            self._story.append(f"{name} over")

    def _show(self, state: State, actions: Sequence[engine.Action], config: engine.Config) -> Dict[str, Any]:
        phase, entries = _handed_out(state)
        ready = [action for action in actions if isinstance(action, engine.Approve)]
        again = [action.event_id for action in ready if state.events[action.key].approval.tries > 0]
        shown = {
            "next": phase or ("wait" if state.events else "done"),
            "events": [self._describe(entry.event) for entry in entries],
            "request_ids": [entry.runs[phase].request_id for entry in entries] if phase else [],
            "ready": [action.event_id for action in ready],
            "again": again,
            "prepared": [
                entry.event.event_id
                for entry in state.events.values()
                if engine.is_ready(entry, config, recovered=state.recovered)
            ],
            "failed": [entry.event.event_id for entry in state.events.values() if _failed(entry, "prepare")],
            "recover_failed": [entry.event.event_id for entry in state.events.values() if _failed(entry, "recover")],
            "waiting": [_waiting(state, key, config) for key in state.events],
            "sight": [
                {"event_id": event.event_id, "resources": list(event.resources)}
                for event in (self._document.events if self._document else ())
                if event.event_id and event.event_status == "Scheduled" and self._is_wanted(event)
            ],
            "acknowledged": self._acknowledged,
            "story": self._story,
            "problems": self._problems,
            "vm_name": self._vm_name,
            "state": dump_state(state) if self._wish.check_mode else "",
        }
        if shown["recover_failed"] and not phase and all(_failed(entry, "recover") for entry in state.events.values()):
            shown["next"] = "done"  # the next run tries again
        shown["marker"] = _digest([shown[name] for name in ("next", "ready", "prepared", "failed", "waiting", "sight")])
        return shown

    def _is_wanted(self, event: ScheduledEvent) -> bool:
        return one_of(event.event_type, self._wish.event_types) and one_of(event.event_source, self._wish.event_sources)

    def _describe(self, event: ScheduledEvent) -> Dict[str, Any]:
        return describe(event, vm_name=self._vm_name, now=datetime.datetime.now(datetime.timezone.utc))


def _handed_out(state: State) -> Tuple[str, List[EventState]]:
    """The phase that is the controller's to run, and its events."""
    for phase in ("started", "prepare", "recover"):
        entries = [entry for entry in state.events.values() if engine.is_running(entry, phase)]
        if entries:
            return phase, entries
    return "", []


def _failed(entry: EventState, phase: str) -> bool:
    return phase in entry.runs and entry.runs[phase].outcome == FAILED


def _waiting(state: State, key: str, config: engine.Config) -> Dict[str, Any]:
    entry = state.events[key]
    found = condition(state, key, config)
    return {
        "event_id": entry.event.event_id,
        "event_type": entry.event.event_type,
        "event_status": entry.event.event_status,
        "present": entry.present,
        "condition": found.kind,
        "detail": found.detail,
    }


def _before_not_before(event: ScheduledEvent) -> str:
    if event.not_before is None:
        return ""
    return f" {event.not_before.timestamp() - time.time():.0f} s before NotBefore"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
