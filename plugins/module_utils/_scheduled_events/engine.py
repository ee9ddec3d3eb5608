# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about the events of this VM: a pure function of what is known. No clock, no I/O.

``step`` takes the state, a document if one was just read, and what came of earlier actions; it gives the next state
and actions. The caller makes the state durable before it carries out an action. So an action may be lost in a crash,
never forgotten: ``resume`` makes the next step ask again for whatever has no outcome yet, under the same request id,
by which the other side tells a repetition.

The phases of one event follow one another and never overlap; ``failed`` alone runs beside them.
"""

import datetime
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import rules as decisions
from .document import Document, ScheduledEvent, describe, format_time
from .runs import FAILED, OK, PHASES, TIMEOUT, run_id_of
from .state import INTERRUPTED, NO_HOOKS, RUNNING, Approval, EventState, Run, State

# Seconds after a run's deadline until its silence counts as failure: killing it, writing the result, reading it.
SILENCE = 30.0

# Seconds between two attempts to acknowledge. What the service refuses it most likely refuses again.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE_REFUSED = 1.0, 5.0, 60.0
IN_FLIGHT = 15.0  # after which an attempt without any outcome counts as failed

INFO, WARNING = "info", "warning"

# What the owner may choose: what to do when prepare hooks failed, and which events this VM acknowledges.
ON_FAILURE = (decisions.HOLD, decisions.APPROVE)
ALONE, LEADER, ANY, NEVER = "alone", "leader", "any", "never"
APPROVE_POLICIES = (ALONE, LEADER, ANY, NEVER)


class Moment(NamedTuple):
    """Now: seconds since the epoch, which can jump; monotonic seconds, which count within one ``boot_id`` only."""

    wall: float
    monotonic: float
    boot_id: str


class Config(NamedTuple):
    """What the decisions depend on. ``hooks``: the phases that have any hook at all."""

    vm_name: str
    hooks: FrozenSet[str]
    rules: Tuple[decisions.Rule, ...] = decisions.DEFAULT_RULES
    hook_timeout: float = 600.0
    margin: float = 10.0
    on_failure: str = decisions.HOLD
    approve: str = ALONE


class HookResult(NamedTuple):
    """A run has ended: ``ok``, ``failed`` or ``timeout``, and why."""

    request_id: str
    outcome: str
    reason: str = ""


class ApprovalResult(NamedTuple):
    """An attempt to acknowledge an event has ended. ``error`` says why it was not accepted."""

    key: str
    accepted: bool
    error: str = ""
    refused: bool = False


class RunHooks(NamedTuple):
    """Run the hooks of a phase, once for each ``request_id``.

    :param event: the event as a hook reads it.
    :param timeout: seconds that the hooks may take together.
    :param not_later_than: seconds since the epoch at which they must have ended, or ``None``.
    :param deadline: the earlier of the two, in seconds since the epoch.
    """

    request_id: str
    key: str
    phase: str
    event: Dict[str, object]
    timeout: float
    not_later_than: Optional[float]
    deadline: float


class Approve(NamedTuple):
    """Acknowledge the event if a fresh document still allows it (``may_approve``)."""

    key: str
    event_id: str


class Report(NamedTuple):
    """Something that the owner wants to read in the journal."""

    key: str
    level: str
    message: str


Result = Union[HookResult, ApprovalResult]
Action = Union[RunHooks, Approve, Report]


def step(
    state: State, document: Optional[Document], results: Sequence[Result], now: Moment, config: Config
) -> Tuple[State, List[Action]]:
    """Decide what follows.

    :param document: the document that was just read; ``None`` if none was, which says nothing about the events.
    :param results: what came of earlier actions; one that is told twice, late or unasked changes nothing.
    :returns: the next state, and actions to carry out in their order once that state is durable.
    """
    turn = _Turn(state, now, config)
    for result in results:
        turn.take(result)
    if document is not None:
        turn.read(document)
    for key in list(turn.events):
        turn.advance(key, fresh=document is not None)
    return turn.state(), turn.actions


def resume(state: State) -> State:
    """The state as the next process has to take it up: nothing is known of the actions of the one before."""
    events = {}
    for key, entry in state.events.items():
        runs = {phase: run._replace(issued=False) for phase, run in entry.runs.items()}
        events[key] = entry._replace(runs=runs, approval=entry.approval._replace(next_try=0.0))
    return state._replace(events=events)


def may_approve(event: ScheduledEvent, config: Config) -> bool:
    """Whether an acknowledgement by this VM is the owner's wish, as far as the event itself can tell."""
    if event.event_status != "Scheduled" or not event.event_id or not event.affects(config.vm_name):
        return False
    if decisions.decide(event, config.rules) not in (decisions.PREPARE, decisions.APPROVE):
        return False
    return _policy_allows(event, config)


