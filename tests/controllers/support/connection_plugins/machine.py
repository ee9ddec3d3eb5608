# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to a container through the socket of a podman service, for jobs of AWX. Jobs run in a
separate PID namespace, where podman itself would not find the processes of the container."""

from __future__ import annotations

import pathlib
import shlex
import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: machine
short_description: runs commands in a container
description: [runs commands in a container]
author: The maintops.scheduled_events authors
options:
  remote_addr:
    description: [name of the container]
    vars:
      - name: ansible_host
  service:
    description: [URL of the podman service]
    vars:
      - name: machine_service
"""


class Connection(ConnectionBase):
    transport = "machine"
    has_pipelining = True
    always_pipeline_modules = True

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        command = ["podman", "--remote", "--url", self.get_option("service"), "exec", "--interactive"]
        command += [self.get_option("remote_addr"), "/bin/sh", "-c", cmd]
        ended = subprocess.run(command, check=False, input=in_data or b"", capture_output=True)
        return ended.returncode, ended.stdout, ended.stderr

    def put_file(self, in_path, out_path):
        self._succeed(f"cat >{shlex.quote(out_path)}", pathlib.Path(in_path).read_bytes())

    def fetch_file(self, in_path, out_path):
        pathlib.Path(out_path).write_bytes(self._succeed(f"cat {shlex.quote(in_path)}"))

    def _succeed(self, command, in_data=b""):
        status, output, errors = self.exec_command(command, in_data)
        if status != 0:
            raise AnsibleConnectionFailure(f"{command}: {errors.decode()}")
        return output

    def close(self):
        self._connected = False
