# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's tasks files, looked at before any host is touched. Private to the collection."""

from __future__ import annotations

import hashlib
import json
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.playbook.helpers import load_list_of_blocks
from ansible.plugins.action import ActionBase


class TasksFileError(Exception):
    """A tasks file is missing or broken. The message names the file."""


class TasksFiles:
    """Tasks files as Ansible would read them, each looked at once."""

    def __init__(self, action: ActionBase, task_vars: t.Mapping[str, t.Any]) -> None:
        self._action = action
        self._manager = task_vars["hostvars"]._variable_manager
        self._digests: dict[str, str] = {}

    def check(self, variable: str, name: str) -> str:
        """Look at one file.

        :param variable: that names it.
        :returns: a digest of its name and content; empty if there is no file to look at.
        :raises TasksFileError: it is missing, or Ansible refuses it.
        """
        if not name:
            return ""
        if name not in self._digests:
            self._digests[name] = self._check(variable, name)
        return self._digests[name]

    def _check(self, variable: str, name: str) -> str:
        action = self._action
        try:
            path = Path(action._find_needle("tasks", name))
            content = path.read_bytes()
        except (AnsibleError, OSError) as error:
            raise TasksFileError(
                f"{variable} is {name}, expected a file on the controller. Give an absolute path"
            ) from error
        try:
            tasks = action._loader.load_from_file(str(path))
            if tasks is not None and not isinstance(tasks, list):
                raise AnsibleError("expected a list of tasks")
            load_list_of_blocks(
                tasks or [], play=action._task.get_play(), variable_manager=self._manager, loader=action._loader
            )
        except AnsibleError as error:
            reason = str(error).strip().rstrip(".")
            raise TasksFileError(f"{variable} is {name}, which Ansible cannot load: {reason}. Fix the file") from error
        return f"{path.name}:{hashlib.sha256(content).hexdigest()}"


def name_of(digests: t.Sequence[str], reboot: str) -> str:
    """The name of a maintenance that the user has not named."""
    text = json.dumps([*digests, reboot])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
