# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One polling unit for each state and each socket, as the user that the state belongs to, and in which boot it runs."""

import contextlib
import os
import uuid
from typing import Dict, Iterator, Tuple

from _scheduled_events.client import user_name
from _scheduled_events.clock import Clock
from _scheduled_events.files import NotPlain, Occupied, locked, read_plain, write_atomically

from ..spool import Directories

REMOVAL = 2.0  # seconds that what removes files may take, also on a busy machine
LOOK = 0.1  # seconds between two looks meanwhile


def check_owner(state_file: str, runtime_directory: str) -> None:
    """Refuse files of another user: a file that this user leaves there keeps the other one from its state.

    :raises PermissionError: the state, or a directory, belongs to another user.
    """
    for path in (os.path.dirname(os.path.abspath(state_file)), state_file, runtime_directory):
        with contextlib.suppress(FileNotFoundError):
            owner = os.lstat(path).st_uid
            if owner != os.geteuid():
                raise PermissionError(
                    f"{path} belongs to the user {user_name(owner)}, and this process runs as the user "
                    f"{user_name(os.geteuid())}. Start scheduled-events-poller.service instead, or use "
                    "'scheduled-events poll', which only shows what would be done. If the owner of the file is wrong, "
                    "run chown"
                )


@contextlib.contextmanager
def alone(state_file: str, runtime_directory: str) -> Iterator[None]:
    """Keep out another process with the same state or the same socket, until this one ends, in whatever way.

    :raises Occupied: there is one.
    :raises OSError: that cannot be found out.
    """
    with contextlib.ExitStack() as stack:
        # Of the state it is the directory itself, which also works where nothing can be written. Other users could open
        # the runtime directory, and so lock it.
        for path in (os.path.dirname(os.path.abspath(state_file)), os.path.join(runtime_directory, "lock")):
            try:
                stack.enter_context(locked(path, patience=0.0))
            except Occupied:
                raise Occupied(
                    f"another polling unit holds {path}. Use 'scheduled-events status' to see what it does, or stop "
                    "scheduled-events-poller.service first"
                ) from None
        yield


def find_boot_id(runtime_directory: str) -> str:
    """The mark of this boot that the poller left; empty if it has not run since the boot.

    It is in a directory that does not outlast the boot. The kernel's own id stays the same when a container starts
    again, and is out of sight in a sandbox.
    """
    try:
        return read_plain(_mark(runtime_directory), most=100).decode("ascii").strip()
    except (FileNotFoundError, NotPlain, UnicodeDecodeError):
        return ""


def boot_id(runtime_directory: str) -> Tuple[str, bool]:
    """The mark, and whether it was made now because there was none."""
    found = find_boot_id(runtime_directory)
    if found:
        return found, False
    made = uuid.uuid4().hex
    mark_boot(runtime_directory, made)
    return made, True


def mark_boot(runtime_directory: str, boot: str) -> None:
    """Leave the mark of this boot.

    :raises OSError: it cannot be written.
    """
    write_atomically(_mark(runtime_directory), boot.encode(), mode=0o644)


def _mark(runtime_directory: str) -> str:
    return os.path.join(runtime_directory, "boot")


class Watched:
    """What is lost with a boot, and what no other process removes or replaces while this one runs."""

    def __init__(self, directories: Directories, boot: str, clock: Clock) -> None:
        self._runtime, self._boot, self._clock = directories.runtime, boot, clock
        self._paths = (
            _mark(directories.runtime),
            directories.socket,
            directories.requests,
            directories.jobs,
            directories.results,
        )
        self._seen: Dict[str, int] = {}

    def check(self) -> None:
        """See whether all that existed at an earlier look exists. The next process asks for all hooks again.

        :raises OSError: it does not.
        """
        for path in self._paths:
            try:
                inode = os.lstat(path).st_ino
            except OSError:
                inode = 0
            if inode and path not in self._seen:
                self._seen[path] = inode
            elif path in self._seen and self._seen[path] != inode:
                self._clock.until(self._keep_mark, within=REMOVAL, every=LOOK)
                raise OSError(f"{path} was removed. Remove nothing there: requests and results of hooks are lost")

    def _keep_mark(self) -> None:
        """Leave the mark again. Without it, the next process begins as after a boot, and hooks run again."""
        with contextlib.suppress(OSError):
            if find_boot_id(self._runtime) != self._boot:
                mark_boot(self._runtime, self._boot)
