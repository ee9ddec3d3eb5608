# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The marks of a host during its maintenance, and how far it came. Private to the collection."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase

from ...module_utils._maintenance_calls import DONE, FAILED, HOLD, NOTE
from .._ansible.core import is_windows, play_id
from .._windows.modules import run_for
from .decision import GateError
from .store import BEGAN, HostNotes, Store, note_end, note_phase, note_waits, note_written, to_write

PROGRESS = {HOLD: BEGAN, DONE: "done", FAILED: "failed"}


def mark(
    action: ActionBase, task_vars: dict[str, t.Any], arguments: t.Mapping[str, t.Any], store: Store
) -> dict[str, t.Any]:
    """Mark the host in the name of this run, and remember on the control node how far its maintenance came.

    :raises GateError: the host did not pass the gate.
    """
    host, step, play = task_vars["inventory_hostname"], arguments["step"], play_id(action._task)
    run = store.this_run()
    options = {**action._task.args, "owner": f"{run.name}/{host}", "by": run.owner}
    with store.open() as content:
        progress = content.setdefault("progress", {}).setdefault(play, {})
        current = content.get("rounds", {}).get(play, {}).get(host)
        if step == DONE:
            options["round"] = _round(current, host)
        elif step in PROGRESS:  # before the host can be lost
            progress[host] = PROGRESS[step]
        if current and "id" in current and not action._task.check_mode:
            notes: HostNotes = content.setdefault("notes", {}).setdefault(play, {}).setdefault(host, {})
            _note(notes, current, arguments)
            name = f"{current['id']} {current['name']}"
            options["history"] = {"facts": to_write(notes, time.monotonic()), "maintenance": name, "run": run.name}
    if step == NOTE:
        return {"changed": False}
    result = run_for(action, "maintenance_gate", options, task_vars)
    is_marked = not result.get("failed") and not result.get("unreachable")
    with store.open() as content:
        if step == DONE and is_marked:
            content["progress"][play][host] = PROGRESS[step]
        notes = content.get("notes", {}).get(play, {}).get(host, {})
        if is_marked and not action._task.check_mode:
            note_written(notes, result.pop("facts", []))
    return {**result, "windows": is_windows(action._connection), "history": notes.get("history", [])}


def _note(notes: HostNotes, current: dict[str, t.Any], arguments: t.Mapping[str, t.Any]) -> None:
    """Note what the history of the host gets with its next mark."""
    now = time.monotonic()
    note_waits(notes, current.pop("waits", []))
    note_phase(notes, arguments["phase"] or "", now)
    if arguments["step"] in (DONE, FAILED):
        note_end(notes, now, failed=arguments["step"] == FAILED, reason=arguments["reason"])


def _round(current: t.Mapping[str, t.Any] | None, host: str) -> dict[str, t.Any]:
    if current is None:
        raise GateError(f"{host} did not pass the gate in this play. Run maintenance_gate with the step wait first")
    keys = ("name", "id", "hosts")
    return {**{key: current[key] for key in keys}, "since_begin": time.monotonic() - current["began"]}
