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

An acknowledgement is not remembered before it is sent. Each step gives an ``Approve`` for every event that is ready and
not accepted yet, but for the pause after a failure. The caller makes one attempt at a time, and drops the ``Approve``
that come meanwhile.
"""

from typing import Dict, List, Optional, Sequence, Tuple, Union

from . import policies, terms
from . import rules as decisions
from .clock import Moment, pause_after
from .document import ADVISORY, SCHEDULED, STARTED, Document, ScheduledEvent
from .hook_runs import FIRST_PAUSE, HookRuns
from .runs import PHASES
from .state import INTERRUPTED, RUNNING, Approval, EventState, State

# Seconds between two attempts to acknowledge. The service most likely refuses again what it refused once.
LONGEST_PAUSE, LONGEST_PAUSE_REFUSED = 5.0, 60.0

# Far more than one VM has at a time: what is remembered of its events, and of the names in them.
MOST_EVENTS, MOST_NAMES = 100, 20000


def step(
    state: State, document: Optional[Document], results: Sequence[terms.Result], now: Moment, config: terms.Config
) -> Tuple[State, List[terms.Action]]:
    """Decide what follows.

    :param document: the document that was just read; ``None`` if none was, which says nothing about the events.
    :param results: of earlier actions, and the operator's commands; one that comes twice, late or unasked does nothing.
    :returns: the next state, and actions to carry out in their order once that state is durable.
    """
    builder = _StepBuilder(state, now, config)
    for result in results:
        builder.take(result)
    if document is not None:
        builder.read(document)
    for key in builder.order():
        builder.choose_moment(key)
    if document is not None:
        builder.reconsider_recoveries()  # what waited until now may hold the VM from this moment on
    for key in builder.order():
        for phase in PHASES:
            builder.runs.look_after(key, phase, fresh=document is not None)
    for key in builder.order():  # no earlier: a recovery that ends above decides what counts as prepared
        builder.advance(key, fresh=document is not None)
    return builder.state(), builder.actions()


def resume(state: State) -> State:
    """The state as the next process has to take it up: the outcome of each earlier action is unknown."""
    events = {}
    for key, entry in state.events.items():
        runs = {
            phase: run._replace(reached=run.reached or run.issued, issued=False, asked=0, ask_at=0.0)
            for phase, run in entry.runs.items()
        }
        events[key] = entry._replace(runs=runs, approval=entry.approval._replace(next_try=0.0))
    return state._replace(events=events)


def objection(state: State, command: Union[terms.Retry, terms.Clear]) -> str:
    """Why the operator's command cannot be carried out; empty if it can."""
    if isinstance(command, terms.Clear) and not command.key:
        return ""
    entry = state.events.get(command.key)
    if entry is None:
        return "the polling unit does not know this event"
    if isinstance(command, terms.Retry):
        if policies.has_failed(entry, "recover") or entry.waits_until is not None:
            return ""
        if policies.has_failed(entry, "prepare") or policies.prepared_nothing(entry):
            is_late = entry.impact or not entry.present
            return "its preparation does not run again, since it has started or is over" if is_late else ""
        return "neither its preparation nor its recovery failed, and it does not wait for a moment"
    if entry.present:
        return "it is still announced"
    running = [phase for phase in ("prepare", "started", "recover", "advised") if policies.is_running(entry, phase)]
    return f"its {running[0]} hooks are running" if running else ""


def overflow(state: State, document: Document, vm_name: str) -> str:
    """Why the document has to count as a failed poll: more than a VM has would be remembered; empty if it has not."""
    mine = [event for event in document.events if event.affects(vm_name)]
    known = {key: entry.event for key, entry in state.events.items()}
    new = [event for event in mine if event.key not in known]
    kept = {**known, **{event.key: event for event in mine}}
    names = sum(len(event.resources) for event in kept.values())
    if (not new or len(known) + len(new) <= MOST_EVENTS) and (not mine or names <= MOST_NAMES):
        return ""
    return (
        f"the document announces {len(new)} more events of this VM, and {len(known)} others are not over yet, which is "
        f"more than {MOST_EVENTS} events, or than {MOST_NAMES} names in them; check the endpoint, and clear what failed"
    )


