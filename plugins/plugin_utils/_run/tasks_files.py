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

    def __init__(self, action: ActionBase) -> None:
        self._action = action
        self._found: dict[str, tuple[Path, str]] = {}

    def path(self, variable: str, name: str | None) -> str:
        """Look at one file; return its path, or nothing if there is no file to look at. For the rest see ``digest``."""
        return str(self._look(variable, name)[0]) if name else ""

    def digest(self, variable: str, name: str) -> str:
        """Look at one file.

        :param variable: that names it.
        :returns: a digest of its name and content; empty if there is no file to look at.
        :raises TasksFileError: it is missing, or Ansible refuses it.
        """
        return self._look(variable, name)[1] if name else ""

    def _look(self, variable: str, name: str) -> tuple[Path, str]:
        if name not in self._found:
            path, content = self._read(variable, name)
            self._found[name] = path, f"{path.name}:{hashlib.sha256(content).hexdigest()}"
        return self._found[name]

    def _read(self, variable: str, name: str) -> tuple[Path, bytes]:
        action, task = self._action, self._action._task
        try:
            path = Path(action._find_needle("tasks", name))
            content = path.read_bytes()
        except (AnsibleError, OSError) as error:
            raise TasksFileError(
                f"{variable} is {name}, expected a file on the control node. Give an absolute path"
            ) from error
        try:
            tasks = action._loader.load_from_file(str(path))
            if tasks is not None and not isinstance(tasks, list):
                raise AnsibleError("expected a list of tasks")
            manager = task.get_variable_manager()
            load_list_of_blocks(tasks or [], play=task.get_play(), variable_manager=manager, loader=action._loader)
        except AnsibleError as error:
            reason = str(error).strip().rstrip(".")
            raise TasksFileError(f"{variable} is {name}, which Ansible cannot load: {reason}. Fix the file") from error
        return path, content


def name_of(digests: t.Sequence[str], reboot: str) -> str:
    """The name of a maintenance that the user has not named."""
    text = json.dumps([*digests, reboot])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
