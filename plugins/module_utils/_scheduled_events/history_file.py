# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a history: facts are added at the end, and the oldest ones go away.

Two files of 512 KiB at most: the present one, and the one before. A new one begins when the present one is full, or
when its first fact is 200 days old. So no fact stays for more than 400 days on a VM that has events, and
:func:`read` leaves older ones out on any VM.
"""

import contextlib
import errno
import os
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from .checks import WrongValue
from .files import Folder, NotPlain, check_plain, plain, sync_directory
from .history import MAX_LINE, Fact, line_of, needed, parse_line, preparations
from .text import counted

UNIT_DIRECTORY, ROLES_DIRECTORY = "/var/lib/scheduled-events-history", "/var/lib/maintops"
DIRECTORIES = (UNIT_DIRECTORY, ROLES_DIRECTORY)  # where histories are, unless the owner chose other places
PRESENT, BEFORE = "history.jsonl", "history.1.jsonl"  # names of the files, in the directory of the history

MAX_FILE = 512 * 1024  # bytes
MAX_AGE = 400 * 86400.0  # seconds
MODE = 0o640
ENOUGH = 10  # preparations, after which twice the time of the usual ones is enough for the next one


class Found(NamedTuple):
    """The facts of a history, in the order in which they were written, and why others are missing."""

    facts: Tuple[Fact, ...]
    problems: Tuple[str, ...]


def prepare(directory: str) -> None:
    """Make the directory of a history.

    :raises OSError: it cannot be used.
    """
    os.makedirs(directory, mode=0o750, exist_ok=True)


def append(directory: str, facts: Sequence[Fact], *, now: float) -> None:
    """Append to the history in a directory of this machine, durably. One process at a time does so.

    :param now: seconds since the epoch.
    :raises OSError: some could not be written.
    """
    lines: List[bytes] = []
    for line in map(line_of, facts):
        if lines and sum(map(len, lines)) + len(line) > MAX_FILE // 2:
            _append(directory, lines, now)
            lines = []
        lines.append(line)
    if lines:
        _append(directory, lines, now)


def _append(directory: str, lines: Sequence[bytes], now: float) -> None:
    content = b"".join(lines)
    _forget_old(directory, len(content), now)
    _write(directory, content, make=True, alone=True)


def _forget_old(directory: str, more: int, now: float) -> None:
    present, before = (os.path.join(directory, name) for name in (PRESENT, BEFORE))
    with contextlib.suppress(FileNotFoundError):
        if now - os.lstat(before).st_mtime > MAX_AGE:
            os.unlink(before)
    with contextlib.suppress(FileNotFoundError):
        first = None
        with plain(present) as (file, status), contextlib.suppress(WrongValue):
            first = parse_line(file.readline(MAX_LINE)).time
        if status.st_size + more + 1 > MAX_FILE or (first is not None and now - first > MAX_AGE / 2):
            os.replace(present, before)


def append_where_possible(folder: Folder, facts: Sequence[Fact], *, now: float) -> str:
    """Append to the history in a directory, which is made for that; why it failed, or empty.

    On a Windows host, each file takes several starts of PowerShell. There the result of the run alone has the facts.

    :param now: seconds since the epoch.
    """
    if facts and folder.is_here:
        try:
            folder.make()
            append(folder.path, facts, now=now)
        except OSError as error:
            return f"the history in {folder.path} cannot be written: {error}"
    return ""


def append_beside(directories: Sequence[str], facts: Sequence[Fact]) -> bool:
    """Append to the first of these histories that this process may write; returns whether there was one.

    The owner of the history may write at the same time. No file is made in the directory of another user, who could not
    write it.
    """
    content = b"".join(map(line_of, facts))
    for directory in directories if facts else ():
        with contextlib.suppress(OSError):
            _write(directory, content, make=os.stat(directory).st_uid == os.geteuid(), alone=False)
            return True
    return False


def _write(directory: str, content: bytes, *, make: bool, alone: bool) -> None:
    """Add lines to the present file, durably.

    :param make: whether to make the file if it is missing.
    :param alone: whether no other process writes, so that what was written in part can be taken back.
    :raises OSError: they could not be added, or the file would be too long.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    descriptor = os.open(os.path.join(directory, PRESENT), flags, MODE)
    try:
        size = check_plain(descriptor).st_size
        if size == 0 and make:
            os.fchmod(descriptor, MODE)  # whatever the mask is
        elif size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content  # a crash has cut the last line
        if size + len(content) > MAX_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        try:
            written = os.write(descriptor, content)  # at once
            if written < len(content):
                reason = f"{os.strerror(errno.ENOSPC)}: {written} of {len(content)} bytes were written"
                raise OSError(errno.ENOSPC, reason)
            os.fsync(descriptor)
            if size == 0:
                sync_directory(directory)
        except OSError:  # the next try writes these facts again
            if alone:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def read(*directories: str, now: float, since: float = 0.0) -> Found:
    """The facts of a history, also if another user has written its files; those of several in the order of their times.

    :param now: seconds since the epoch; facts that are older than 400 days are left out.
    :param since: seconds since the epoch; older facts are left out.
    """
    problems: List[str] = []
    facts = [fact for directory in directories for fact in _facts_of(directory, problems, now=now, since=since)]
    if len(directories) > 1:
        facts.sort(key=lambda fact: fact.time)
    return Found(tuple(facts), tuple(problems))


def _facts_of(directory: str, problems: List[str], *, now: float, since: float = 0.0) -> Iterator[Fact]:
    """The facts of a history, one at a time; see :func:`read`. ``problems`` gets why others are missing."""
    since = max(since, now - MAX_AGE)
    for name in (BEFORE, PRESENT):
        path = os.path.join(directory, name)
        wrong: List[str] = []
        try:
            with plain(path) as (file, _status):
                for fact in _facts_in(file, wrong):
                    if fact.time >= since:
                        yield fact
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(f"{path} cannot be read: {error}")
            continue
        if wrong:
            problems.append(f"{path}: {counted(len(wrong), 'line')} left out. The first: {wrong[0]}")


def experience(directory: str, *, now: float) -> Dict[str, Any]:
    """What a history says about the time of a preparation, as settings of :class:`.terms.Config`."""
    seconds = preparations(_facts_of(directory, [], now=now))
    usual = needed(seconds) or 0.0
    return {"usual": usual, "patience": 2 * usual} if len(seconds) >= ENOUGH else {"usual": usual}


def _facts_in(file: IO[bytes], wrong: List[str]) -> Iterator[Fact]:
    """The facts of a file. ``wrong`` gets the reason for each line that is not a fact; the last line may be cut.

    :raises NotPlain: the file is too large.
    """
    left, line = MAX_FILE, b"\n"
    while line:
        line = file.readline(left + 1)
        left -= len(line)
        if left < 0:
            raise NotPlain(f"it has more than {MAX_FILE} bytes")
        try:
            if line.strip(b"\n"):
                yield parse_line(line.strip(b"\n"))
        except WrongValue as error:
            if line.endswith(b"\n"):
                wrong.append(str(error))
