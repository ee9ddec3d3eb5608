# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine where the module named by MEETS_BEFORE runs only once MEETS_NUMBER connections are about
to run it at the same time. Each leaves a file in the directory MEETS_IN."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time

from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: meets
short_description: meets others
description: [meets others]
author: The maintops.scheduled_events authors
options: {}
"""
LIMIT = 60.0  # seconds; only so that a test that fails ends


class Connection(LocalConnection):
    transport = "meets"
    has_pipelining = False

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if f"AnsiballZ_{os.environ['MEETS_BEFORE']}" in str(cmd) and "chmod" not in str(cmd):
            directory = pathlib.Path(os.environ["MEETS_IN"])
            tempfile.mkstemp(dir=directory)
            give_up_at = time.monotonic() + LIMIT
            while len(list(directory.iterdir())) % int(os.environ["MEETS_NUMBER"]) and time.monotonic() < give_up_at:
                time.sleep(0.05)
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
