# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hold the results of the gate back until every host's is there, so that Ansible takes them all at once."""

import multiprocessing
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: gates_together
type: notification
short_description: Let Ansible take the results of the gate of all hosts at once
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description: For the tests of the strategy free.
"""
LIMIT = 60.0  # seconds; only so that a host that never comes ends the wait


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "gates_together"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result):
        task = result.task if hasattr(result, "task") else result._task  # before ansible-core 2.19
        if task.action.rpartition(".")[2] != "maintenance_gate":
            return
        give_up_at = time.monotonic() + LIMIT
        while multiprocessing.active_children() and time.monotonic() < give_up_at:
            time.sleep(0.05)
