# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The windows of a rolling maintenance, and what the status of the polling unit says at the gate."""

import json
import types

import pytest

from plugins.module_utils import _maintenance_calls
from plugins.module_utils._maintenance import Host
from plugins.module_utils._scheduled_events.clock import CLOCK
from plugins.module_utils._scheduled_events.files import Folder
from plugins.plugin_utils._gate.decision import GateError
from plugins.plugin_utils._gate.gate import _closed

MONDAY_NOON = 1795435200.0  # 2026-11-23, in UTC
NIGHTS = {"days": ["Mon"], "from": "22:00", "to": "05:00", "timezone": "Europe/Berlin"}


def test_a_batch_waits_for_the_next_window_by_the_clocks_of_its_zone():
    assert _closed([NIGHTS], MONDAY_NOON) == (
        "the window Mon 22:00 to 05:00 Europe/Berlin, which opens at 2026-11-23T21:00:00Z"
    )


@pytest.mark.parametrize("windows", [[], [{}], [{"from": "11:00"}, NIGHTS]])
def test_a_batch_waits_for_no_window(windows):
    assert _closed(windows, MONDAY_NOON) == ""


@pytest.mark.parametrize("window", [{"timezone": "Mars/Olympus"}, {"days": ["Monday"]}, {"until": "12:00"}])
def test_a_wrong_window_is_refused_with_its_place(window):
    with pytest.raises(GateError, match=r"^rolling_maintenance_windows\[0\]\."):
        _closed([window], MONDAY_NOON)


@pytest.fixture
def status(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    monkeypatch.setattr(_maintenance_calls, "STATUS_FILE", str(path))
    monkeypatch.setattr(_maintenance_calls, "CLOCK", CLOCK._replace(wall=lambda: 1000.0))
    return path


OLD = json.dumps({"time": 969.0, "events": [{"event_id": "A", "waits_until": "x", "hooks": {}}], "unrecovered": []})

LONG = f'{{"time": {"9" * 400}, "events": [], "unrecovered": []}}'


def event(event_id, waits_until, **hooks):
    return {"event_id": event_id, "waits_until": waits_until, "hooks": hooks}


def waiting():
    return _maintenance_calls._said_by_the_unit()[0]


def test_the_events_that_wait_are_those_without_hooks_that_ran(status):
    moment = "2026-11-23T22:00:00Z"
    events = [event("A", moment), event("B", None), event("C", moment, prepare="ok")]
    status.write_text(json.dumps({"time": 970.0, "events": events, "unrecovered": []}))
    assert waiting() == ["A"]


@pytest.mark.parametrize("content", ["", "[]", '{"time": 980.0, "events": [1]}', OLD, LONG])
def test_a_status_that_is_old_or_cannot_be_read_shows_no_event_that_waits(status, content):
    status.write_text(content)
    assert waiting() == []


def test_without_a_polling_unit_no_event_waits(status):
    assert not status.exists()
    assert waiting() == []


@pytest.mark.parametrize(
    ("said", "prepared"),
    [
        ({"events": [], "unrecovered": ["A"]}, True),
        ({"events": [event("A", None, advised="ok")], "unrecovered": []}, False),
        ({"events": [], "unrecovered": []}, False),
    ],
)
@pytest.mark.parametrize("time", [1000.0, 500.0], ids=["runs", "has stopped"])
def test_a_host_is_drained_while_its_polling_unit_has_to_recover_it(status, tmp_path, said, prepared, time):
    status.write_text(json.dumps({"time": time, **said}))
    options = {name: option.get("default") for name, option in _maintenance_calls.OPTIONS.items()}
    module = types.SimpleNamespace(params=options, check_mode=False)
    folder = Folder(tmp_path)
    found = _maintenance_calls.survey(module, Host(folder), flag_is_up=lambda: False, read=dict)
    assert found["drained"] == prepared
