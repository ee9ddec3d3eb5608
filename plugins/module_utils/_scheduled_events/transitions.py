# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a step of the engine: what differs between the states before and after it. No clock, no I/O."""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import condition as conditions
from . import history, policies, terms
from . import rules as decisions
from .announced import is_drill
from .clock import Moment
from .document import ScheduledEvent
from .runs import OK
from .state import INTERRUPTED, RUNNING, EventState, State

# The reason of a second fact "seen": what was done for the event before still counts.
AGAIN = "announced again before its recovery"


class Writer(NamedTuple):
    """Who writes the facts of a step.

    :param by: who acknowledges, in words.
    :param boot_id: of the present boot, if it is known.
    :param run: the run of the play, if a play writes them. Otherwise the facts of a phase have the id of its run.
    """

    source: str
    by: str
    boot_id: str = ""
    run: str = ""


class Step(NamedTuple):
    """A step of the engine, with the settings of this step and of the one before."""

    before: State
    after: State
    actions: Sequence[terms.Action]
    now: Moment
    config: terms.Config
    config_before: Optional[terms.Config] = None


def facts_of(step: Step, writer: Writer) -> List[history.Fact]:
    """The facts of a step, which are none for most steps."""
    is_same = step.after == step.before and step.config == (step.config_before or step.config)
    if is_same and not step.actions:
        return []
    return list(_Facts(step, writer).all())


def acknowledgement(event: ScheduledEvent, *, by: str, vm_name: str, now: float) -> history.Fact:
    """The fact of an acknowledgement that an operator sent."""
    return history.Fact(
        kind=history.ACKNOWLEDGED,
        time=now,
        source=history.OPERATOR,
        vm_name=vm_name,
        event_id=event.event_id or "",
        event_type=event.event_type or "",
        not_before=policies.epoch(event),
        by=by,
        via=_via(event),
    )


def _via(event: ScheduledEvent) -> str:
    """What took an acknowledgement; empty for a drill, which no service knows."""
    return "" if is_drill(event.key) else "metadata service"


def rule_of(entry: EventState, config: terms.Config) -> str:
    """The rule that decided about an event, in words."""
    text, decision = _decision(entry.event, config)
    failed = policies.has_failed(entry, "prepare")
    return f"{text}, on_failure: {config.on_failure}" if failed and decision == decisions.PREPARE else text


def _decision(event: ScheduledEvent, config: terms.Config) -> Tuple[str, str]:
    """The rule in words, and its action."""
    number = next((number for number, rule in enumerate(config.rules, 1) if rule.matches(event)), 0)
    decision = decisions.decide(event, config.rules)
    return f"rule {number}: {decision}" if number else f"no rule: {decision}", decision


