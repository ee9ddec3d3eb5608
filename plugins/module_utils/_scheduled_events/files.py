# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that are written as a whole, files that are read although another user wrote them, and locks.

For hosts and control nodes. Without the standard library's tempfile, which takes longer to import than a hook may wait.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
from typing import IO, Any, Callable, Container, Dict, Iterator, Optional, Tuple, Union

from .checks import decoded
from .clock import CLOCK, Clock, Moment

LOCK_FILE = ".lock"  # in a directory whose files change together
LOCK_PAUSE = 0.05  # seconds
HALF_WRITTEN = 60.0  # seconds after which no process still writes a temporary file
LARGEST_STATUS = 4 * 1024 * 1024  # bytes of the status file, which the unprivileged polling unit writes
STALE = 30.0  # seconds without a new status file, after which the unit does not run, and its status says nothing
LACKING = errno.EMFILE, errno.ENFILE, errno.ENOMEM  # the machine cannot open a file now, which passes
REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Become root, or give the file to this user"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free the disk"),
    **dict.fromkeys((errno.EROFS, errno.ENOTDIR, errno.EEXIST), "Name a directory that can be written"),
}
DIRECTORY_MODE = 0o755  # other programs keep files there, too, and unprivileged ones read some

Path = Union[str, "os.PathLike[str]"]


def explained(error: OSError) -> str:
    """The error of a file, and what to do where that is known."""
    remedy = REMEDIES.get(error.errno or 0)
    return f"{error}. {remedy}" if remedy else str(error)


class NotPlain(OSError):
    """The path does not lead to a regular file with one name and of a reasonable size."""


@contextlib.contextmanager
def plain(
    path: str, *, dir_fd: Optional[int] = None, linked: bool = False
) -> Iterator[Tuple[IO[bytes], os.stat_result]]:
    """Open a file that a hostile user may have put there, and return it with its status.

    No link is followed, and no other end of a FIFO is waited for. A second name could be that of a file of another
    user. What takes the place of the file meanwhile makes no difference.

    :param linked: whether it may have another name, as a :func:`write_once` leaves it that was killed.
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
        found = check_plain(descriptor, linked=linked)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file, found
    finally:
        os.close(descriptor)


def check_plain(descriptor: int, *, linked: bool = False) -> os.stat_result:
    """Return the status of an open file.

    :param linked: whether it may have another name.
    :raises NotPlain: it is something else than a regular file with one name.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotPlain("it is not a regular file")
    if found.st_nlink > 1 and not linked:
        raise NotPlain("it has another name, too")
    return found


def read_plain(path: str, *, most: int, linked: bool = False) -> bytes:
    """Return the content of a file that a hostile user may have put there; see :func:`plain`.

    :param most: bytes that it can have.
    :raises NotPlain: it is something else, or larger.
    :raises OSError: it cannot be read.
    """
    with plain(path, linked=linked) as (file, _found):
        content = file.read(most + 1)
    if len(content) > most:
        raise NotPlain(f"it has more than {most} bytes")
    return content


def read_status(path: str) -> Dict[str, Any]:
    """Return the object of JSON in a file such as the status of the polling unit; see :func:`plain`.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not an object of JSON.
    """
    found = decoded(read_plain(path, most=LARGEST_STATUS))
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not an object")
    return found


def write_atomically(
    path: Path, content: bytes, *, mode: int, durable: bool = False, directory: Optional[str] = None
) -> None:
    """Replace a file as a whole, or leave it as it was.

    :param durable: whether it has to outlast a power cut as well.
    :param directory: for the temporary file, if every name in the directory of the file counts at once.
    :raises OSError: it could not be replaced, or is replaced and may not outlast a power cut.
    """
    path = os.path.abspath(path)
    with _written_beside(path, content, mode, durable=durable, directory=directory) as temporary:
        os.replace(temporary, path)
    if durable:
        sync_directory(os.path.dirname(path))


