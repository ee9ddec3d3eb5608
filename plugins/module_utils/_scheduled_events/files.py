# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that are written as a whole.

Without the standard library's tempfile, which takes longer to import than a hook may wait.
"""

import contextlib
import os
from typing import Iterator


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


@contextlib.contextmanager
def _written_beside(path: str, content: bytes, mode: int, *, durable: bool = False) -> Iterator[str]:
    """A temporary file with the content, in the directory of ``path``; none is left at the end."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name[:60]}.{os.urandom(6).hex()}")
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
