# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to this machine that hangs as one to a machine does that is switched off: it stays open and is silent.

It hangs when the module scheduled_events_turn would run for the second time. The file HANGS_MARKER counts these times.
"""

from __future__ import annotations

import os
import pathlib
import time

from ansible.plugins.connection.local import Connection as LocalConnection
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._respond import turns

DOCUMENTATION = """
name: hangs_once
short_description: hangs once
description: [hangs once]
author: The maintops.scheduled_events authors
options: {}
"""

USUAL = turns.OVERHEAD


class Connection(LocalConnection):
    transport = "hangs_once"
    has_pipelining = False

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self._marker = pathlib.Path(os.environ["HANGS_MARKER"])
        if self._marker.exists() and self._marker.stat().st_size == 1:
            turns.OVERHEAD = 5.0  # so that the test does not take minutes; the turns after it have their time

    def _hang(self):
        try:
            time.sleep(3600)
        finally:
            turns.OVERHEAD = USUAL

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if "AnsiballZ_scheduled_events_turn" in str(cmd) and "chmod" in str(cmd):
            with self._marker.open("a") as times:
                times.write(".")
            if self._marker.stat().st_size == 2:
                self._hang()
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
