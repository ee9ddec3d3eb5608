# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sentences for the actions of the engine."""

import datetime
from typing import Optional, Tuple

from _scheduled_events import terms
from _scheduled_events.document import ScheduledEvent, format_time
from _scheduled_events.runs import NOTHING, OK
from _scheduled_events.state import State

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


def of_action(action: terms.Action, state: State) -> str:
    """What an action would do."""
    if isinstance(action, terms.RunHooks):
        deadline = format_time(datetime.datetime.fromtimestamp(action.deadline, datetime.timezone.utc))
        return f"{action.event['event_id']}: would run the {action.phase} hooks, until {deadline} at the latest"
    if isinstance(action, terms.Approve):
        return f"{action.event_id}: would acknowledge it"
    entry = state.events.get(action.key)
    return f"{action.key or 'poll'}: {of_report(action, entry.event if entry else None)[1]}"
