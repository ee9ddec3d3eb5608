# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's tasks files, looked at before any host is touched. Private to the collection."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.playbook.block import Block
from ansible.playbook.helpers import load_list_of_blocks
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.action import ActionBase

from .core import includes_role, includes_tasks, role_of, runs_nothing

# With these a host leaves the play, or its failure is forgotten, before the role can see the end of the tasks.
ENDS_ROLE = "end_role"
LEAVING = ("clear_host_errors", "end_batch", "end_host", "end_play", ENDS_ROLE)
_TEMPLATE = re.compile(r"{{.*?}}|{%.*%}", re.DOTALL)


def left_out_by_tags(variables: t.Mapping[str, t.Any]) -> str:
    """The options of this run that leave out a part of a tasks file; empty if none does.

    With ``--tags`` all tasks of an included file run, or none. Nothing shows which tasks a run has left out.
    """
    skipped, wanted = variables.get("ansible_skip_tags") or [], variables.get("ansible_run_tags") or []
    options = [f"--skip-tags {','.join(map(str, skipped))}"] if skipped else []
    return " ".join([*options, *(["--tags untagged"] if "untagged" in wanted else [])])


class TasksFileError(Exception):
    """A tasks file is missing, broken, or prepares nothing. The message names the file."""


class TaskOfFile(t.NamedTuple):
    """A task of a tasks file. ``rescued``: whether a rescue section handles its failure. ``place``: for people."""

    task: t.Any
    rescued: bool
    place: str

    def is_of(self, name: str, action: str) -> bool:
        """Whether it is the task that Ansible names so, once it has filled in what is templated."""
        return _becomes(self.task.action, action) and _becomes(self.task.name or "", name)

    def has(self, arguments: t.Mapping[str, t.Any]) -> bool:
        """Whether these arguments of a task can be its own. A module that ran has added others."""
        return all(_becomes(value, arguments.get(name)) for name, value in self.task.args.items())

    @property
    def is_templated(self) -> bool:
        """Whether it may be another task than the one that it looks like."""
        return any(map(_is_templated, (self.task.name or "", self.task.action, self.task.args)))

    @property
    def is_closed(self) -> bool:
        """Whether it includes tasks that are not looked at: those of a role, or of a file with a templated name."""
        return includes_role(self.task) or (includes_tasks(self.task) and "{{" in _file_of(self.task))


class TasksFiles:
    """Tasks files as Ansible would read them, each looked at once."""

    def __init__(self, action: ActionBase) -> None:
        self._action = action
        self._blocks = functools.cache(self._load)
        self._look = functools.cache(self._read)

    def path(self, variable: str, name: str | None) -> str:
        """Look at a file of a phase; return its path, or nothing if there is no file. For the rest see ``digest``.

        :raises TasksFileError: also if a task takes the host out of the play.
        """
        if not name:
            return ""
        path = str(self._look(variable, name)[0])
        self._refuse(path, variable, name, LEAVING)
        return path

    def _refuse(self, path: str, variable: str, name: str, metas: t.Sequence[str]) -> None:
        for step in self.steps(path):
            meta = runs_nothing(step.task) and step.task.args.get("_raw_params")
            if meta in metas:
                raise TasksFileError(
                    f"{variable} is {name}, with meta: {meta} in {step.place}. The role could not see whether "
                    "the tasks of each host came to their end. Remove it, and use when on the tasks"
                )

    def digest(self, variable: str, name: str) -> str:
        """Look at one file.

        :param variable: that names it.
        :returns: a digest of its name and content; empty if there is no file to look at.
        :raises TasksFileError: it is missing, Ansible refuses it, or no task of it runs without special tags.
        """
        return self._look(variable, name)[1] if name else ""

    def steps(self, path: str, *, rescued: bool = False, within: tuple[str, ...] = ()) -> t.Iterator[TaskOfFile]:
        """The tasks of a file and of the files that it includes by a literal name; none if it cannot be loaded."""
        try:
            blocks = self._blocks(path)
        except AnsibleError:
            return
        for task, is_rescued in _tasks(blocks, rescued=rescued):
            step = TaskOfFile(task, is_rescued, task.get_path() or path)
            yield step
            if includes_tasks(step.task):
                name = _file_of(step.task)
                included = os.path.join(os.path.dirname(path), name)
                if "{{" not in name and included not in (path, *within):
                    yield from self.steps(included, rescued=step.rescued, within=(path, *within))

    def _read(self, variable: str, name: str) -> tuple[Path, str]:
        try:
            path = Path(self._action._find_needle("tasks", name))
            content = path.read_bytes()
        except (AnsibleError, OSError):  # not the cause of the message: ansible-core would add its text once more
            raise TasksFileError(
                f"{variable} is {name}, expected a file on the control node. Give an absolute path"
            ) from None
        try:
            blocks = self._blocks(str(path))
        except AnsibleError as error:
            reason = str(error).strip().rstrip(".")
            raise TasksFileError(f"{variable} is {name}, which Ansible cannot load: {reason}. Fix the file") from None
        if not any(map(_runs, blocks)):
            raise TasksFileError(
                f"{variable} is {name}, in which no task runs: expected a task that is not meta and does not have the "
                f"tag never. Add a task, or remove {variable}"
            )
        self._refuse(str(path), variable, name, [ENDS_ROLE])  # the host would stay in the play, as if it were done
        return path, f"{path.name}:{hashlib.sha256(content).hexdigest()}"

    def _load(self, path: str) -> list[t.Any]:
        loader, manager = self._action._loader, self._action._task.get_variable_manager()
        tasks = loader.load_from_file(path)
        if tasks is not None and not isinstance(tasks, list):
            raise AnsibleError("expected a list of tasks")
        # The paths of imported files begin at the file that imports them.
        inclusion = TaskInclude.load({"ansible.builtin.include_tasks": path}, variable_manager=manager, loader=loader)
        blocks: list[t.Any] = load_list_of_blocks(
            tasks or [],
            play=self._action._task.get_play(),
            parent_block=inclusion,
            variable_manager=manager,
            loader=loader,
            role=role_of(self._action._task),
        )
        return blocks


def _file_of(inclusion: t.Any) -> str:
    return str(inclusion.args.get("_raw_params") or inclusion.args.get("file"))


def _is_templated(written: t.Any) -> bool:
    return bool(_TEMPLATE.search(written if isinstance(written, str) else json.dumps(written, default=str)))


def _becomes(written: t.Any, value: t.Any) -> bool:
    """Whether what is written in a file can become the value: each template in it, anything."""
    if not _is_templated(written):
        return bool(written == value)
    if not isinstance(written, str):
        return True
    return bool(re.fullmatch(".*".join(map(re.escape, _TEMPLATE.split(written))), str(value), re.DOTALL))


def _tasks(entries: t.Sequence[t.Any], *, rescued: bool) -> t.Iterator[tuple[t.Any, bool]]:
    for entry in entries:
        if isinstance(entry, Block):
            yield from _tasks(entry.block, rescued=rescued or bool(entry.rescue))
            yield from _tasks([*entry.rescue, *entry.always], rescued=rescued)
        else:
            yield entry, rescued


def _runs(entry: t.Any) -> bool:
    """Whether a task, or one of a block, is sure to be looked at by Ansible; ``rescue`` alone is not."""
    if isinstance(entry, Block):
        return any(_runs(each) for each in [*entry.block, *entry.always])
    return not runs_nothing(entry) and "never" not in entry.tags


def name_of(digests: t.Sequence[str], reboot: str) -> str:
    """The name of a maintenance that the user has not named."""
    text = json.dumps([*digests, reboot])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
