# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the unit shows itself: the journal, the status file, the history, the metrics, and a line for systemd."""

import collections
import contextlib
import json
import os
from typing import Any, Callable, Deque, Dict, Mapping, Optional, Sequence, Tuple

from _scheduled_events import history_file, terms
from _scheduled_events.clock import Clock
from _scheduled_events.condition import NOTHING_PREPARED, NOTHING_PREPARES
from _scheduled_events.condition import condition as condition_of
from _scheduled_events.document import ScheduledEvent, format_epoch
from _scheduled_events.files import explained, write_atomically
from _scheduled_events.history import PHASE_ENDED, POLLER, Fact
from _scheduled_events.runs import NOTHING, OK, OUTCOMES
from _scheduled_events.state import EventState, State
from _scheduled_events.transitions import Step, Writer, facts_of

from .. import systemd
from . import status
from .impact import ImpactMeter
from .metrics import Metrics

HEARTBEAT = 5.0  # seconds between two status files when nothing happens
MOST_WAITING = 500  # facts that wait in memory until they can be written; more are lost, the oldest first
PAUSE = 30.0  # seconds until facts that could not be written are tried again


class Recorder:
    """Writes the history of this VM: after each step, and never in the way of one.

    What cannot be written waits, and only shows as a problem.

    :ivar problem: why facts wait, and may be lost; empty if none waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history: Optional[str] = None
        self._waiting: Deque[Fact] = collections.deque(maxlen=MOST_WAITING)
        self._next_try = 0.0
        self._experience: Optional[Dict[str, Any]] = None
        self.problem = ""

    def open(self, history: Optional[str]) -> None:
        """Use a history; ``None``: write nothing, since nothing is carried out."""
        self._history, self.problem = history, ""
        self._waiting.clear()
        if history is not None:
            try:
                history_file.prepare(history)
            except OSError as error:
                self._complain(history, error)

    def experience(self) -> Dict[str, Any]:
        """What the history says about the time of a preparation; see :func:`history_file.experience`."""
        if self._experience is None and self._history is not None:
            self._experience = history_file.experience(self._history, now=self._clock.wall())
        return self._experience or {}

    def record_step(self, step: Step) -> None:
        """Write the facts of a step."""
        if self._history is not None:
            by = f"the polling unit of {step.config.vm_name}"
            self.record(facts_of(step, Writer(POLLER, by, step.now.boot_id)))

    def record(self, facts: Sequence[Fact]) -> None:
        """Write facts."""
        if facts and self._history is not None:
            if any((fact.kind, fact.phase) == (PHASE_ENDED, "prepare") for fact in facts):
                self._experience = None  # it is read again when it is needed
            self._waiting.extend(facts)
            self._write(self._history)

    def try_again(self) -> None:
        """Write the facts that wait, if it is time."""
        if self._waiting and self._history is not None and self._clock.monotonic() >= self._next_try:
            self._write(self._history)

    def _write(self, history: str) -> None:
        try:
            history_file.append(history, list(self._waiting), now=self._clock.wall())
        except OSError as error:
            self._next_try = self._clock.monotonic() + PAUSE
            self._complain(history, error)
        else:
            self._waiting.clear()
            self.problem = ""

    def _complain(self, history: str, error: OSError) -> None:
        self.problem = f"the history in {history} cannot be written: {error}"


class Display:
    """Shows changes at once, and the whole from time to time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.metrics = Metrics()
        self.journal = systemd.Journal(clock)
        self.recorder = Recorder(clock)
        self.impact = ImpactMeter(clock)
        self.next_heartbeat = 0.0
        self._conditions: Dict[str, str] = {}
        self._line = ""
        self._unexported = ""  # why the metrics cannot be written

    def hurry(self) -> None:
        """Write the status file at the end of this iteration."""
        self.next_heartbeat = 0.0

    def begin(self, history: Optional[str]) -> None:
        """Report each event again, since there is another state, and use its history."""
        self._conditions = {}
        self.recorder.open(history)

    def report(self, report: terms.Report, entry: Optional[EventState]) -> None:
        """Report what the engine reports.

        :param entry: the event; ``None`` if the state does not have it.
        """
        if report.kind is terms.ReportKind.ACKNOWLEDGED:
            self.metrics.acknowledged(report.seconds)
        elif report.kind is terms.ReportKind.ENDED and report.outcome in OUTCOMES:
            self.metrics.hooks_ended(report.phase, report.outcome, now=self._clock.wall())
        self.hurry()
        level, text = of_report(report, entry.event if entry else None)
        name = (entry.event.event_id if entry else None) or report.key
        systemd.log(level, f"{name}: {text}" if name else text)

    def report_step(self, step: Step, *, dry_run: bool) -> None:
        """Report what a step changed; its actions have been carried out, or would be."""
        if step.after.events != step.before.events:
            self.hurry()  # a hook that runs reads in the status what becomes of its event
        self._report_conditions(step.after, step.config, dry_run=dry_run)
        self._record_impact(self.impact.step(step, polled=self.metrics.polled))
        if self.recorder.problem:
            self.journal.complain("history", self.recorder.problem)
        else:
            self.journal.better("history", "the history can be written again")

    def _record_impact(self, facts: Sequence[Fact]) -> None:
        self.recorder.record(facts)
        for fact in facts:
            self.metrics.impact(fact.event_type, fact.outcome, fact.measured_seconds or 0.0)
            systemd.log(systemd.INFO, f"{fact.event_id}: {fact.reason}")

    def _report_conditions(self, state: State, config: terms.Config, *, dry_run: bool) -> None:
        """Report what happens to each event and what it waits for, when that has changed."""
        conditions = {}
        unprepared = 0
        for key, entry in state.events.items():
            condition = condition_of(state, key, config)
            unprepared += condition.kind in (NOTHING_PREPARES, NOTHING_PREPARED)
            conditions[key] = condition.sentence(entry.event.event_id)
            if conditions[key] == self._conditions.get(key):
                continue
            self.hurry()
            if not dry_run or condition.kind.held or condition.kind.trouble:
                level = systemd.WARNING if condition.kind.trouble else systemd.INFO
                systemd.log(level, f"{entry.event.event_id}: {conditions[key]}")
        self._conditions = conditions
        self.metrics.set("unprepared_events", unprepared)
        moments = [entry.waits_until for entry in state.events.values() if entry.waits_until is not None]
        self.metrics.set("waits_until_timestamp_seconds", min(moments, default=None))

    def heartbeat(self, show: Callable[[], None]) -> None:
        """Show everything, if it is time."""
        self._record_impact(self.impact.iteration())
        now = self._clock.monotonic()
        if now < self.next_heartbeat:
            return
        self.next_heartbeat = now + HEARTBEAT
        self.recorder.try_again()
        try:
            show()
        except Exception as error:  # no report can end the process, whatever it holds
            self.journal.complain("status", f"the status cannot be written: {type(error).__name__}: {error}")

    def show(self, view: status.View, status_file: str) -> None:
        """Write the status file and the metrics, and notify systemd of a changed line.

        :raises OSError: the status file cannot be written. The status shows if the metrics cannot.
        """
        line = self._line_of(view)
        if line != self._line:
            self._line = line
            systemd.notify(f"STATUS={line}")
        shown = status.describe(view, unrecorded=self.recorder.problem or self._unexported)
        # Over several lines: the local fact of Ansible puts its own keys after the first one.
        code = status.CRITICAL
        try:
            write_atomically(status_file, json.dumps(shown, indent=1).encode() + b"\n", mode=0o644)
            code = status.judge(shown, shown["time"])[0]
        except OSError:
            # Until it is stale, an old one would show no event that was announced since. None means "unknown".
            with contextlib.suppress(OSError):
                os.unlink(status_file)
            raise
        finally:  # the metrics can be on another disk
            self._unexported = ""
            if view.settings.metrics_directory is not None:
                self.metrics.set("status", code)
                self.metrics.set("state_unsaved", bool(view.unsaved) and not view.settings.dry_run)
                self._export(view.settings.metrics_directory)

    def _export(self, directory: str) -> None:
        try:
            self.metrics.write(directory)
        except OSError as error:
            self._unexported = f"the metrics cannot be written: {explained(error)}"
            self.journal.complain("metrics", self._unexported)

    def _line_of(self, view: status.View) -> str:
        parts = [
            f"{entry.event.event_type} {key}: {self._conditions.get(key, '')}"
            for key, entry in view.state.events.items()
        ]
        if view.unsaved:
            parts.append(view.unsaved)
        if view.polls.error:
            parts.append(f"polling fails: {view.polls.error}")
        what = "; ".join(parts) or (
            "No event of this VM" if view.polls.last_success is not None else "Waiting for the first document"
        )
        return ("Dry run: " if view.settings.dry_run else "") + " ".join(what.split())[:500]


