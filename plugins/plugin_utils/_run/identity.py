# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""This run of Ansible, and whether another one is still alive. Private to the collection."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import platform
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError

from ...module_utils._scheduled_events.clock import boot_id


def main_pid() -> int:
    """The process of Ansible that started this worker.

    When it has been killed, ``os.getppid`` shows another process, such as init: the worker got a new parent.
    """
    parent = multiprocessing.parent_process()
    return (parent and parent.pid) or os.getppid()


def main_process_has_ended() -> bool:
    """Whether the process of Ansible that started this worker has ended, so that no run waits for the result."""
    return os.getppid() != main_pid()


def this_owner() -> dict[str, t.Any]:
    """The identity of the process of Ansible that started this worker.

    :raises AnsibleError: it has ended. A lease in its name would last until it expires, since nothing shows any more
        when that process began.
    """
    owner = owner_of(main_pid())
    if main_process_has_ended():
        raise AnsibleError("the process of Ansible that began this task has ended. Run the play again")
    return owner


def owner_of(pid: int) -> dict[str, t.Any]:
    """The identity of a process, also for processes on other machines."""
    return {"place": place(), "node": platform.node(), "pid": pid, "began": began(pid)}


def run_id_of(owner: t.Mapping[str, t.Any]) -> str:
    """The identity of the run that a process is."""
    return hashlib.sha256(repr(sorted(owner.items())).encode()).hexdigest()[:32]


def is_dead(owner: t.Mapping[str, t.Any]) -> bool:
    """Whether the process is known to have ended.

    That is never known of a process on another machine, or where the system has no ``/proc``: two machines may have the
    same name.
    """
    if owner.get("place") != place() or not owner.get("began"):
        return False
    if not isinstance(owner.get("pid"), int) or owner["pid"] <= 0:
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return began(owner["pid"]) != owner.get("began")


def place() -> str:
    """The range in which a process id is unique: a boot of a kernel and a namespace of it, or else a machine."""
    boot = boot_id()
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
        if boot:
            return f"{boot} {namespace}"
    return platform.node()


def began(pid: int) -> str:
    """When the process began, in the kernel's format; empty if that is not known, or if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""
