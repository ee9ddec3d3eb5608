# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine whose shell claims to be the one of Windows, as that of winrm, psrp and ssh does.

Modules in Python run there all the same, so that a stand-in of ansible.windows can. If the file ansible_breaks_at holds
a number, the connection breaks once: before the module of that number. The directory ansible_drive holds its drives.
"""

from __future__ import annotations

import pathlib
import shlex

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: windows_stand_in
short_description: claims to be Windows
description: [claims to be Windows]
author: The maintops.scheduled_events authors
options:
  breaks_at:
    description: [a file]
    type: path
    vars:
      - name: ansible_breaks_at
  drive:
    description: [a directory]
    type: path
    vars:
      - name: ansible_drive
"""


class Connection(LocalConnection):
    transport = "windows_stand_in"

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self._shell._IS_WINDOWS = True

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if in_data and self.get_option("breaks_at"):  # a module, which comes by standard input
            left = pathlib.Path(self.get_option("breaks_at"))
            number = int(left.read_text())
            left.write_text(str(number - 1))
            if number == 1:
                raise AnsibleConnectionFailure("the stand-in of a connection breaks")
        if self.get_option("drive"):
            cmd = f"STAND_IN_DRIVE={shlex.quote(self.get_option('drive'))} {cmd}"
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

    def reset(self):
        """There is nothing to close."""