def of_report(report: terms.Report, event: Optional[ScheduledEvent]) -> Tuple[int, str]:
    """Priority and sentence for what the engine reports.

    :param event: as the state has it; ``None`` if the state does not have it, or not any more.
    """
    if report.kind is terms.ReportKind.SEEN and event is not None:
        text = f"{event.event_type} seen as {event.event_status}, of {', '.join(event.resources)}"
        if report.outcome == "Started":
            return systemd.WARNING, f"{text}; it has started without a time to prepare"
        return systemd.INFO, text
    if report.kind is terms.ReportKind.ENDED:
        because = f": {report.text}" if report.text else ""
        level = systemd.INFO if report.outcome in (OK, NOTHING) else systemd.WARNING
        return level, f"{report.phase} hooks ended: {report.outcome}{because}"
    if report.kind is terms.ReportKind.ACKNOWLEDGED:
        return systemd.INFO, f"acknowledged {report.seconds:.1f} s after it was seen"
    words = {
        terms.ReportKind.RETRIED: "tried again on request of the operator",
        terms.ReportKind.CLEARED: "removed from the state on request of the operator",
        terms.ReportKind.OVER: "over",
    }
    level = systemd.WARNING if report.kind in (terms.ReportKind.UNNAMED, terms.ReportKind.PROBLEM) else systemd.INFO
    return level, words.get(report.kind, report.text)


def of_action(action: terms.Action, events: Mapping[str, EventState]) -> str:
    """What an action would do."""
    if isinstance(action, terms.RunHooks):
        deadline = format_epoch(action.deadline)
        return f"{action.event['event_id']}: would run the {action.phase} hooks, until {deadline} at the latest"
    if isinstance(action, terms.Approve):
        return f"{action.event_id}: would acknowledge it"
    entry = events.get(action.key)
    name = (entry.event.event_id if entry else "") or action.key or "poll"
    return f"{name}: {of_report(action, entry.event if entry else None)[1]}"