def _policy_allows(event: ScheduledEvent, config: Config) -> bool:
    if config.approve == ALONE:
        return event.affects_only(config.vm_name)
    if config.approve == LEADER:
        return event.is_led_by(config.vm_name)
    return config.approve == ANY


def _ran(entry: EventState) -> bool:
    """Whether prepare or started hooks ran, or may have."""
    return any(entry.runs[phase].request_id for phase in ("prepare", "started") if phase in entry.runs)


def _running(entry: EventState, *phases: str) -> bool:
    return any(entry.runs[phase].outcome == RUNNING for phase in phases if phase in entry.runs)


def _is_due(entry: EventState, phase: str) -> bool:
    return phase not in entry.runs or entry.runs[phase].outcome == INTERRUPTED


class _Turn:
    """One step in the making."""

    def __init__(self, state: State, now: Moment, config: Config) -> None:
        self.events: Dict[str, EventState] = dict(state.events)
        self.actions: List[Action] = []
        self._before = state
        self._serial = state.serial
        self._incarnation = state.incarnation
        self._unnamed = state.unnamed
        self._named: Dict[str, ScheduledEvent] = {}  # what the document of this turn holds of this VM
        self._now = now
        self._config = config

    def state(self) -> State:
        for key, entry in self.events.items():
            level, text = situation(entry, self._config, others_hold=self._held_by_others(key))
            if text != entry.note:
                self.events[key] = entry._replace(note=text)
                self._report(key, level, text)
        return State(serial=self._serial, incarnation=self._incarnation, unnamed=self._unnamed, events=self.events)

    # What came of earlier actions

    def take(self, result: Result) -> None:
        if isinstance(result, ApprovalResult):
            self._take_approval(result)
            return
        for key, entry in self.events.items():
            for phase, run in entry.runs.items():
                if run.request_id == result.request_id and run.outcome == RUNNING:
                    self._end(key, phase, result.outcome, result.reason)
                    return

    def _take_approval(self, result: ApprovalResult) -> None:
        entry = self.events.get(result.key)
        if entry is None or entry.approval.accepted:
            return
        if result.accepted:
            waited = max(0.0, self._now.wall - entry.first_seen)
            self._report(result.key, INFO, f"acknowledged {waited:.1f} s after it was seen")
            self._set(result.key, approval=entry.approval._replace(accepted=True, error=""))
            return
        pause = FIRST_PAUSE * 2 ** min(entry.approval.tries - 1, 10)
        pause = min(pause, LONGEST_PAUSE_REFUSED if result.refused else LONGEST_PAUSE)
        next_try = self._now.monotonic + pause
        self._set(result.key, approval=entry.approval._replace(next_try=next_try, error=result.error))

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
                failures = (*failures, phase)
        self._set(key, runs=runs, failures=failures)
        because = f": {reason}" if reason else ""
        self._report(key, INFO if outcome == OK else WARNING, f"{phase} hooks ended: {outcome}{because}")

    # What the service says

    def read(self, document: Document) -> None:
        self._incarnation = document.incarnation
        mine = [event for event in document.events if event.affects(self._config.vm_name)]
        for key, entry in list(self.events.items()):
            if self._gone_with_the_boot(entry, "recover"):
                self._undo_recovery(key, back=any(event.key == key for event in mine))
        self._note_unnamed(sum(1 for event in mine if not event.key and self._action(event) != decisions.IGNORE))
        for event in mine:
            if event.key:
                self._named.setdefault(event.key, event)
        for key, event in self._named.items():
            self._see(key, event)
        for key, entry in self.events.items():
            if key not in self._named and entry.present:
                self._set(key, present=False)

    def _undo_recovery(self, key: str, *, back: bool) -> None:
        """A recovery was lost with the boot. Whether it may run again is up to the document, as it was at first.

        If the event is back, its preparation is worth nothing: the recovery may have undone a part of it.
        """
        entry = self.events[key]
        runs = {phase: run for phase, run in entry.runs.items() if phase != "recover"}
        if back:
            for phase in ("prepare", "started"):
                if phase in runs and runs[phase].request_id:
                    runs[phase] = runs[phase]._replace(outcome=INTERRUPTED)
            entry = entry._replace(impact=False, approval=Approval())
        self.events[key] = entry._replace(runs=runs)

    def _note_unnamed(self, count: int) -> None:
        if count and not self._unnamed:
            self._report("", WARNING, "an event of this VM has no EventId: it can be neither prepared nor acknowledged")
        self._unnamed = count

    def _see(self, key: str, event: ScheduledEvent) -> None:
        entry = self.events.get(key)
        if entry is not None and "recover" in entry.runs:
            return  # it is back under the same id: a new event once its recovery has ended
        if entry is None:
            if self._action(event) == decisions.IGNORE:
                return
            entry = EventState(event=event, first_seen=self._now.wall)
            names = ", ".join(event.resources)
            self._report(key, INFO, f"{event.event_type} seen as {event.event_status}, of {names}")
            if event.event_status == "Started":
                self._report(key, WARNING, "it has started without a time to prepare")
        if entry.event.unreadable != event.unreadable or entry.note == "":
            for problem in event.problems():
                self._report(key, WARNING, problem)
        impact = entry.impact or event.event_status == "Started"
        self.events[key] = entry._replace(event=event, present=True, impact=impact)

    # What follows

    def advance(self, key: str, *, fresh: bool) -> None:
        for phase in PHASES:
            if phase in self.events[key].runs:
                self._look_after(key, phase, fresh=fresh)
        entry = self.events[key]
        if entry.present:
            self._advance_present(key)
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
            if not fresh:
                return  # only a document tells whether the hooks are still of use
            if self._still_of_use(entry, phase):
                self._begin(key, phase)
            else:
                self._end(key, phase, INTERRUPTED, "the VM went down before they had ended")
        elif not run.issued:
            give_up_at = self._now.monotonic + run.timeout + SILENCE
            self._issue(key, phase, run._replace(issued=True, give_up_at=give_up_at))
        elif self._now.monotonic >= run.give_up_at:
            self._end(key, phase, TIMEOUT, "nothing was heard of their unit, not even after the deadline")

    def _still_of_use(self, entry: EventState, phase: str) -> bool:
        if phase == "prepare":
            return entry.present and not entry.impact
        return phase == "failed" or entry.present

    def _gone_with_the_boot(self, entry: EventState, phase: str) -> bool:
        run = entry.runs.get(phase)
        return run is not None and run.outcome == RUNNING and run.boot_id != self._now.boot_id

    def _advance_present(self, key: str) -> None:
        entry = self.events[key]
        action = self._action(entry.event)
        if action == decisions.IGNORE:
            return
        if entry.impact:
            if _is_due(entry, "started") and not _running(entry, "prepare"):
                self._begin(key, "started")
            return
        if action != decisions.APPROVE and _is_due(entry, "prepare"):
            self._begin(key, "prepare")
        self._approve(key)

    def _approve(self, key: str) -> None:
        entry = self.events[key]
        approval = entry.approval
        if approval.accepted or not is_ready(entry, self._config) or not may_approve(entry.event, self._config):
            return
        if approval.boot_id == self._now.boot_id and self._now.monotonic < approval.next_try:
            return
        self._set(
            key,
            approval=approval._replace(
                tries=approval.tries + 1, next_try=self._now.monotonic + IN_FLIGHT, boot_id=self._now.boot_id
            ),
        )
        self.actions.append(Approve(key, entry.event.event_id or ""))

    def _recover(self, key: str) -> None:
        entry = self.events[key]
        if "recover" in entry.runs or not _ran(entry) or _running(entry, "prepare", "started"):
            return
        if not self._held_by_others(key):
            self._begin(key, "recover")

    def _handle_failures(self, key: str) -> None:
        entry = self.events[key]
        if not entry.failures or "failed" in entry.runs:
            return
        if "failed" in self._config.hooks:
            self._begin(key, "failed")
        else:
            self._set(key, failures=())

    def _forget(self, key: str) -> None:
        entry = self.events[key]
        if entry.failures or _running(entry, *PHASES):
            return
        ignored = entry.present and self._action(entry.event) == decisions.IGNORE
        recovered = "recover" in entry.runs
        if recovered or ((ignored or not entry.present) and not _ran(entry)):
            del self.events[key]
            self._report(key, INFO, "over")

    def _held_by_others(self, key: str) -> bool:
        """Whether another event holds this VM: one that is in the document, and that the owner does not ignore."""
        # Also one that is back while its own recovery still runs, and that counts as gone until then.
        there = {other: entry.event for other, entry in self.events.items() if entry.present}
        there.update(self._named)
        return self._unnamed > 0 or any(
            other != key and (self._action(event) != decisions.IGNORE or self._has_run(other))
            for other, event in there.items()
        )

    def _has_run(self, key: str) -> bool:
        return key in self.events and _ran(self.events[key])

    def _begin(self, key: str, phase: str) -> None:
        entry = self.events[key]
        if phase not in self._config.hooks:
            self._set(key, runs={**entry.runs, phase: Run(outcome=NO_HOOKS)})
            return
        self._serial += 1
        timeout = self._config.hook_timeout
        not_later_than = self._not_later_than(entry.event) if phase == "prepare" else None
        deadline = self._now.wall + timeout
        run = Run(
            request_id=run_id_of(key, phase, self._serial),
            outcome=RUNNING,
            boot_id=self._now.boot_id,
            issued=True,
            timeout=timeout,
            not_later_than=not_later_than,
            deadline=deadline if not_later_than is None else min(deadline, not_later_than),
            give_up_at=self._now.monotonic + timeout + SILENCE,
        )
        if not_later_than is not None:
            run = run._replace(give_up_at=min(run.give_up_at, self._now.monotonic + self._left(run) + SILENCE))
        self._issue(key, phase, run)

    def _left(self, run: Run) -> float:
        return max(0.0, run.deadline - self._now.wall)

    def _not_later_than(self, event: ScheduledEvent) -> Optional[float]:
        if event.not_before is None:
            return None
        moment = event.not_before.timestamp() - self._config.margin
        # A moment that has passed before the hooks could begin binds nobody: late hooks are better than none, since
        # prepare runs at least once, and the event may wait for other tenants far beyond NotBefore.
        return moment if moment > self._now.wall else None

    def _issue(self, key: str, phase: str, run: Run) -> None:
        entry = self.events[key]
        self._set(key, runs={**entry.runs, phase: run})
        now = datetime.datetime.fromtimestamp(self._now.wall, datetime.timezone.utc)
        event = describe(entry.event, vm_name=self._config.vm_name, now=now)
        self.actions.append(RunHooks(run.request_id, key, phase, event, run.timeout, run.not_later_than, run.deadline))

    def _action(self, event: ScheduledEvent) -> str:
        return decisions.decide(event, self._config.rules)

    def _set(self, key: str, **fields: Any) -> None:
        self.events[key] = self.events[key]._replace(**fields)

    def _report(self, key: str, level: str, message: str) -> None:
        self.actions.append(Report(key, level, message))


