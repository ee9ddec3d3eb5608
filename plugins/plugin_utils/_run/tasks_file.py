# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at a tasks file before it is needed. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.parsing.mod_args import ModuleArgsParser

BLOCK = ("block", "rescue", "always")


def check_tasks_file(loader: t.Any, path: str, collections: t.Sequence[str] | None = None) -> None:
    """Refuse a file that Ansible could not include.

    :raises AnsibleError: it is missing, is not YAML, or one of its entries is not a task.
    """
    try:
        tasks = loader.load_from_file(path)
    except AnsibleError as error:
        raise AnsibleError(f"the tasks file {path} cannot be read: {error}") from error
    try:
        _check(tasks or [], collections)
    except AnsibleParserError as error:
        raise AnsibleError(f"the tasks file {path} cannot be included: {error}") from error


def _check(tasks: t.Any, collections: t.Sequence[str] | None) -> None:
    if not isinstance(tasks, list):
        raise AnsibleParserError(f"a list of tasks was expected, not {type(tasks).__name__}")
    for task in tasks:
        if not isinstance(task, dict):
            raise AnsibleParserError(f"each entry must be a task, not {str(task)[:80]!r}")
        parts = [task[part] for part in BLOCK if part in task]
        if not parts:
            ModuleArgsParser(task, collection_list=collections).parse()
        for part in parts:
            _check(part or [], collections)
