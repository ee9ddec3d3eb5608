# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with pools of Azure.

The modules of azure.azcollection are replaced by a stand-in that talks to a stand-in of Azure Resource Manager.
"""

import json
import os

import pytest
from arm_stand_in import GATEWAY_POOL, POOL, ArmStandIn, serve

from playbooks import LOCAL

HOSTS = ["web1", "web2", "web3"]


@pytest.fixture
def arm():
    """A stand-in of Azure Resource Manager on loopback."""
    stand_in = ArmStandIn()
    stand_in.server = serve(stand_in)
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()


@pytest.fixture
def run(ansible, arm, stand_in_collections, tmp_path):
    """Return a function that takes the hosts out and puts them back, with a look in between."""

    def start(provider, pool, *, forks, credentials=True):
        def role(state, **keywords):
            return {
                "name": f"Role {state}",
                "ansible.builtin.include_role": {
                    "name": "maintops.scheduled_events.load_balancer",
                    "apply": keywords,
                },
                "vars": {"load_balancer_state": state},
            }

        look = {"ansible.builtin.command": f"cat {tmp_path}/states", "register": "look", "changed_when": False}
        tasks = [
            role("drained", check_mode=True),
            {"name": "Look at the plan", **look},
            role("drained"),
            {"name": "Look at the drained", **look},
            role("active"),
        ]
        hosts = {
            name: {**LOCAL, "private_ipv4_addresses": [f"10.0.0.{number}"], "own": f"{tmp_path}/{name}"}
            for number, name in enumerate(HOSTS, 4)
        }
        return ansible.run_playbook(
            [{"hosts": "all", "gather_facts": False, "tasks": tasks}],
            inventory={"all": {"hosts": hosts}},
            extra_vars={
                "load_balancer_provider": provider,
                "load_balancer_azure_pools": [pool],
                "load_balancer_azure_drain_time": "0",
                "load_balancer_azure_credentials": {"auth_source": "msi"} if credentials else {},
                "load_balancer_state_directory": "{{ own }}",
            },
            options=("--forks", str(forks)),
            env={"ANSIBLE_COLLECTIONS_PATH": stand_in_collections, "ARM_STAND_IN": arm.server.url},
        )

    def note(state):
        (tmp_path / "states").write_text(json.dumps(state))

    start.note = note
    note({})
    return start


@pytest.fixture
def stand_in_collections():
    """The collections of the tests, before them the stand-in of azure.azcollection."""
    here = os.path.join(os.path.dirname(__file__), "..", "..", "support", "collections")
    return os.pathsep.join([os.path.abspath(here), os.environ["ANSIBLE_COLLECTIONS_PATH"]])


@pytest.mark.parametrize("forks", [3, 1])
def test_a_batch_leaves_a_pool_of_a_load_balancer_in_one_write_and_returns_in_one(arm, run, forks):
    arm.add_balancer({name: {"ipAddress": f"10.0.0.{number}"} for number, name in enumerate(HOSTS, 4)})
    arm.throttle_every(6, pause="Please try again after '1' seconds.")
    note_states(arm, run)
    result = run("azure_load_balancer", POOL, forks=forks)
    assert result.rc == 0, result.output
    looks = {task: [each["stdout"] for each in result.all(task=f"Look at the {task}")] for task in ("plan", "drained")}
    assert looks == {"plan": ["{}"] * 3, "drained": [json.dumps(dict.fromkeys(HOSTS, "Down"))] * 3}
    assert set(arm.states().values()) == {"None"}
    plan = [each["msg"] for each in result.tasks if "would take it out of lb/www" in str(each.result.get("msg"))]
    assert len(plan) == 6  # the module and the role show it
    assert arm.written == 2


def test_a_batch_leaves_a_gateway_and_returns(arm, run):
    arm.add_gateway(["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"])
    note_states(arm, run)
    result = run("azure_application_gateway", GATEWAY_POOL, forks=3)
    assert result.rc == 0, result.output
    assert [each["stdout"] for each in result.all(task="Look at the drained")] == ['["10.0.0.7"]'] * 3
    assert sorted(arm.addresses()) == ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"]
    assert arm.written == 2


def test_what_azcollection_says_of_credentials_is_shown_and_the_hosts_are_not_noted(arm, run, tmp_path):
    arm.add_balancer({name: {"ipAddress": f"10.0.0.{number}"} for number, name in enumerate(HOSTS, 4)})
    result = run("azure_load_balancer", POOL, forks=3, credentials=False)
    assert result.rc == 2
    assert "the credentials of the test did not arrive" in " ".join(result.output.split())
    assert not list(tmp_path.glob("web*"))


def note_states(arm, run):
    """Have the playbook see the states after each write, and count the writes that were accepted."""
    arm.written = 0
    put = arm._put

    def write(path, body):
        answer = put(path, body)
        arm.written += 1
        run.note(arm.addresses() if "gateway" in path.lower() else arm.states())
        return answer

    arm._put = write
