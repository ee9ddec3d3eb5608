# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of Ansible: its name, and what it remembers. Private to the collection."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import typing as t
from pathlib import Path

from .identity import this_owner


class Run(t.NamedTuple):
    """A run of Ansible on this control node. ``owner``: its process, as :func:`this_owner` has it."""

    name: str
    owner: dict[str, t.Any]


def this_run(directory: Path) -> Run:
    """This run.

    :param directory: that Ansible makes for each run.
    :raises AnsibleError: the process that runs the playbook has ended.
    """
    owner = this_owner()
    return Run(f"{owner['node']}/{directory.name}", owner)


class Store:
    """The common files of the processes of one run. Ansible removes their directory at the end of the run."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "rolling-maintenance.json"

    def note_decision(self, play: str, hosts: t.Iterable[str], decision: dict[str, t.Any]) -> None:
        """Note what the gate decided for these hosts."""
        with self.open() as content:
            content.setdefault("decided", {}).setdefault(play, {}).update(dict.fromkeys(hosts, decision))

    def decision(self, play: str, host: str) -> dict[str, t.Any] | None:
        """What the gate last decided for a host, None if the host did not come to the gate."""
        with self.open() as content:
            return t.cast("dict[str, t.Any] | None", content.get("decided", {}).get(play, {}).get(host))

    @contextlib.contextmanager
    def open(self) -> t.Iterator[dict[str, t.Any]]:
        """The content, to be changed in place. No other process sees or changes it meanwhile."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+") as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            content = json.loads(file.read() or "{}")
            yield content
            text = json.dumps(content)
            file.seek(0)
            file.write(text)
            file.truncate()
