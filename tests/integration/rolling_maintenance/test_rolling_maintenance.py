# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook rolling_maintenance, with hosts that are all on this machine and share an availability set."""

import json
import pathlib
import tempfile

import pytest
import yaml
from emulation import until
from fleet_hosts import GONE, TASKS, says
from haproxies import Backend, HAProxy

from playbooks import ADDRESSED, LOCAL

pytestmark = pytest.mark.timeout(900)  # several runs of a long playbook


def test_the_phases_of_a_maintenance_and_its_wait_are_in_the_history_of_the_host_and_in_the_result(hosts_of):
    hosts = hosts_of("web1", "web2")
    event_id = hosts.emulator.schedule("Reboot", "web2", notice=900)
    started = hosts.start(hosts=["web1"], rolling_maintenance_fleet=["web1", "web2"])
    until(lambda: hosts.emulator.polls("web2")["polls"] >= 2, what="a second look")
    hosts.emulator.cancel(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    lines = (hosts.directory / "web1" / "state" / "history.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    told = [f"{fact['kind']} {fact.get('phase', '')}".strip() for fact in written]
    assert told == [
        "held",
        *["phase_began tasks", "phase_ended tasks", "phase_began health", "phase_ended health", "returned"],
    ]
    assert written[0]["reason"].startswith("web2 (Reboot Scheduled")
    results = [task.result.get("ansible_facts", {}).get("rolling_maintenance_result") for task in run.tasks]
    assert [result["history"] for result in results if result] == [written]


def test_a_failed_host_stops_the_run_and_the_next_run_takes_up_where_it_stopped(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    run = hosts.run(rc=2, serial=2, rolling_maintenance_max_unavailable=2, broken=["web1"])
    assert sorted(hosts.maintained()) == ["web1", "web2"]
    assert says(run, "web1 failed or was lost, so no further host is taken down")
    assert not says(run, "be out of its load balancer")  # it has none
    assert hosts.marked() == []  # so that events are handled at once
    hosts.run(serial=2, rolling_maintenance_max_unavailable=2)
    assert hosts.maintained() == ["web1", "web3"]


@pytest.mark.parametrize("answer", [None, "", "1,1", "[1, '50%']", ["50 %", 1]])
def test_an_answer_of_a_survey_about_the_batch_is_empty_or_a_list(hosts_of, answer):
    hosts = hosts_of("web1", "web2")
    run = hosts.run(check=True, serial=answer)
    assert run.output.count("PLAY [Maintain") == 2, run.output


def test_the_gate_is_shut_while_an_event_names_a_neighbour_and_for_the_settling_time(hosts_of):
    hosts = hosts_of("web1", "web2")
    event_id = hosts.emulator.schedule("Reboot", "web2", notice=900)
    started = hosts.start(rolling_maintenance_settle=3)
    until(lambda: hosts.emulator.polls("web2")["polls"] >= 2, what="a second look")
    assert hosts.maintained() == []
    assert hosts.marked() in ([], ["web1"])
    hosts.emulator.cancel(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    assert says(run, "web1: waits for web2 (Reboot Scheduled")
    assert "since an event has ended" in run.output
    assert hosts.maintained() == ["web1", "web2"]


def test_a_budget_that_allows_it_opens_the_gate_beside_an_event(hosts_of):
    hosts = hosts_of("web1", "web2")
    hosts.emulator.schedule("Reboot", "web2", notice=900)
    run = hosts.run(rolling_maintenance_max_unavailable=2, rolling_maintenance_on_event="skip")
    assert hosts.maintained() == ["web1"]
    assert says(run, "(web2 is left out, for its event)")


def test_the_gate_gives_up_and_says_what_it_waited_for(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    (hosts.directory / "web2" / "drained").touch()
    run = hosts.run(rc=2, rolling_maintenance_gate_timeout=2, host_vars={"web3": GONE})
    assert says(run, "The gate stayed shut for 2 s: web1 waits for web2 (drained); web3 (cannot be reached)")
    assert hosts.maintained() == []
    assert hosts.marked() == []


def test_the_gate_asks_each_host_where_it_is_when_addresses_are_made_from_names(hosts_of, tmp_path):
    hosts = hosts_of("web1", "web2")
    log = tmp_path / "addressed"
    hosts.run(check=True, host_vars=dict.fromkeys(hosts.emulator.endpoints, ADDRESSED), env={"ADDRESSED_LOG": str(log)})
    asked = sorted(log.read_text().splitlines())
    looks = 2  # one for each batch
    assert asked == sorted(f"at-{name} maintenance_gate" for name in ("web1", "web2") for _look in range(looks))


@pytest.mark.parametrize("at", [1, 2], ids=["while it is looked at", "while its mark is removed"])
def test_a_host_that_reboots_while_it_waits_at_the_gate_is_waited_for(hosts_of, tmp_path, at):
    hosts = hosts_of("web1")
    event_id, broken = hosts.emulator.schedule("Reboot", "web1", notice=900), tmp_path / "broken"
    started = hosts.start(
        host_vars={"web1": {"ansible_connection": "breaks_once"}},
        env={"BREAKS_BEFORE": "maintenance_gate", "BREAKS_AT": str(at), "BREAKS_MARKER": str(broken)},
    )
    until(lambda: broken.exists() and broken.stat().st_size >= at, what="the reboot")
    hosts.emulator.cancel(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    assert hosts.maintained() == ["web1"]
    assert hosts.marked() == []


@pytest.fixture
def balancer(tmp_path):
    """A HAProxy with web1 and web2."""
    backend = Backend(tmp_path / "drained")
    with tempfile.TemporaryDirectory(prefix="haproxy-") as directory:
        haproxy = HAProxy(pathlib.Path(directory), {"www": {"web1": backend.port, "web2": backend.port}})
        yield haproxy
        haproxy.stop()
    backend.stop()


def test_a_host_that_an_operator_keeps_out_of_the_balancer_counts_as_unavailable(hosts_of, balancer):
    hosts = hosts_of("db1", "web1", "web2")
    balancer.command("set server www/web2 state maint")
    run = hosts.run(
        check=True,
        serial=[2, 1],
        host_vars={
            "lb1": {**LOCAL, "load_balancer_haproxy_socket": str(balancer.socket)},
            "db1": {"rolling_maintenance_load_balancer": False},  # the first host of the batch
        },
        rolling_maintenance_max_unavailable=2,
        rolling_maintenance_load_balancer=True,
        load_balancer_provider="haproxy",
        load_balancer_haproxy_hosts=["lb1"],
        load_balancer_haproxy_become=False,
    )
    assert says(run, "web1: would wait for web2 (drained)")
    assert says(run, "web2: would go ahead")


@pytest.mark.parametrize(("on_event", "rc", "maintained"), [("fail", 2, []), ("respond", 0, ["web1"])])
def test_a_host_with_its_own_event(hosts_of, on_event, rc, maintained):
    hosts = hosts_of("web1")
    hosts.emulator.schedule("Reboot", "web1", notice=900, started_for=1)
    hosts.run(rc=rc, rolling_maintenance_on_event=on_event, respond_prepare_tasks=str(TASKS / "trace_drain.yml"))
    assert hosts.maintained() == maintained
    assert len(hosts.emulator.posts()) == (on_event == "respond")


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ("respond_prepare_task", "respond_prepare_task has no effect, expected respond_prepare_tasks"),
        ("respond_started_tasks", "respond_started_tasks is /missing.yml, expected a file on the control node"),
    ],
)
def test_a_response_that_an_event_could_not_get_is_refused_before_the_gate(hosts_of, variable, problem):
    hosts = hosts_of("web1")
    run = hosts.run(rc=2, rolling_maintenance_on_event="respond", **{variable: "/missing.yml"})
    assert says(run, problem)
    assert hosts.maintained() == []
    hosts.run(rolling_maintenance_on_event="skip", **{variable: "/missing.yml"})
    assert hosts.maintained() == ["web1"]


def test_check_mode_shows_the_plan_and_changes_nothing(hosts_of):
    hosts = hosts_of("web1", "web2")
    hosts.emulator.schedule("Reboot", "web2", notice=900)
    run = hosts.run(check=True)
    assert says(run, "web1: would wait for web2 (Reboot Scheduled")
    assert says(run, "web2: would wait for web2 (Reboot Scheduled")
    assert hosts.maintained() == []
    assert list((hosts.directory / "web1").iterdir()) == []


def test_the_keyword_check_mode_of_a_play_shows_the_plan_and_changes_nothing(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    hosts.emulator.schedule("Reboot", "web2", notice=900)
    read_by_another_play = {"__load_balancer_out": ["web3"]}
    run = hosts.run(play={"check_mode": True}, rolling_maintenance_max_unavailable=2, **read_by_another_play)
    assert says(run, "web1: would go ahead")
    assert says(run, "web1: planned")
    assert says(run, "web2: would wait for web2 (Reboot Scheduled")
    assert hosts.maintained() == []
    assert list((hosts.directory / "web1").iterdir()) == []


def test_a_reboot_comes_when_it_is_asked_for_or_needed(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    needed = {"web2": {"rolling_maintenance_reboot": "if_needed", "rolling_maintenance_reboot_needed": True}}
    needed["web3"] = {"rolling_maintenance_reboot": "if_needed", "rolling_maintenance_reboot_needed": ""}
    hosts.run(rolling_maintenance_reboot="never", host_vars=needed)
    assert [(hosts.directory / name / "rebooted").exists() for name in ("web1", "web2", "web3")] == [False, True, False]


def test_a_reboot_that_is_neither_needed_nor_not_needed_fails_the_maintenance(hosts_of):
    hosts = hosts_of("web1")
    run = hosts.run(rc=2, rolling_maintenance_reboot="if_needed", rolling_maintenance_reboot_needed="maybe")
    assert says(run, "rolling_maintenance_reboot_needed")
    assert says(run, "'maybe' is not a valid boolean")


# The files of a host, and whether it needs a reboot; None if that cannot be known.
REBOOTS = {
    "none": ({}, False),
    "marker": ({"reboot-required": ""}, True),
    "command-yes": ({"needs-restarting": "exit 1"}, True),
    "command-no": ({"needs-restarting": "exit 0"}, False),
    "command-fails": ({"needs-restarting": "exit 2"}, None),
}


def test_a_host_is_rebooted_if_the_marker_of_debian_or_the_command_of_rhel_asks_for_it(
    ansible, installed_collection, tmp_path
):
    for host, (files, _reboots) in REBOOTS.items():
        (tmp_path / host).mkdir()
        for name, script in files.items():
            (tmp_path / host / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / host / name).chmod(0o755)
    tasks = yaml.safe_load((installed_collection / "roles/rolling_maintenance/tasks/reboot.yml").read_text())
    text = json.dumps(tasks)
    for path in ("/run/reboot-required", "/usr/bin/needs-restarting"):
        text = text.replace(path, f"{tmp_path}/{{{{ inventory_hostname }}}}/{pathlib.Path(path).name}")
    tasks = json.loads(text)
    tasks[-1]["block"] = [{"name": "Reboot", "ansible.builtin.debug": {}}]
    play = {"hosts": "all", "gather_facts": False, "vars": {"rolling_maintenance_reboot": "if_needed"}, "tasks": tasks}
    run = ansible.run_playbook([play], inventory={"all": {"hosts": dict.fromkeys(REBOOTS, LOCAL)}})
    assert {each.host for each in run.tasks if each.failed} == {"command-fails"}, run.output
    rebooted = {each.host for each in run.all(task="Reboot") if each.status == "ok"}
    assert rebooted == {host for host, (_files, reboots) in REBOOTS.items() if reboots}, run.output
