# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One polling unit for each state and each socket, as the user that the state belongs to."""

import contextlib
import fcntl
import os
import pwd
from typing import Iterator


class Occupied(Exception):
    """The unit cannot begin here. The message contains the reason and an instruction."""


def check_owner(state_file: str, runtime_directory: str) -> None:
    """Refuse files of another user: a file that this user leaves there keeps the other one from its state.

    :raises Occupied: the state, or a directory, belongs to another user.
    """
    for path in (os.path.dirname(os.path.abspath(state_file)), state_file, runtime_directory):
        with contextlib.suppress(FileNotFoundError):
            owner = os.lstat(path).st_uid
            if owner != os.geteuid():
                raise Occupied(
                    f"{path} belongs to {_name(owner)}, and this process runs as {_name(os.geteuid())}. Start "
                    "scheduled-events-poller.service instead, or use 'scheduled-events poll', which only shows what "
                    "would be done. If the owner of the file is wrong, run chown"
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
        _lock(stack, os.path.dirname(os.path.abspath(state_file)), os.O_RDONLY | os.O_DIRECTORY)
        _lock(stack, os.path.join(runtime_directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)
        yield


def _lock(stack: contextlib.ExitStack, path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Occupied(
            f"another polling unit holds {path}. Use 'scheduled-events status' to see what it does, or stop "
            "scheduled-events-poller.service first"
        ) from None


def _name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
