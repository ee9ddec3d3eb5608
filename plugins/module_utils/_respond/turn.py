# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's shell for playbooks: one turn of a host. Private to the collection: it may change in any release.

A task list runs on the control node, so what a boot is for the polling unit is the control node's run here: a phase is
lost when the run that had begun it is, and outlives a reboot of the host.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .._scheduled_events import engine, policies, terms
from .._scheduled_events import rules as decisions
from .._scheduled_events.approval import acknowledge
from .._scheduled_events.checks import WrongValue
from .._scheduled_events.client import POLL_TIMEOUT, BadAnswer, ImdsClient, ImdsError, Refused
from .._scheduled_events.clock import CLOCK, Clock, Moment
from .._scheduled_events.condition import condition
from .._scheduled_events.document import Document, ScheduledEvent, describe, format_epoch
from .._scheduled_events.files import Changed, Folder, explained
from .._scheduled_events.history_file import experience
from .._scheduled_events.runs import FAILED, NOTHING, OK, parse_run_id
from .._scheduled_events.state import EventState, State
from .._scheduled_events.state import dump as dump_state
from .._scheduled_events.text import some
from .._scheduled_events.transitions import Step
from .memory import Lease, Locked, TurnHistory, TurnMemory, is_under_maintenance
from .request import TurnRequest, engine_config

if TYPE_CHECKING:
    from .._module import ImdsModule  # which needs Ansible

HANDED_OUT = ("started", "prepare", "recover", "advised")

CHANGED_AT_MOST = 5  # times that a step is taken again since others have written meanwhile

ACKNOWLEDGE_LEASE = 600.0  # seconds, more than a request and its repetitions take
COMPUTE_TIMEOUT = 2.5  # seconds for an answer that nothing waits for
IDENTITY = ("subscriptionId", "resourceGroupName", "vmScaleSetName", "name")  # what the resource id is made of


class Intervals(NamedTuple):
    """Intervals and limits of the work on the host. Times are in seconds.

    :param poll_gap: between two polls.
    :param short_lease: for a run that polls or takes its next step at once. Its remaining time is recorded at
        least twice in this time.
    """

    poll_gap: float = 1.0
    short_lease: float = 120.0


INTERVALS = Intervals()


