# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine that breaks as one to a container does that is restarted.

It breaks just before the module named by BREAKS_BEFORE would run: once, at the time number BREAKS_AT (1), or with
BREAKS_FOR_GOOD each time from then on. The file BREAKS_MARKER counts these times. With BREAKS_AFTERWARDS it breaks when
the files of that module are removed instead, as a host does that reboots as soon as it has answered. With
BREAKS_LIKE_SSH it breaks as ssh does, so that Ansible counts the host as unreachable.
Each is a variable of the environment, or in lower case one of the host, so that hosts of one run break differently.
"""

from __future__ import annotations

import pathlib

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: breaks_once
short_description: breaks once
description: [breaks once]
author: The maintops.scheduled_events authors
options:
  before:
    description: A part of the name of the module.
    required: true
    env: [{name: BREAKS_BEFORE}]
    vars: [{name: breaks_before}]
  at:
    description: The number of the time.
    type: int
    default: 1
    env: [{name: BREAKS_AT}]
    vars: [{name: breaks_at}]
  marker:
    description: The file that counts.
    required: true
    env: [{name: BREAKS_MARKER}]
    vars: [{name: breaks_marker}]
  for_good:
    description: Each time from then on.
    default: ""
    env: [{name: BREAKS_FOR_GOOD}]
    vars: [{name: breaks_for_good}]
  afterwards:
    description: When the files of the module are removed.
    default: ""
    env: [{name: BREAKS_AFTERWARDS}]
    vars: [{name: breaks_afterwards}]
  like_ssh:
    description: The host is unreachable.
    default: ""
    env: [{name: BREAKS_LIKE_SSH}]
    vars: [{name: breaks_like_ssh}]
"""


class Connection(LocalConnection):
    transport = "breaks_once"
    has_pipelining = False
    _breaks_next = False

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if f"AnsiballZ_{self.get_option('before')}" in str(cmd) and "chmod" in str(cmd):
            marker = pathlib.Path(self.get_option("marker"))
            with marker.open("a") as times:
                times.write(".")
            times_left = self.get_option("at") - marker.stat().st_size
            if self.get_option("afterwards"):
                self._breaks_next = times_left == 0
            elif times_left == 0 or (times_left < 0 and self.get_option("for_good")):
                if self.get_option("like_ssh"):
                    raise AnsibleConnectionFailure("the connection was refused")
                return 255, b"", b"Error: can only create exec sessions on running containers"
        if self._breaks_next and "rm -f -r " in str(cmd):
            self._breaks_next = False
            raise AnsibleConnectionFailure("the connection was closed")
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
