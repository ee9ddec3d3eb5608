# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""This run of Ansible, and whether another one is still alive. Private to the collection.

Each job of AWX or Ansible Automation Platform has its own container, so a job cannot see the processes of another one.
If its environment has a token, as the credential type of the platform gives it, it asks the platform for the job whose
lease it meets.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import platform
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.module_utils.urls import open_url

from ...module_utils._scheduled_events.clock import boot_id
from ...module_utils._scheduled_events.files import write_atomically

# Not "error": so ends a job whose node is lost, and it may still run there.
ENDED = ("successful", "failed", "canceled")
SECONDS, MOST = 5, 1024 * 1024  # for an answer; its bytes
_OFF = ("false", "no", "off", "0", "n", "f")

Environment = t.Mapping[str, str]
_worker: list[int] = []  # the process that waits for this one, where a worker forked it without multiprocessing


def main_pid() -> int:
    """The process of Ansible that started this worker.

    When it has been killed, ``os.getppid`` shows another process, such as init: the worker got a new parent.
    """
    parent = multiprocessing.parent_process()
    return (parent and parent.pid) or os.getppid()


def note_worker(pid: int) -> None:
    """Note that a worker has forked this process, and waits for its answer."""
    _worker[:] = [pid]


def main_process_has_ended() -> bool:
    """Whether the process of Ansible that started this worker has ended, so that no run waits for the result."""
    # While one of its threads still ends, the workers of a killed process have it as their parent.
    return os.getppid() not in (_worker or [main_pid()]) or began(main_pid()) == ""


def refuse_ended_run() -> None:
    """Go on only while a run waits for the result.

    :raises AnsibleError: the process of Ansible that started this worker has ended.
    """
    if main_process_has_ended():
        raise AnsibleError("the process of Ansible that began this task has ended. Run the play again")


def this_owner() -> dict[str, t.Any]:
    """The identity of the process of Ansible that started this worker.

    :raises AnsibleError: it has ended. A lease in its name would last until it expires, since nothing shows any more
        when that process began.
    """
    owner = owner_of(main_pid())
    refuse_ended_run()
    return owner


def owner_of(pid: int) -> dict[str, t.Any]:
    """The identity of a process, also for processes on other machines."""
    return {"place": place(), "node": platform.node(), "pid": pid, "began": began(pid)}


def run_id_of(owner: t.Mapping[str, t.Any]) -> str:
    """The identity of the run that a process is."""
    return digest(repr(sorted(owner.items())))


def digest(text: str) -> str:
    """A file name for a text from another source."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def keep_file(path: Path, value: t.Any) -> None:
    """Write a value for the other processes of this run: a file of the control node, replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value).encode(), mode=0o600)


def kept(path: Path) -> dict[str, t.Any]:
    """What :func:`keep_file` wrote."""
    return t.cast("dict[str, t.Any]", json.loads(path.read_text()))


def is_dead(owner: t.Mapping[str, t.Any]) -> bool:
    """Whether the process is known to have ended.

    That is never known of a process on another machine, or where the system has no ``/proc``: two machines may have the
    same name. Nor of a process that ``/proc`` hides, as with ``hidepid``: that of another user or group.
    """
    if owner.get("place") != place() or not owner.get("began"):
        return False
    if not isinstance(owner.get("pid"), int) or owner["pid"] <= 0:
        return False
    now = began(owner["pid"])
    try:
        os.kill(owner["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return now not in (None, owner["began"])


def place() -> str:
    """The range in which a process id is unique: a boot of a kernel and a namespace of it, or else a machine."""
    boot = boot_id()
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
        if boot:
            return f"{boot} {namespace}"
    return platform.node()


def began(pid: int) -> str | None:
    """When the process began, in the kernel's format; empty if it has ended, None if ``/proc`` does not show it."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    return None


def this_job(variables: t.Mapping[str, t.Any], environment: Environment) -> dict[str, t.Any]:
    """The identity of the job that this run is; empty if it is none, or if no later job could ask for it."""
    number = str(variables.get("awx_job_id") or "")
    url = _url(environment)
    return {"controller": url, "job": int(number)} if url and number.isdecimal() else {}


def has_ended(owner: t.Mapping[str, t.Any], environment: Environment) -> bool:
    """Whether the controller of this run says that the job of another run has ended. What is not known is no."""
    number, url = owner.get("job"), _url(environment)
    if not url or owner.get("controller") != url or not isinstance(number, int) or isinstance(number, bool):
        return False
    prefix = environment.get("CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX", "").strip("/") or "api"
    try:
        answer = open_url(
            f"{url}/{prefix}/v2/jobs/{number}/",
            headers={"Authorization": f"Bearer {environment['CONTROLLER_OAUTH_TOKEN']}"},
            timeout=SECONDS,
            follow_redirects="none",
            validate_certs=environment.get("CONTROLLER_VERIFY_SSL", "").lower() not in _OFF,
        )
        found = json.loads(answer.read(MOST))
    except Exception:  # whatever goes wrong, the lease shows when the host is free; and a text could hold the token
        return False
    return isinstance(found, dict) and found.get("id") == number and found.get("status") in ENDED


def _url(environment: Environment) -> str:
    host = environment.get("CONTROLLER_HOST", "").rstrip("/")
    if not host or not environment.get("CONTROLLER_OAUTH_TOKEN"):
        return ""
    return host if "://" in host else f"https://{host}"
