# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._maintenance_calls import CHECK, DECISION, OPTIONS, SURVEY, WAIT
from ..module_utils._module import COMMON_OPTIONS
from ..plugin_utils._ansible.core import arguments_of, play_id
from ..plugin_utils._ansible.other_host import OtherHostError
from ..plugin_utils._ansible.strategy import refuse_sharing
from ..plugin_utils._ansible.tasks_files import TasksFiles
from ..plugin_utils._gate.decision import GateError
from ..plugin_utils._gate.gate import Gate
from ..plugin_utils._gate.marking import mark
from ..plugin_utils._gate.store import Store
from ..plugin_utils._respond.role import refusal_of_role
from ..plugin_utils._windows.modules import run_for


class ActionModule(ActionBase):
    """The gate of a rolling maintenance runs here. What looks at a host or marks it is the module of the same name."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result, variables = super().run(tmp, task_vars), task_vars or {}
        arguments = arguments_of(self, {**COMMON_OPTIONS, **OPTIONS})
        store = Store(Path(constants.DEFAULT_LOCAL_TMP))
        try:
            if arguments["step"] == CHECK:
                refuse_sharing(self._task, "rolling_maintenance")
                look = TasksFiles(self).path
                refusal = refusal_of_role(variables, self._templar.template, look, "rolling_maintenance")
                return {**result, "changed": False, **({"failed": True, "msg": refusal} if refusal else {})}
            if arguments["step"] == WAIT:
                return {**result, "changed": False, **Gate(self, variables, arguments, store).wait()}
            if arguments["step"] == DECISION:
                # With run_once, Ansible registers each result for all hosts. Where a strategy runs the gate for each
                # host, the last result would count for all of them.
                decision = store.decision(play_id(self._task), variables["inventory_hostname"])
                return {**result, "changed": False, "decision": decision, "simulated": bool(self._task.check_mode)}
            if arguments["step"] == SURVEY:
                return {**result, **run_for(self, "maintenance_gate", self._task.args, variables)}
            return {**result, **mark(self, variables, arguments, store)}
        except (GateError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from None
