# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that are written as a whole, and files that are read although another user wrote them.

Without the standard library's tempfile, which takes longer to import than a hook may wait.
"""

import contextlib
import errno
import os
import stat
from typing import IO, Callable, ContextManager, Iterator, Optional, Tuple


class NotPlain(OSError):
    """The path does not lead to a regular file with one name and of a reasonable size."""


@contextlib.contextmanager
def plain(
    path: str, *, dir_fd: Optional[int] = None, other_names: bool = False
) -> Iterator[Tuple[IO[bytes], os.stat_result]]:
    """Open a file that a hostile user may have put there, and return it with its status.

    No link is followed, and no other end of a FIFO is waited for. A second name could be that of a file of another
    user. What takes the place of the file meanwhile makes no difference.

    :param other_names: whether the file can have other names.
    :raises NotPlain: it is something else than a regular file with one name.
    :raises OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise NotPlain("it is not a regular file") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain("it is not a regular file")
        if found.st_nlink > 1 and not other_names:
            raise NotPlain("it has another name, too")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file, found
    finally:
        os.close(descriptor)


def read_plain(path: str, *, most: int, dir_fd: Optional[int] = None) -> bytes:
    """Return the content of a file that a hostile user may have put there; see :func:`plain`.

    :param most: bytes that it can have.
    :raises NotPlain: it is something else, or larger.
    :raises OSError: it cannot be read.
    """
    with plain(path, dir_fd=dir_fd) as (file, _found):
        content = file.read(most + 1)
    if len(content) > most:
        raise NotPlain(f"it has more than {most} bytes")
    return content


def write_atomically(path: str, content: bytes, *, mode: int, durable: bool = False) -> None:
    """Replace a file as a whole, or leave it as it was.

    :param durable: whether it has to outlast a power cut as well.
    :raises OSError: it could not be replaced.
    """
    with _written_beside(path, content, mode, durable=durable) as temporary:
        os.replace(temporary, path)
    if durable:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_once(path: str, content: bytes, *, mode: int) -> bool:
    """Make a file that appears as a whole; ``False`` if there is one already, which stays as it is.

    :raises OSError: it could not be made.
    """
    with _written_beside(path, content, mode) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


def remove_half_written(path: str) -> None:
    """Remove what processes that were killed while they wrote the file left beside it.

    :raises OSError: the directory cannot be read.
    """
    directory, name = os.path.split(path)
    for left in os.listdir(directory or "."):
        if left.startswith(_prefix(name)) and len(left) == len(_prefix(name)) + 12:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, left))


def _prefix(name: str) -> str:
    return f".{name[:60]}."


class Changed(OSError):
    """Another process changed the files after they were read. Nothing was written: read them again."""


class Folder:
    """A directory of this machine and the files in it, by their names.

    What keeps its files in one can also keep them elsewhere: through something with these methods.

    :cvar is_here: whether its path is one of this machine.
    """

    is_here = True

    def __init__(self, path: str) -> None:
        self.path = path

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def is_there(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Make it unless it is there."""
        os.makedirs(self.path, mode=0o755, exist_ok=True)

    def guarded(self, lock: Callable[[], ContextManager[None]]) -> ContextManager[None]:
        """Keep others out while files are read and written together.

        :param lock: does that on this machine.
        :raises Changed: at its end, if the lock only notices other writers and does not exclude them.
        """
        return lock()

    def write_changes(self) -> None:
        """Wait until the changes are written, so that the next read returns the present content.

        :raises Changed: see :meth:`guarded`.
        """

    def has(self, name: str) -> bool:
        return os.path.lexists(self.path_of(name))

    def read(self, name: str, largest: int = -1) -> bytes:
        """Return the content of a file.

        :param largest: bytes to read at most.
        :raises FileNotFoundError: there is no such file.
        """
        with open(self.path_of(name), "rb") as file:
            return file.read(largest)

    def written_at(self, name: str) -> float:
        """When a file was written last, in seconds since the epoch."""
        return os.stat(self.path_of(name)).st_mtime

    def write(self, name: str, content: bytes, *, mode: int, durable: bool = False) -> None:
        """Replace a file as a whole; see :func:`write_atomically`."""
        write_atomically(self.path_of(name), content, mode=mode, durable=durable)

    def remove(self, name: str) -> None:
        """Remove a file.

        :raises FileNotFoundError: there is no such file.
        """
        os.unlink(self.path_of(name))


@contextlib.contextmanager
def _written_beside(path: str, content: bytes, mode: int, *, durable: bool = False) -> Iterator[str]:
    """A temporary file with the content, in the directory of ``path``; none is left at the end."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, _prefix(name) + os.urandom(6).hex())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
