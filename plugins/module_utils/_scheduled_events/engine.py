# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions about the events of this VM: a pure function of the known facts. No clock, no I/O.

``step`` takes the state, a document if one was just read, and the results of earlier actions; it gives the next state
and actions. The caller makes the state durable before it carries out an action. So an action may be lost in a crash,
never forgotten: ``resume`` makes the next step ask again for each run without an outcome, under the same request id,
by which the other side recognizes a repetition.

The phases of one event follow one another and never overlap; ``failed`` and ``advised`` alone run beside them.

Only an event that is Scheduled is prepared for. An Advisory event is a hint: it reaches the phase ``advised`` once, and
holds nothing. An event with another status, or without one, holds the VM, and is neither prepared for nor acknowledged.

An acknowledgement is not remembered before it is sent. Each step gives an ``Approve`` for every event that is ready,
as long as its last attempt left it so; the caller has one attempt in flight and drops what it cannot send now.
"""

import datetime
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import rules as decisions
from .backoff import pause_after
from .document import ADVISORY, SCHEDULED, STARTED, Document, ScheduledEvent, describe
from .runs import BESIDE, FAILED, OK, OUTCOMES, PHASES, TIMEOUT, run_id_of
from .state import INTERRUPTED, RUNNING, Approval, EventState, Failure, Run, State

# Seconds after the last moment of a run until its silence counts as a failure: killing the hooks, writing the result.
SILENCE = 30.0

# Seconds between two attempts to acknowledge. The service most likely refuses again what it refused once.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE_REFUSED = 1.0, 5.0, 60.0
# Seconds between two attempts to ask for hooks, while the request cannot be written.
LONGEST_PAUSE_ASKING = 30.0

# What the owner may choose: what to do when prepare hooks failed, and which events this VM acknowledges.
ON_FAILURE = (decisions.HOLD, decisions.APPROVE)
ALONE, LEADER, ANY, NEVER, CONTROLLER = "alone", "leader", "any", "never", "controller"
ACKNOWLEDGE_POLICIES = (ALONE, LEADER, ANY, NEVER, CONTROLLER)

# The kinds of a Report.
SEEN, UNNAMED, PROBLEM, ENDED, NOT_ASKED, ACKNOWLEDGED, RETRIED, CLEARED, OVER = (
    "seen",
    "unnamed",
    "problem",
    "ended",
    "not asked",
    "acknowledged",
    "retried",
    "cleared",
    "over",
)


class Moment(NamedTuple):
    """Now: seconds since the epoch, which can jump; monotonic seconds, which count within one ``boot_id`` only."""

    wall: float
    monotonic: float
    boot_id: str


class Config(NamedTuple):
    """The settings behind the decisions. Times are in seconds.

    :param hooks: the phases for which the owner configured hooks, whether they can be found or not.
    :param missing: by phase, the names of configured hooks that cannot be found. Such a phase cannot run.
    :param prepares: whether the hooks of the phase ``prepare`` prepare this VM; otherwise they only report.
    :param parallel: whether hooks of several events run at the same time. Otherwise one phase runs at a time, that of
        the event with the earliest NotBefore first, and the events that are over are recovered together.
    :param started_after_prepare: whether started hooks also run for an event whose preparation has ended.
    :param defer: a preparation begins only this long before NotBefore, since something else has the VM until then.
    :param controller_grace: with the policy ``controller``, this long before NotBefore a VM whose own preparation
        succeeded acknowledges after all; 0 is never.
    """

    vm_name: str
    hooks: FrozenSet[str]
    rules: Tuple[decisions.Rule, ...] = ()
    hook_timeout: float = 600.0
    margin: float = 10.0
    on_failure: str = decisions.HOLD
    acknowledge: str = ALONE
    missing: Mapping[str, Tuple[str, ...]] = {}
    parallel: bool = True
    started_after_prepare: bool = True
    defer: Optional[float] = None
    controller_grace: float = 0.0
    prepares: bool = True


class HookResult(NamedTuple):
    """A run has ended: ``ok``, ``failed`` or ``timeout``, and why."""

    request_id: str
    outcome: str
    reason: str = ""


class NotAsked(NamedTuple):
    """A run could not be asked for, and why. It has no outcome; the engine asks again."""

    request_id: str
    reason: str


class ApprovalResult(NamedTuple):
    """An attempt to acknowledge an event has ended.

    :param error: why it was not accepted.
    :param refused: the service refused the request itself, as it most likely will again.
    """

    key: str
    accepted: bool
    error: str = ""
    refused: bool = False


class Retry(NamedTuple):
    """The operator wants a failed preparation or recovery of the event to run again."""

    key: str


class Clear(NamedTuple):
    """The operator has recovered the VM by hand: an event that is over is removed from the state."""

    key: str


class RunHooks(NamedTuple):
    """Run the hooks of a phase, once for each ``request_id``; a repetition may bring other times.

    :param event: the event as a hook reads it.
    :param timeout: seconds that the hooks may take together.
    :param not_later_than: seconds since the epoch at which they must have ended, or ``None``.
    :param deadline: the earlier of the two, in seconds since the epoch.
    :param ends_at: monotonic seconds of this boot after which none of them may be running, whatever the clock says.
    :param failed_phase: for the phase ``failed``: the phase that failed; ``failure`` says why.
    :param prepares: for the phase ``prepare``: whether a hook has to run that does not only report.
    :param first_run: the id of the run that this one repeats, or its own: the same after a reboot.
    :param recovered: ``State.recovered`` when the first run began.
    """

    request_id: str
    key: str
    phase: str
    event: Dict[str, object]
    timeout: float
    not_later_than: Optional[float]
    deadline: float
    ends_at: float
    failed_phase: str = ""
    failure: str = ""
    prepares: bool = False
    first_run: str = ""
    recovered: int = 0


class Approve(NamedTuple):
    """Acknowledge the event if a fresh document agrees with this decision (:func:`still_agrees`).

    :param decision: the action of the rules, ``prepare`` or ``approve``.
    :param alone: the event must be the only one of its request, since a request that held it was refused.
    :param not_before: what the decision depended on, in seconds since the epoch, if it depended on it.
    """

    key: str
    event_id: str
    event_type: Optional[str]
    decision: str
    alone: bool
    not_before: Optional[float] = None


class Report(NamedTuple):
    """Something that the owner wants to read in the journal: ``kind`` is one of the words above.

    ``text`` is a reason, or the problem itself. ``seconds``: how long an event waited for its acknowledgement.
    """

    key: str
    kind: str
    phase: str = ""
    outcome: str = ""
    text: str = ""
    seconds: float = 0.0


Result = Union[HookResult, NotAsked, ApprovalResult, Retry, Clear]
Action = Union[RunHooks, Approve, Report]


def step(
    state: State, document: Optional[Document], results: Sequence[Result], now: Moment, config: Config
) -> Tuple[State, List[Action]]:
    """Decide what follows.

    :param document: the document that was just read; ``None`` if none was, which says nothing about the events.
    :param results: of earlier actions, and the operator's wishes; one that comes twice, late or unasked has no effect.
    :returns: the next state, and actions to carry out in their order once that state is durable.
    """
    turn = _Turn(state, now, config)
    for result in results:
        turn.take(result)
    if document is not None:
        turn.read(document)
    for key in turn.order():
        turn.look_after_runs(key, fresh=document is not None)
    for key in turn.order():  # no earlier: a recovery that ends above decides what counts as prepared
        turn.advance(key, fresh=document is not None)
    return turn.state(), turn.actions + turn.approvals()


def resume(state: State) -> State:
    """The state as the next process has to take it up: nothing is known of the actions of the one before."""
    events = {}
    for key, entry in state.events.items():
        runs = {
            phase: run._replace(reached=run.reached or run.issued, issued=False, asked=0, ask_at=0.0)
            for phase, run in entry.runs.items()
        }
        events[key] = entry._replace(runs=runs, approval=entry.approval._replace(next_try=0.0))
    return state._replace(events=events)


def may_approve(event: ScheduledEvent, config: Config) -> bool:
    """Whether the owner wants this VM to acknowledge the event, as far as the event itself shows."""
    if event.event_status != SCHEDULED or not event.event_id or not event.affects(config.vm_name):
        return False
    if decisions.decide(event, config.rules) not in (decisions.PREPARE, decisions.APPROVE):
        return False
    return policy_allows(event, config)


def still_agrees(action: Approve, event: ScheduledEvent, config: Config) -> bool:
    """Whether a decision from an earlier document still allows to acknowledge this event of a fresh document."""
    return (
        may_approve(event, config)
        and event.event_type == action.event_type
        and decisions.decide(event, config.rules) == action.decision
        and (not left_to_controller(event, config) or _epoch(event) == action.not_before)
    )


def policy_allows(event: ScheduledEvent, config: Config) -> bool:
    """Whether the owner's policy ``acknowledge`` lets this VM acknowledge the event."""
    if config.acknowledge == ALONE:
        return event.affects_only(config.vm_name)
    if config.acknowledge == LEADER:
        return event.is_led_by(config.vm_name)
    if config.acknowledge == CONTROLLER:
        # An event that is acknowledged without a preparation starts no job, which could acknowledge it.
        return takes_over_at(event, config) is not None or (
            not left_to_controller(event, config) and event.affects_only(config.vm_name)
        )
    return config.acknowledge == ANY


