# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file for node_exporter: right for ordinary documents, and written for any."""

import json
import os

import pytest
from _scheduled_events.document import parse
from scheduled_events_poller.unit.metrics import FILE_NAME, Metrics

EVENT = {
    "EventId": "c7061bac",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["vm1"],
    "EventStatus": "Scheduled",
}


def polled(incarnation=1, **changes):
    raw = {"DocumentIncarnation": incarnation, "Events": [dict(EVENT, **changes)]}
    metrics = Metrics()
    metrics.poll_succeeded(parse(json.dumps(raw), api_version="2020-07-01"), vm_name="vm1", now=1769860800.5)
    return metrics


def test_a_document_is_counted():
    lines = polled().render().splitlines()
    assert "scheduled_events_incarnation 1" in lines
    assert 'scheduled_events_events{type="Reboot",status="Scheduled"} 1' in lines
    assert "scheduled_events_last_successful_poll_timestamp_seconds 1769860800.5" in lines


def test_events_that_nothing_prepares_for_are_counted():
    metrics = polled()
    assert "scheduled_events_unprepared_events 0" in metrics.render().splitlines()
    metrics.set("unprepared_events", 2)
    assert "scheduled_events_unprepared_events 2" in metrics.render().splitlines()


def test_the_next_moment_that_a_rule_chose_is_written_only_while_an_event_waits():
    metrics = polled()
    assert "scheduled_events_waits_until_timestamp_seconds 1" not in metrics.render()
    metrics.set("waits_until_timestamp_seconds", 1769864400.0)
    assert "scheduled_events_waits_until_timestamp_seconds 1769864400" in metrics.render().splitlines()


@pytest.mark.parametrize(
    ("text", "label"),
    [('a"b', 'a\\"b'), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("gr\udcfcn", "gr?n"), ("\ud800", "?"), ("ü", "ü")],
)
def test_any_text_makes_a_label(text, label):
    metrics = Metrics()
    metrics.hooks_ended(text, "ok", now=0)
    assert f'scheduled_events_hook_runs_total{{phase="{label}",outcome="ok"}} 1' in metrics.render()


@pytest.mark.parametrize("incarnation", [10**400, -(10**400), 2**63 + 1])
def test_a_huge_incarnation_is_left_out(incarnation):
    metrics = polled(incarnation)
    assert "scheduled_events_incarnation" not in metrics.render()
    assert "scheduled_events_last_successful_poll" in metrics.render()


def test_attempts_to_acknowledge_are_counted_by_their_outcome():
    metrics = Metrics()
    for accepted in (True, False, False):
        metrics.approval_ended(accepted=accepted)
    lines = metrics.render().splitlines()
    assert 'scheduled_events_approvals_total{outcome="accepted"} 1' in lines
    assert 'scheduled_events_approvals_total{outcome="failed"} 2' in lines


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300])
def test_any_duration_is_written(seconds):
    metrics = Metrics()
    metrics.hooks_took("prepare", seconds)
    metrics.acknowledged(seconds)
    assert 'scheduled_events_hook_duration_seconds_count{phase="prepare"} 1' in metrics.render()


def test_the_file_is_written_with_any_text(tmp_path):
    metrics = Metrics()
    metrics.hooks_ended("\ud800", "ok", now=0)
    metrics.write(str(tmp_path))
    assert os.listdir(str(tmp_path)) == [FILE_NAME]
    assert 'phase="?"' in (tmp_path / FILE_NAME).read_text()


def test_a_file_that_cannot_be_written_is_an_error_for_the_caller(tmp_path):
    with pytest.raises(OSError, match="absent"):
        Metrics().write(str(tmp_path / "absent"))
