# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file on a host that says for whom it is drained, and what was found before anything was changed."""

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, NamedTuple, Optional

FILE = "load-balancer.json"
DIRECTORY_MODE = 0o755  # others keep files there, too
LONGEST_LEASE = 3600.0  # seconds


class RecordError(Exception):
    """The record cannot be read. The message says what to do."""


class Kept(NamedTuple):
    """The content of the record. ``returning``: the run that puts the host back now, and until when that counts."""

    holders: List[str]
    found: Dict[str, Any]
    returning: Optional[Dict[str, Any]] = None


OPTIONS: Dict[str, Dict[str, Any]] = {
    "state": {"type": "str", "choices": ["held", "returning", "released"], "required": True},
    "holder": {"type": "str", "required": True},
    "found": {"type": "dict", "default": {}},
    "replace": {"type": "bool", "default": False},
    "wait": {"type": "float", "default": 60},
    "lease": {"type": "float", "default": 300},
    "directory": {"type": "path", "default": "/var/lib/maintops"},
}

NOTHING = Kept([], {})

# What a holder that wants the host back has to do
PUT_BACK, LEAVE_OUT, NOTHING_TO_DO = "put back", "leave out", "nothing to do"


class Record:
    """The record of one host. Every step is done under a lock, so that two plays do not overwrite each other.

    :param folder: the state directory of the host; see ``Folder`` of the library.
    :param simulate: whether to change nothing.
    """

    def __init__(
        self,
        folder: Any,
        *,
        simulate: bool = False,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._simulate = simulate
        self._clock = clock
        self._sleep = sleep

    def locked(self) -> ContextManager[None]:
        """Exclude other processes."""
        guard: ContextManager[None] = self._folder.guarded(self._lock)
        return guard

    def settle(self) -> None:
        """Let what is noted be there before something else is done."""
        self._folder.settle()

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """The lock is on the directory, so that no lock file remains."""
        if not self._folder.is_there():
            if self._simulate:
                yield
                return
            self._folder.make()
            # An existing directory keeps its mode, which another program may have set.
            os.chmod(self._folder.path, DIRECTORY_MODE)
        descriptor = os.open(self._folder.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> Kept:
        """Return the content of the record; empty without a record.

        :raises RecordError: it cannot be read.
        """
        try:
            raw = json.loads(self._folder.read(FILE).decode())
            kept = Kept(list(raw["holders"]), dict(raw["found"]), raw.get("returning"))
        except FileNotFoundError:
            return NOTHING
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"{self._folder.path_of(FILE)} cannot be read ({error}). Put the host back in the load balancer by "
                "hand, remove the file, and run it again"
            ) from None
        return kept

    def hold(self, holder: str, found: Mapping[str, Any], *, replace: bool = False) -> Kept:
        """Note a holder, and what was found unless that was noted before: later it would be the role's own doing.

        To be called under the lock, before anything is changed.

        :param replace: note what was found in place of what was noted.
        :returns: what is noted now.
        """
        before = self.read()
        holders = before.holders if holder in before.holders else [*before.holders, holder]
        after = Kept(holders, {**before.found, **found} if replace else {**found, **before.found})
        self._replace(before, after)
        return after

    def hold_when_free(self, holder: str, found: Mapping[str, Any], *, wait: float, replace: bool = False) -> Kept:
        """Take the lock and hold. Wait while another holder puts the host back: its orders would undo what comes now.

        :param wait: seconds after which to go on nevertheless.
        """
        give_up_at = self._clock() + wait
        while True:
            with self.locked():
                if not self._another_returns(holder) or self._clock() >= give_up_at:
                    return self.hold(holder, found, replace=replace)
            self._sleep(1.0)
            self._folder.settle()

    def _another_returns(self, holder: str) -> bool:
        returning = self.read().returning
        if not returning or returning["holder"] == holder:
            return False
        return (
            0 < float(returning["until"]) - self._clock() <= LONGEST_LEASE
        )  # else it was killed, or the clock was set

    def release(self, holder: str, *, lease: float) -> str:
        """Take a holder back. The last one stays until :meth:`forget`, so that a run that is killed is repeated.

        To be called under the lock.

        :param lease: seconds for which no other holder drains the host while this holder puts it back; 0 for a holder
            that keeps the lock meanwhile.
        :returns: what to do now.
        """
        before = self.read()
        if holder not in before.holders:
            return NOTHING_TO_DO
        others = [each for each in before.holders if each != holder]
        if others:
            self._replace(before, Kept(others, before.found))
            return LEAVE_OUT
        if lease > 0:
            until = self._clock() + min(lease, LONGEST_LEASE)
            self._replace(before, before._replace(returning={"holder": holder, "until": until}))
        return PUT_BACK

    def forget(self, holder: str) -> None:
        """Take the last holder back: the host is in service. To be called under the lock."""
        before = self.read()
        others = [each for each in before.holders if each != holder]
        if others:  # one came meanwhile
            self._replace(before, Kept(others, before.found))
        elif not self._simulate:
            with contextlib.suppress(FileNotFoundError):
                self._folder.remove(FILE)

    def _replace(self, before: Kept, after: Kept) -> None:
        if after == before or self._simulate:
            return
        raw = {key: value for key, value in after._asdict().items() if value is not None}
        content = json.dumps(raw, indent=4, sort_keys=True) + "\n"
        self._folder.write(FILE, content.encode(), mode=0o600, durable=True)


def take_note(record: Record, params: Mapping[str, Any]) -> Dict[str, Any]:
    """Carry out the module with its parameters."""
    holder = params["holder"]
    before = record.read()
    more: Dict[str, Any] = {"msg": ""}
    if params["state"] == "held":
        after = record.hold_when_free(holder, params["found"], wait=params["wait"], replace=params["replace"])
        more["first"] = not before.holders
    elif params["state"] == "returning":
        with record.locked():
            more["todo"] = record.release(holder, lease=params["lease"])
            after = record.read()
        if more["todo"] == LEAVE_OUT:
            more["msg"] = "stays drained for " + ", ".join(each for each in after.holders if each != holder)
    else:
        with record.locked():
            record.forget(holder)
            after = record.read()
    return dict(changed=after != before, holders=after.holders, found=after.found, **more)
