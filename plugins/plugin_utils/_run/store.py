# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of Ansible: who it is, whether another one is dead, and what it remembers. Private to the collection."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import typing as t
from pathlib import Path

from .identity import began, place


class Run(t.NamedTuple):
    """A run of Ansible on this controller.

    ``started`` is empty where the system has no ``/proc``. Then it is not known whether it has ended.
    """

    name: str
    node: str
    machine: str
    pid: int
    started: str

    def by(self) -> dict[str, t.Any]:
        """Return the facts about this run for other runs."""
        return self._asdict()


def this_run(directory: Path, pid: int) -> Run:
    """This run.

    :param directory: that Ansible makes for each run.
    :param pid: of the process that runs the playbook.
    """
    node = platform.node()
    return Run(f"{node}/{directory.name}", node, place(), pid, began(pid))


def is_dead(by: t.Mapping[str, t.Any], own: Run) -> bool:
    """Whether another run is certainly dead: it was on this machine, and its process has ended."""
    if by.get("machine") != own.machine or not by.get("started"):
        return False
    try:
        return began(int(by["pid"])) != by["started"]
    except (KeyError, ValueError, TypeError):
        return False  # nothing that this version wrote


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