def left_to_controller(event: ScheduledEvent, config: Config) -> bool:
    """Whether the job of a controller is to acknowledge the event, and this VM at most takes over."""
    return config.acknowledge == CONTROLLER and decisions.decide(event, config.rules) == decisions.PREPARE


def takes_over_at(event: ScheduledEvent, config: Config) -> Optional[float]:
    """When this VM acknowledges in place of the controller, in seconds since the epoch; ``None``: never."""
    not_before = _epoch(event)
    if not_before is None or config.controller_grace <= 0 or not left_to_controller(event, config):
        return None
    return not_before - config.controller_grace


def objection(state: State, command: Union[Retry, Clear]) -> str:
    """Why the operator's wish cannot be fulfilled; empty if it can."""
    entry = state.events.get(command.key)
    if entry is None:
        return "the polling unit does not know this event"
    if isinstance(command, Retry):
        if _has_failed(entry, "prepare") or _has_failed(entry, "recover"):
            return ""
        return "neither its preparation nor its recovery failed"
    if entry.present:
        return "it is still announced"
    running = [phase for phase in ("prepare", "started", "recover") if is_running(entry, phase)]
    return f"its {running[0]} hooks are running" if running else ""


def is_running(entry: EventState, *phases: str) -> bool:
    """Whether hooks of one of the phases are running, or may be."""
    return any(entry.runs[phase].outcome == RUNNING for phase in phases if phase in entry.runs)


