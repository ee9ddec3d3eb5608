# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._load_balancer.call import ARM_OPTIONS
from ..plugin_utils._ansible.core import arguments_of
from ..plugin_utils._azure.acknowledgement import (
    AcknowledgementResult,
    acknowledge,
    check_ids,
    resource_id_of,
    scope_of,
)
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError

ARGUMENTS = {
    **ARM_OPTIONS,
    "event_id": {"type": "list", "elements": "str", "required": True, "aliases": ["event_ids"]},
    "resource_id": {"type": "str"},
    "metadata": {"type": "dict"},
}


class ActionModule(ArmAction):
    """Acknowledge events on the control node; nothing runs on the host of the play, which may be gone."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        arguments = arguments_of(
            self,
            ARGUMENTS,
            mutually_exclusive=[("resource_id", "metadata")],
            required_one_of=[("resource_id", "metadata")],
        )
        try:
            event_ids = check_ids(arguments["event_id"])
            given = arguments["resource_id"]
            scope = scope_of(given) if given is not None else resource_id_of(arguments["metadata"])
            if self._task.check_mode:
                return {**result, **_shown(AcknowledgementResult(event_ids, [], []), scope)}
            with self._arm(arguments, task_vars or {}) as arm:
                return {**result, **_shown(acknowledge(arm, scope, event_ids), scope)}
        except ArmError as error:
            raise AnsibleActionFail(str(error)) from None


def _shown(answer: AcknowledgementResult, scope: str) -> dict[str, t.Any]:
    shown = {**answer._asdict(), "resource_id": scope, "changed": bool(answer.approved)}
    if not answer.refused:
        return shown
    reasons = "; ".join(f"{each['event_id']}: {each['code']} {each['message']}".strip() for each in answer.refused)
    msg = f"Azure did not acknowledge {reasons.rstrip('.')}. Check whether the events have started"
    return {**shown, "failed": True, "msg": msg}
