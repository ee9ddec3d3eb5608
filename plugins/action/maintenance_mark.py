# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.private import is_windows, play_id
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.phases import (
    Notes,
    note_end,
    note_phase,
    note_waits,
    note_written,
    to_write,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.store import Store, this_run
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._windows.modules import run_for

ENDS = ("done", "failed")
PROGRESS = {"held": "began", "done": "done", "failed": "failed"}


class ActionModule(ActionBase):
    """Mark the host in the name of this run, and remember on the control node how far its maintenance came."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        host, state = variables["inventory_hostname"], self._task.args.get("state")
        directory = Path(constants.DEFAULT_LOCAL_TMP)
        run = this_run(directory)
        options = {**self._task.args, "owner": f"{run.name}/{host}", "by": run.owner}
        play = play_id(self._task)
        with Store(directory).open() as store:
            progress = store.setdefault("progress", {}).setdefault(play, {})
            if state == "done":
                options["round"] = self._round(store, play, host)
            elif state in PROGRESS:  # before the host can be lost
                progress[host] = PROGRESS[state]
            options["history"] = self._note(store, play, host, run.name)
        if state == "noted":
            return {**result, "changed": False}
        result.update(run_for(self, "maintenance_mark", options, variables))
        is_marked = not result.get("failed") and not result.get("unreachable")
        with Store(directory).open() as store:
            if state == "done" and is_marked:
                store["progress"][play][host] = PROGRESS[state]
            notes = store.get("notes", {}).get(play, {}).get(host, {})
            if is_marked and not self._task.check_mode:
                note_written(notes, result.pop("facts", []))
        return {**result, "windows": is_windows(self._connection), "history": notes.get("history", [])}

    def _note(self, store: dict[str, t.Any], play: str, host: str, run: str) -> dict[str, t.Any]:
        """Note what the history of the host gets now; empty if the host is not maintained in this play."""
        current = store.get("rounds", {}).get(play, {}).get(host, {})
        state, now = self._task.args.get("state"), time.monotonic()
        if self._task.check_mode or "id" not in current or state == "absent":
            return {}
        notes: Notes = store.setdefault("notes", {}).setdefault(play, {}).setdefault(host, {})
        note_waits(notes, current.pop("waits", []))
        note_phase(notes, self._task.args.get("phase") or "", now)
        if state in ENDS:
            note_end(notes, now, failed=state == "failed", reason=str(self._task.args.get("reason") or ""))
        return {"facts": to_write(notes, now), "maintenance": f"{current['id']} {current['name']}", "run": run}

    @staticmethod
    def _round(store: dict[str, t.Any], play: str, host: str) -> dict[str, t.Any]:
        current = store.get("rounds", {}).get(play, {}).get(host)
        if current is None:
            raise AnsibleActionFail(f"{host} did not pass the gate in this play. Run maintenance_gate first")
        keys = ("name", "id", "hosts")
        return {**{key: current[key] for key in keys}, "since_begin": time.monotonic() - current["began"]}
