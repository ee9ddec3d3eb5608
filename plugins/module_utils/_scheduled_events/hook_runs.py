# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runs of hooks: when one may begin, what becomes of it, and when it is asked for again. No clock, no I/O."""

from typing import Any, Dict, List, Optional, Tuple

from . import rules as decisions
from .clock import Moment, pause_after
from .document import ADVISORY, SCHEDULED, ScheduledEvent, describe
from .policies import counts_no_longer, epoch, hooks_end_by, is_running, never_asked, prepared_nothing
from .runs import BESIDE, FAILED, OK, PHASES, TIMEOUT, run_id_of
from .state import INTERRUPTED, RUNNING, EventState, Failure, Run, State
from .terms import Action, Config, Report, ReportKind, RunHooks

# Seconds after the last moment of a run until its silence counts as a failure: killing the hooks, writing the result.
SILENCE = 30.0
# Seconds between two attempts to ask for hooks, while the request cannot be written.
LONGEST_PAUSE_ASKING = 30.0
FIRST_PAUSE = 1.0  # seconds


class HookRuns:
    """The runs in the state of one step, with the actions that follow.

    :ivar events: the state of each event.
    :ivar serial: of the state, as ``recovered`` and ``recoveries``.
    """

    def __init__(self, state: State, now: Moment, config: Config) -> None:
        self.events: Dict[str, EventState] = dict(state.events)
        self.actions: List[Action] = []
        self.serial = state.serial
        self.recovered = state.recovered
        self.recoveries = state.recoveries
        self._now = now
        self._config = config

    def look_after(self, key: str, phase: str, *, fresh: bool) -> None:
        entry = self.events[key]
        run = entry.runs.get(phase)
        if run is None or run.outcome != RUNNING:
            return
        if self.gone_with_the_boot(entry, phase):
            if fresh:  # only a document shows whether the hooks are still of use
                self._look_after_lost(key, phase)
        elif never_asked(run):
            self._ask_for_the_first_time(key, phase, fresh=fresh)
        elif self._now.monotonic >= run.ends_at + SILENCE:
            self._give_up(key, phase)
        elif not run.issued:
            # An earlier request may have been carried out, so its times count. After its deadline no hook would run.
            is_late = run.not_later_than is not None and self._now.wall >= run.not_later_than
            if is_late and self._now.monotonic < run.ends_at:
                # Its silence begins now: if the clock has jumped, the hooks may still be running.
                self._set_run(key, phase, run._replace(ends_at=self._now.monotonic))
            elif run.ask_at <= self._now.monotonic < run.ends_at:
                self._issue(key, phase, run._replace(issued=True))
        elif phase == "prepare":
            self._revise(key, run)

    def _look_after_lost(self, key: str, phase: str) -> None:
        """Decide about hooks that went down with the VM."""
        if self._still_of_use(self.events[key], phase) and self.can_begin(key, phase):
            self.begin(key, phase)
        elif phase != "failed" or phase not in self._config.hooks:
            self.end(key, phase, INTERRUPTED, "the VM went down, or the run was interrupted, before they had ended")

    def _ask_for_the_first_time(self, key: str, phase: str, *, fresh: bool) -> None:
        """Ask for hooks that no earlier request reached, if they are still of use. Their time begins now."""
        entry = self.events[key]
        run = entry.runs[phase]
        if not self.can_begin(key, phase) or not self._still_of_use(entry, phase):
            self._withdraw(key, phase)
        elif self._now.monotonic >= run.ask_at and (fresh or phase != "recover"):
            about = self._about(entry.event, phase)
            self._issue(key, phase, run._replace(issued=True, **about))

    def _withdraw(self, key: str, phase: str) -> None:
        if phase in ("prepare", "started"):
            self.end(key, phase, INTERRUPTED, self.events[key].runs[phase].reason)
        else:
            self.drop(key, phase)

    def _give_up(self, key: str, phase: str) -> None:
        """End a run that has been silent for too long, whatever became of it."""
        if self.events[key].runs[phase].issued:
            self.end(key, phase, TIMEOUT, "their unit gave no result, not even after the last moment that they had")
        elif phase == "recover":
            self.lose_recovery(key)
        else:
            # An earlier process ended before it asked, or the request and its result were lost: the hooks run again.
            self._withdraw(key, phase)

    def _revise(self, key: str, run: Run) -> None:
        """Bring a NotBefore that was moved to hooks that run."""
        event = self.events[key].event
        if epoch(event) == run.not_before:
            return
        not_later_than = self._not_later_than(event)
        latest = self._now.wall + max(0.0, run.ends_at - self._now.monotonic)
        deadline = latest if not_later_than is None else min(latest, not_later_than)
        run = run._replace(not_before=epoch(event), not_later_than=not_later_than, deadline=deadline, reached=True)
        self._issue(key, "prepare", run)

    def _still_of_use(self, entry: EventState, phase: str) -> bool:
        if phase == "prepare":
            return entry.present and not entry.impact and entry.event.event_status == SCHEDULED
        if phase == "advised":
            return self.is_advisory(entry)
        return phase in ("recover", "failed") or entry.present

    def gone_with_the_boot(self, entry: EventState, phase: str) -> bool:
        run = entry.runs.get(phase)
        return run is not None and run.outcome == RUNNING and run.boot_id != self._now.boot_id

    def is_advisory(self, entry: EventState) -> bool:
        advisory = entry.present and not entry.impact and entry.event.event_status == ADVISORY
        return advisory and self.action(entry.event) != decisions.IGNORE

    def ask_later(self, key: str, phase: str, reason: str) -> None:
        run = self.events[key].runs[phase]
        pause = pause_after(run.asked, first=FIRST_PAUSE, longest=LONGEST_PAUSE_ASKING)
        run = run._replace(issued=False, asked=run.asked + 1, ask_at=self._now.monotonic + pause, reason=reason)
        self._set_run(key, phase, run)

    def end(self, key: str, phase: str, outcome: str, reason: str) -> None:
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
        self.set(key, runs=runs, failures=failures)
        if phase == "recover":
            self.note_recovery()
            if outcome == OK:
                self.set(key, ran=False, owed=False)
        self.report(Report(key, ReportKind.ENDED, phase, outcome, reason))

    def lose_recovery(self, key: str) -> None:
        """A recovery that may have begun has no outcome: it may have undone a part of any preparation, and is due."""
        run = self.events[key].runs["recover"]
        self.note_recovery()
        self.events[key] = self.new_life(self.events[key])._replace(lost_recovery=run.first)

    def note_recovery(self) -> None:
        """A recovery has ended, or may have begun: whatever was done for any event until now may be undone."""
        self.recovered = self.serial
        self.recoveries += 1

    def new_life(self, entry: EventState) -> EventState:
        """The entry of an event that is announced again after its recovery has ended, or may have begun."""
        runs = {phase: run for phase, run in entry.runs.items() if phase in BESIDE and run.outcome == RUNNING}
        return EventState(
            event=entry.event,
            first_seen=self._now.wall,
            present=False,
            elsewhere=entry.elsewhere,
            runs=runs,
            failures=entry.failures,
            ran=entry.ran,
            owed=entry.owed,
            unannounced=entry.unannounced,  # a recovery has ended since
        )

    def can_begin(self, key: str, phase: str) -> bool:
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

    def begin(self, key: str, phase: str) -> None:
        entry = self.events[key]
        self.serial += 1
        first, recovered = self._first_of(entry, phase)
        failure = entry.failures[0] if phase == "failed" else Failure("", "")
        run = Run(
            request_id=run_id_of(key, phase, self.serial),
            serial=self.serial,
            first=first,
            recovered=recovered,
            boot_id=self._now.boot_id,
            failed_phase=failure.phase,
            failure=failure.reason,
            **self._about(entry.event, phase),
        )
        if phase in ("prepare", "started"):
            did = self.serial if entry.ran and not prepared_nothing(entry) else entry.did
            self.set(key, ran=True, owed=entry.owed or "recover" in self._config.hooks, did=did)
        self._issue(key, phase, run)

    def _first_of(self, entry: EventState, phase: str) -> Tuple[int, int]:
        """The serial of the first run that the present one repeats, or is, and ``State.recovered`` when that began."""
        before = entry.runs.get(phase)
        if phase == "recover" and entry.lost_recovery:
            return entry.lost_recovery, self.recovered
        if before is None:
            return self.serial, self.recovered
        if phase in ("prepare", "started") and counts_no_longer(before, entry.event, recovered=self.recovered):
            return self.serial, self.recovered  # a new run
        return before.first, before.recovered

    def _about(self, event: ScheduledEvent, phase: str) -> Dict[str, Any]:
        """What a run that begins now is for, and its times."""
        timeout = self._config.hook_timeout
        not_later_than = self._not_later_than(event) if phase == "prepare" else None
        deadline = self._now.wall + timeout
        return {
            "event_type": event.event_type or "",
            "preparation": self._config.preparation if phase == "prepare" else "",
            "timeout": timeout,
            "not_before": epoch(event),
            "not_later_than": not_later_than,
            "deadline": deadline if not_later_than is None else min(deadline, not_later_than),
            "ends_at": self._now.monotonic + timeout,
        }

    def _not_later_than(self, event: ScheduledEvent) -> Optional[float]:
        """When prepare hooks have to end; ``None`` if NotBefore sets no deadline."""
        not_before = epoch(event)
        # A NotBefore that has passed sets no deadline: late hooks are better than none, since prepare runs at least
        # once, and the event may wait for other tenants far beyond NotBefore.
        if not_before is None or not_before <= self._now.wall:
            return None
        return hooks_end_by(not_before, now=self._now.wall, margin=self._config.margin)

    def _issue(self, key: str, phase: str, run: Run) -> None:
        self._set_run(key, phase, run)
        event = describe(self.events[key].event, vm_name=self._config.vm_name, now=self._now.wall)
        event["event_type"] = run.event_type or None  # a repetition may be the first request that is carried out
        self.actions.append(
            RunHooks(
                run.request_id,
                phase,
                event,
                run.timeout,
                run.not_later_than,
                run.deadline,
                run.ends_at,
                run.failed_phase,
                run.failure,
                run_id_of(key, phase, run.first),
                run.recovered,
                self.recoveries != self.events[key].unannounced,
            )
        )

    def action(self, event: ScheduledEvent) -> str:
        return decisions.decide(event, self._config.rules)

    def set(self, key: str, **fields: Any) -> None:
        self.events[key] = self.events[key]._replace(**fields)

    def _set_run(self, key: str, phase: str, run: Run) -> None:
        self.set(key, runs={**self.events[key].runs, phase: run})

    def drop(self, key: str, phase: str) -> None:
        self.set(key, runs={each: run for each, run in self.events[key].runs.items() if each != phase})

    def report(self, report: Report) -> None:
        self.actions.append(report)
