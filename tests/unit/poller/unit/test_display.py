# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The priority of each line in the journal: `journalctl -p warning` shows what needs an operator, and nothing else."""

import pytest
from _scheduled_events.document import parse
from _scheduled_events.terms import Report, ReportKind
from scheduled_events_poller import systemd
from scheduled_events_poller.unit import display

[EVENT] = parse(
    '{"Events": [{"EventId": "A", "EventType": "Reboot", "Resources": ["vm1"]}]}', api_version="2020-07-01"
).events


@pytest.mark.parametrize(
    ("kind", "outcome", "priority"),
    [
        (ReportKind.SEEN, "Scheduled", systemd.INFO),
        (ReportKind.SEEN, "Started", systemd.WARNING),
        (ReportKind.ENDED, "ok", systemd.INFO),
        (ReportKind.ENDED, "nothing", systemd.INFO),
        (ReportKind.ENDED, "failed", systemd.WARNING),
        (ReportKind.ENDED, "timeout", systemd.WARNING),
        (ReportKind.ACKNOWLEDGED, "", systemd.INFO),
        (ReportKind.NOT_ASKED, "", systemd.WARNING),
        (ReportKind.UNNAMED, "", systemd.WARNING),
        (ReportKind.PROBLEM, "", systemd.WARNING),
        (ReportKind.RETRIED, "", systemd.INFO),
        (ReportKind.OVER, "", systemd.INFO),
    ],
)
def test_a_line_of_the_journal_is_a_warning_only_if_something_is_wrong(kind, outcome, priority):
    assert display.of_report(Report("a", kind, "prepare", outcome), EVENT)[0] == priority
