# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the gate of the playbook rolling_maintenance refuses, whom it asks, and how it gets along with other runs."""

import collections
import datetime
import json
import pathlib
import time

import pytest
from emulation import until
from fleet_hosts import TASKS, says

from playbooks import ADDRESSED

pytestmark = pytest.mark.timeout(900)  # several runs of a long playbook


def mark_of(owner):
    """The mark of another run, of a machine that is not this one."""
    boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    at = {"wall": 0.0, "monotonic": time.monotonic(), "boot_id": boot_id}
    by = {"node": "controller9", "place": "elsewhere", "pid": 4711, "began": "1"}
    return json.dumps({"owner": owner, "by": by, "stage": "held", "lease": 3600.0, "at": at, "unfinished": {}})


def put_mark(hosts, name, text):
    hosts.mark(name).parent.mkdir(exist_ok=True)
    hosts.mark(name).write_text(text)


def polls(hosts):
    return sum(hosts.emulator.polls(name)["polls"] for name in hosts.emulator.endpoints)


def test_one_look_asks_every_host_of_a_large_fleet_once_and_at_the_same_time(hosts_of, tmp_path):
    others = [f"web{number}" for number in range(2, 14)]
    names = ["web1", *others]
    hosts = hosts_of(*names)
    (tmp_path / "meeting").mkdir()
    own = {name: {"ansible_connection": "meets"} for name in others}
    own["web2"]["scheduled_events_vm_name"] = "other"
    run = hosts.run(
        check=True,
        hosts=["web1"],
        rolling_maintenance_fleet=names,
        host_vars=own,
        extra=("--forks", "4"),
        env={"MEETS_BEFORE": "maintenance_gate", "MEETS_NUMBER": "4", "MEETS_IN": str(tmp_path / "meeting")},
    )
    assert len(list((tmp_path / "meeting").iterdir())) == len(others)
    assert says(run, 'web2: vm_name: "other" is not the name that the metadata service gives this VM')
    assert [hosts.emulator.polls(name)["polls"] for name in names] == [1] * len(names)


def test_a_whole_run_takes_one_look_and_three_marks_for_each_host(hosts_of, tmp_path):
    hosts = hosts_of("web1", "web2")
    log = tmp_path / "addressed"
    hosts.run(hosts=["web1"], host_vars=dict.fromkeys(("web1", "web2"), ADDRESSED), env={"ADDRESSED_LOG": str(log)})
    asked = collections.Counter(line.split()[1] for line in log.read_text().splitlines())
    assert asked["maintenance_gate"] == 1 + 3
    # The record that it leaves is not for others to read.
    record = hosts.directory / "web1" / "state" / "maintenance.json"
    assert record.stat().st_mode & 0o777 == 0o600
    (round_of_it,) = json.loads(record.read_text())["rounds"].values()
    assert round_of_it["hosts"] == ["web1"]  # so that it counts for no fleet with other hosts


def test_a_limit_does_not_hide_an_unavailable_host_of_the_fleet(hosts_of):
    hosts = hosts_of("web1", "web2")
    (hosts.directory / "web1" / "drained").touch()
    run = hosts.run(rc=2, extra=("--limit", "web2"))
    assert says(run, "--limit leaves out web1, so the gate would not count a host that is unavailable there")
    named = {"rolling_maintenance_fleet": ["web1", "web2"], "rolling_maintenance_gate_timeout": 1}
    run = hosts.run(rc=2, extra=("--limit", "web2"), **named)
    assert says(run, "web2 waits for web1 (drained")
    assert hosts.maintained() == []


