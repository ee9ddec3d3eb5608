# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles and the command of the polling unit with ``auto``, on a host whose lease names Azure's wire server.

The wire server is an emulator on loopback that answers only at port 8080. At the default address, no program answers.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from responders import AHEAD, Hosts, approved_at, result

HERE = pathlib.Path(__file__).parent
LEASE = HERE.parents[1] / "leases" / "networkmanager-device-infinite"
DEVICES = "/run/NetworkManager/devices"
MAINTENANCE = "maintops.scheduled_events.rolling_maintenance"
# Each process sees its own /run, which ends with the process.
PYTHON = f"""#!/bin/sh
exec unshare --mount sh -c '
set -e
mount -t tmpfs tmpfs /run
mkdir -p {DEVICES}
cp {LEASE} {DEVICES}/2
exec {sys.executable} "$@"' python "$@"
"""


@pytest.fixture
def python(tmp_path):
    """A Python that sees the lease."""
    path = tmp_path / "python"
    path.write_text(PYTHON)
    path.chmod(0o755)
    tried = subprocess.run([path, "-c", ""], check=False, capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"no namespaces can be made here: {tried.stderr}")
    return path


@pytest.fixture
def redirected(closed_port):
    """Return a function for the environment in which this emulator is the wire server."""

    def to(endpoint):
        closed, emulator = closed_port.rpartition("/")[2], endpoint.rpartition("/")[2]
        addresses = {"169.254.169.254:80": closed, "168.63.129.16:80": closed, "168.63.129.16:8080": emulator}
        return {
            "PYTHONPATH": os.pathsep.join([str(HERE / "redirected"), os.environ["PYTHONPATH"]]),
            "REDIRECTED": json.dumps(addresses),
        }

    return to


def test_the_roles_respond_and_rolling_maintenance_find_the_service_through_a_lease(
    fleet, ansible, tmp_path, python, redirected
):
    (tmp_path / "vms").mkdir()
    hosts = Hosts(fleet("vm1", options=("--speed", "60", "--rate-limit", "0")), ansible, tmp_path / "vms")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD, started_for=60)
    # Each module starts slowly here, so the tasks need none.
    tasks = tmp_path / "tasks.yml"
    tasks.write_text("[{name: Prepare or maintain, ansible.builtin.debug: {msg: done}}]")
    of_respond = {"scheduled_events_endpoint": "auto", "respond_prepare_tasks": str(tasks), "respond_recover_tasks": ""}
    of_maintenance = {
        "scheduled_events_endpoint": "auto",
        "rolling_maintenance_load_balancer": False,
        "rolling_maintenance_reboot": "never",
        "rolling_maintenance_settle": 0,
        "scheduled_events_state_directory": "{{ vm_directory }}/state",
        "rolling_maintenance_tasks": str(tasks),
    }
    inventory = hosts.inventory(vm1={"ansible_python_interpreter": str(python), **of_respond, **of_maintenance})
    plays = [
        {"hosts": "all", "gather_facts": False, "roles": [{"role": role}]}
        for role in ("maintops.scheduled_events.respond", MAINTENANCE)
    ]
    run = ansible.run_playbook(plays, inventory=inventory, env=redirected(hosts.emulator.endpoints["vm1"]))
    assert run.rc == 0, run.output
    assert result(run, "vm1")["acknowledged"] == [event_id]
    assert len(approved_at(hosts.emulator, event_id)) == 1
    [gate] = run.all(host="vm1", action="maintops.scheduled_events.maintenance_gate")[:1]
    assert not gate.failed, gate.result


def test_the_command_of_the_polling_unit_finds_the_service_through_a_lease(
    fleet, tmp_path, python, redirected, installed_collection
):
    emulator = fleet("vm1")
    config = tmp_path / "poller.json"
    config.write_text('{"endpoint": "auto"}')
    program = installed_collection / "roles" / "poller" / "files" / "scheduled-events"
    environment = {**os.environ, **redirected(emulator.endpoints["vm1"])}
    ended = subprocess.run(
        [python, program, f"--config={config}", f"--runtime-directory={tmp_path}", "list"],
        check=False,
        capture_output=True,
        env=environment,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("no events of vm1")
