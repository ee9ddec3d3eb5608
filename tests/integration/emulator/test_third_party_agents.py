# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of others against the emulator: the agents of Debian's package resource-agents, unchanged.

They ask the address of the real service, which is a constant in them; ``redirected`` leads that to the emulator, and
the guard refuses whatever goes round it. Pacemaker's commands are played by ``pacemaker.py``.
"""

import pytest
from agents import COMMANDS, NODES, Cluster
from debian import unpacked


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """The directory of OCF, from the package."""
    try:
        return unpacked("resource-agents", tmp_path_factory.mktemp("resource-agents")) / "usr" / "lib" / "ocf"
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def cluster(fleet, agents, tmp_path):
    """Return a function that sets a cluster up for an agent."""

    def start(agent):
        if not (agents / "resource.d" / "heartbeat" / agent).exists():
            pytest.skip(f"this version of Debian's package resource-agents has no {agent}")
        return Cluster(agent, agents, emulator, tmp_path)

    emulator = fleet(*NODES)
    start.emulator = emulator
    return start


AGENTS = ["azure-events-az", "azure-events"]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_agent_starts_and_reads_the_name_of_its_vm(cluster, agent):
    nodes = cluster(agent)
    assert nodes.run("vm1", "start") == ""
    nodes.monitor("vm1", "vm2")
    assert [nodes.attribute(vm, "azName") for vm in NODES] == ["vm1", "vm2"]
    assert [nodes.attribute(None, f"hostName_{vm}") for vm in NODES] == ["host-a", "host-b"]
    assert cluster.emulator.polls("vm1")["polls"] == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_the_agent_leaves_an_event_of_another_vm_alone(cluster, agent):
    nodes = cluster(agent)
    cluster.emulator.schedule("Reboot", "vm2")
    nodes.monitor("vm1", "vm1")
    assert nodes.attribute("vm1", f"{agent}_curNodeState") in (None, "AVAILABLE")
    assert cluster.emulator.posts() == []


# agent → (attribute of a node in standby, its value then, and after it, the VMs whose agents act until the POST)
STANDBY = [
    ("azure-events-az", "#health-azure", "-1000000", "0", ("vm1", "vm1")),
    ("azure-events", "standby", "on", "off", ("vm1", "vm2")),
]


@pytest.mark.parametrize(("agent", "standby", "on", "off", "acting"), STANDBY)
def test_the_agent_empties_its_node_starts_the_event_and_comes_back(cluster, agent, standby, on, off, acting):
    nodes, emulator = cluster(agent), cluster.emulator
    nodes.monitor("vm1", "vm2")
    event_id = emulator.schedule("Reboot", "vm1")

    nodes.monitor(acting[0])
    assert nodes.attribute("vm1", standby) == on
    assert emulator.posts() == []

    nodes.monitor(acting[1])
    assert emulator.posts() == [(acting[1], [event_id], 200)]
    assert [event["status"] for event in emulator.state()["events"]] == ["Started"]
    assert nodes.attribute("vm1", f"{agent}_curNodeState") == "IN_EVENT"

    emulator.complete(event_id)
    nodes.monitor("vm1")
    assert nodes.attribute("vm1", standby) == off
    assert nodes.attribute("vm1", f"{agent}_curNodeState") == "AVAILABLE"
    assert nodes.commands() == set(COMMANDS)