def is_ready(entry: EventState, config: Config) -> bool:
    """Whether this VM is prepared for the event, or need not be, as far as it can be acknowledged at all."""
    if not entry.present or entry.impact:
        return False
    if decisions.decide(entry.event, config.rules) == decisions.APPROVE:
        return True
    prepare = entry.runs.get("prepare")
    if prepare is None:
        return False
    return prepare.outcome in (OK, NO_HOOKS) or (
        prepare.outcome in (FAILED, TIMEOUT) and config.on_failure == decisions.APPROVE
    )


def situation(entry: EventState, config: Config, *, others_hold: bool) -> Tuple[str, str]:
    """What happens to the event and what it waits for: a level and a sentence."""
    running = [phase for phase in PHASES if _running(entry, phase)]
    if running:
        run = entry.runs[running[0]]
        until = format_time(datetime.datetime.fromtimestamp(run.deadline, datetime.timezone.utc))
        return INFO, f"{' and '.join(running)} hooks are running, until {until} at the latest"
    if not entry.present:
        return INFO, "gone; " + (
            "recovery waits for another event to leave this VM" if others_hold else "recovery comes next"
        )
    if entry.impact:
        return INFO, "it has started; recovery comes when it is gone"
    return _situation_before_impact(entry, config)


def _situation_before_impact(entry: EventState, config: Config) -> Tuple[str, str]:
    if entry.approval.accepted:
        return INFO, "acknowledged; waiting for it to start"
    prepare = entry.runs.get("prepare")
    if not is_ready(entry, config) and prepare is not None:
        return WARNING, f"not acknowledged, because its prepare hooks did not succeed: {prepare.reason}"
    if decisions.decide(entry.event, config.rules) == decisions.HOLD:
        return INFO, "not acknowledged, because a rule says hold; waiting for NotBefore"
    if not _policy_allows(entry.event, config):
        return INFO, f"not acknowledged, because approve is {config.approve}; waiting for NotBefore"
    if not may_approve(entry.event, config):
        return WARNING, f"not acknowledged, because its status is {entry.event.event_status}"
    if entry.approval.error:
        return WARNING, f"still to be acknowledged: {entry.approval.error}"
    return INFO, "to be acknowledged now"
