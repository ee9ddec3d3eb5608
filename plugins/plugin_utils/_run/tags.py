# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effect of tags on a tasks file that is about to be included. Private to the collection.

Where ``--tags`` or ``--skip-tags`` leave all of them out, Ansible includes the file without an error, and runs nothing.
"""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleError
from ansible.playbook.block import Block
from ansible.playbook.helpers import load_list_of_blocks
from ansible.playbook.task_include import TaskInclude

from .._core.private import copy_beside, includes_tasks, parent_of, role_of, runs_nothing


def leave_out_all(task: t.Any, path: str, variables: dict[str, t.Any]) -> bool:
    """Whether the tags of this run leave out every task of a file.

    A file that cannot be loaded counts as not left out, since its inclusion shows the error.

    :param task: a task beside the inclusion, so that it has the same parents, whose tags the tasks inherit.
    """
    play = task.get_play()
    if not play.skip_tags and (not play.only_tags or "all" in play.only_tags):
        return False
    try:
        everything, left = (
            _Tasks(task, variables, choose).run_any(path, _inclusion(task, path)) for choose in (False, True)
        )
    except AnsibleError:
        return False
    return everything and not left


def _inclusion(task: t.Any, path: str) -> TaskInclude:
    """An inclusion beside the task."""
    return TaskInclude.load(
        {"ansible.builtin.include_tasks": path},
        block=parent_of(task),
        role=role_of(task),
        variable_manager=task.get_variable_manager(),
        loader=task.get_loader(),
    )


class _Tasks:
    """The tasks that run; with ``choose`` those that the tags choose."""

    def __init__(self, task: t.Any, variables: dict[str, t.Any], choose: bool) -> None:
        self._task, self._loader = task, task.get_loader()
        self._variables, self._choose = variables, choose

    def run_any(self, path: str, parent: t.Any, within: frozenset[str] = frozenset()) -> bool:
        """Whether there is one in the file.

        :param parent: what Ansible makes the parent of its tasks.
        :param within: the files that include it.
        """
        blocks = load_list_of_blocks(
            self._loader.load_from_file(path),
            play=self._task.get_play(),
            parent_block=parent,
            role=role_of(self._task),
            variable_manager=self._task.get_variable_manager(),
            loader=self._loader,
        )
        chosen = [block.filter_tagged_tasks(self._variables) for block in blocks] if self._choose else blocks
        return any(self._runs(block, path, within | {path}) for block in chosen)

    def _runs(self, entry: t.Any, path: str, within: frozenset[str]) -> bool:
        if isinstance(entry, Block):  # "rescue" alone does not prepare
            return any(self._runs(each, path, within) for each in [*entry.block, *entry.always])
        if runs_nothing(entry):
            return False
        if not includes_tasks(entry):
            return True
        included = os.path.join(os.path.dirname(path), str(entry.args.get("_raw_params") or entry.args.get("file")))
        if "{{" in included or included in within or not os.path.exists(included):
            return True  # only the run finds out which file it is
        return self.run_any(included, copy_beside(entry).build_parent_block(), within)
