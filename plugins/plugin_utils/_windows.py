# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Windows hosts: which they are, and what does not run there. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction

GUIDE = "the guide windows-vms.md of this collection shows what is supported there"


def is_windows(connection: t.Any) -> bool:
    """Whether modules in Python cannot run there: the shell is PowerShell or cmd."""
    return bool(getattr(connection._shell, "_IS_WINDOWS", False))


def refuse_windows(action: ActionBase) -> None:
    """Say in plain words that a module does not run on Windows, before Ansible tries it.

    :raises AnsibleActionFail: the host of the task is a Windows host.
    """
    if is_windows(action._connection):
        raise AnsibleActionFail(
            f"{action._task.action} does not support Windows hosts, and this host is one. "
            f"Take it out of this play. {GUIDE}"
        )


class PosixOnly(NormalAction):
    """A module that does not run on Windows."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        refuse_windows(self)
        return super().run(tmp, task_vars)
