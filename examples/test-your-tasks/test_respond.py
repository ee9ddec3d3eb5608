# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook on this machine, without containers: pytest test_respond.py."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
LIST = ["ansible-galaxy", "collection", "list", "maintops.scheduled_events", "--format", "json"]
PROGRAM = "maintops/scheduled_events/roles/emulator/files/scheduled-events-emulator"


@pytest.fixture
def emulator(tmp_path):
    """Return a function that runs a command of the emulator."""
    fleet = {"vms": [{"name": "web1", "address": "127.0.10.1"}]}
    (tmp_path / "fleet.json").write_text(json.dumps(fleet))
    environment = {**os.environ, "PYTHON": sys.executable}
    started = tmp_path / "control"
    [folder, *_others] = json.loads(subprocess.check_output(LIST))  # the one that Ansible uses
    program = pathlib.Path(folder) / PROGRAM
    serve = [program, "serve", "--fleet", tmp_path / "fleet.json", "--port", "0", "--control", "127.0.0.1:0"]
    process = subprocess.Popen([*serve, "--started-file", started], env=environment)
    while not started.exists() and process.poll() is None:
        time.sleep(0.1)

    def command(*words):
        line = [program, "--control", started.read_text().strip(), "--json", *words]
        return json.loads(subprocess.check_output(line, env=environment, text=True))

    yield command
    process.terminate()
    process.wait()


def test_a_redeploy_is_acknowledged_after_the_drain(emulator, tmp_path):
    endpoint = emulator("state")["vms"][0]["endpoint"]
    event_id = emulator("schedule", "Redeploy", "web1", "--started-for", "1")["event_id"]
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "scheduled_events_endpoint": endpoint,
        "scheduled_events_state_directory": str(tmp_path / "state"),
        "web_directory": str(tmp_path),
        "web_port": 8080,
        "web_notice": 0,  # no balancer probes this machine
    }
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"web": {"hosts": {"web1": host}}}))
    subprocess.run(["ansible-playbook", "-i", inventory, HERE / "respond.yml"], check=True)
    approved = [entry["event_id"] for entry in emulator("log")["log"] if entry["kind"] == "approved"]
    assert approved == [event_id]
    assert not (tmp_path / "drained").exists()
