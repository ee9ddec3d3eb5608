# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The right of one run at a time to take steps on a host. Private to the collection: it may change in any release.

A lease in a file says which run has the host, and until when. A lock of the kernel guards the file and the state while
they change; it is never held during a wait.
"""

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, Optional

from ._scheduled_events.files import Folder

LEASE_FILE, LOCK_FILE = "respond.lease", "respond.lock"


class Locked(Exception):
    """Another run has this host; ``lease`` says which."""

    def __init__(self, lease: Dict[str, Any]) -> None:
        super().__init__("another run has this host")
        self.lease = lease


class Lease:
    """The lease of one host of one run.

    :param folder: the state directory of the host.
    :param owner: where the run is, for another control node that meets the lease.
    """

    def __init__(
        self, folder: Folder, run: str, host: str, owner: Dict[str, Any], wall: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._run, self._host, self._owner = run, host, owner
        self._wall = wall

    @contextlib.contextmanager
    def held(self, *, abandoned: str = "", make: bool = False) -> Iterator[None]:
        """Hold the lock while the state changes.

        :param abandoned: a run that does not exist any more; its lease does not count.
        :param make: create the directory if it is missing. Without it, no run has a lease.
        :raises Locked: another run has the lease, and it has not run out.
        :raises OSError: the directory cannot be used.
        """
        if make:
            self._folder.make()
        elif not self._folder.is_there():
            yield
            return
        with self._folder.guarded(self._lock):
            self._look(abandoned)
            yield

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self._folder.path_of(LOCK_FILE)
        while True:
            with open(path, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not _is_at(path, file.fileno()):
                    continue  # the run before took the file away while this one waited for it
                try:
                    yield
                finally:
                    if not self._folder.has(LEASE_FILE):
                        with contextlib.suppress(OSError):
                            os.unlink(path)
                return

    def _look(self, abandoned: str) -> None:
        lease = self._read()
        if lease is None or (lease["run"], lease["host"]) == (self._run, self._host) or lease["run"] == abandoned:
            return
        if 0 < lease["expires"] - self._wall() <= lease["seconds"]:  # else it ran out, or the clock went back
            raise Locked(lease)

    def _read(self) -> Optional[Dict[str, Any]]:
        try:
            lease = json.loads(self._folder.read(LEASE_FILE).decode())
            times = {name: float(lease[name]) for name in ("expires", "seconds")}
            return dict(times, run=str(lease["run"]), host=str(lease["host"]), owner=dict(lease["owner"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def renew(self, seconds: float) -> None:
        """Keep the host for this run; it is not written again while it lasts about as long.

        :raises OSError: it cannot be written.
        """
        lease = self._read()
        now = self._wall()
        mine = lease is not None and (lease["run"], lease["host"]) == (self._run, self._host)
        if mine and lease and lease["seconds"] == seconds and seconds / 2 < lease["expires"] - now <= seconds:
            return
        raw = {"run": self._run, "host": self._host, "owner": self._owner, "seconds": seconds, "expires": now + seconds}
        self._folder.write(LEASE_FILE, json.dumps(raw).encode(), mode=0o600)

    def end(self) -> None:
        """Give the host back."""
        with contextlib.suppress(OSError):
            self._folder.remove(LEASE_FILE)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
