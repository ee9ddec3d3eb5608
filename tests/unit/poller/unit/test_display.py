# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The priority of each line in the journal: `journalctl -p warning` shows what needs an operator, and nothing else. And
what the status shows at once.
"""

import json
import math

import pytest
from _scheduled_events import engine
from _scheduled_events.clock import CLOCK, Moment
from _scheduled_events.document import parse
from _scheduled_events.state import State
from _scheduled_events.terms import Config, Report, ReportKind
from _scheduled_events.transitions import Step
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
        (ReportKind.UNNAMED, "", systemd.WARNING),
        (ReportKind.PROBLEM, "", systemd.WARNING),
        (ReportKind.RETRIED, "", systemd.INFO),
        (ReportKind.OVER, "", systemd.INFO),
    ],
)
def test_a_line_of_the_journal_is_a_warning_only_if_something_is_wrong(kind, outcome, priority):
    assert display.of_report(Report("a", kind, "prepare", outcome), EVENT)[0] == priority


@pytest.mark.parametrize(("events", "at_once"), [([], True), (["Started"], True), (["Scheduled"], False)])
def test_a_hook_that_runs_sees_at_once_in_the_status_what_became_of_its_event(events, at_once):
    config, now = Config("vm1", frozenset({"prepare"})), Moment(1.6e9, 0.0, "boot")
    shown, state = display.Display(CLOCK), State(serial=0)
    for statuses in (["Scheduled"], events):
        named = [{"EventId": "A", "EventStatus": status, "Resources": ["vm1"]} for status in statuses]
        document = parse(json.dumps({"Events": named}), api_version="2020-07-01")
        after, actions = engine.step(state, document, [], now, config)
        shown.next_heartbeat = math.inf
        shown.report_step(Step(state, after, actions, now, config), dry_run=False)
        state = after
    assert (shown.next_heartbeat == 0.0) is at_once
