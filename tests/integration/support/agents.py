# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two nodes of a cluster for the agents of others; ``redirected`` leads them to the emulator."""

import json
import os
import pathlib
import stat
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
STAND_INS = TESTS / "integration" / "emulator"
GUARD = TESTS / "guard"
NODES = {"vm1": "host-a", "vm2": "host-b"}  # the name in Azure, and the host's own
COMMANDS = ("crm_attribute", "crm_node", "crm_resource", "crm_simulate")


class Cluster:
    """Two nodes with an agent each, run once for each call of ``monitor``."""

    def __init__(self, agent, ocf, emulator, directory):
        self._agent, self._ocf, self._emulator, self._directory = agent, ocf, emulator, directory
        (directory / "nodes").write_text(" ".join(NODES.values()))
        (directory / "attributes.json").write_text("{}")
        (directory / "bin").mkdir()
        for name in COMMANDS:
            command = directory / "bin" / name
            command.write_text(f"#!{sys.executable} -IS\n" + (STAND_INS / "pacemaker.py").read_text())
            command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def run(self, vm, action):
        """Let the agent on ``vm`` act as Pacemaker would; what it prints on standard error."""
        environment = {
            "CLUSTER": str(self._directory),
            "HA_LOGFILE": str(self._directory / "agent.log"),
            "HA_debug": "1",
            "OCF_ROOT": str(self._ocf),
            "PATH": f"{self._directory / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{STAND_INS / 'redirected'}:{GUARD}",
            "REDIRECTED_HOSTNAME": NODES[vm],
            "REDIRECTED_TO": self._emulator.endpoints[vm].rpartition("/")[2],
        }
        program = self._ocf / "resource.d" / "heartbeat" / self._agent
        ended = subprocess.run(
            [sys.executable, program, action],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    def monitor(self, *vms):
        for vm in vms:
            self.run(vm, "monitor")

    def attribute(self, vm, name):
        """An attribute of the node; without a VM, of the cluster."""
        node = NODES[vm] if vm else ""
        return json.loads((self._directory / "attributes.json").read_text()).get(f"{node}/{name}")

    def commands(self):
        """The names of Pacemaker's commands that the agents ran."""
        return {json.loads(line)[0] for line in (self._directory / "calls").read_text().splitlines()}
