# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.private import play_id
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.store import Store


class ActionModule(ActionBase):
    """Read what the gate decided for a host.

    With ``run_once``, Ansible registers each result for all hosts. Where a strategy runs the gate for each host, the
    last result would count for all of them.
    """

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        host = (task_vars or {})["inventory_hostname"]
        decision = Store(Path(constants.DEFAULT_LOCAL_TMP)).decision(play_id(self._task), host)
        if decision is None:
            raise AnsibleActionFail(f"{host} did not come to the gate in this play. Run maintenance_gate first")
        return {**result, "changed": False, "decision": decision}
