# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record what every task of a playbook run gave, a line of JSON each, in the file that RECORD_RESULTS names."""

import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record_results
type: aggregate
short_description: Record the results of tasks for tests
description: Writes host, task, action, status, seconds and result of each task, in the order in which they end.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record_results"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._started = {}
        # Opened here, so that a file without lines says "nothing ran" and no file "ansible did not start".
        self._file = open(os.environ["RECORD_RESULTS"], "w", encoding="utf-8", buffering=1)  # noqa: SIM115

    def _record(self, status, outcome, result=None):
        # ansible-core before 2.19 has the underscored names only.
        host = outcome.host if hasattr(outcome, "host") else outcome._host
        task = outcome.task if hasattr(outcome, "task") else outcome._task
        result = result or (outcome.result if hasattr(outcome, "result") else outcome._result)
        entry = {
            "host": host.get_name(),
            "task": task.get_name(),
            "action": task.action,
            "status": status,
            "seconds": time.monotonic() - self._started.get((host.get_name(), task._uuid), time.monotonic()),
            "result": result,
        }
        self._file.write(json.dumps(entry, default=str) + "\n")

    def v2_runner_on_start(self, host, task):
        self._started[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result):
        self._record("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._record("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result):
        self._record("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self._record("unreachable", result)
