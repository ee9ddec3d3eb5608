# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sentences for the reports of the engine, and for the condition of an event."""

import datetime
from typing import Optional, Tuple

from _scheduled_events import condition as conditions
from _scheduled_events import terms
from _scheduled_events.document import ScheduledEvent, format_time
from _scheduled_events.runs import NOTHING, OK

from .. import systemd


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
    if report.kind is terms.ReportKind.NOT_ASKED:
        return systemd.WARNING, f"{report.phase} hooks cannot be started: {report.text}; the poller tries again"
    words = {
        terms.ReportKind.UNNAMED: "an event of this VM has no EventId, so it can be neither prepared nor acknowledged",
        terms.ReportKind.RETRIED: "tried again on request of the operator",
        terms.ReportKind.CLEARED: "removed from the state on request of the operator",
        terms.ReportKind.OVER: "over",
    }
    level = systemd.WARNING if report.kind in (terms.ReportKind.UNNAMED, terms.ReportKind.PROBLEM) else systemd.INFO
    return level, words.get(report.kind, report.text)


_CONDITIONS = {
    conditions.CANNOT_ASK: "{phases} hooks cannot be started: {detail}; the poller tries again",
    conditions.RUNS: "{phases} hooks run, until {until} at the latest",
    conditions.RECOVERY_FAILED: (
        "recovery failed: {detail}; this VM may still be drained. "
        "Run 'scheduled-events retry {event_id}', or recover it by hand and run 'scheduled-events clear {event_id}'"
    ),
    conditions.RECOVERY_MISSING: (
        "over, but not recovered: the recover hooks {detail} are configured but missing. Run the role poller again"
    ),
    conditions.RECOVERY_UNCONFIGURED: (
        "over, but not recovered: recover hooks were configured when its hooks ran, but are not configured now. "
        "Configure them, or recover it by hand and run 'scheduled-events clear {event_id}'"
    ),
    conditions.RECOVERY_WAITS: "over; recovery waits until another event of this VM is over",
    conditions.RECOVERY_NEXT: "over; recovery is next",
    conditions.UNDER_WAY: "started; recovery runs when the event is over",
    conditions.ACKNOWLEDGED: "acknowledged; waiting for its start",
    conditions.NOT_ACCEPTED: "not acknowledged yet: {detail}",
    conditions.PREPARE_FAILED: (
        "not acknowledged, because its prepare hooks did not succeed: {detail}. "
        "Fix the cause and run 'scheduled-events retry {event_id}'"
    ),
    conditions.PREPARE_MISSING: (
        "not acknowledged, because the prepare hooks {detail} are configured but missing. Run the role poller again"
    ),
    conditions.PREPARE_UNCONFIGURED: (
        "not acknowledged, because its preparation must run again, and no prepare hooks are configured now"
    ),
    conditions.NOTHING_PREPARES: (
        "not acknowledged, because nothing is configured that prepares for it; waiting for NotBefore"
    ),
    conditions.NOTHING_PREPARED: (
        "not acknowledged, because no prepare hook prepared this VM: {detail}; waiting for NotBefore. "
        "If a hook has to run again, run 'scheduled-events retry {event_id}'"
    ),
    conditions.ADVISORY: "a hint of Azure: nothing starts, and nothing is acknowledged",
    conditions.ADVISED_FAILED: "a hint of Azure, and its advised hooks did not succeed: {detail}",
    conditions.HELD_BY_RULE: "not acknowledged, because the action of a rule is hold; waiting for NotBefore",
    conditions.HELD_BY_POLICY: "not acknowledged, because acknowledge is {detail}; waiting for NotBefore",
    conditions.LEFT_TO_CONTROLLER: "acknowledged by the job of the controller, not by this VM: {detail}",
    conditions.TAKES_OVER: "acknowledged by the job of the controller, or at {until} by this VM: {detail}",
    conditions.TOOK_OVER: "acknowledged by this VM, which took over from the controller: {detail}",
    conditions.STATUS_UNKNOWN: "not acknowledged, because its status is {detail}",
    conditions.STATE_LOST: (
        "not acknowledged yet, because the state of the polling unit was lost, and its history does not show what was "
        "done on this VM: {detail}. Look at this VM, then run 'scheduled-events clear --all'"
    ),
    conditions.WAITS_FOR_RECOVERY: "not acknowledged yet, because a recovery of this VM is running",
    conditions.TO_BE_ACKNOWLEDGED: "to be acknowledged now",
}


def of_condition(condition: conditions.Condition, event: ScheduledEvent) -> str:
    """A sentence for what happens to an event and what it waits for."""
    until = datetime.datetime.fromtimestamp(condition.until, datetime.timezone.utc)
    return _CONDITIONS[condition.kind].format(
        phases=" and ".join(condition.phases),
        detail=condition.detail,
        until=format_time(until),
        event_id=event.event_id,
    )
