# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that run on the host or, for a Windows host, on the controller. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction

from ...module_utils._module import COMMON_OPTIONS, ImdsModule
from .._remote.os_family import is_windows
from .host import WindowsHost


class AnywhereAction(NormalAction):
    """A module that runs on the host or, for a Windows host, here, with win_uri to carry its requests.

    ``options`` and ``work`` are those that the module gives to ``run_module``.
    """

    options: dict[str, dict[str, t.Any]]
    work: t.Callable[[ImdsModule], dict[str, t.Any]]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        if not is_windows(self._connection):
            return super().run(tmp, task_vars)
        refuse_async(self)
        result = ActionBase.run(self, tmp, task_vars)
        host = WindowsHost(self, task_vars or {})
        host.require_collection()
        options = {**COMMON_OPTIONS, **self.options}
        check_mode = bool(self._task.check_mode)
        return {**result, **host.run_module(options, self._task.args, type(self).work, check_mode=check_mode)}


def refuse_async(action: ActionBase) -> None:
    """Refuse what cannot be done on the controller.

    :raises AnsibleActionFail: the task is to run in the background.
    """
    if action._task.async_val:
        raise AnsibleActionFail(
            f"{action._task.action} does not support async for a Windows host, "
            "since it runs on the controller there. Remove async and poll from the task"
        )
