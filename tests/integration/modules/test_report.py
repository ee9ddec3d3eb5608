# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that reports what happened to the events of hosts."""

import datetime
import json
import os
import re
import stat
import xml.etree.ElementTree as ET

import pytest

from playbooks import LOCAL

ID = "c7061bac-afdc-4513-b24b-aa5f13a16123"
BEGAN = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(hours=1)


def after(seconds):
    """A time of the history."""
    moment = BEGAN + datetime.timedelta(seconds=seconds)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


FACTS = [
    {"kind": "seen", "time": after(0.25), "event_source": "Platform", "resources": ["web1"], "resource_count": 1},
    {"kind": "phase_began", "time": after(0.3), "phase": "prepare"},
    {"kind": "phase_ended", "time": after(120.3), "phase": "prepare", "outcome": "ok"},
    {"kind": "acknowledged", "time": after(120.4), "by": "the polling unit of web1", "via": "metadata service"},
]


@pytest.fixture(scope="module")
def report(ansible, fleet, tmp_path_factory):
    """The outputs of a run for hosts with a history, with an empty one, with a FIFO in its place, and without one."""
    emulator = fleet("web1", "web2", "web3", "web4")
    directory = tmp_path_factory.mktemp("report")
    inventory = {"all": {"hosts": {}}}
    for vm in emulator.state()["vms"]:
        history = directory / vm["name"]
        if vm["name"] != "web4":
            history.mkdir()
        own = {"scheduled_events_endpoint": vm["endpoint"], "report_history_directories": [str(history)]}
        inventory["all"]["hosts"][vm["name"]] = {**LOCAL, **own}
    known = {"version": 1, "source": "poller", "event_id": ID, "event_type": "Reboot"}
    known["not_before"] = after(900)
    lines = [json.dumps({**known, **fact}) for fact in FACTS]
    (directory / "web1" / "history.jsonl").write_text("\n".join([*lines, ""]))
    os.mkfifo(directory / "web3" / "history.jsonl")
    outputs = {f"report_{kind}": str(directory / f"report.{kind}") for kind in ("html", "json", "otlp", "junit")}
    extra = {**outputs, "ansible_become": False}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report",
        inventory=inventory,
        extra_vars={"report_hosts": "all", **extra},
        env={"ANSIBLE_STRATEGY": "free"},  # with which run_once runs for each host
    )
    assert run.rc == 0, run.output
    run.one(task="Write the report")
    return directory, run


def test_the_report_has_what_the_history_of_a_host_has(report):
    directory, run = report
    found = json.loads((directory / "report.json").read_text())
    [event] = found["events"]
    [lane] = event["hosts"]
    assert (event["event_type"], event["announced_at"]) == ("Reboot", after(0.25))
    assert (lane["host"], lane["prepared"], lane["margin"]) == ("web1", after(120.3), 779.7)
    assert (lane["acknowledged"], lane["by"]) == (after(120.4), "the polling unit of web1")
    assert found["verdict"] in run.output
    assert re.search(r"^Read: \d+ facts of \d hosts, from ", run.output, re.MULTILINE)


def test_a_history_that_cannot_be_read_is_named_and_an_empty_one_is_not(report):
    directory, _run = report
    found = json.loads((directory / "report.json").read_text())
    assert not found["good"]
    assert list(found["unread"]) == ["web3", "web4"]
    assert found["unread"]["web4"][0].startswith("there is no history on this host: ")
    assert found["hosts"] == ["web1", "web2", "web3", "web4"]


def test_each_output_is_written_for_its_owner_and_group_alone(report):
    directory, _run = report
    outputs = sorted(directory.glob("report.*"))
    assert [path.name for path in outputs] == ["report.html", "report.json", "report.junit", "report.otlp"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in outputs} == {0o640}
    assert "Reboot of web1" in (directory / "report.html").read_text()
    assert ET.parse(directory / "report.junit").getroot().find(".//testcase").get("name") == "web1"


def test_the_events_of_now_are_reported_as_well(report):
    _directory, run = report
    assert len(run.all(task="Read the events of the host")) == 4


def test_check_mode_does_not_say_that_a_report_was_written(ansible, tmp_path):
    page = tmp_path / "page.html"
    task = {"maintops.scheduled_events.scheduled_events_report": {"variable": "history", "html": str(page)}}
    inventory = {"all": {"hosts": {"web1": {**LOCAL, "history": {"facts": [], "problems": []}}}}}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": [task]}], inventory=inventory, options=("--check",)
    )
    assert run.rc == 0, run.output
    assert f"Would be written: {page}" in run.output
    assert f"Written: {page}" not in run.output
    assert not page.exists()