def test_values_may_come_as_text(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    (hosts.directory / "web3" / "drained").touch()
    text = {
        "rolling_maintenance_fleet": "web1, web2",
        "rolling_maintenance_max_unavailable": "1",
        "rolling_maintenance_load_balancer": "false",
        "rolling_maintenance_gate_timeout": "60",
        "rolling_maintenance_settle": "0",
        "rolling_maintenance_lease": "900",
        "rolling_maintenance_resume_within": "0",
        "rolling_maintenance_reboot_timeout": "9",
    }
    options = [option for name, value in text.items() for option in ("-e", f"{name}={json.dumps(value)}")]
    hosts.run(extra=tuple(options), hosts=["web1", "web2"])
    assert hosts.maintained() == ["web1", "web2"]


def test_a_run_with_nothing_to_do_is_refused_before_any_poll(hosts_of):
    hosts = hosts_of("web1")
    run = hosts.run(rc=2, rolling_maintenance_tasks=None, rolling_maintenance_reboot="if_needed")
    assert says(run, "web1: rolling_maintenance_tasks is not set, and rolling_maintenance_reboot is if_needed, so")
    assert hosts.emulator.polls("web1")["polls"] == 0


# What a tasks file may hold → what is said of it
BROKEN = {
    None: "expected a file on the control node. Give an absolute path",
    "- name: [": "which Ansible cannot load",
    "a: dictionary": "which Ansible cannot load: expected a list of tasks. Fix the file",
    "- no.such.module: {}": "which Ansible cannot load",
    "- name: without an action": "which Ansible cannot load",
}


def test_tasks_files_that_are_missing_or_broken_are_found_before_any_host_is_touched(hosts_of, tmp_path):
    cases = [
        (variable, *case)
        for variable in ("rolling_maintenance_tasks", "rolling_maintenance_health_tasks")
        for case in BROKEN.items()
    ]
    names = [f"web{number}" for number in range(2, 2 + len(cases))]
    hosts = hosts_of("web1", *names)
    paths = {name: tmp_path / f"of-{name}.yml" for name in names}
    for name, (_variable, content, _message) in zip(names, cases, strict=True):
        if content is not None:
            paths[name].write_text(content)
    own = {name: {case[0]: str(paths[name])} for name, case in zip(names, cases, strict=True)}
    run = hosts.run(rc=2, check=True, host_vars=own)
    for name, (variable, _content, message) in zip(names, cases, strict=True):
        assert says(run, f"{name}: {variable} is {paths[name]}, {message}")
    assert polls(hosts) == 0


def test_another_run_on_the_host_or_on_a_neighbour_is_waited_for_and_keeps_its_mark(hosts_of):
    hosts = hosts_of("web1", "web2")
    others = {name: mark_of(f"controller9/run/{name}") for name in ("web1", "web2")}
    for name, mark in others.items():
        put_mark(hosts, name, mark)
    run = hosts.run(
        rc=2, hosts=["web1"], rolling_maintenance_fleet=["web1", "web2"], rolling_maintenance_gate_timeout=2
    )
    held = "under maintenance by another run (controller9, process 4711)"
    assert says(run, f"web1: waits for web1 ({held}); web2 ({held})")
    assert {name: hosts.mark(name).read_text() for name in others} == others
    assert hosts.maintained() == []


def test_two_runs_at_once_keep_the_budget_and_both_get_through(hosts_of, tmp_path):
    hosts = hosts_of("web1", "web2", "web3")
    log = tmp_path / "log"
    tasks = tmp_path / "overlap.yml"
    tasks.write_text(f"- ansible.builtin.shell: echo begin >> {log}; sleep 2; echo end >> {log}\n")
    how = {"rolling_maintenance_fleet": list(hosts.emulator.endpoints), "rolling_maintenance_tasks": str(tasks)}
    first = hosts.start(hosts=["web1", "web2"], **how)
    second = hosts.start(hosts=["web3"], **how)
    for run in (first, second):
        assert run.result().rc == 0, run.result().output
    assert log.read_text().split() == ["begin", "end"] * 3
    assert hosts.marked() == []


def test_a_killed_run_keeps_its_slot_until_its_host_is_maintained_or_checked(hosts_of, tmp_path):
    hosts = hosts_of("web1", "web2", "web3")
    killed = hosts.start(rolling_maintenance_tasks=str(TASKS / "hang.yml"), go_on=str(tmp_path / "never"))
    until((hosts.directory / "web1" / "under-way").exists, timeout=200, what="the maintenance")
    killed.stop()
    fleet = {"rolling_maintenance_fleet": ["web1", "web2", "web3"]}
    run = hosts.run(rc=2, hosts=["web2"], rolling_maintenance_gate_timeout=2, **fleet)
    assert says(run, "web2 waits for web1 (its maintenance by another run")
    assert hosts.maintained() == []
    hosts.run(hosts=["web2"], rolling_maintenance_checked_hosts=["web1"], **fleet)
    hosts.run(hosts=["web3"], **fleet)  # what the operator said of the host lasts
    assert (hosts.maintained(), hosts.marked()) == (["web2", "web3"], [])
    (tmp_path / "never").touch()  # the module ends, as no program waits for it


def test_the_rerun_of_the_hosts_of_a_killed_run_continues_at_once(hosts_of, tmp_path):
    hosts = hosts_of("web1", "web2")
    killed = hosts.start(rolling_maintenance_tasks=str(TASKS / "hang.yml"), go_on=str(tmp_path / "never"))
    until((hosts.directory / "web1" / "under-way").exists, timeout=200, what="the maintenance")
    killed.stop()
    (tmp_path / "never").touch()  # the module ends, as no program waits for it
    assert hosts.marked() == ["web1"]
    hosts.run(rolling_maintenance_gate_timeout=60)
    assert hosts.maintained() == ["web1", "web2"]
    assert hosts.marked() == []


def test_a_run_that_is_killed_at_the_gate_leaves_no_mark(hosts_of):
    hosts = hosts_of("web1", "web2")
    (hosts.directory / "web2" / "drained").touch()
    killed = hosts.start()
    until(lambda: hosts.emulator.polls("web2")["polls"] >= 2, timeout=200, what="a second look")
    killed.stop()
    asked = polls(hosts)
    until(lambda: not killed.processes(), what="the end of all processes of the run")
    assert hosts.marked() == []
    assert polls(hosts) - asked <= 2


def test_no_batch_begins_outside_of_the_windows(hosts_of):
    hosts = hosts_of("vm1")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    window = {"days": f"{later:%a}, {later:%a}", "from": "11:00", "to": "12:00", "timezone": "Europe/Berlin"}
    run = hosts.run(rc=2, rolling_maintenance_windows=[window], rolling_maintenance_gate_timeout=3)
    assert says(run, "The gate stayed shut for 3 s: vm1 waits for the window ")
    hosts.run(rolling_maintenance_windows=[{"from": "00:00"}])
    assert hosts.maintained() == ["vm1"]


def test_a_gate_that_stays_shut_is_a_failure_also_where_the_play_ignores_errors(hosts_of):
    hosts = hosts_of("web1", "web2")
    hosts.emulator.schedule("Reboot", "web1", notice=900)
    play = {"ignore_errors": True, "ignore_unreachable": True}
    run = hosts.run(rc=2, play=play, rolling_maintenance_on_event="fail")
    assert says(run, "rolling_maintenance_on_event is fail")
    assert hosts.maintained() == []