def _never_asked(run: Optional[Run]) -> bool:
    """Whether the root side cannot have received a request for the run, so that its hooks surely do not run."""
    return run is not None and run.outcome == RUNNING and not run.issued and not run.reached


def _has_failed(entry: EventState, phase: str) -> bool:
    return phase in entry.runs and entry.runs[phase].outcome in (FAILED, TIMEOUT)


def _has_ended(entry: EventState, phase: str) -> bool:
    return phase in entry.runs and entry.runs[phase].outcome in OUTCOMES


def holds(event: ScheduledEvent, entry: Optional[EventState], config: Config) -> bool:
    """Whether an announced event of this VM keeps it from its recovery from others, and other work from the VM.

    :param entry: what is known of it; ``None``: it is new.
    """
    if entry is not None and entry.ran:
        return True
    if decisions.decide(event, config.rules) == decisions.IGNORE:
        return False
    return event.event_status != ADVISORY or (entry is not None and entry.impact)


def is_pending(state: State, key: str, config: Config) -> bool:
    """Whether an event of the state is or was a maintenance of this VM that is not over yet."""
    entry = state.events[key]
    advised_only = set(entry.runs) <= set(BESIDE) and not entry.ran
    return not (advised_only and (not entry.present or not holds(entry.event, entry, config)))


def recovery_runs(state: State) -> bool:
    """Whether a recovery of this VM is running, or may be: nothing is acknowledged meanwhile."""
    return any(is_running(entry, "recover") for entry in state.events.values())


def can_prepare(config: Config) -> bool:
    """Whether something is configured that prepares this VM for an event."""
    return config.prepares and "prepare" in config.hooks


def must_prepare(entry: EventState, config: Config, *, recovered: int) -> bool:
    """Whether the prepare hooks have to run, or to run again, before the event counts as prepared.

    :param recovered: ``State.recovered``.
    """
    run = entry.runs.get("prepare")
    if run is None:
        return "prepare" in config.hooks
    if run.outcome == RUNNING:
        return False
    return (
        run.outcome == INTERRUPTED
        or run.serial <= recovered  # a recovery that ended since may have undone it
        or run.event_type != (entry.event.event_type or "")
        or (run.outcome == TIMEOUT and _has_more_time(run, entry.event))
        or (can_prepare(config) and not run.prepares)  # what prepares was configured since
    )


