# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Handlers that the tasks of a rolling maintenance notify, and hosts that leave the play."""

import pytest
from fleet_hosts import TASKS, says

pytestmark = pytest.mark.timeout(900)  # several runs of a long playbook
BALANCED = {
    "rolling_maintenance_load_balancer": True,
    "load_balancer_provider": "tasks",
    "load_balancer_drain_tasks": str(TASKS / "trace_drain.yml"),
    "load_balancer_return_tasks": str(TASKS / "trace_return.yml"),
    "scheduled_events_state_directory": "{{ vm_directory }}/state",
    "rolling_maintenance_tasks": str(TASKS / "notify.yml"),
    "rolling_maintenance_reboot": "always",
    "rolling_maintenance_reboot_tasks": str(TASKS / "trace_reboot.yml"),
    "rolling_maintenance_health_tasks": str(TASKS / "trace_health.yml"),
}
RESTART = {
    "name": "Restart the service",
    "ansible.builtin.shell": "echo restarted >> '{{ vm_directory }}/trace'; {{ handler | default('true') }}",
}
NOTIFYING = {
    "name": "Write the configuration",
    "listen": "Change the service",
    "ansible.builtin.debug": {},
    "changed_when": True,
    "notify": "Restart the service",
}
RELOAD = {
    "name": "Reload the balancer",
    "ansible.builtin.shell": "echo reloaded >> '{{ vm_directory }}/trace'",
}
HANDLERS = [RELOAD, RESTART, NOTIFYING]  # in this order, one flush does not run both


@pytest.mark.core
@pytest.mark.parametrize(("strategy", "decisions"), [("linear", 1), ("free", 2)])
def test_a_handler_ends_before_the_next_step_of_the_maintenance(hosts_of, strategy, decisions):
    hosts = hosts_of("web1", "web2")
    # With the strategy free each host keeps to its own decision, also if Ansible takes their results at once.
    run = hosts.run(
        play={"handlers": HANDLERS, "strategy": strategy},
        serial=2,
        env={"ANSIBLE_CALLBACKS_ENABLED": "record_results,gates_together"},
        **BALANCED,
        rolling_maintenance_max_unavailable=2,
        balancer_reloads=True,
    )
    gate = {"action": "maintops.scheduled_events.maintenance_gate", "task": "Wait until the batch may begin"}
    assert len(run.all(**gate)) == decisions
    maintenance = ["maintained", "restarted", "reboot", "restarted", "health", "restarted"]
    story = ["drain", "reloaded", *maintenance, "return", "reloaded"]
    assert (hosts.trace("web1"), hosts.trace("web2")) == (story, story)


@pytest.mark.core
def test_a_host_whose_handler_fails_stays_out_and_the_next_run_finishes_it(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    balanced = {**BALANCED, "rolling_maintenance_reboot": "never", "rolling_maintenance_health_tasks": ""}
    run = hosts.run(
        rc=2,
        play={"handlers": HANDLERS},
        serial=2,
        host_vars={"web1": {"handler": "false"}},
        rolling_maintenance_max_unavailable=2,
        **balanced,
    )
    assert hosts.trace("web1") == ["drain", "maintained", "restarted"]
    assert hosts.trace("web2")[-1] == "return"
    assert hosts.trace("web3") == []
    assert says(run, "return code. The host may be out of its load balancer. Fix the cause")
    assert says(run, "web1 failed or was lost, so no further host is taken down")
    hosts.run(play={"handlers": HANDLERS}, rolling_maintenance_max_unavailable=2, **balanced)
    assert hosts.trace("web1")[-1] == "return"
    assert hosts.trace("web2").count("maintained") == 1
    assert hosts.trace("web3")[-1] == "return"


def test_a_host_that_left_the_play_before_the_gate_does_not_stop_the_others(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    leave = {"ansible.builtin.meta": "end_host", "when": "inventory_hostname == 'web1'"}
    hosts.run(play={"pre_tasks": [leave]}, serial=2, rolling_maintenance_max_unavailable=2)
    assert hosts.maintained() == ["web2", "web3"]


@pytest.fixture
def leaving():
    return {**BALANCED, "rolling_maintenance_tasks": str(TASKS / "leave.yml")}


def test_a_host_that_leaves_the_play_during_its_maintenance_stays_out_and_stops_the_run(hosts_of, leaving):
    hosts = hosts_of("web1", "web2")
    run = hosts.run(rc=2, play={}, **leaving)
    assert hosts.trace("web1") == ["drain"]
    assert hosts.trace("web2") == []
    assert says(run, "web1 failed or was lost, so no further host is taken down")


def test_the_last_host_that_leaves_the_play_during_its_maintenance_fails_the_run(hosts_of, leaving):
    run = hosts_of("web1").run(rc=2, **leaving)
    assert says(run, "web1 did not come to the end of its maintenance: a task such as meta: end_host took it")


def test_with_any_errors_fatal_no_host_is_put_back_unhealthy_and_the_next_run_finishes(hosts_of):
    hosts = hosts_of("web1", "web2", "web3")
    play = {"any_errors_fatal": True}
    run = hosts.run(rc=2, play=play, serial=2, rolling_maintenance_max_unavailable=2, broken=["web1"])
    assert "web3" not in hosts.maintained()
    assert hosts.marked() == []  # also of the host of which no task failed
    assert says(run, 'The maintenance of web1 failed at "Fail where the test wants it": as the test wants it')
    hosts.run(play=play, serial=2, rolling_maintenance_max_unavailable=2)
    assert {"web1", "web3"} <= set(hosts.maintained())
    assert hosts.marked() == []


def test_hosts_maintained_with_tags_that_may_leave_out_tasks_are_maintained_again_without_them(hosts_of):
    hosts = hosts_of("web1", "web2")
    allowed = {"web1": {"rolling_maintenance_allow_skip_tags": True}}
    run = hosts.run(host_vars=allowed, extra=("--skip-tags", "slow"))
    assert says(run, "web1: maintained")
    assert not says(run, "web1: maintained in part")
    assert says(run, "web2: maintained in part with --skip-tags slow (run the role without these tags, or")
    assert hosts.maintained() == ["web1", "web2"]
    hosts.run(host_vars=allowed)
    assert hosts.maintained() == ["web2"]
