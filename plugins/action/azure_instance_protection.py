# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.action import ARM_ARGUMENTS, ArmAction
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.arm import ArmError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.instance_protection import (
    Unfinished,
    check_instance,
    protect,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import (
    OtherHost,
    OtherHostError,
)

ARGUMENTS = {
    **ARM_ARGUMENTS,
    "resource_id": {"type": "str", "required": True},
    "from_scale_in": {"type": "bool", "required": True},
}


class ActionModule(ArmAction):
    """Protect an instance from the control node; nothing runs on the host of the play, which may be gone."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        control_node = None
        try:
            instance = check_instance(arguments["resource_id"])
            control_node = OtherHost(self, arguments["control_node"], task_vars or {}, become=False)
            before, changed = protect(
                self._arm(control_node, arguments),
                instance,
                wanted=arguments["from_scale_in"],
                simulate=bool(self._task.check_mode),
                timeout=max(0.0, arguments["operation_timeout"]),
            )
        except Unfinished as error:
            # With before, the tasks that restore the protection can run.
            return {**result, "failed": True, "msg": str(error), "before": error.before, "resource_id": instance}
        except (ArmError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error
        finally:
            if control_node is not None:
                control_node.close()
        return {**result, "changed": changed, "before": before, "resource_id": instance}
