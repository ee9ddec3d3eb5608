# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of the action plugin ansible.windows.win_reboot, with the options that the collection uses.

The real one waits until the host is back, and returns "rebooted" and "elapsed". This one removes what made the reboot
pending, and the directory for temporary files as Windows may, and counts in the file reboots.
"""

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _VALID_ARGS = frozenset(["reboot_timeout", "msg"])

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        count = 'cd "$STAND_IN_DRIVE/C" && rm -f reboot-pending && echo rebooted >> reboots'
        self._low_level_execute_command(count)
        self._connection._shell.tmpdir = None
        return {**result, "changed": True, "rebooted": True, "elapsed": 1}
