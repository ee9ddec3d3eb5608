# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of a page, run as a reader pastes them."""

import os
import pathlib
import re
import socket
import subprocess
import sys

from ports import free_port
from zygotes import ZYGOTES

ROOT = pathlib.Path(__file__).parents[3]
TIMEOUT = 400  # seconds; only so that a block that hangs ends
# What a fresh machine needs first. The environment of the tests has all of it.
INSTALLING = (
    "sudo apt-get ",
    "python3 -m venv ",
    ". ~/",
    "pip install ",
    "git clone ",
    "ansible-galaxy collection install ",
)
ENDPOINT = r"(127\.0\.10\.\d+):8169\b"
PYTHON = "{{ ansible_playbook_python }}"


class Reader:
    """A reader with a home directory in which the collection is installed, and a shell.

    The emulator gets free ports in place of those that it has by default, and modules an interpreter that starts fast.
    """

    def __init__(self, home, installed_collection):
        self.home = home
        self._command = installed_collection / "roles/emulator/files/scheduled-events-emulator"
        (home / ".ansible").mkdir()
        (home / ".ansible" / "collections").symlink_to(installed_collection.parents[2])
        # The reader has time: Ansible looks for results less often, which costs less.
        (home / ".ansible.cfg").write_text("[defaults]\ninternal_poll_interval = 0.01\npipelining = true\n")
        self._port, self._control = free_port(), free_port()
        programs = home / "programs"
        programs.mkdir()
        wrapper = programs / "scheduled-events-emulator"
        options = f"--port {self._port} --control 127.0.0.1:{self._control} --exit-after {2 * TIMEOUT}"
        wrapper.write_text(
            f'#!/bin/sh\n[ $1 = serve ] || exec {self._command} --control 127.0.0.1:{self._control} "$@"\n'
            f'exec {self._command} "$@" {options}\n'
        )
        wrapper.chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "HOME": str(home),
            "PATH": os.pathsep.join([str(programs), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def paste(self, text):
        """Run the lines of a block but for those that install; the output. It fails with the first that fails."""
        lines = [line for line in text.splitlines() if not line.startswith(INSTALLING)]
        script = re.sub(ENDPOINT, rf"\g<1>:{self._port}", "\n".join(lines)).replace(PYTHON, ZYGOTES.interpreter)
        ended = self._shell("set -e\n" + script)
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def stop(self):
        """End the emulator, should a block have left it."""
        with socket.socket() as looking:
            runs = looking.connect_ex(("127.0.0.1", self._control)) == 0
        if runs:
            self._shell("scheduled-events-emulator shutdown")

    def _shell(self, script):
        with (self.home / "output").open("w+b") as output:  # a file: what runs in the background keeps a pipe open
            ended = subprocess.run(
                ["bash", "-c", script],
                cwd=self.home,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
            output.seek(0)
            ended.stdout = output.read().decode()
        return ended
