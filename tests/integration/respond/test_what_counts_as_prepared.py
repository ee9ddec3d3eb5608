# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A preparation counts only if its end was reached, and a run in which a named host was not prepared fails."""

import json

import pytest
from emulation import until
from responders import AHEAD, TASKS, TURN, approved_at, cancel_once_waited_for, result

pytestmark = pytest.mark.core

RESPOND = {"role": "maintops.scheduled_events.respond"}


def play(**keywords):
    return {"hosts": "all", "gather_facts": False, "roles": [RESPOND], **keywords}


TWIN = {"name": "Stop {{ 'it' }}", "ansible.builtin.command": "{{ 'true' }}"}
FAIL = {"name": "Fail", "ansible.builtin.command": "false"}


def fail_on(host, **more):
    return {
        "name": f"Fail on {host}",
        "ansible.builtin.command": "false",
        "when": f"inventory_hostname == '{host}'",
        **more,
    }


def until_it_has_looked(hosts, run):
    """Wait until vm1 has read the document as it is now: then it asks again."""
    polls = hosts.emulator.polls("vm1")["polls"]
    until(lambda: hosts.emulator.polls("vm1")["polls"] > polls + 1 or not run.running, what="the next look")


def start_and_end(hosts, event_id, run):
    """Start an event, and end it once vm1 has seen its start."""
    hosts.emulator.start(event_id)
    until_it_has_looked(hosts, run)
    hosts.emulator.complete(event_id)


def run_over_the_start(hosts, event_id, plays):
    """A run in which vm1 sees the start of an event, which ends then."""
    started = hosts.ansible.start_playbook(plays, inventory=hosts.inventory())
    until(lambda: f"prepared-{event_id}" in hosts.traces("vm1") or not started.running, what="the preparation")
    start_and_end(hosts, event_id, started)
    return started.result()


END = {"name": "Record the end", "ansible.builtin.debug": {}}


@pytest.fixture
def write(tmp_path):
    def write(name, tasks):
        (tmp_path / name).write_text(f"---\n{json.dumps(tasks)}")  # only YAML has lines
        return str(tmp_path / name)

    return write


def test_what_the_play_ignores_is_a_failed_preparation_that_names_its_task_and_its_file(hosts_of, write):
    hosts = hosts_of("vm1", "vm2", "vm3")
    pair = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD)
    lost = hosts.emulator.schedule("Redeploy", "vm3", notice=AHEAD)
    path = write("drain.yml", [END, fail_on("vm2")])
    inventory = hosts.inventory(
        vm1={"respond_prepare_tasks": path},
        vm2={"respond_prepare_tasks": path},
        vm3={"prepare_loses_it": True},
    )
    started = hosts.ansible.start_playbook([play(ignore_errors=True, ignore_unreachable=True)], inventory=inventory)
    cancel_once_waited_for(hosts.emulator, pair, started, "vm2")
    hosts.emulator.cancel(lost)
    run = started.result()
    assert run.rc in (2, 4), run.output
    assert hosts.emulator.posts() == []
    [failure] = result(run, "vm2")["failures"]
    assert failure.startswith(f'prepare failed for Redeploy {pair}: the task "Fail on vm2" ({path}:2) failed: ')
    assert result(run, "vm1")["held"] == [{"event_id": pair, "reason": "vm2 failed to prepare"}]
    assert hosts.remembered("vm3")[lost.lower()]["runs"]["prepare"]["outcome"] == "running"


def rescued(*tasks):
    return {"block": [*tasks], "rescue": [END]}


