# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine that breaks as one to a container does that is restarted.

It breaks just before the module named by BREAKS_BEFORE would run: once, at the time number BREAKS_AT (1), or with
BREAKS_FOR_GOOD each time from then on. The file BREAKS_MARKER counts these times. With BREAKS_AFTERWARDS it breaks when
the files of that module are removed instead, as a host does that reboots as soon as it has answered. With
BREAKS_LIKE_SSH it breaks as ssh does, so that Ansible counts the host as unreachable.
"""

from __future__ import annotations

import os
import pathlib

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: breaks_once
short_description: breaks once
description: [breaks once]
author: The maintops.scheduled_events authors
options: {}
"""


class Connection(LocalConnection):
    transport = "breaks_once"
    has_pipelining = False
    _breaks_next = False

    def exec_command(self, cmd, in_data=None, sudoable=True):
        marker = pathlib.Path(os.environ["BREAKS_MARKER"])
        if f"AnsiballZ_{os.environ['BREAKS_BEFORE']}" in str(cmd) and "chmod" in str(cmd):
            with marker.open("a") as times:
                times.write(".")
            times_left = int(os.environ.get("BREAKS_AT", "1")) - marker.stat().st_size
            if "BREAKS_AFTERWARDS" in os.environ:
                self._breaks_next = times_left == 0
            elif times_left == 0 or (times_left < 0 and "BREAKS_FOR_GOOD" in os.environ):
                if "BREAKS_LIKE_SSH" in os.environ:
                    raise AnsibleConnectionFailure("the connection was refused")
                return 255, b"", b"Error: can only create exec sessions on running containers"
        if self._breaks_next and "rm -f -r " in str(cmd):
            self._breaks_next = False
            raise AnsibleConnectionFailure("the connection was closed")
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
