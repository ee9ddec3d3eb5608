# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks in ansible-runner, with the strings that a survey gives, in a project that cannot be written to."""

import re

import pytest

PREPARE = """
- name: Write a record
  ansible.builtin.copy:
    content: prepared
    dest: '{{ vm_directory }}/prepared'
    mode: '0600'
"""
# What AWX says of a job; a slice is a workflow with the name of the template.
JOB = {"awx_job_id": 7, "awx_job_template_name": "Respond to scheduled events"}
SLICE = {**JOB, "awx_workflow_job_id": 6, "awx_workflow_job_name": "Respond to scheduled events"}


@pytest.fixture
def vms(fleet, tmp_path):
    """Return a function that starts an emulator, and an inventory for it: ``vms("web1", "web2")``."""

    def start(*names):
        emulator = fleet(*names, options=("--speed", "60", "--rate-limit", "0"))
        for name in names:
            (tmp_path / name).mkdir()
        inventory = emulator.inventory(
            scheduled_events_endpoint=emulator.endpoints.get,
            vm_directory=lambda name: str(tmp_path / name),
        )
        inventory["all"]["vars"] = {
            "scheduled_events_state_directory": "{{ vm_directory }}/state",
            "load_balancer_probe_flag": "{{ vm_directory }}/drained",
        }
        return emulator, inventory

    return start


def test_respond_takes_the_strings_of_a_survey_and_leaves_artifacts_and_a_summary(runner, vms):
    emulator, inventory = vms("web1", "web2", "web3")
    event_id = emulator.schedule("Redeploy", "web1", "web2", notice=86400, started_for=60)
    run = runner.run(
        "respond",
        inventory=inventory,
        files={"prepare.yml": PREPARE},
        extra_vars={
            **JOB,
            "ansible_become": "false",
            "respond_acknowledge": "prepared",
            "respond_speak_for": "web8, web9",
            "respond_load_balancer": "false",
            "respond_wait_timeout": "240",
            "respond_prepare_tasks": "{{ project }}/prepare.yml",
        },
    )
    assert run.rc == 0, run.output
    [approval] = emulator.log("approved")
    [(sender, _ids, _status)] = emulator.posts()
    event = run.artifacts["scheduled_events_report"]["events"][event_id]
    assert approval["event_id"] == event_id
    assert (event["event_type"], event["acknowledged_by"]) == ("Redeploy", sender)
    assert event["acknowledged_at"].endswith("Z")
    assert sorted(event["hosts"]) == ["web1", "web2"]
    assert all(text.endswith("recovered") for text in event["hosts"].values())
    summary = run.output[run.output.index("Summary of 3 hosts:") :]
    assert f"  Redeploy {event_id}: acknowledged by {sender} at {event['acknowledged_at']}" in summary
    assert "  no event: 1 host" in summary


def test_respond_reports_the_host_that_failed_when_it_was_the_only_one(runner, vms):
    emulator, inventory = vms("web1")
    event_id = emulator.schedule("Reboot", "web1", notice=86400)
    run = runner.run(
        "respond",
        inventory=inventory,
        files={"prepare.yml": "- name: Drain\n  ansible.builtin.fail: {msg: sessions are left}\n"},
        extra_vars={
            **JOB,
            "ansible_become": "false",
            "respond_prepare_tasks": "{{ project }}/prepare.yml",
            "respond_wait_timeout": "1",
        },
    )
    report = run.artifacts["scheduled_events_report"]
    assert run.rc == 2
    assert "acknowledged_by" not in report["events"][event_id]
    failure = report["failures"]["web1"][0]
    reason = r'the task "Drain" \(\S+/prepare\.yml:1\) failed: sessions are left'
    assert re.fullmatch(f"prepare failed for Reboot {event_id}: {reason}", failure)
    assert f"  FAILED web1: {failure}" in run.output


@pytest.mark.parametrize("name", ["respond", "rolling_maintenance"])
def test_a_slice_of_a_job_is_refused_before_anything_is_done(runner, vms, name):
    emulator, inventory = vms("web1")
    run = runner.run(name, inventory=inventory, extra_vars={**SLICE, "ansible_become": "false"})
    assert run.rc == 2
    assert "Set Job Slicing of the template to 1." in run.output
    assert emulator.polls("web1")["polls"] == 0


def test_rolling_maintenance_takes_the_strings_of_a_survey(runner, vms):
    emulator, inventory = vms("web1", "web2", "web3")
    run = runner.run(
        "rolling_maintenance",
        inventory=inventory,
        files={"maintain.yml": PREPARE},
        extra_vars={
            **JOB,
            "ansible_become": "false",
            "rolling_maintenance_serial": "2",
            "rolling_maintenance_max_unavailable": "67%",
            "rolling_maintenance_on_event": "wait",
            "rolling_maintenance_reboot": "never",
            "rolling_maintenance_gate_timeout": "240",
            "rolling_maintenance_settle": "0",
            "rolling_maintenance_load_balancer": "false",
            "rolling_maintenance_tasks": "{{ project }}/maintain.yml",
        },
    )
    assert run.rc == 0, run.output
    outcomes = dict.fromkeys(emulator.endpoints, "maintained")
    assert run.artifacts == {"scheduled_events_report": {"maintenance": outcomes}}
    assert run.output.count("Summary of 3 hosts:") == 1
    assert "  maintained: web1, web2, web3" in run.output


def test_the_report_shows_the_events_of_all_hosts_and_changes_nothing(runner, vms):
    emulator, inventory = vms("web1", "web2")
    event_id = emulator.schedule("Freeze", "web1", notice=86400)
    run = runner.run("report", inventory=inventory, extra_vars={**JOB, "report_scope": "all"})
    assert run.rc == 0, run.output
    event = run.artifacts["scheduled_events_report"]["events"][event_id]
    assert (event["event_status"], event["resources"]) == ("Scheduled", ["web1"])
    assert event["hosts"] == {"web1": "named", "web2": "sees it"}
    assert f"  Freeze {event_id}: Scheduled, NotBefore {event['not_before']}, from Platform, for web1" in run.output
    assert emulator.posts() == []


def test_a_drill_leaves_its_verdict_in_the_artifacts_also_if_it_is_refused(runner, vms):
    emulator, inventory = vms("web1")
    survey = {"drill_event_type": "Redeploy", "drill_serial": "1", "ansible_become": "false"}
    run = runner.run("drill", inventory=inventory, extra_vars={**JOB, **survey, "drill_hosts": "web1"})
    assert run.rc == 2, run.output
    assert "scheduled_events_drill" in run.artifacts, run.output
    drilled = run.artifacts["scheduled_events_drill"]["web1"]
    assert (drilled["outcome"], drilled["event_type"]) == ("refused", "Redeploy")
    [problem] = drilled["problems"]  # this host has no polling unit
    assert problem.endswith("Run the role poller of this release, and start the unit")
    assert "web1: refused: the drill did not begin: " in run.output
    assert emulator.polls("web1")["polls"] == 0


@pytest.mark.long
def test_the_report_names_a_host_whose_events_cannot_be_read(runner, vms, closed_port):
    _emulator, inventory = vms("web1")
    inventory["all"]["hosts"]["web1"]["scheduled_events_endpoint"] = closed_port
    run = runner.run("report", inventory=inventory, extra_vars={**JOB, "report_scope": ""})
    assert run.rc == 2
    [failure] = run.artifacts["scheduled_events_report"]["failures"]["web1"]
    assert closed_port in failure
    assert "  FAILED web1: " in run.output
