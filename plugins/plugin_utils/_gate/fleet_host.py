# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host of the fleet, for the gate. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from .._core.private import is_windows
from .._remote.delegate_host import OtherHost
from .._windows.host import WindowsHost
from .._windows.modules import COLLECTION, run_here


class FleetHost(OtherHost):
    """A host of the fleet, which runs modules of this collection.

    :param facts: what was found out about it in this run, such as its Python.
    """

    TAKES_WINDOWS = True

    def __init__(
        self, action: ActionBase, name: str, task_vars: t.Mapping[str, t.Any], *, facts: t.Mapping[str, t.Any]
    ) -> None:
        super().__init__(action, name, task_vars, become=action._task.become)
        self._known_facts = facts

    def options(self, table: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any]:
        """The options of a module for which a variable of the host has a value: the first that is set."""
        values = {
            option: next((value for value in map(self.variables.get, names) if value not in (None, "")), None)
            for option, names in table.items()
        }
        return {option: value for option, value in values.items() if value is not None}

    def _execute(self, action: ActionBase, module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if not is_windows(action._connection):
            return super()._execute(action, f"{COLLECTION}.{module}", arguments)
        host = WindowsHost(action, self._task_vars, name=f"{COLLECTION}.{module}")
        host.require_collection()
        return run_here(host, module, arguments, check_mode=bool(action._task.check_mode))

    def _connect(self) -> ActionBase:
        action = super()._connect()
        facts = self._task_vars["ansible_facts"]
        self._task_vars["ansible_facts"] = {**self._known_facts, **facts}
        return action
