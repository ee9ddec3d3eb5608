# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maintenance of each host of a play, and its tasks files. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from .._remote.delegate_host import HostVariables, OtherHostError
from .._run.tasks_files import TasksFileError, TasksFiles, name_of
from .decision import GateError

TASKS_FILES = ("rolling_maintenance_tasks", "rolling_maintenance_reboot_tasks", "rolling_maintenance_health_tasks")
REBOOT = "rolling_maintenance_reboot"


def names_of_maintenances(
    action: ActionBase, task_vars: t.Mapping[str, t.Any], *, hosts: list[str], batch: list[str], name: str | None
) -> dict[str, str]:
    """The name of the maintenance of each host, whose tasks files are checked for it.

    :raises GateError: a tasks file of some host is missing or broken.
    """
    files, names, problems = TasksFiles(action), {}, dict[str, list[str]]()
    for host in hosts:
        try:
            variables = HostVariables(action, host, task_vars)
            paths = {variable: str(variables.get(variable) or "") for variable in TASKS_FILES}
            reboot = str(variables.get(REBOOT, "if_needed"))
        except (AnsibleError, OtherHostError):
            if host in batch:
                raise
            continue  # made from what a later batch finds out; that batch looks
        try:
            digests = {variable: files.digest(variable, path) for variable, path in paths.items()}
        except TasksFileError as error:
            problems.setdefault(str(error), []).append(host)
            continue
        if REBOOT in variables and not paths[TASKS_FILES[0]] and reboot != "always":  # in the role
            problem = (
                f"rolling_maintenance_tasks is not set, and {REBOOT} is {reboot}, so there is nothing to do. Set "
                f"rolling_maintenance_tasks to a tasks file, or {REBOOT} to always"
            )
            problems.setdefault(problem, []).append(host)
        # The health check is left out: it may be corrected, and the run taken up where it stopped.
        names[host] = name or name_of([digests[each] for each in TASKS_FILES[:2]], reboot)
    if problems:
        raise GateError("; ".join(f"{', '.join(affected)}: {problem}" for problem, affected in problems.items()))
    return names