def _has_more_time(run: Run, event: ScheduledEvent) -> bool:
    """Whether NotBefore ended the run, and has been moved to a later time since."""
    if run.not_before is None or event.not_before is None or run.not_later_than != run.deadline:
        return False
    return event.not_before.timestamp() > run.not_before


def is_ready(entry: EventState, config: Config, *, recovered: int) -> bool:
    """Whether this VM is prepared for the event, or need not be by the word of its owner.

    :param recovered: ``State.recovered``.
    """
    if not entry.present or entry.impact:
        return False
    if decisions.decide(entry.event, config.rules) == decisions.APPROVE:
        return True
    if must_prepare(entry, config, recovered=recovered):
        return False
    run = entry.runs.get("prepare")
    if run is None or not run.prepares:
        return False  # nothing has prepared this VM, so the event is left to its NotBefore
    if run.outcome == OK:
        return True
    # Hooks that failed may have left a job of the controller running, which acknowledges when it is prepared.
    may_fail = config.on_failure == decisions.APPROVE and config.acknowledge != CONTROLLER
    return run.outcome in (FAILED, TIMEOUT) and may_fail


class _Turn:
    """One step in the making."""

    def __init__(self, state: State, now: Moment, config: Config) -> None:
        self.events: Dict[str, EventState] = dict(state.events)
        self.actions: List[Action] = []
        self._serial = state.serial
        self._recovered = state.recovered
        self._incarnation = state.incarnation
        self._unnamed = state.unnamed
        self._named: Dict[str, ScheduledEvent] = {}  # what the document of this turn holds of this VM
        self._now = now
        self._config = config

    def order(self) -> List[str]:
        """The events in the order in which they get their turn."""
        if self._config.parallel:
            return list(self.events)
        return sorted(self.events, key=lambda key: _urgency(self.events[key]))

    def state(self) -> State:
        return State(self._serial, self._recovered, self._incarnation, self._unnamed, self.events)

    def approvals(self) -> List[Action]:
        """An action for every event that is to be acknowledged now."""
        if recovery_runs(self.state()):
            return []
        return [
            Approve(
                key,
                entry.event.event_id or "",
                entry.event.event_type,
                self._action(entry.event),
                entry.approval.refused,
                _epoch(entry.event) if left_to_controller(entry.event, self._config) else None,
            )
            for key, entry in self.events.items()
            if self._is_to_be_acknowledged(entry)
        ]

    def _is_to_be_acknowledged(self, entry: EventState) -> bool:
        approval = entry.approval
        if approval.accepted or not may_approve(entry.event, self._config):
            return False
        if approval.boot_id == self._now.boot_id and self._now.monotonic < approval.next_try:
            return False
        if left_to_controller(entry.event, self._config) and not self._takes_over(entry):
            return False
        return is_ready(entry, self._config, recovered=self._recovered)

    def _takes_over(self, entry: EventState) -> bool:
        moment = takes_over_at(entry.event, self._config)
        # Without a preparation nothing says what became of the job.
        return moment is not None and self._now.wall >= moment and "prepare" in entry.runs

    # Results

    def take(self, result: Result) -> None:
        if isinstance(result, ApprovalResult):
            self._take_approval(result)
        elif isinstance(result, Retry):
            self._retry(result)
        elif isinstance(result, Clear):
            self._clear(result)
        else:
            self._take_run(result)

    def _take_run(self, result: Union[HookResult, NotAsked]) -> None:
        for key, entry in self.events.items():
            for phase, run in entry.runs.items():
                if run.request_id == result.request_id and run.outcome == RUNNING:
                    if not isinstance(result, NotAsked):
                        self._end(key, phase, result.outcome, result.reason)
                    elif run.issued:
                        self._ask_later(key, phase, result.reason)
                    return

    def _ask_later(self, key: str, phase: str, reason: str) -> None:
        run = self.events[key].runs[phase]
        pause = pause_after(run.asked, first=FIRST_PAUSE, longest=LONGEST_PAUSE_ASKING)
        if reason != run.reason:
            self._report(Report(key, NOT_ASKED, phase, text=reason))
        run = run._replace(issued=False, asked=run.asked + 1, ask_at=self._now.monotonic + pause, reason=reason)
        self._set_run(key, phase, run)

    def _take_approval(self, result: ApprovalResult) -> None:
        entry = self.events.get(result.key)
        if entry is None or entry.approval.accepted:
            return
        if result.accepted:
            waited = max(0.0, self._now.wall - entry.first_seen)
            self._report(Report(result.key, ACKNOWLEDGED, seconds=waited))
            self._set(result.key, approval=entry.approval._replace(accepted=True, error=""))
            return
        longest = LONGEST_PAUSE_REFUSED if result.refused else LONGEST_PAUSE
        pause = pause_after(entry.approval.tries, first=FIRST_PAUSE, longest=longest)
        approval = Approval(
            tries=entry.approval.tries + 1,
            next_try=self._now.monotonic + pause,
            boot_id=self._now.boot_id,
            error=result.error,
            refused=result.refused or entry.approval.refused,
        )
        self._set(result.key, approval=approval)

    def _retry(self, command: Retry) -> None:
        entry = self.events.get(command.key)
        if entry is None:
            return
        runs = dict(entry.runs)
        if _has_failed(entry, "recover"):
            del runs["recover"]
        if _has_failed(entry, "prepare"):
            runs["prepare"] = runs["prepare"]._replace(outcome=INTERRUPTED)
        if runs != entry.runs:
            self._set(command.key, runs=runs)
            self._report(Report(command.key, RETRIED))

    def _clear(self, command: Clear) -> None:
        if objection(self.state(), command):
            return
        del self.events[command.key]
        self._recovered = self._serial  # what the operator did may have undone any preparation
        self._report(Report(command.key, CLEARED))

    def _end(self, key: str, phase: str, outcome: str, reason: str) -> None:
        entry = self.events[key]
        runs = dict(entry.runs)
        failures = entry.failures
        if phase == "failed":
            del runs[phase]  # it may have to run once more, for another phase
            failures = failures[1:]
        else:
            runs[phase] = runs[phase]._replace(outcome=outcome, reason=reason)
            if outcome in (FAILED, TIMEOUT):
                failures = (*failures, Failure(phase, reason))
        self._set(key, runs=runs, failures=failures)
        if phase == "recover":
            self._recovered = self._serial
            if outcome == OK:
                self._set(key, ran=False, owed=False)
        self._report(Report(key, ENDED, phase, outcome, reason))

    # What the service says

    def read(self, document: Document) -> None:
        self._incarnation = document.incarnation
        mine = [event for event in document.events if event.affects(self._config.vm_name)]
        self._note_unnamed(sum(1 for event in mine if not event.key and holds(event, None, self._config)))
        for event in mine:
            if event.key:
                self._named.setdefault(event.key, event)
        for key, entry in list(self.events.items()):
            if key not in self._named and entry.present:
                self._set(key, present=False)
        self._reconsider_recoveries()
        for key, event in self._named.items():
            self._see(key, event)

    def _reconsider_recoveries(self) -> None:
        for key, entry in list(self.events.items()):
            if _never_asked(entry.runs.get("recover")):
                if not self._may_recover(key):
                    self._drop_run(key, "recover")
            elif self._gone_with_the_boot(entry, "recover"):
                self._lose_recovery(key)

    def _lose_recovery(self, key: str) -> None:
        """A recovery that may have begun has no outcome: it may have undone a part of any preparation, and is due."""
        run = self.events[key].runs["recover"]
        self._recovered = self._serial
        self.events[key] = self._new_life(self.events[key])._replace(lost_recovery=run.first)

    def _new_life(self, entry: EventState) -> EventState:
        """The entry of an event that is announced again after its recovery has ended, or may have begun."""
        runs = {phase: run for phase, run in entry.runs.items() if phase in BESIDE and run.outcome == RUNNING}
        return EventState(
            event=entry.event,
            first_seen=self._now.wall,
            present=False,
            runs=runs,
            failures=entry.failures,
            ran=entry.ran,
            owed=entry.owed,
        )

    def _note_unnamed(self, count: int) -> None:
        if count and not self._unnamed:
            self._report(Report("", UNNAMED))
        self._unnamed = count

    def _see(self, key: str, event: ScheduledEvent) -> None:
        entry = self.events.get(key)
        if entry is not None and is_running(entry, "recover"):
            return  # it is announced again under the same id: a new event once its recovery has ended
        if entry is not None and "recover" in entry.runs:
            entry = self._new_life(entry)
            self._report(Report(key, SEEN, outcome=event.event_status or ""))
        if entry is None:
            if self._action(event) == decisions.IGNORE:
                return
            entry = EventState(event=event, first_seen=self._now.wall)
            self.events[key] = entry
            self._report(Report(key, SEEN, outcome=event.event_status or ""))
            self._report_problems(key, event)
        elif entry.event.unreadable != event.unreadable:
            self._report_problems(key, event)
        if not entry.present:  # announced again, so what was accepted before may no longer count
            entry = entry._replace(approval=entry.approval._replace(accepted=False), lost_recovery=0)
        impact = entry.impact or event.event_status == STARTED
        self.events[key] = entry._replace(event=event, present=True, impact=impact)

    def _report_problems(self, key: str, event: ScheduledEvent) -> None:
        for problem in event.problems():
            self._report(Report(key, PROBLEM, text=problem))

    # What follows

    def look_after_runs(self, key: str, *, fresh: bool) -> None:
        for phase in PHASES:
            if phase in self.events[key].runs:
                self._look_after(key, phase, fresh=fresh)

    def advance(self, key: str, *, fresh: bool) -> None:
        if self.events[key].present:
            self._advance_present(key)
            self._advise(key)
        elif fresh:
            self._recover(key)
        self._handle_failures(key)
        self._forget(key)

    def _look_after(self, key: str, phase: str, *, fresh: bool) -> None:
        entry = self.events[key]
        run = entry.runs[phase]
        if run.outcome != RUNNING:
            return
        if self._gone_with_the_boot(entry, phase):
            if fresh:  # only a document shows whether the hooks are still of use
                self._look_after_lost(key, phase)
        elif _never_asked(run):
            self._ask_for_the_first_time(key, phase, fresh=fresh)
        elif self._now.monotonic >= run.ends_at + SILENCE:
            self._give_up(key, phase)
        elif not run.issued:
            # An earlier request may have been carried out, so the times stay; one that comes too late is of no use.
            if run.ask_at <= self._now.monotonic < run.ends_at:
                self._issue(key, phase, run._replace(issued=True))
        elif phase == "prepare":
            self._revise(key, run)

    def _look_after_lost(self, key: str, phase: str) -> None:
        """Decide about hooks that went down with the VM."""
        if self._still_of_use(self.events[key], phase) and self._can_begin(key, phase):
            self._begin(key, phase)
        elif phase != "failed" or phase not in self._config.hooks:
            self._end(key, phase, INTERRUPTED, "the VM went down before they had ended")

    def _ask_for_the_first_time(self, key: str, phase: str, *, fresh: bool) -> None:
        """Ask for hooks that no earlier request reached, if they are still of use. Their time begins now."""
        entry = self.events[key]
        run = entry.runs[phase]
        if not self._can_begin(key, phase) or not self._still_of_use(entry, phase):
            self._withdraw(key, phase)
        elif self._now.monotonic >= run.ask_at and (fresh or phase != "recover"):
            event_type, prepares = entry.event.event_type or "", self._prepares(phase)
            run = run._replace(issued=True, event_type=event_type, prepares=prepares, **self._times(entry.event, phase))
            self._issue(key, phase, run)

    def _withdraw(self, key: str, phase: str) -> None:
        if phase in ("prepare", "started"):
            self._end(key, phase, INTERRUPTED, self.events[key].runs[phase].reason)
        else:
            self._drop_run(key, phase)

    def _give_up(self, key: str, phase: str) -> None:
        """End a run that has been silent for too long, whatever became of it."""
        if self.events[key].runs[phase].issued:
            self._end(key, phase, TIMEOUT, "their unit gave no result, not even after the last moment that they had")
        elif phase == "recover":
            self._lose_recovery(key)
        else:
            # An earlier process ended before it asked, or the request and its result were lost: the hooks run again.
            self._withdraw(key, phase)

    def _revise(self, key: str, run: Run) -> None:
        """Bring a NotBefore that was moved to hooks that run."""
        event = self.events[key].event
        if _epoch(event) == run.not_before:
            return
        not_later_than = self._not_later_than(event)
        latest = self._now.wall + max(0.0, run.ends_at - self._now.monotonic)
        deadline = latest if not_later_than is None else min(latest, not_later_than)
        run = run._replace(not_before=_epoch(event), not_later_than=not_later_than, deadline=deadline, reached=True)
        self._issue(key, "prepare", run)

    def _still_of_use(self, entry: EventState, phase: str) -> bool:
        if phase == "prepare":
            return entry.present and not entry.impact and entry.event.event_status == SCHEDULED
        if phase == "advised":
            return self._is_advisory(entry)
        return phase in ("recover", "failed") or entry.present

    def _gone_with_the_boot(self, entry: EventState, phase: str) -> bool:
        run = entry.runs.get(phase)
        return run is not None and run.outcome == RUNNING and run.boot_id != self._now.boot_id

    def _advance_present(self, key: str) -> None:
        entry = self.events[key]
        action = self._action(entry.event)
        if action == decisions.IGNORE:
            return
        if entry.impact:
            if self._must_start(entry) and self._can_begin(key, "started") and not is_running(entry, "prepare"):
                self._begin(key, "started")
        elif action != decisions.APPROVE and self._must_prepare(entry) and self._can_begin(key, "prepare"):
            self._begin(key, "prepare")

    def _advise(self, key: str) -> None:
        """Pass on a hint of the service, once."""
        entry = self.events[key]
        run = entry.runs.get("advised")
        if self._is_advisory(entry) and (run is None or run.outcome == INTERRUPTED) and self._can_begin(key, "advised"):
            self._begin(key, "advised")

    def _is_advisory(self, entry: EventState) -> bool:
        advisory = entry.present and not entry.impact and entry.event.event_status == ADVISORY
        return advisory and self._action(entry.event) != decisions.IGNORE

    def _must_prepare(self, entry: EventState) -> bool:
        if entry.event.event_status != SCHEDULED or self._is_deferred(entry.event):
            return False
        return must_prepare(entry, self._config, recovered=self._recovered)

    def _must_start(self, entry: EventState) -> bool:
        if not self._config.started_after_prepare and _has_ended(entry, "prepare"):
            return False
        run = entry.runs.get("started")
        if run is None:
            return True
        return run.outcome == INTERRUPTED or (run.outcome != RUNNING and run.serial <= self._recovered)

    def _recover(self, key: str) -> None:
        entry = self.events[key]
        if not entry.ran or "recover" in entry.runs or is_running(entry, "prepare", "started"):
            return
        if self._may_recover(key):
            self._begin(key, "recover")

    def _may_recover(self, key: str) -> bool:
        return key not in self._named and self._can_begin(key, "recover") and not self._held_by_others(key)

    def _handle_failures(self, key: str) -> None:
        entry = self.events[key]
        if not entry.failures or "failed" in entry.runs:
            return
        if self._can_begin(key, "failed"):
            self._begin(key, "failed")
        elif "failed" not in self._config.hooks:
            self._set(key, failures=())

    def _forget(self, key: str) -> None:
        entry = self.events[key]
        if entry.failures or is_running(entry, *PHASES):
            return
        if entry.present and self._action(entry.event) != decisions.IGNORE:
            return
        # Hooks that ran are undone by recovery, unless the owner never configured one.
        if entry.ran and (entry.present or entry.owed or "recover" in self._config.hooks):
            return
        del self.events[key]
        self._report(Report(key, OVER))

    def _held_by_others(self, key: str) -> bool:
        """Whether another event that a document announces holds this VM."""
        # Also one that is announced again while its own recovery still runs, and that counts as gone until then.
        announced = {other: entry.event for other, entry in self.events.items() if entry.present}
        announced.update(self._named)
        return self._unnamed > 0 or any(
            other != key and holds(event, self.events.get(other), self._config) for other, event in announced.items()
        )

    # Runs

    def _can_begin(self, key: str, phase: str) -> bool:
        if phase not in self._config.hooks or phase in self._config.missing:
            return False
        return self._config.parallel or self._is_free(key, phase)

    def _is_free(self, key: str, phase: str) -> bool:
        """Whether no other run is under way; recoveries go together."""
        running = {
            each
            for other, entry in self.events.items()
            for each in PHASES
            if is_running(entry, each) and (other, each) != (key, phase)
        }
        return not running or running == {phase} == {"recover"}

    def _is_deferred(self, event: ScheduledEvent) -> bool:
        if self._config.defer is None:
            return False
        not_before = _epoch(event)
        return not_before is None or self._now.wall < not_before - self._config.defer

    def _begin(self, key: str, phase: str) -> None:
        entry = self.events[key]
        self._serial += 1
        first, recovered = self._first_of(entry, phase)
        failure = entry.failures[0] if phase == "failed" else Failure("", "")
        run = Run(
            request_id=run_id_of(key, phase, self._serial),
            serial=self._serial,
            first=first,
            recovered=recovered,
            boot_id=self._now.boot_id,
            event_type=entry.event.event_type or "",
            prepares=self._prepares(phase),
            failed_phase=failure.phase,
            failure=failure.reason,
            **self._times(entry.event, phase),
        )
        if phase in ("prepare", "started"):
            self._set(key, ran=True, owed=entry.owed or "recover" in self._config.hooks)
        self._issue(key, phase, run)

    def _prepares(self, phase: str) -> bool:
        return phase == "prepare" and self._config.prepares

    def _first_of(self, entry: EventState, phase: str) -> Tuple[int, int]:
        """The serial of the first run that the present one repeats, or is, and ``State.recovered`` when that began."""
        before = entry.runs.get(phase)
        if phase == "recover" and entry.lost_recovery:
            return entry.lost_recovery, self._recovered
        if before is None:
            return self._serial, self._recovered
        undone = before.serial <= self._recovered or before.event_type != (entry.event.event_type or "")
        if undone and phase in ("prepare", "started"):  # a new run, since what it did no longer counts
            return self._serial, self._recovered
        return before.first, before.recovered

    def _times(self, event: ScheduledEvent, phase: str) -> Dict[str, Any]:
        """The times of a run that begins now."""
        timeout = self._config.hook_timeout
        not_later_than = self._not_later_than(event) if phase == "prepare" else None
        deadline = self._now.wall + timeout
        return {
            "timeout": timeout,
            "not_before": _epoch(event),
            "not_later_than": not_later_than,
            "deadline": deadline if not_later_than is None else min(deadline, not_later_than),
            "ends_at": self._now.monotonic + timeout,
        }

    def _not_later_than(self, event: ScheduledEvent) -> Optional[float]:
        """NotBefore less the margin, or NotBefore itself if the notice is shorter than the margin."""
        not_before = _epoch(event)
        # A NotBefore that has passed sets no deadline: late hooks are better than none, since prepare runs at least
        # once, and the event may wait for other tenants far beyond NotBefore.
        if not_before is None or not_before <= self._now.wall:
            return None
        moment = not_before - self._config.margin
        return moment if moment > self._now.wall else not_before

    def _issue(self, key: str, phase: str, run: Run) -> None:
        self._set_run(key, phase, run)
        now = datetime.datetime.fromtimestamp(self._now.wall, datetime.timezone.utc)
        event = describe(self.events[key].event, vm_name=self._config.vm_name, now=now)
        event["event_type"] = run.event_type or None  # a repetition may be the first request that is carried out
        self.actions.append(
            RunHooks(
                run.request_id,
                key,
                phase,
                event,
                run.timeout,
                run.not_later_than,
                run.deadline,
                run.ends_at,
                run.failed_phase,
                run.failure,
                run.prepares,
                run_id_of(key, phase, run.first),
                run.recovered,
            )
        )

    def _action(self, event: ScheduledEvent) -> str:
        return decisions.decide(event, self._config.rules)

    def _set(self, key: str, **fields: Any) -> None:
        self.events[key] = self.events[key]._replace(**fields)

    def _set_run(self, key: str, phase: str, run: Run) -> None:
        self._set(key, runs={**self.events[key].runs, phase: run})

    def _drop_run(self, key: str, phase: str) -> None:
        self._set(key, runs={each: run for each, run in self.events[key].runs.items() if each != phase})

    def _report(self, report: Report) -> None:
        self.actions.append(report)


def _epoch(event: ScheduledEvent) -> Optional[float]:
    return None if event.not_before is None else event.not_before.timestamp()


def _urgency(entry: EventState) -> Tuple[bool, float, str]:
    """Sort started events first, then by the earliest NotBefore, then events without NotBefore, and hints last."""
    not_before = None if entry.event.event_status == ADVISORY else _epoch(entry.event)
    return not entry.impact, float("inf") if not_before is None else not_before, entry.event.key
