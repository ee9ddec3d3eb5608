# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the processes of one run of the role rolling_maintenance share, and what it keeps of each host.

The control node notes when a phase of the maintenance of a host begins, and the next mark on the host writes it into
the history there. So a phase costs no run of a module. Private to the collection.
"""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ...module_utils._scheduled_events.files import Folder
from ...module_utils._scheduled_events.history import HELD, PHASE_BEGAN, PHASE_ENDED, RETURNED
from ...module_utils._scheduled_events.runs import FAILED, OK
from .._ansible.run import this_owner

FILE = "rolling-maintenance.json"
DRAIN, BEGAN = "drain", "began"
MOST_WAITS = 10  # reasons to wait at the gate that the history has; later ones are left out


class ThisRun(t.NamedTuple):
    """A run of Ansible on this control node. ``owner``: its process, as :func:`this_owner` has it."""

    name: str
    owner: dict[str, t.Any]


class Store:
    """A file in the directory that Ansible makes for each run, and removes at its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def this_run(self) -> ThisRun:
        """This run.

        :raises AnsibleError: the process that runs the playbook has ended.
        """
        owner = this_owner()
        return ThisRun(f"{owner['node']}/{self._directory.name}", owner)

    def note_decision(self, play: str, hosts: t.Iterable[str], decision: dict[str, t.Any]) -> None:
        """Note what the gate decided for these hosts."""
        with self.open() as content:
            content.setdefault("decided", {}).setdefault(play, {}).update(dict.fromkeys(hosts, decision))

    def decision(self, play: str, host: str) -> t.Any:
        """What the gate last decided for a host; None if the host did not come to the gate."""
        with self.open() as content:
            return content.get("decided", {}).get(play, {}).get(host)

    def begun(self) -> set[str]:
        """The hosts whose maintenance began in this run and did not end."""
        with self.open() as content:
            plays = sorted(content.get("progress", {}).items())  # ansible-core numbers the plays of a run
        latest = {host: progress for _play, hosts in plays for host, progress in hosts.items()}
        return {host for host, progress in latest.items() if progress == BEGAN}

    @contextlib.contextmanager
    def open(self) -> t.Iterator[dict[str, t.Any]]:
        """The content, to be changed in place. No other process sees or changes it meanwhile."""
        folder = Folder(self._directory)
        with folder.guarded():
            content = folder.read_json(FILE) if folder.has(FILE) else {}
            yield content
            folder.write_json(FILE, content)


class HostNotes(t.TypedDict, total=False):
    """What the control node keeps of a host during its maintenance. ``at``: its monotonic seconds.

    ``phase``: the present one. ``drained``: whether the host was taken out of its load balancer. ``facts``: those that
    the host does not have yet. ``history``: those that it has.
    """

    phase: str
    drained: bool
    facts: list[dict[str, t.Any]]
    history: list[dict[str, t.Any]]


def note_waits(notes: HostNotes, waits: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """The host waited at the gate: ``at`` and ``why`` of each reason."""
    for wait in waits[:MOST_WAITS]:
        _add(notes, HELD, float(wait["at"]), reason=str(wait["why"]))


def note_phase(notes: HostNotes, phase: str, at: float) -> None:
    """A phase begins, which ends the one before."""
    if phase and phase != notes.get("phase"):
        _end(notes, at, OK)
        _add(notes, PHASE_BEGAN, at, phase=phase)
        notes["phase"] = phase
        notes["drained"] = notes.get("drained", False) or phase == DRAIN


def note_end(notes: HostNotes, at: float, *, failed: bool, reason: str = "") -> None:
    """The maintenance of the host ended."""
    _end(notes, at, FAILED if failed else OK, reason)
    if not failed:
        _add(notes, RETURNED, at, reason="its maintenance ended well")
    elif notes.get("drained"):
        _add(notes, HELD, at, reason="it may be out of its load balancer until it is maintained again")


def to_write(notes: HostNotes, now: float) -> list[dict[str, t.Any]]:
    """The facts that the host does not have yet, with their ages in seconds."""
    return [
        {**{name: value for name, value in fact.items() if name != "at"}, "ago": round(max(0.0, now - fact["at"]), 3)}
        for fact in notes.get("facts", [])
    ]


def note_written(notes: HostNotes, facts: t.Sequence[dict[str, t.Any]]) -> None:
    """The host has these facts, or the result of the run has them for it."""
    notes["facts"] = []
    notes["history"] = [*notes.get("history", []), *facts]


def _end(notes: HostNotes, at: float, outcome: str, reason: str = "") -> None:
    phase = notes.get("phase")
    if phase:
        _add(notes, PHASE_ENDED, at, phase=phase, outcome=outcome, reason=reason)
        notes["phase"] = ""


def _add(notes: HostNotes, kind: str, at: float, **more: str) -> None:
    notes["facts"] = [*notes.get("facts", []), {"kind": kind, "at": at, **more}]
