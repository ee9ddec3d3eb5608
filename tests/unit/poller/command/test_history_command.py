# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events history``, without a unit that runs."""

import json
import os
import time

import pytest
from _scheduled_events.document import EVENT_TYPES
from _scheduled_events.history import Fact
from _scheduled_events.history_file import append

pytestmark = pytest.mark.edge


@pytest.fixture
def directory(unit):
    return unit.path("history")


def leave(directory, *facts):
    os.makedirs(directory, exist_ok=True)
    append(directory, facts, now=time.time())


def a_fact(ago=0, **fields):
    return Fact(**dict({"kind": "seen", "time": time.time() - ago, "source": "poller", "event_id": "A1"}, **fields))


def test_facts_are_shown_as_a_table(unit, directory):
    leave(
        directory,
        a_fact(event_type="Reboot", event_status="Scheduled", not_before=1600000900.0, announced_seconds=-1.0),
        a_fact(kind="phase_ended", phase="prepare", outcome="failed", reason="10-drain: exit status 1"),
        a_fact(kind="acknowledged", by="the polling unit of vm1", via="metadata service", rule="rule 1: approve"),
    )
    code, output, errors = unit.command("history")
    heading, *rows = output.splitlines()
    assert (code, errors, heading.split()) == (0, "", ["TIME", "EVENT", "ID", "TYPE", "SOURCE", "FACT", "DETAILS"])
    assert "Reboot  poller  seen  " in rows[0]
    assert rows[0].endswith("Scheduled; NotBefore 2020-09-13T12:41:40Z; announced: not known")
    assert rows[1].endswith("phase ended prepare failed  10-drain: exit status 1")
    assert rows[2].endswith("by the polling unit of vm1; through the metadata service; rule 1: approve")


def test_facts_of_the_roles_are_shown_in_the_order_of_time(unit, directory, tmp_path):
    leave(directory, a_fact(30, event_id="A"), a_fact(10, event_id="C"))
    leave(str(tmp_path / "roles"), a_fact(20, event_id="B", source="respond"))
    _code, output, _errors = unit.command(f"--roles-directory={tmp_path / 'roles'}", "history", "--json")
    assert [fact["event_id"] for fact in json.loads(output)["facts"]] == ["A", "B", "C"]


@pytest.mark.parametrize(("since", "shown"), [("1h", ["B"]), ("2d", ["A", "B"]), ("2020-01-31", ["A", "B"])])
def test_facts_since_a_time_are_shown(unit, directory, since, shown):
    leave(directory, a_fact(7200, event_id="A"), a_fact(event_id="B"))
    output = unit.command("history", "--json", "--since", since)[1]
    assert [fact["event_id"] for fact in json.loads(output)["facts"]] == shown


@pytest.mark.parametrize("since", ["yesterday", "1", "2020-02-30", "-1h"])
def test_a_time_that_is_none_is_refused(unit, since):
    code, _output, errors = unit.command("history", f"--since={since}")
    assert code == 2
    assert errors.endswith(f"or a time of UTC like 2026-01-31 or 2026-01-31T12:00:00Z, not {since}\n")


def test_without_a_history_there_are_no_facts(unit):
    assert unit.command("history") == (0, "no facts\n", "")


def test_a_fifo_in_place_of_the_history_is_reported_and_not_waited_for(unit, directory):
    os.makedirs(directory)
    os.mkfifo(os.path.join(directory, "history.jsonl"))
    code, output, errors = unit.command("history")
    assert (code, output) == (1, "")
    assert "history.jsonl cannot be read: it is not a regular file" in errors


def test_hostile_text_in_a_history_reaches_no_terminal(unit, directory):
    os.makedirs(directory)
    with open(os.path.join(directory, "history.jsonl"), "w") as file:
        raw = {"version": 1, "kind": "seen", "time": "2026-01-01T00:00:00.000Z", "source": "poller"}
        file.write(json.dumps(dict(raw, time=time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), reason="\x1b[2J")))
    assert "\x1b" not in unit.command("history")[1] + unit.command("history", "--json")[1]


def leave_preparation(directory, seconds):
    same = {"run": "1", "phase": "prepare"}
    leave(
        directory,
        a_fact(seconds, kind="phase_began", **same),
        a_fact(kind="phase_ended", outcome="ok", **same),
    )


def test_a_forecast_compares_the_preparations_with_the_least_notice(unit, directory):
    unit.configure(margin=10)
    leave_preparation(directory, 40.5)
    code, output, _errors = unit.command("forecast")
    first, *lines = output.splitlines()
    assert (code, first) == (
        1,
        "WARNING: 1 preparation, of which 95 % took 40.5 s or less; hooks end 10 s before NotBefore",
    )
    assert len(lines) == len(EVENT_TYPES) + 1
    assert lines[-1].startswith("  read: 2 facts in ")
    assert lines[2:4] == ["  Redeploy fits with 549 s to spare", "  Preempt: 41 s needed, 20 given"]


def test_a_forecast_says_whether_the_next_window_is_within_the_least_notice(unit, directory):
    open_now, never_soon = {"days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]}, {"from": "00:00", "to": "00:01"}
    unit.configure(
        rules=[
            {"action": "prepare", "event_types": ["Reboot"], "windows": [open_now]},
            {"action": "prepare", "event_types": ["Redeploy"], "lead_time": 2592000, "windows": [never_soon]},
        ]
    )
    leave_preparation(directory, 40)
    lines = unit.command("forecast", "--event-types=Reboot,Redeploy,Preempt")[1].splitlines()
    assert lines[1].endswith("; window every day 00:00 to 24:00 UTC is open now, within the least notice")
    assert "; window every day 00:00 to 00:01 UTC " in lines[2]
    assert lines[2].endswith(", after the least notice")
    assert "window" not in lines[3]


def test_a_forecast_of_some_types_has_the_exit_status_of_these(unit, directory):
    unit.configure()
    leave_preparation(directory, 40)
    code, output, _errors = unit.command("forecast", "--event-types=Reboot,Redeploy", "--json")
    shown = json.loads(output)
    assert (code, shown["exit_code"], [each["fits"] for each in shown["forecasts"]]) == (0, 0, [True, True])


def test_a_forecast_without_a_preparation_is_unknown(unit):
    unit.configure()
    code, output, errors = unit.command("forecast")
    assert (code, output.splitlines()[0], errors) == (3, "UNKNOWN: the history has no preparation that ended well", "")


@pytest.mark.parametrize("has_history", [True, False])
def test_a_forecast_of_an_unknown_type_is_refused(unit, directory, has_history):
    unit.configure()
    if has_history:
        leave_preparation(directory, 1)
    code, _output, errors = unit.command("forecast", "--event-types=Earthquake")
    assert code == 2
    assert f"expected some of {', '.join(EVENT_TYPES)}, separated by commas, not Earthquake" in errors


def test_a_forecast_without_a_configuration_is_unknown(unit):
    code, _output, errors = unit.command("--config=/nowhere", "forecast")
    assert (code, "/nowhere" in errors) == (3, True)