def test_what_a_user_ignores_or_rescues_in_the_tasks_themselves_stays_a_preparation(hosts_of, write, tmp_path):
    role = tmp_path / "roles" / "drain" / "tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text(json.dumps([FAIL]))
    name = "{{ inventory_hostname }}"
    nameless = {"ansible.builtin.command": f"false {name}"}
    inner = write("inner.yml", [FAIL])
    tasks = {
        "vm1": [{**FAIL, "ignore_errors": True}],
        "vm2": [rescued(FAIL, {"ansible.builtin.include_tasks": inner})],
        "vm3": [rescued(nameless), {"ansible.builtin.command": f"true {name}"}],
        "vm4": [rescued({**FAIL, "name": f"Fail on {name}"})],
        "vm5": [rescued({"ansible.builtin.include_tasks": "{{ respond_prepare_tasks | dirname }}/inner.yml"})],
        "vm6": [rescued({"ansible.builtin.include_role": {"name": str(tmp_path / "roles" / "drain")}})],
        "vm7": [],
        "vm8": [rescued({"name": f"Stop {name}", "action": "{{ 'ansible.builtin.command' }} false"}), TWIN],
    }
    own = {host: {"respond_prepare_tasks": write(f"{host}.yml", [*each, END])} for host, each in tasks.items()}
    # Also where the same task is not rescued in the other phase, and where a task with templates may be another one.
    own["vm7"].update(
        load_balancer_provider="tasks",
        load_balancer_find_tasks=write("find.yml", [rescued({**FAIL, "name": "Find it"})]),
        load_balancer_drain_tasks=write("drain.yml", [END]),
        load_balancer_return_tasks=write("return.yml", [{**FAIL, "name": "Find it", "when": False}]),
    )
    hosts = hosts_of(*tasks)
    event_id = hosts.emulator.schedule("Redeploy", *tasks, notice=AHEAD, started_for=60)
    started = hosts.ansible.start_playbook([play()], inventory=hosts.inventory(**own))
    until(lambda: approved_at(hosts.emulator, event_id) or "prepare failed" in started.output, what="the outcome")
    if not approved_at(hosts.emulator, event_id):
        hosts.emulator.cancel(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    assert len(approved_at(hosts.emulator, event_id)) == 1


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_an_error_of_the_turn_after_the_tasks_fails_the_host_with_its_message(hosts_of, write, strategy):
    hosts = hosts_of("vm1")
    hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=60)
    tasks = [{"ansible.builtin.copy": {"content": "[1", "dest": "{{ scheduled_events_state_directory }}/respond.json"}}]
    roles = [{"role": "maintops.scheduled_events.respond", "respond_prepare_tasks": write("break.yml", tasks)}]
    run = hosts.run(playbook=[{"hosts": "all", "gather_facts": False, "strategy": strategy, "roles": roles}])
    assert run.rc == 2, run.output
    errors = [turn["msg"] for turn in run.all(host="vm1", action=TURN) if turn.failed]
    assert len(errors) == 2, run.output  # of the turn, and of the section that handles what fails before it
    assert set(errors) == {errors[0]}
    assert "respond.json: it is not JSON" in errors[0]
    assert hosts.emulator.posts() == []


def test_a_failure_that_another_host_clears_is_no_preparation(hosts_of, tmp_path, write):
    """The task that clears it is in a role, in which the role respond does not look."""
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD)
    role = tmp_path / "roles" / "drain" / "tasks"
    role.mkdir(parents=True)
    clear = {"ansible.builtin.meta": "clear_host_errors"}
    (role / "main.yml").write_text(json.dumps([fail_on("vm1"), clear, END]))
    path = write("drain.yml", [{"ansible.builtin.include_role": {"name": str(tmp_path / "roles" / "drain")}}, END])
    inventory = hosts.inventory(vm1={"respond_prepare_tasks": path}, vm2={"respond_prepare_tasks": path})
    started = hosts.ansible.start_playbook([play()], inventory=inventory)
    until(lambda: f"vm1: Redeploy {event_id} prepare failed" in started.output or not started.running, what="the end")
    hosts.emulator.cancel(event_id)
    run = started.result()
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    [failure] = result(run, "vm1")["failures"]
    assert 'the task "Fail on vm1" (a role, a handler, or an included file) ' in failure
    assert "as after meta: clear_host_errors" in failure


