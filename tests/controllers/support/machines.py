# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs: containers with systemd, made by the playbooks of the Molecule scenarios, on a separate network."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from emulation import until

from playbooks import environment

COLLECTION = pathlib.Path(__file__).parents[3]
MOLECULE = COLLECTION / "extensions" / "molecule"
PREFIX, SLOT = "whole-way", "204"  # see extensions/molecule/README.md
GATEWAY = f"10.203.{SLOT}.1"  # this machine, as the VMs reach it
CONNECTION = pathlib.Path(__file__).parent / "connection_plugins" / "machine.py"
LIMIT = 600.0  # seconds; only so that a hang is named
# Every line once, with the environment, as root sees it.
WATCH = "while sleep 0.2; do ps -eo args ewww; done | awk '!seen[$0]++ { print; fflush() }' >/var/tmp/watched"


class Machines:
    """VMs with these names, which this machine reaches by podman.

    :param directory: for its own files.
    """

    def __init__(self, directory: pathlib.Path, *names: str) -> None:
        self.addresses = {name: f"10.203.{SLOT}.{number}" for number, name in enumerate(names, 11)}
        self._inventory = directory / "hosts.json"
        self._socket = directory / "podman.sock"
        self._service: subprocess.Popen[bytes] | None = None
        hosts = {
            name: {"test_host_suite": "bookworm", "test_host_number": number} for number, name in enumerate(names, 11)
        }
        self._inventory.write_text(json.dumps({"test_hosts": {"children": {"vms": {"hosts": hosts}}}}))

    @staticmethod
    def needed() -> None:
        """Skip where there cannot be any."""
        missing = [each for each in ("podman", "mmdebstrap") if not shutil.which(each)]
        if os.geteuid() != 0:
            pytest.skip("test hosts need root")
        if missing:
            pytest.skip(f"test hosts need {' and '.join(missing)}: run tests/hosts/install-tools")

    def start(self) -> None:
        """Make them, in place of those that an interrupted run left."""
        self._play("destroy")
        self._play("create")
        command = ["podman", "system", "service", "--time", "0", f"unix://{self._socket}"]
        self._service = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._socket.exists, what="the start of podman's service")
        for name in self.addresses:
            self.run(name, "systemd-run", "--unit=watch", "sh", "-c", WATCH)

    def stop(self) -> None:
        """Remove them."""
        if self._service is not None:
            self._service.terminate()
            self._service.wait()
        self._play("destroy")

    def variables(self, name: str) -> dict[str, Any]:
        """With which a job reaches the VM; its project needs :data:`CONNECTION`."""
        return {
            "ansible_connection": "machine",
            "ansible_host": f"{PREFIX}-{name}",
            "ansible_python_interpreter": "/usr/bin/python3",
            "machine_service": f"unix://{self._socket}",
        }

    def run(self, name: str, *command: str, check: bool = True, text: str = "") -> str:
        """What a command on the VM shows, on both of its outputs."""
        ended = subprocess.run(
            ["podman", "exec", "--interactive", f"{PREFIX}-{name}", *command],
            check=False,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
        assert ended.returncode == 0 or not check, f"{name}: {command} failed: {ended.stdout}"
        return ended.stdout

    def _play(self, playbook: str) -> None:
        command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook"))]
        command += [f"--inventory={MOLECULE / 'inventory' / 'test_hosts.yml'}", f"--inventory={self._inventory}"]
        # The inventory of the scenarios names it beside itself, and the hosts are in another inventory here.
        command += [f"--extra-vars=ansible_podman_executable={MOLECULE / 'shared' / 'enter'}"]
        command += [f"--extra-vars=test_prefix={PREFIX}", str(MOLECULE / "shared" / f"{playbook}.yml")]
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        variables = environment(HOME=str(self._inventory.parent), PATH=path, MOLECULE_SLOT=SLOT)
        variables.pop("ANSIBLE_CALLBACKS_ENABLED")
        ended = subprocess.run(
            command, check=False, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
        assert ended.returncode == 0, f"{playbook}: {ended.stdout}{ended.stderr}"