class Turn:
    """One turn on the host.

    :param options: those of :data:`OPTIONS`.
    :param check_mode: change nothing, here or at the service.
    :param folder: the state directory, if it is not on this machine.
    """

    def __init__(
        self,
        client: ImdsClient,
        vm_name: str,
        options: Dict[str, Any],
        request: TurnRequest,
        *,
        check_mode: bool = False,
        clock: Clock = CLOCK,
        folder: Optional[Folder] = None,
        intervals: Intervals = INTERVALS,
    ) -> None:
        self._client = client
        self._vm_name = vm_name
        self._options = options
        self._rules = decisions.parse_rules(options["rules"], place="respond_rules")
        self._request = request
        self._check_mode = check_mode
        self._would_be = "would be " if check_mode else ""
        self._intervals = intervals
        self._clock = clock
        self._folder = folder or Folder(options["state_directory"])
        self._lease = Lease(self._folder, request.run, request.host, request.owner, self._clock)
        self._memory = TurnMemory(self._folder, self._clock)
        self._history = TurnHistory(self._folder, request, within_maintenance=options["within_maintenance"])
        self._planned = request.state
        self._began = self._clock.monotonic()
        self._experience = experience(self._folder.path, now=self._clock.wall()) if self._folder.is_here else {}
        self._story: List[Dict[str, Any]] = []
        self._problems: List[str] = []
        self._acknowledged: List[str] = []

    def take(self) -> Dict[str, Any]:
        """Take the outcome, acknowledge, decide; poll until there is something to do, something changes or the slice
        is over.

        :raises ImdsError: the service refuses, or the run's first request gets no answer.
        :raises WrongValue: what an earlier run remembered cannot be read.
        :raises OSError: the state cannot be kept.
        """
        results: List[terms.Result] = list(self._outcome())
        first = self._request.first
        while True:
            document = self._read(first=first)
            try:
                if self._request.acknowledge and not first:
                    if results:  # what the state allows, the outcome decides
                        self._step(document, results, first=first)
                    results = self._acknowledge()
                shown = self._step(document, results, first=first)
            except Locked as error:
                shown = {"next": "locked", "lease": error.lease, "vm_name": self._vm_name, "story": [], "problems": []}
            else:
                results, first = [], False
                self._request = self._request._replace(acknowledge=())
            left = self._request.slice - (self._clock.monotonic() - self._began)
            if left <= 0 or self._is_news(shown):
                if self._request.compute and shown.get("waiting"):
                    shown["compute"] = self._compute()
                return shown
            self._clock.sleep(min(self._intervals.poll_gap, left))

    def _outcome(self) -> Iterator[terms.Result]:
        outcome = self._options["outcome"]
        for request_id in outcome["request_ids"] if outcome else ():
            name = parse_run_id(str(request_id))
            prepares = name is None or name.phase != "prepare" or self._config().preparation
            ended = (OK if prepares else NOTHING) if outcome["ok"] else FAILED
            yield terms.HookResult(str(request_id), ended, str(outcome["reason"]))

    def _is_news(self, shown: Dict[str, Any]) -> bool:
        if shown["next"] == "wait":
            return bool(shown["marker"] != self._request.known)
        return bool(shown["next"] != "locked")

    def _read(self, *, first: bool) -> Optional[Document]:
        """The document; ``None`` during an outage, which says nothing about the events."""
        if self._request.assume_over:
            return Document(incarnation=None, events=())
        try:
            return self._client.fetch() if first else self._client.poll(request_timeout=POLL_TIMEOUT)
        except ImdsError as error:
            if first or isinstance(error, Refused):
                raise
            self._problems = [str(error)]
            return None

    def _compute(self) -> Dict[str, str]:
        """Return the parts of the resource id of this VM; empty if the service does not answer soon."""
        try:
            found = self._client.poll_compute(COMPUTE_TIMEOUT)
        except ImdsError:
            return {}
        return {name: str(found.get(name) or "") for name in IDENTITY}

    # One step of the engine

    def _step(self, document: Optional[Document], results: Sequence[terms.Result], *, first: bool) -> Dict[str, Any]:
        if self._check_mode:
            before = self._memory.parse(self._planned)
            document = self._taken(before, document, first=first)
            after, actions = self._decide(before, document, results, first=first)
            self._planned = dump_state(after)
            return self._show(after, actions, document)
        concerns = document is not None and any(event.affects(self._vm_name) for event in document.events)
        story, problems = list(self._story), list(self._problems)
        for _attempt in range(CHANGED_AT_MOST):
            try:
                return self._kept_step(document, results, first=first, make=concerns)
            except Changed as error:
                self._story, self._problems, last = list(story), list(problems), error
        raise last

    def _kept_step(
        self, document: Optional[Document], results: Sequence[terms.Result], *, first: bool, make: bool
    ) -> Dict[str, Any]:
        with self._lease.held(abandoned=self._request.abandoned, make=make):
            before = self._memory.load()
            document = self._taken(before, document, first=first)
            decided, actions = self._decide(before, document, results, first=first)
            after, shown = decided, self._show(decided, actions, document)
            if shown["next"] == "done":
                after = after._replace(events={key: entry for key, entry in after.events.items() if _is_kept(entry)})
            self._memory.save(after)
            self._renew(shown["next"])
        return self._history.added_to(shown, Step(before, decided, actions, self._now(), self._config()))

    def _taken(self, before: State, document: Optional[Document], *, first: bool) -> Optional[Document]:
        """The document; ``None``, and why, if it counts as an outage."""
        problem = engine.overflow(before, document, self._vm_name) if document else ""
        if problem and first:
            raise BadAnswer(problem)
        if problem:
            self._problems = [problem]
        return None if problem else document

    def _decide(
        self, before: State, document: Optional[Document], results: Sequence[terms.Result], *, first: bool
    ) -> Tuple[State, List[terms.Action]]:
        if first:
            failed = [key for key, entry in before.events.items() if entry.waits_until is None]
            results = [*results, *map(terms.Retry, failed)]
        after, actions = engine.step(before, document, results, self._now(), self._config())
        for action in actions:
            if isinstance(action, terms.Report):
                self._note(action, before, after)
        for key, entry in before.events.items():
            is_there = key in after.events and after.events[key].is_announced
            if entry.is_announced and not is_there and not self._check_mode:
                self._add_to_story(entry.event, "over")
        return after, actions

    def _renew(self, following: str) -> None:
        if following == "done":
            self._lease.end()
        else:
            self._lease.renew(
                self._options["phase_timeout"] if following in HANDED_OUT else self._intervals.short_lease
            )

    def _now(self) -> Moment:
        elapsed = self._clock.monotonic() - self._began
        return Moment(self._clock.wall(), self._request.monotonic + elapsed, self._request.run)

    def _config(self) -> terms.Config:
        maintained = is_under_maintenance(self._folder, self._clock)
        return engine_config(
            self._options,
            vm_name=self._vm_name,
            rules=self._rules,
            defers=maintained and not self._check_mode,
            prepares=self._request.prepares,
        )._replace(**self._experience)

    # Acknowledging

    def _acknowledge(self) -> List[terms.Result]:
        """Acknowledge what the control node wants and the state still allows.

        :raises Locked: another run has this host.
        """
        config = self._config()
        if self._check_mode:
            state = self._memory.parse(self._planned)
        else:
            with self._lease.held(abandoned=self._request.abandoned):
                state = self._memory.load()
                # The requests are sent without the lock, since they may take minutes.
                self._lease.renew(ACKNOWLEDGE_LEASE)
        _same, actions = engine.step(state, None, [], self._now(), config)
        wanted = {claim["event_id"].lower() for claim in self._request.acknowledge}
        ready = [action for action in actions if isinstance(action, terms.Approve) and action.key in wanted]
        together = [action for action in ready if not action.alone]
        groups = [[action] for action in ready if action.alone] + ([together] if together else [])
        return [result for group in groups for result in self._send(group, config)]

    def _send(self, group: Sequence[terms.Approve], config: terms.Config) -> Sequence[terms.Result]:
        claims = {claim["event_id"].lower(): claim for claim in self._request.acknowledge}
        changes: Dict[str, str] = {}

        def change(event: ScheduledEvent) -> str:
            changes[event.key] = _change(claims[event.key], event)
            return changes[event.key]

        results, failure = acknowledge(self._client, group, config, change=change, dry_run=self._check_mode)
        if failure:
            self._problems.append(f"not acknowledged yet, and tried again until the event starts: {failure}")
        else:
            self._problems.extend(filter(None, changes.values()))
        self._acknowledged.extend(action.event_id for action, end in zip(group, results) if end.accepted)
        return results

    # What the control node reads

    def _add_to_story(self, event: ScheduledEvent, text: str) -> None:
        self._story.append({"event_id": event.event_id, "event_type": event.event_type, "text": text})

    def _note(self, report: terms.Report, before: State, after: State) -> None:
        entry = after.events.get(report.key) or before.events.get(report.key)
        if report.kind in (terms.ReportKind.UNNAMED, terms.ReportKind.PROBLEM):
            self._problems.append(report.text)
        elif entry is None:
            return
        elif report.kind is terms.ReportKind.ACKNOWLEDGED:
            self._add_to_story(entry.event, f"{self._would_be}acknowledged{self._ahead(entry.event)}")
        elif report.kind is terms.ReportKind.SEEN:
            self._add_to_story(entry.event, f"seen as {entry.event.event_status}")
        elif report.kind is terms.ReportKind.ENDED:
            self._add_to_story(entry.event, self._ended(report))

    def _ended(self, report: terms.Report) -> str:
        if report.outcome not in (OK, NOTHING):
            return f"{report.phase} failed: {report.text}"
        if report.outcome == NOTHING:
            return "has nothing configured that prepares for it" if self._request.prepares else "prepared in part"
        done = {"prepare": "prepared", "started": "answered", "recover": "recovered", "advised": "advised"}
        return f"{self._would_be}{done[report.phase]}"

    def _ahead(self, event: ScheduledEvent) -> str:
        if event.not_before is None:
            return ""
        return f" {event.not_before.timestamp() - self._clock.wall():.0f} s before NotBefore"

    def _show(self, state: State, actions: Sequence[terms.Action], document: Optional[Document]) -> Dict[str, Any]:
        config = self._config()
        phase, entries = _handed_out(state)
        known, now = state.events.values(), self._clock.wall()
        shown: Dict[str, Any] = {
            "next": phase or ("done" if all(_is_left_alone(state, key, config) for key in state.events) else "wait"),
            "events": [describe(entry.event, vm_name=self._vm_name, now=now) for entry in entries],
            "request_ids": [entry.runs[phase].request_id for entry in entries] if phase else [],
            "ready": [action.event_id for action in actions if isinstance(action, terms.Approve)],
            "prepared": [
                entry.event.event_id for entry in known if _is_prepared(entry, config, recovered=state.recovered)
            ],
            "unprepared": [entry.event.event_id for entry in known if policies.has_failed(entry, "prepare")],
            "waiting": [self._waiting(state, key, config) for key in state.events],
            "sight": None if document is None else _sight(document, self._rules),
            "drill": document is not None and bool(document.drill),
        }
        shown["marker"] = _digest(shown)
        return dict(
            shown,
            acknowledged=self._acknowledged,
            story=self._story,
            problems=self._problems,
            vm_name=self._vm_name,
            named=[each.event_id for each in (document.events if document else ()) if self._is_named(each)],
            state=self._planned,
        )

    def _is_named(self, event: ScheduledEvent) -> bool:
        return event.event_id is not None and event.affects(self._vm_name)

    def _waiting(self, state: State, key: str, config: terms.Config) -> Dict[str, Any]:
        entry = state.events[key]
        found = condition(state, key, config)
        not_before, until = entry.event.not_before, entry.waits_until
        return {
            "event_id": entry.event.event_id,
            "event_type": entry.event.event_type,
            "present": entry.present,
            "impact": entry.impact,
            "accepted": entry.approval.accepted,
            "not_before": None if not_before is None else not_before.timestamp(),
            "decision": decisions.decide(entry.event, config.rules),
            "condition": str(found.kind),
            "detail": f"waits until {format_epoch(until)} ({found.detail})" if until else found.detail,
            "waits_until": until,
        }


