# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The right of one run at a time to take steps on a host. Private to the collection: it may change in any release.

A lease in a file says which run has the host, and until when. The state and the lease change together under the lock of
their directory, which is never held during a wait.
"""

import contextlib
from typing import Any, Dict, Iterator, Optional

from ._scheduled_events.clock import CLOCK, Clock, lease, lease_left
from ._scheduled_events.files import Folder

LEASE_FILE = "respond.lease"


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

    def __init__(self, folder: Folder, run: str, host: str, owner: Dict[str, Any], clock: Clock = CLOCK) -> None:
        self._folder = folder
        self._run, self._host, self._owner = run, host, owner
        self._clock = clock

    @contextlib.contextmanager
    def held(self, *, abandoned: str = "", make: bool = False) -> Iterator[None]:
        """Hold the lock while the state changes.

        :param abandoned: a run that does not exist any more; its lease does not count.
        :param make: create the directory if it is missing. Without it, no run has a lease.
        :raises Locked: another run has the lease, and it has not run out.
        :raises OSError: the directory cannot be used.
        """
        if not make and not self._folder.is_there():
            yield
            return
        with self._folder.guarded():
            found = self._read()
            if found and found["left"] > 0 and not self._is_mine(found) and found["run"] != abandoned:
                raise Locked(found)
            yield

    def _is_mine(self, found: Dict[str, Any]) -> bool:
        return (found["run"], found["host"]) == (self._run, self._host)

    def _read(self) -> Optional[Dict[str, Any]]:
        try:
            raw = self._folder.read_json(LEASE_FILE)
            left = lease_left(raw, self._folder.moment(self._clock))
            return {
                "run": str(raw["run"]),
                "host": str(raw["host"]),
                "owner": dict(raw["owner"]),
                "seconds": float(raw["seconds"]),
                "left": left,
            }
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def renew(self, seconds: float) -> None:
        """Keep the host for this run; it is not written again while it lasts about as long.

        :raises OSError: it cannot be written.
        """
        found = self._read()
        if found and self._is_mine(found) and found["seconds"] == seconds and found["left"] > seconds / 2:
            return
        written = lease(seconds, self._folder.moment(self._clock))
        self._folder.write_json(LEASE_FILE, {"run": self._run, "host": self._host, "owner": self._owner, **written})

    def end(self) -> None:
        """Give the host back."""
        with contextlib.suppress(OSError):
            self._folder.remove(LEASE_FILE)
