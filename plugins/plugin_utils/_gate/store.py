# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the processes of one run of the role rolling_maintenance share. Private to the collection."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ...module_utils._scheduled_events.files import Folder
from .._run.identity import this_owner

FILE = "rolling-maintenance.json"


class Run(t.NamedTuple):
    """A run of Ansible on this control node. ``owner``: its process, as :func:`this_owner` has it."""

    name: str
    owner: dict[str, t.Any]


class Store:
    """A file in the directory that Ansible makes for each run, and removes at its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def this_run(self) -> Run:
        """This run.

        :raises AnsibleError: the process that runs the playbook has ended.
        """
        owner = this_owner()
        return Run(f"{owner['node']}/{self._directory.name}", owner)

    def note_decision(self, play: str, hosts: t.Iterable[str], decision: dict[str, t.Any]) -> None:
        """Note what the gate decided for these hosts."""
        with self.open() as content:
            content.setdefault("decided", {}).setdefault(play, {}).update(dict.fromkeys(hosts, decision))

    def decision(self, play: str, host: str) -> t.Any:
        """What the gate last decided for a host; None if the host did not come to the gate."""
        with self.open() as content:
            return content.get("decided", {}).get(play, {}).get(host)

    @contextlib.contextmanager
    def open(self) -> t.Iterator[dict[str, t.Any]]:
        """The content, to be changed in place. No other process sees or changes it meanwhile."""
        folder = Folder(self._directory)
        with folder.guarded():
            content = folder.read_json(FILE) if folder.has(FILE) else {}
            yield content
            folder.write_json(FILE, content)