class _Facts:
    """The facts in the making."""

    def __init__(self, step: Step, writer: Writer) -> None:
        self._step, self._writer = step, writer
        self._reports = [action for action in step.actions if isinstance(action, terms.Report)]

    def all(self) -> Iterator[history.Fact]:
        for report in self._reports:
            if report.kind is terms.ReportKind.UNNAMED:
                yield self._fact(history.HELD, None, reason="the event has no EventId")
        for key in {**self._step.before.events, **self._step.after.events}:
            yield from self._of_event(key)
        yield from self._of_ignored()

    def _of_ignored(self) -> Iterator[history.Fact]:
        before, after = self._step.before, self._step.after
        seen = {report.key for report in self._reports if report.kind is terms.ReportKind.SEEN}
        for key, event in after.ignored.items():
            if key not in before.ignored and key not in seen:
                rule, _decided = _decision(event, self._step.config)
                yield self._fact(history.SEEN, event, rule=rule, **_announcement(event))
        for key, event in before.ignored.items():
            if key not in after.ignored and key not in after.events:
                yield self._fact(history.OVER, event)

    def _of_event(self, key: str) -> Iterator[history.Fact]:
        before, after = self._step.before.events.get(key), self._step.after.events.get(key)
        entry = after or before
        if entry is None:
            return
        reports = [report for report in self._reports if report.key == key]
        seen = [number for number, report in enumerate(reports) if report.kind is terms.ReportKind.SEEN]
        for report in reports[: seen[0]] if seen else ():  # of the event that had the same id
            yield from self._of_report(report, before or entry, entry)
        yield from self._seen(before, entry, is_new=bool(seen))
        if after is not None and after.impact and not (before is not None and before.impact):
            yield self._fact(history.STARTED, entry.event)
        is_there = (after is not None and after.is_announced) or key in self._step.after.ignored
        if before is not None and before.is_announced and not is_there:
            yield self._fact(history.OVER, entry.event)
        for report in reports[seen[0] :] if seen else reports:
            yield from self._of_report(report, before or entry, entry)
        yield from self._refused(before, after)
        if after is not None:
            yield from self._begun(before, after)
            yield from self._held(key, before, after)

    def _seen(self, before: Optional[EventState], entry: EventState, *, is_new: bool) -> Iterator[history.Fact]:
        is_again = before is not None and entry.is_announced and not before.is_announced and not is_new
        run = before.runs.get("recover") if before is not None and is_again else None
        if run is not None and run.outcome == RUNNING and "recover" not in entry.runs:
            run_id = self._writer.run or run.request_id
            yield self._fact(
                history.PHASE_ENDED, entry.event, phase="recover", run=run_id, outcome=INTERRUPTED, reason=AGAIN
            )
        if is_new or is_again:
            rule, reason = rule_of(entry, self._step.config), AGAIN if is_again else ""
            yield self._fact(history.SEEN, entry.event, rule=rule, reason=reason, **_announcement(entry.event))

    def _of_report(self, report: terms.Report, before: EventState, after: EventState) -> Iterator[history.Fact]:
        if report.kind is terms.ReportKind.ENDED:
            run = before.runs.get(report.phase)  # none ends in the step in which it begins
            yield self._fact(
                history.PHASE_ENDED,
                after.event,
                phase=report.phase,
                run=self._writer.run or (run.request_id if run else ""),
                outcome=report.outcome,
                reason=report.text,
            )
            if report.phase == "recover" and report.outcome == OK:
                yield self._fact(history.RETURNED, after.event, reason="its recovery ended well")
        elif report.kind is terms.ReportKind.ACKNOWLEDGED:
            rule = rule_of(after, self._step.config)
            yield self._fact(history.ACKNOWLEDGED, after.event, by=self._writer.by, via=_via(after.event), rule=rule)
        elif report.kind is terms.ReportKind.CLEARED:
            yield self._fact(history.RETURNED, before.event, by="operator", reason="cleared by the operator")
        elif report.kind is terms.ReportKind.OVER and before.ran and not policies.is_running(before, "recover"):
            yield self._fact(history.RETURNED, before.event, reason="no recovery is configured")

    def _refused(self, before: Optional[EventState], after: Optional[EventState]) -> Iterator[history.Fact]:
        error = after.approval.error if after is not None else ""
        if after is not None and error and not (before is not None and before.approval.error == error):
            yield self._fact(history.REFUSED, after.event, reason=error)

    def _begun(self, before: Optional[EventState], after: EventState) -> Iterator[history.Fact]:
        for phase, run in after.runs.items():
            earlier = before.runs.get(phase) if before is not None else None
            if earlier is None or earlier.serial != run.serial:
                run_id = self._writer.run or run.request_id
                yield self._fact(history.PHASE_BEGAN, after.event, phase=phase, run=run_id)

    def _held(self, key: str, before: Optional[EventState], after: EventState) -> Iterator[history.Fact]:
        found = conditions.condition(self._step.after, key, self._step.config)
        if not found.kind.held:
            return
        config_before = self._step.config_before or self._step.config
        if before is not None and conditions.condition(self._step.before, key, config_before) == found:
            return
        reason = f"{found.kind}: {found.detail}" if found.detail else found.kind
        yield self._fact(history.HELD, after.event, reason=reason, rule=rule_of(after, self._step.config))

    def _fact(self, kind: str, event: Optional[ScheduledEvent], **more: Any) -> history.Fact:
        known: Dict[str, Any] = {"run": self._writer.run}
        if event is not None:
            known.update(event_id=event.event_id or "", event_type=event.event_type or "")
            known["not_before"] = policies.epoch(event)
        known.update(more)
        return history.Fact(
            kind=kind,
            time=self._step.now.wall,
            source=self._writer.source,
            vm_name=self._step.config.vm_name,
            boot_id=self._writer.boot_id,
            **known,
        )


def _announcement(event: ScheduledEvent) -> Dict[str, Any]:
    return {
        "event_status": event.event_status or "",
        "event_source": event.event_source or "",
        "resources": event.resources,
        "resource_count": len(event.resources),
        "announced_seconds": None if event.duration_in_seconds is None else float(event.duration_in_seconds),
    }
