# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine that notes in the file ADDRESSED_LOG which module it ran at which address."""

from __future__ import annotations

import os
import pathlib
import re

from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: addressed
short_description: notes addresses
description: [notes addresses]
author: The maintops.scheduled_events authors
options:
  remote_addr:
    description: [the address]
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
"""


class Connection(LocalConnection):
    transport = "addressed"
    has_pipelining = False

    def exec_command(self, cmd, in_data=None, sudoable=True):
        module = re.search(r"AnsiballZ_(\w+)[.]py", str(cmd))
        if module and "chmod" not in str(cmd):
            with pathlib.Path(os.environ["ADDRESSED_LOG"]).open("a") as log:
                log.write(f"{self.get_option('remote_addr')} {module[1]}\n")
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