def test_a_load_balancer_that_fails_is_named_with_its_own_tasks_file(hosts_of, write):
    hosts = hosts_of("vm1", "vm2")
    ids = {name: hosts.emulator.schedule("Redeploy", name, notice=AHEAD) for name in ("vm1", "vm2")}
    path = write("balancer.yml", [{"name": "Drain", "ansible.builtin.fail": {"msg": "the balancer is away"}}])
    balancer = {f"load_balancer_{each}_tasks": path for each in ("drain", "return")}
    balancer["load_balancer_provider"] = "tasks"
    drain = write("drain.yml", [END])
    inventory = hosts.inventory(
        vm1={**balancer, "respond_prepare_tasks": ""}, vm2={**balancer, "respond_prepare_tasks": drain}
    )
    started = hosts.ansible.start_playbook([play()], inventory=inventory)
    for name, event_id in ids.items():
        cancel_once_waited_for(hosts.emulator, event_id, started, name)
    run = started.result()
    assert hosts.emulator.posts() == []
    for name in ids:
        failure = result(run, name)["failures"][0]
        assert f'"Drain" ({path}:2) failed: the balancer is away' in failure


def test_a_tasks_file_with_which_a_host_would_leave_the_play_fails_that_host_at_the_start(hosts_of):
    hosts = hosts_of("vm1")
    hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD)
    run = hosts.run(host_vars={"vm1": {"respond_prepare_tasks": str(TASKS / "leave.yml")}})
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    assert hosts.traces("vm1") == []
    [failed] = [task for task in run.all(action=TURN) if task.status == "failed"]
    assert f"with meta: end_host in {TASKS / 'leave.yml'}:9" in " ".join(failed["msg"].split())
    summary = run.output.partition("Summary of 1 host:")[2].partition("FAILED vm1: ")[2]
    assert f"respond_prepare_tasks is {TASKS / 'leave.yml'}, with meta: end_host" in summary


def test_a_play_for_each_group_fails_if_an_event_names_hosts_of_both_and_begins(hosts_of):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=AHEAD)
    run = run_over_the_start(hosts, event_id, [play(hosts="vm1"), play(hosts="vm2")])
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    [failure] = result(run, "vm1")["failures"]
    assert failure.startswith(f"{event_id} has begun, and was not acknowledged: vm2 is not a host of this play; ")


def test_a_host_that_left_the_play_before_the_role_fails_the_run_of_its_event(hosts_of):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=AHEAD)
    leave = {"ansible.builtin.meta": "end_host", "when": "inventory_hostname == 'vm2'"}
    run = run_over_the_start(hosts, event_id, [play(pre_tasks=[leave])])
    assert run.rc == 2, run.output
    [failure] = result(run, "vm1")["failures"]
    assert failure == (
        f"{event_id} has begun, and was not acknowledged: vm2 may be one of the hosts that have not answered: vm2"
    )


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_an_event_that_grows_to_a_host_that_has_ended_calls_it_back_or_fails(hosts_of, strategy):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD, started_for=AHEAD)
    (hosts.directory / "vm1" / "hold").touch()
    started = hosts.ansible.start_playbook([play(strategy=strategy)], inventory=hosts.inventory())
    until(lambda: f"preparing-{event_id}" in hosts.traces("vm1"), what="the prepare tasks")
    until(lambda: started.all(host="vm2", action=TURN) or not started.running, what="the turn of vm2")
    hosts.emulator.control("POST", f"events/{event_id}/overrides", {"Resources": ["vm1", "vm2"]})
    (hosts.directory / "vm1" / "hold").unlink()
    if strategy == "linear":
        until(lambda: approved_at(hosts.emulator, event_id) or not started.running, what="the acknowledgement")
        hosts.emulator.complete(event_id)
    else:
        until(lambda: f"prepared-{event_id}" in hosts.traces("vm1"), what="the preparation")
        until_it_has_looked(hosts, started)
        start_and_end(hosts, event_id, started)
    run = started.result()
    assert run.rc == (0 if strategy == "linear" else 2), run.output
    assert len(approved_at(hosts.emulator, event_id)) == (1 if strategy == "linear" else 0)
    if strategy == "free":
        [failure] = result(run, "vm1")["failures"]
        assert failure.startswith(f"{event_id} has begun, and was not acknowledged: vm2 has not prepared (vm2 last ")
