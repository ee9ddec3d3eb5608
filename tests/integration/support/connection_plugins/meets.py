# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine where the module named by MEETS_BEFORE runs only once MEETS_NUMBER connections are about
to run it at the same time. Each leaves a file with its number in the directory MEETS_IN."""

from __future__ import annotations

import itertools
import os
import pathlib
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: meets
short_description: meets others
description: [meets others]
author: The maintops.scheduled_events authors
options: {}
"""
LIMIT = 90.0  # seconds; only so that a test that fails ends


class Connection(LocalConnection):
    transport = "meets"
    has_pipelining = False

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if f"AnsiballZ_{os.environ['MEETS_BEFORE']}" in str(cmd) and "chmod" not in str(cmd):
            self._meet(pathlib.Path(os.environ["MEETS_IN"]), int(os.environ["MEETS_NUMBER"]))
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

    @staticmethod
    def _meet(directory, number):
        for own in itertools.count(1):
            try:
                (directory / str(own)).touch(exist_ok=False)
                break
            except FileExistsError:
                continue
        last = -(-own // number) * number  # of those that are to be here at the same time
        give_up_at = time.monotonic() + LIMIT
        while not (directory / str(last)).exists():
            if time.monotonic() >= give_up_at:
                raise AnsibleConnectionFailure(f"connection {last} did not come while {own} waited for it")
            time.sleep(0.05)