def _sight(document: Document, rules: Sequence[decisions.Rule]) -> List[Dict[str, Any]]:
    """The events that can be acknowledged, each with the names of its VMs, compared as they are."""
    return [
        {
            "event_id": event.event_id,
            "event_type": event.event_type or "",
            "names": list(event.names),
            "drill": event.key == document.drill,
        }
        for event in document.events
        if event.event_id and event.event_status == "Scheduled" and decisions.decide(event, rules) != decisions.IGNORE
    ]


def _change(claim: Dict[str, Any], event: ScheduledEvent) -> str:
    """What differs between the event for which the hosts have prepared and this one; empty if nothing does."""
    event_type, names = claim["event_type"], {name.lower() for name in claim["names"]}
    if (event_type, names) == (event.event_type or "", set(event.names)):
        return ""
    vms, vms_now = (some(sorted(each)) or "no VM" for each in (names, {*event.names}))
    before, now = f"{event_type} of {vms}", f"{event.event_type} of {vms_now}"
    return f"{event.event_id} is not acknowledged: the play has prepared for a {before}, and it is a {now} now"


def _handed_out(state: State) -> Tuple[str, List[EventState]]:
    """The phase that is the control node's to run, and its events."""
    for phase in HANDED_OUT:
        entries = [entry for entry in state.events.values() if policies.is_running(entry, phase)]
        if entries:
            return phase, entries
    return "", []