def sync_directory(path: Path) -> None:
    """Let the names in a directory outlast a power cut.

    :raises OSError: that cannot be done.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_once(path: Path, content: bytes, *, mode: int) -> bool:
    """Make a file that appears as a whole; ``False`` if there is one already, which stays as it is.

    :raises OSError: it could not be made.
    """
    with _written_beside(os.path.abspath(path), content, mode) as temporary:
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


def trim(
    directory: str,
    now: float,
    *,
    oldest: float,
    most: int,
    begins: str = "",
    keep: Container[str] = (),
    matters: Callable[[str], bool] = lambda _path: False,
) -> None:
    """Remove old files of a directory, half-written ones after a minute, and the oldest of too many.

    :param now: seconds since the epoch.
    :param oldest: seconds since the last change of a file that stays.
    :param begins: how the names begin that count.
    :param keep: names that stay.
    :param matters: whether the file with a path goes after all others of too many.
    :raises OSError: the directory cannot be read.
    """
    stay = []
    for name in os.listdir(directory):
        if name.startswith(begins) and name not in keep:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                changed = os.stat(path).st_mtime
                if now - changed > (HALF_WRITTEN if name.startswith(".") else oldest):
                    os.unlink(path)
                else:
                    stay.append((changed, path))
    if len(stay) > most:
        stay.sort(key=lambda file: (matters(file[1]), file))
        for _changed, path in stay[: len(stay) - most]:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _prefix(name: str) -> str:
    return f".{name[:60]}."


class Occupied(OSError):
    """Another process holds the lock. The message says what to do."""


@contextlib.contextmanager
def locked(path: Path, *, patience: Optional[float] = None, make: bool = True, clock: Clock = CLOCK) -> Iterator[int]:
    """Keep out other processes that lock the same path, and give its descriptor. The kernel ends the lock of a process
    that ends in whatever way.

    :param path: a file, or a directory. Every user who can read a directory can lock it.
    :param patience: seconds to wait for the other process; as long as it takes by default.
    :param make: whether to make the file if it is missing.
    :raises Occupied: another process still holds the lock.
    :raises OSError: the path cannot be opened.
    """
    if os.path.isdir(path):
        flags = os.O_RDONLY | os.O_DIRECTORY
    else:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if make else 0)
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        if patience is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        elif not clock.until(lambda: _take(descriptor), within=patience, every=LOCK_PAUSE):
            raise Occupied(
                errno.EWOULDBLOCK,
                f"another process holds the lock, and {patience:g} s of waiting did not help. Find it with fuser",
                os.fspath(path),
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Changed(OSError):
    """Another process changed the files after they were read. Nothing was written: read them again."""


class Folder:
    """A directory of this machine and the files in it, by their names.

    What keeps its files in one can also keep them elsewhere: through something with these methods.

    :cvar is_here: whether its path is one of this machine.
    """

    is_here = True

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def is_there(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Make it, and the missing ones above it, unless it is there. An existing directory keeps its mode."""
        if not self.is_there():
            above = os.path.dirname(os.path.abspath(self.path))
            if not os.path.lexists(above):
                Folder(above).make()  # whatever the umask: a flag in this one has to be found by others
            os.makedirs(self.path, exist_ok=True)
            # The directory above can be that of another user: what takes the place of the new one is not followed.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchmod(descriptor, DIRECTORY_MODE)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def guarded(self, patience: Optional[float] = None, *, clock: Clock = CLOCK) -> Iterator[None]:
        """Keep others out while files are read and written together; the directory is made for that.

        :param patience: seconds; see :func:`locked`.
        :raises Occupied: another process still keeps it.
        :raises Changed: at its end, if others are only noticed and not kept out.
        """
        self.make()
        with locked(self.path_of(LOCK_FILE), patience=patience, clock=clock):
            yield

    def write_changes(self) -> None:
        """Wait until the changes are written, so that the next read returns the present content.

        :raises Changed: see :meth:`guarded`.
        """

    def moment(self, clock: Clock) -> Moment:
        """Now, as the files note it."""
        now = clock.moment()
        return now if self.is_here else now._replace(boot_id="")  # the next reader may be another machine

    def has(self, name: str) -> bool:
        return os.path.lexists(self.path_of(name))

    def read(self, name: str, largest: int = -1) -> bytes:
        """Return the content of a file.

        :param largest: bytes to read at most.
        :raises FileNotFoundError: there is no such file.
        """
        with open(self.path_of(name), "rb") as file:
            return file.read(largest)

    def read_json(self, name: str) -> Any:
        """Return the decoded content of a file.

        :raises FileNotFoundError: there is no such file.
        :raises ValueError: it is not JSON.
        """
        return decoded(self.read(name))

    def written_at(self, name: str) -> float:
        """When a file was written last, in seconds since the epoch."""
        return os.stat(self.path_of(name)).st_mtime

    def write(self, name: str, content: bytes, *, mode: int, durable: bool = False) -> None:
        """Replace a file as a whole; see :func:`write_atomically`."""
        write_atomically(self.path_of(name), content, mode=mode, durable=durable)

    def write_json(self, name: str, value: Any, *, mode: int = 0o600, durable: bool = False) -> None:
        """Replace a file as a whole."""
        self.write(name, json.dumps(value, sort_keys=True).encode() + b"\n", mode=mode, durable=durable)

    def remove(self, name: str) -> None:
        """Remove a file.

        :raises FileNotFoundError: there is no such file.
        """
        os.unlink(self.path_of(name))


@contextlib.contextmanager
def _written_beside(
    path: str, content: bytes, mode: int, *, durable: bool = False, directory: Optional[str] = None
) -> Iterator[str]:
    """A temporary file with the content, in the directory of ``path`` or the given one; none is left at the end."""
    beside, name = os.path.split(path)
    temporary = os.path.join(directory or beside, _prefix(name) + os.urandom(6).hex())
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    except OSError as error:
        if error.errno and error.filename in (None, temporary) and error.filename2 is None:
            error.filename = path  # a full disk does not say where, and the temporary name is gone
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
