# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with pools of Azure, and an acknowledgement from outside, in one run.

The modules of azure.azcollection are replaced by a stand-in that talks to a stand-in of Azure Resource Manager.
"""

import json

import pytest
from arm_stand_in import COMPUTE, GATEWAY_POOL, POOL, TOKEN, ArmStandIn, environment, serve

from playbooks import LOCAL

HOSTS = ["web1", "web2", "web3"]
PROTECT = "maintops.scheduled_events.azure_instance_protection"
INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/pool/virtualMachines/13"
ROLE, APPROVE = "maintops.scheduled_events.load_balancer", "maintops.scheduled_events.scheduled_event_approve_arm"
ONE, TWO = "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "602D9444-D2CD-49C7-8624-8643E7171297"

NAMES_WEB2 = {"name": "Name web2", "ansible.builtin.set_fact": {"load_balancer_out": ["web2"]}}
WHO_IS_OUT = {
    "No tasks": "not known",
    "Tasks": ["web2"],
    "Drained": HOSTS,
    "Gateway": ["web2", "web3"],
}


@pytest.fixture
def arm():
    """A stand-in of Azure Resource Manager on loopback. Its ``story`` is what it held after each write."""
    stand_in = ArmStandIn(updating_for=0)
    stand_in.add_balancer({name: {"ipAddress": f"10.0.0.{number}"} for number, name in enumerate(HOSTS, 4)})
    stand_in.add_gateway(["10.0.0.4", "10.0.0.7"])
    stand_in.put(INSTANCE)
    stand_in.story = []
    put = stand_in._put

    def write(path, body):
        answer = put(path, body)
        if path != INSTANCE:
            stand_in.story.append(stand_in.addresses() if "gateway" in path.lower() else stand_in.states())
        return answer

    stand_in._put = write
    server = serve(stand_in)
    stand_in.url = server.url
    yield stand_in
    server.stop()


def role(state, provider, pool, **keywords):
    """A task that includes the role."""
    variables = {"load_balancer_state": state, "load_balancer_provider": provider, "load_balancer_azure_pools": [pool]}
    return {"name": state, "ansible.builtin.include_role": {"name": ROLE, "apply": keywords}, "vars": variables}


def approve(name, *event_ids, **options):
    """A task that acknowledges; the name of the VM is that of the inventory."""
    arguments = {"event_ids": list(event_ids), "resource_id": "{{ id }}", "credentials": "{{ azure }}", **options}
    return {"name": name, APPROVE: arguments, "ignore_errors": True}


def protect(name, **keywords):
    """A task that protects an instance of a scale set from scale-in."""
    arguments = {"resource_id": INSTANCE, "from_scale_in": True, "credentials": "{{ azure }}"}
    return {"name": name, PROTECT: arguments, **keywords}


def who_is_out(name, provider, pool="", hosts=(*HOSTS, "lost"), **variables):
    """Tasks of another role that read which of the hosts are out, before and for the whole batch."""
    own = {"load_balancer_provider": provider, "load_balancer_azure_pools": [pool], "__load_balancer_asked": hosts}
    include = {"name": ROLE, "tasks_from": "servers", "apply": {"run_once": True}}
    shown = "{{ __load_balancer_out | default('not known') }}"
    return [
        {"name": "Look", "ansible.builtin.include_role": include, "vars": {**own, **variables}},
        {"name": name, "ansible.builtin.debug": {"msg": shown}},
    ]


def test_hosts_leave_pools_and_return_and_events_are_acknowledged(ansible, arm, ssh, tmp_path):
    started = 409, {"error": {"code": "Conflict", "message": "started"}}
    arm.answers.append(lambda _method, path, _body: started if path.endswith(f"/{TWO}/acknowledge") else None)
    arm.throttle_every(6, pause="Please try again after '1' seconds.")
    balancer, gateway = ("azure_load_balancer", POOL), ("azure_application_gateway", GATEWAY_POOL)
    (tmp_path / "out.yml").write_text(json.dumps([NAMES_WEB2]))
    plays = [
        {
            "hosts": ",".join(HOSTS),
            "gather_facts": False,
            "tasks": [
                *who_is_out("No tasks", "tasks"),
                *who_is_out("Tasks", "tasks", load_balancer_out_tasks=str(tmp_path / "out.yml")),
                role("drained", *balancer, check_mode=True),
                role("drained", *balancer),
                *who_is_out("Drained", *balancer),
                role("active", *balancer),
                *who_is_out("Gateway", *gateway),
            ],
        },
        {
            "hosts": "web1",
            "gather_facts": False,
            "tasks": [
                role("drained", *gateway),
                role("active", *gateway),
                approve("One", ONE, control_node="gate"),
                approve("Two", ONE, TWO),
                approve("Without credentials", ONE, credentials={}),
                protect("Protect in check mode", check_mode=True),
                protect("Protect"),
            ],
        },
    ]
    hosts = {
        name: {
            **LOCAL,
            "id": f"{COMPUTE}/virtualMachines/{name}",
            "private_ipv4_addresses": [f"10.0.0.{number}"],
            "scheduled_events_state_directory": str(tmp_path / name),
        }
        for number, name in enumerate(HOSTS, 4)
    }
    hosts["lost"] = {**LOCAL, "private_ipv4_addresses": []}
    hosts["gate"] = {**LOCAL, **ssh.VARIABLES}
    run = ansible.run_playbook(
        plays,
        inventory={"all": {"hosts": hosts}},
        extra_vars={
            "azure": {"auth_source": "msi"},
            "load_balancer_azure_credentials": "{{ azure }}",
            "load_balancer_azure_drain_time": "0",  # as -e sends it
            "numbers": {"gate": 22},  # for the variables of ssh
        },
        # The third host places its order, too, before the first writes. With -vvv, Ansible shows what ssh returns.
        options=("--forks", "2", "-vvv"),
        env=environment(arm),
    )
    assert run.rc == 0, run.output
    assert "at-gate" in {argument for call in ssh.calls() for argument in call}
    assert TOKEN not in run.output
    assert arm.story == [
        dict.fromkeys(HOSTS, "Down"),  # one write for all hosts, and nothing before in check mode
        dict.fromkeys(HOSTS, "None"),
        ["10.0.0.7"],
        ["10.0.0.7", "10.0.0.4"],
    ]
    known = {name: [run.one(task=name, host=host)["msg"] for host in HOSTS] for name in WHO_IS_OUT}
    assert known == {name: [out] * len(HOSTS) for name, out in WHO_IS_OUT.items()}
    assert run.output.count("It is not known whether the load balancers give traffic to lost. Set") == 2
    assert "give traffic to web1, web2, web3, lost. Set load_balancer_out_tasks" in run.output
    assert len([each for each in run.tasks if each.result.get("msg") == "would take it out of lb/www"]) == 3
    assert not [name for name in HOSTS if (tmp_path / name / "load-balancer.json").exists()]
    assert run.one(task="One")["approved"] == [ONE]
    assert arm.acknowledged == [ONE, ONE]  # the second time beside another one
    two = run.one(task="Two")
    assert (two["approved"], [each["event_id"] for each in two["refused"]], two.failed) == ([ONE], [TWO], True)
    simulated, protected = run.one(task="Protect in check mode"), run.one(task="Protect")
    assert [(task["changed"], task["before"]) for task in (simulated, protected)] == [(True, False)] * 2
    assert arm.resources[INSTANCE.lower()]["properties"] == {"protectionPolicy": {"protectFromScaleIn": True}}
    assert "the credentials of the test did not arrive" in run.one(task="Without credentials")["msg"]


def test_azure_is_not_asked_again_where_the_drain_has_no_time_for_that(ansible, arm, tmp_path):
    arm.answers.append(lambda *_request: (503, {"error": {"code": "ServerUnavailable", "message": "Busy."}}))
    options = {"provider": "azure_load_balancer", "pools": [POOL], "addresses": ["10.0.0.4"], "finish_within": 4}
    options.update(state="drained", directory=str(tmp_path / "state"), credentials={"auth_source": "msi"})
    play = {"hosts": "web1", "gather_facts": False, "tasks": [{"name": "Drain", ROLE: options}]}
    run = ansible.run_playbook([play], inventory={"all": {"hosts": {"web1": LOCAL}}}, env=environment(arm))
    assert run.one(task="Drain").failed, run.output
    assert len(arm.calls) <= 1, arm.calls  # the first pause is longer than the time