def _is_prepared(entry: EventState, config: terms.Config, *, recovered: int) -> bool:
    """Also of an event that is over: the other hosts may learn it only then."""
    run = entry.runs.get("prepare")
    if run is None or run.outcome != OK or entry.waits_until is not None:
        return False  # its window has closed, so no host may acknowledge the event now
    return not policies.must_prepare(entry, config, recovered=recovered)


def _is_left_alone(state: State, key: str, config: terms.Config) -> bool:
    """Whether this run has nothing more to do for the event: the next run recovers, or no recovery is required."""
    entry = state.events[key]
    hint = not policies.is_pending(state, key, config) and not policies.is_running(entry, "advised")
    return hint or policies.has_failed(entry, "recover") or (entry.impact and not entry.ran)


def _is_kept(entry: EventState) -> bool:
    """Whether the next run has to know the event: it recovers, or it must not pass on a hint again."""
    return entry.ran or (entry.present and "advised" in entry.runs)


def _digest(shown: Dict[str, Any]) -> str:
    told = {name: value for name, value in shown.items() if name != "events"}  # which count their seconds
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def take_turn(run: "ImdsModule", folder: Optional[Folder] = None, intervals: Intervals = INTERVALS) -> Dict[str, Any]:
    """Carry out the module; see :class:`Turn`."""
    if not run.params["control_node"]:
        raise WrongValue(
            "control_node is missing, expected the values of the action plugin of this module. Call the module by its "
            "full name"
        )
    control_node = dict(run.params["control_node"])
    vm_name = control_node.pop("vm_name", "") or run.vm_name()
    try:
        turn = Turn(
            run.client,
            vm_name,
            run.params,
            TurnRequest(**control_node),
            check_mode=run.module.check_mode,
            clock=run.clock,
            folder=folder,
            intervals=intervals,
        )
        return dict(turn.take(), changed=False)
    except OSError as error:
        raise WrongValue(explained(error)) from error
