# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._load_balancer.call import ARM_OPTIONS
from ..plugin_utils._ansible.core import arguments_of
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError
from ..plugin_utils._azure.pools import COMPUTE_API
from ..plugin_utils._azure.resources import check_instance, is_protected, protect

ARGUMENTS = {
    **ARM_OPTIONS,
    "resource_id": {"type": "str", "required": True},
    "from_scale_in": {"type": "bool", "required": True},
}


class ActionModule(ArmAction):
    """Protect an instance from the control node; nothing runs on the host of the play, which may be gone."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        arguments = arguments_of(self, ARGUMENTS)
        wanted = arguments["from_scale_in"]
        try:
            instance = check_instance(arguments["resource_id"])
            with self._arm(arguments, task_vars or {}) as arm:
                body = arm.read(instance, COMPUTE_API)
                result.update(before=is_protected(body), resource_id=instance)
                if self._task.check_mode:
                    return {**result, "changed": result["before"] is not wanted}
                timeout = max(0.0, arguments["operation_timeout"])
                return {**result, "changed": protect(arm, instance, body, wanted=wanted, timeout=timeout)}
        except ArmError as error:
            if error.sent:  # with before, the tasks that restore the protection can run
                return {**result, "failed": True, "msg": str(error)}
            raise AnsibleActionFail(str(error)) from None
