# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leave a trace of a task on this machine, without a module, which would cost ten times as much.

``path`` is the file. ``content`` is written to it; ``line`` is appended to it. ``held_by`` is a file: as long as it
exists, the task waits.
"""

from __future__ import annotations

import pathlib
import time

from ansible.plugins.action import ActionBase

LIMIT = 300.0  # seconds; only so that a run whose test has failed ends


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        options = self._task.args
        give_up_at = time.monotonic() + LIMIT
        while "held_by" in options and pathlib.Path(options["held_by"]).exists():
            if time.monotonic() > give_up_at:
                return {**result, "failed": True, "msg": f"{options['held_by']} exists after {LIMIT:g} seconds"}
            time.sleep(0.1)
        if "path" in options and not self._task.check_mode:
            self._write(pathlib.Path(options["path"]))
        return {**result, "changed": "path" in options}

    def _write(self, path):
        if "line" in self._task.args:
            with path.open("a") as trace:
                trace.write(f"{self._task.args['line']}\n")
        else:
            unfinished = path.with_name(f".{path.name}")  # a test that sees the file reads all of it
            unfinished.write_text(str(self._task.args["content"]))
            unfinished.replace(path)