@pytest.mark.parametrize(
    ("playbook", "days"), [("report", "0"), ("report", "week"), ("report", "1e999"), ("drill", "")]
)
def test_days_that_are_not_a_number_above_0_are_refused_before_anything_is_read(ansible, tmp_path, playbook, days):
    run = ansible.run_playbook(
        f"maintops.scheduled_events.{playbook}",
        inventory={"all": {"hosts": {"web1": LOCAL}}},
        extra_vars={
            f"{playbook}_hosts": "web1",
            "ansible_become": False,
            "report_json": str(tmp_path / "report.json"),
            "report_days": days,
        },
    )
    assert run.rc == 2, run.output
    assert f"report_days is {days}, expected a number above 0, up to 36500. Correct it" in run.output
    assert {task.action.rpartition(".")[2] for task in run.tasks} == {"fail"}
    assert not (tmp_path / "report.json").exists()


def test_a_host_does_not_choose_what_is_written_on_the_control_node(ansible, tmp_path):
    own = tmp_path / "of-the-control-node"
    own.write_text("kept")
    answer = {"changed": False, "facts": [], "problems": [], "ansible_facts": {"report_json": str(own)}}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    known = {"ANSWERS": "answer.json", "ANSWERS_COUNT": "count"}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report",
        inventory={"all": {"hosts": {"web1": {**LOCAL, "ansible_connection": "answers"}}}},
        extra_vars={"report_hosts": "all", "ansible_become": False, "report_html": str(tmp_path / "report.html")},
        env={"ANSWERS_AFTER": "0", **{name: str(tmp_path / file) for name, file in known.items()}},
    )
    assert run.one(task="Write the report")["msg"].startswith("web1 has returned the facts report_json, which are")
    assert own.read_text() == "kept"


def test_a_report_takes_the_place_of_no_device_and_of_no_link_to_one(ansible, closed_port, tmp_path):
    output = tmp_path / "stdout"
    output.symlink_to("/dev/null")
    own = {"scheduled_events_endpoint": closed_port, "report_history_directories": [str(tmp_path)]}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report",
        inventory={"all": {"hosts": {"web1": {**LOCAL, **own}}}},
        extra_vars={"report_hosts": "all", "ansible_become": False, "report_json": str(output)},
    )
    assert output.is_symlink()
    assert run.one(task="Write the report")["msg"].startswith(f"{output} is not a regular file")


def test_without_an_endpoint_of_its_own_the_report_asks_where_the_polling_unit_of_the_host_asks(
    ansible, fleet, tmp_path
):
    emulator = fleet("web1")
    endpoint = emulator.state()["vms"][0]["endpoint"]
    (tmp_path / "scheduled_events.fact").write_text(json.dumps({"endpoint": endpoint}))
    inventory = {"all": {"hosts": {"web1": {**LOCAL, "__report_facts": str(tmp_path)}}}}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report", inventory=inventory, extra_vars={"report_hosts": "all"}
    )
    assert run.rc == 0, run.output
    assert run.one(task="Read the events of the host")["endpoint"] == endpoint


def test_a_host_on_which_nothing_can_run_is_reported_with_the_reason(ansible):
    own = {"ansible_become": True, "ansible_become_user": "nobody", "ansible_become_exe": "/nonexistent/sudo"}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report",
        inventory={"all": {"hosts": {"web1": {**LOCAL, **own}}}},
        extra_vars={"report_hosts": "all"},
    )
    assert run.rc == 2
    assert "is undefined" not in run.output
    assert "FAILED web1: Task failed: Premature end of stream waiting for become success" in run.output


def test_a_report_whose_path_cannot_be_looked_at_says_so(ansible, closed_port, tmp_path):
    output = tmp_path / ("x" * 300)
    own = {"scheduled_events_endpoint": closed_port, "report_history_directories": [str(tmp_path)]}
    run = ansible.run_playbook(
        "maintops.scheduled_events.report",
        inventory={"all": {"hosts": {"web1": {**LOCAL, **own}}}},
        extra_vars={"report_hosts": "all", "ansible_become": False, "report_json": str(output)},
    )
    message = run.one(task="Write the report")["msg"]
    assert message.startswith(f"{output} cannot be written: File name too long")
    assert message.count("File name too long") == 1
