# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to no machine: every module gives the answer in the file ANSWERS after ANSWERS_AFTER seconds, with the
name of the host in place of HOST. Other commands succeed at once, without output. Each answer adds a byte to the file
ANSWERS_COUNT."""

from __future__ import annotations

import os
import pathlib
import time

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: answers
short_description: gives a fixed answer
description: [gives a fixed answer]
author: The maintops.scheduled_events authors
options: {}
"""


class Connection(ConnectionBase):
    transport = "answers"
    has_pipelining = True

    def _connect(self):
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if not in_data:
            return 0, b"", b""
        time.sleep(float(os.environ["ANSWERS_AFTER"]))
        with pathlib.Path(os.environ["ANSWERS_COUNT"]).open("ab") as count:
            count.write(b".")
        answer = pathlib.Path(os.environ["ANSWERS"]).read_bytes()
        return 0, answer.replace(b"HOST", self._play_context.remote_addr.encode()), b""

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)

    def close(self):
        self._connected = False
