# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The priority of each line in the journal: `journalctl -p warning` shows what needs an operator, and nothing else. And
what the status and the metrics show.
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
from fake_clock import FakeClock
from scheduled_events_poller import systemd
from scheduled_events_poller.unit import config, display, status

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


@pytest.mark.parametrize(("outcome", "counted"), [("timeout", 1), ("failed", 1), ("interrupted", 0)])
def test_the_metrics_count_each_run_that_ended_also_without_a_result(outcome, counted):
    shown = display.Display(FakeClock(epoch=0))
    shown.report(Report("a", ReportKind.ENDED, "prepare", outcome), None)
    sample = f'scheduled_events_hook_runs_total{{phase="prepare",outcome="{outcome}"}} 1\n'
    assert (sample in shown.metrics.render()) == counted
    failure = f'scheduled_events_hook_failure_timestamp_seconds{{phase="prepare",outcome="{outcome}"}} 1000\n'
    assert (failure in shown.metrics.render()) == counted


def test_hooks_that_end_well_leave_no_time_of_a_failure():
    shown = display.Display(CLOCK)
    for outcome in ("ok", "nothing"):
        shown.report(Report("a", ReportKind.ENDED, "prepare", outcome), None)
    assert "hook_failure_timestamp" not in shown.metrics.render()


def view_of(metrics_directory):
    """What is shown of a unit that has read a document without events."""
    settings = config.Settings(metrics_directory=str(metrics_directory))
    polls = status.Polls(vm_name="vm1", last_success=1.6e9)
    return status.View(1.6e9, settings, State(serial=0), Config("vm1", frozenset()), polls, None, 0.0, "", "")


def test_the_metrics_go_on_and_show_critical_while_the_status_file_cannot_be_written(tmp_path):
    view = view_of(tmp_path)
    shown, metrics = display.Display(CLOCK), tmp_path / "scheduled_events.prom"
    shown.show(view, str(tmp_path / "status.json"))
    assert "scheduled_events_status 0\n" in metrics.read_text()
    with pytest.raises(OSError, match="missing"):
        shown.show(view, str(tmp_path / "missing" / "status.json"))
    assert "scheduled_events_status 2\n" in metrics.read_text()


def test_the_status_shows_that_the_metrics_cannot_be_written(tmp_path):
    view = view_of(tmp_path / "gone")
    shown, file = display.Display(CLOCK), tmp_path / "status.json"
    for _time in range(2):
        shown.show(view, str(file))
    code, [problem] = status.judge(json.loads(file.read_text()), 1.6e9)
    assert code == 1
    assert f"the metrics cannot be written: [Errno 2] No such file or directory: '{tmp_path}/gone/scheduled" in problem