class _StepBuilder:
    """The state and the actions of one step, while they are decided."""

    def __init__(self, state: State, now: Moment, config: terms.Config) -> None:
        self.runs = HookRuns(state, now, config)
        self._state = state  # but for what the runs change
        self._named: Dict[str, ScheduledEvent] = {}  # the events of this VM in the document of this step
        self._now = now
        self._config = config

    def choose_moment(self, key: str) -> None:
        entry = self.runs.events[key]
        waits = entry.present and not entry.impact and not entry.approval.accepted
        moment, window = policies.waits_until(entry, self._config, self._now.wall) if waits else (None, "")
        if (moment, window) != (entry.waits_until, entry.window):
            self.runs.set(key, waits_until=moment, window=window)

    def actions(self) -> List[terms.Action]:
        """What is to be carried out, in this order."""
        return self.runs.actions + self.approvals()

    def order(self) -> List[str]:
        """The events in the order in which they are handled."""
        if self._config.parallel:
            return list(self.runs.events)
        return sorted(self.runs.events, key=lambda key: _urgency(self.runs.events[key]))

    def state(self) -> State:
        runs = self.runs
        return self._state._replace(
            serial=runs.serial, recovered=runs.recovered, events=runs.events, recoveries=runs.recoveries
        )

    def approvals(self) -> List[terms.Action]:
        """An action for every event that is to be acknowledged now."""
        if policies.recovery_runs(self.state()):
            return []
        return [
            terms.Approve(
                key,
                entry.event.event_id or "",
                entry.event.event_type,
                self.runs.action(entry.event),
                entry.approval.refused,
                policies.epoch(entry.event) if policies.depends_on_not_before(entry.event, self._config) else None,
            )
            for key, entry in self.runs.events.items()
            if self._is_to_be_acknowledged(entry)
        ]

    def _is_to_be_acknowledged(self, entry: EventState) -> bool:
        approval = entry.approval
        return (
            not approval.accepted
            and entry.waits_until is None
            and policies.may_approve(entry.event, self._config)
            and (approval.boot_id != self._now.boot_id or self._now.monotonic >= approval.next_try)
            and (not policies.left_to_controller(entry.event, self._config) or self._takes_over(entry))
            and policies.is_ready(entry, self._config, recovered=self.runs.recovered)
        )

    def _takes_over(self, entry: EventState) -> bool:
        moment = policies.takes_over_at(entry.event, self._config)
        # Without a preparation nothing says what became of the job.
        return moment is not None and self._now.wall >= moment and "prepare" in entry.runs

    # Results

    def take(self, result: terms.Result) -> None:
        if isinstance(result, terms.ApprovalResult):
            self._take_approval(result)
        elif isinstance(result, terms.Retry):
            self._retry(result)
        elif isinstance(result, terms.Clear):
            self._clear(result)
        else:
            self._take_run(result)

    def _take_run(self, result: Union[terms.HookResult, terms.NotAsked]) -> None:
        for key, entry in self.runs.events.items():
            for phase, run in entry.runs.items():
                if run.request_id == result.request_id and run.outcome == RUNNING:
                    if not isinstance(result, terms.NotAsked):
                        self.runs.end(key, phase, result.outcome, result.reason)
                    elif run.issued:
                        self.runs.ask_later(key, phase, result.reason)
                    return

    def _take_approval(self, result: terms.ApprovalResult) -> None:
        entry = self.runs.events.get(result.key)
        if entry is None or entry.approval.accepted:
            return
        if result.accepted:
            waited = max(0.0, self._now.wall - entry.first_seen)
            self.runs.report(terms.Report(result.key, terms.ReportKind.ACKNOWLEDGED, seconds=waited))
            self.runs.set(result.key, approval=entry.approval._replace(accepted=True, error=""))
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
        self.runs.set(result.key, approval=approval)

    def _retry(self, command: terms.Retry) -> None:
        entry = self.runs.events.get(command.key)
        if entry is None:
            return
        runs, first, waits = dict(entry.runs), entry.lost_recovery, entry.waits_until is not None
        if policies.has_failed(entry, "recover"):
            first = runs.pop("recover").first
        if policies.has_failed(entry, "prepare"):
            runs["prepare"] = runs["prepare"]._replace(outcome=INTERRUPTED)
        elif policies.prepared_nothing(entry) and runs["prepare"].preparation != policies.ABSENT:
            # What can prepare has to run again, and has still done nothing.
            runs["prepare"] = runs["prepare"]._replace(preparation="")
        if runs != entry.runs or waits:
            # What has to be prepared first still waits for its window with the acknowledgement.
            is_ready = waits and policies.is_ready(entry, self._config, recovered=self.runs.recovered)
            hurried = entry.hurried or runs == entry.runs or is_ready
            self.runs.set(command.key, runs=runs, hurried=hurried, lost_recovery=first)
            self.runs.report(terms.Report(command.key, terms.ReportKind.RETRIED))

    def _clear(self, command: terms.Clear) -> None:
        keys = [command.key] if command.key else list(self.runs.events)
        cleared = [key for key in keys if not objection(self.state(), terms.Clear(key))]
        for key in cleared:
            del self.runs.events[key]
            self.runs.report(terms.Report(key, terms.ReportKind.CLEARED))
        if cleared or (self._state.lost and not command.key):
            self.runs.note_recovery()  # what the operator did may have undone any preparation
        if not command.key:
            self._state = self._state._replace(lost="", withheld=False)

    # What the service says

    def read(self, document: Document) -> None:
        self._state = self._state._replace(incarnation=document.incarnation, ignored={})
        mine = [event for event in document.events if event.affects(self._config.vm_name)]
        self._note_unnamed(sum(1 for event in mine if not event.key and policies.holds(event, None, self._config)))
        for event in mine:
            if event.key:
                self._named.setdefault(event.key, event)
        announced = {event.key: event for event in document.events}
        for key, entry in list(self.runs.events.items()):
            if key not in self._named:
                elsewhere = None if entry.event.affects(self._config.vm_name) else announced.get(key)
                self.runs.events[key] = policies.no_longer_announced(entry, elsewhere)
        self.reconsider_recoveries()
        for key, event in self._named.items():
            self._see(key, event)
        if all(key in self.runs.events for key in self._named):
            # A recovery whose end became known in this step may have ended after the document was read.
            self._state = self._state._replace(unannounced=self._state.recoveries)

    def reconsider_recoveries(self) -> None:
        """Drop each recovery that was not asked for and may not begin any more."""
        for key, entry in list(self.runs.events.items()):
            if policies.never_asked(entry.runs.get("recover")):
                if not self._may_recover(key):
                    self.runs.drop(key, "recover")
            elif self.runs.gone_with_the_boot(entry, "recover"):
                self.runs.lose_recovery(key)

    def _note_unnamed(self, count: int) -> None:
        if count and not self._state.unnamed:
            self.runs.report(terms.Report("", terms.ReportKind.UNNAMED, text=terms.WITHOUT_ID))
        self._state = self._state._replace(unnamed=count)

    def _see(self, key: str, event: ScheduledEvent) -> None:
        entry = self.runs.events.get(key)
        if entry is not None and policies.is_running(entry, "recover"):
            return  # it is announced again under the same id: a new event once its recovery has ended
        if entry is not None and "recover" in entry.runs:
            entry = self.runs.new_life(entry)
            self.runs.report(terms.Report(key, terms.ReportKind.SEEN, outcome=event.event_status or ""))
        if entry is None:
            if self.runs.action(event) == decisions.IGNORE:
                self._ignore(key, event)
                return
            entry = EventState(event=event, first_seen=self._now.wall, unannounced=self._state.unannounced)
            self.runs.events[key] = entry
            self.runs.report(terms.Report(key, terms.ReportKind.SEEN, outcome=event.event_status or ""))
            self._report_problems(key, event)
        elif entry.event.unreadable != event.unreadable:
            self._report_problems(key, event)
        if not entry.present:  # announced again, so what was accepted before may no longer count
            entry = entry._replace(approval=entry.approval._replace(accepted=False), lost_recovery=0)
        impact = entry.impact or event.event_status == STARTED
        self.runs.events[key] = entry._replace(event=event, present=True, elsewhere=False, impact=impact)

    def _ignore(self, key: str, event: ScheduledEvent) -> None:
        self._state = self._state._replace(ignored={**self._state.ignored, key: event})

    def _report_problems(self, key: str, event: ScheduledEvent) -> None:
        for problem in event.problems():
            self.runs.report(terms.Report(key, terms.ReportKind.PROBLEM, text=problem))

    def advance(self, key: str, *, fresh: bool) -> None:
        entry = self.runs.events[key]
        if entry.present:
            if entry.event.affects(self._config.vm_name):  # the next document shows what became of another one
                self._advance_present(key)
                self._advise(key)
        elif fresh:
            self._recover(key)
        self._handle_failures(key)
        self._forget(key)

    def _advance_present(self, key: str) -> None:
        entry = self.runs.events[key]
        action = self.runs.action(entry.event)
        if action == decisions.IGNORE:
            return
        if entry.impact:
            prepares = policies.is_running(entry, "prepare")
            if self._must_start(entry) and self.runs.can_begin(key, "started") and not prepares:
                self.runs.begin(key, "started")
        elif action != decisions.APPROVE and self._must_prepare(entry) and self.runs.can_begin(key, "prepare"):
            self.runs.begin(key, "prepare")

    def _advise(self, key: str) -> None:
        """Pass on a hint of the service, once."""
        entry = self.runs.events[key]
        run = entry.runs.get("advised")
        if (
            self.runs.is_advisory(entry)
            and (run is None or run.outcome == INTERRUPTED)
            and self.runs.can_begin(key, "advised")
        ):
            self.runs.begin(key, "advised")

    def _must_prepare(self, entry: EventState) -> bool:
        return (
            entry.event.event_status == SCHEDULED
            and not entry.is_put_off
            and not self._is_deferred(entry.event)
            and policies.must_prepare(entry, self._config, recovered=self.runs.recovered)
        )

    def _must_start(self, entry: EventState) -> bool:
        if not self._config.started_after_prepare and policies.has_ended(entry, "prepare"):
            return False
        run = entry.runs.get("started")
        if run is None:
            return True
        return run.outcome == INTERRUPTED or (run.outcome != RUNNING and run.serial <= self.runs.recovered)

    def _recover(self, key: str) -> None:
        entry = self.runs.events[key]
        if not entry.ran or "recover" in entry.runs or policies.is_running(entry, "prepare", "started"):
            return
        if self._may_recover(key):
            self.runs.begin(key, "recover")

    def _may_recover(self, key: str) -> bool:
        # After a change of the configured name, an event is over only once it is not announced to any name.
        is_over = key not in self._named and not self.runs.events[key].elsewhere
        return is_over and self.runs.can_begin(key, "recover") and not self._held_by_others(key)

    def _handle_failures(self, key: str) -> None:
        entry = self.runs.events[key]
        if not entry.failures or "failed" in entry.runs:
            return
        if self.runs.can_begin(key, "failed"):
            self.runs.begin(key, "failed")
        elif "failed" not in self._config.hooks:
            self.runs.set(key, failures=())

    def _forget(self, key: str) -> None:
        entry = self.runs.events[key]
        if entry.failures or policies.is_running(entry, *PHASES):
            return
        if entry.present and self.runs.action(entry.event) != decisions.IGNORE:
            return
        # Hooks that ran are undone by recovery, unless the owner never configured one.
        if entry.ran and (entry.is_announced or entry.owed or "recover" in self._config.hooks):
            return
        if entry.present:  # a new rule ignores it
            self._ignore(key, entry.event)
        del self.runs.events[key]
        self.runs.report(terms.Report(key, terms.ReportKind.OVER))

    def _held_by_others(self, key: str) -> bool:
        """Whether another event that a document announces holds this VM."""
        # Also one that is announced again while its own recovery still runs, and that counts as gone until then.
        announced = {other: entry.event for other, entry in self.runs.events.items() if entry.present}
        announced.update(self._named)
        return self._state.unnamed > 0 or any(
            other != key and policies.holds(event, self.runs.events.get(other), self._config)
            for other, event in announced.items()
        )

    def _is_deferred(self, event: ScheduledEvent) -> bool:
        defer, not_before = self._config.defer, policies.epoch(event)
        return defer is not None and (not_before is None or self._now.wall < not_before - defer)


def _urgency(entry: EventState) -> Tuple[bool, float, str]:
    """Sort started events first, then by the earliest NotBefore, then events without NotBefore, and hints last."""
    not_before = None if entry.event.event_status == ADVISORY else policies.epoch(entry.event)
    return not entry.impact, float("inf") if not_before is None else not_before, entry.event.key
