# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._ansible.core import play_id
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._respond.job_report import (
    ARTIFACT,
    DIRECTORY,
    KINDS,
    Meetings,
    Part,
)

display = Display()


class ActionModule(ActionBase):
    """Add what became of the host to the artifacts of the job; when all hosts of the play have, show the summary."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, options = self.validate_argument_spec(
            argument_spec={
                "kind": {"type": "str", "choices": sorted(KINDS)},
                "result": {"type": "dict"},
                "more_follows": {"type": "bool", "default": False},
            },
            required_by={"result": ["kind"]},
        )
        meetings = Meetings(Path(constants.DEFAULT_LOCAL_TMP) / DIRECTORY)
        part: Part = {}
        if options["kind"]:
            host, play = variables["inventory_hostname"], play_id(self._task)
            part = KINDS[options["kind"]](host, options["result"] or {})
            hosts = len(variables["ansible_play_hosts_all"])
            lines = meetings.add(play, host, part, hosts=hosts, more_follows=options["more_follows"])
        else:
            lines = meetings.rest()
        for line in lines:
            display.display(line)
        artifacts = {name: value for name, value in part.items() if value}
        return {
            **(options["result"] or {}),
            **result,
            "changed": False,
            "summary": lines,
            "ansible_stats": {"data": {ARTIFACT: artifacts} if artifacts else {}, "per_host": False, "aggregate": True},
        }
