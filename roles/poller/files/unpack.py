# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpack a release of the polling unit, and compile it: unpack.py ARCHIVE DIRECTORY

The directory exists only when it is complete. Its modules are compiled now, since no other user can write there later,
and each start would compile them again.
"""

import compileall
import fcntl
import os
import shutil
import sys
import tarfile


def unpack(archive: str, directory: str) -> None:
    """Unpack the archive, for everybody to read."""
    os.umask(0o022)
    new = directory + ".new"
    with open(archive, "rb") as file:
        # Another play may do the same. The kernel ends the lock of a process that ends in whatever way.
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.isdir(directory):
            return
        shutil.rmtree(new, ignore_errors=True)
        with tarfile.open(fileobj=file) as tar:
            tar.extractall(new, **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202 - ours
        by_hash = {}
        if sys.version_info >= (3, 7):  # noqa: UP036 - before, the time of the source has to do
            from py_compile import PycInvalidationMode

            by_hash = {"invalidation_mode": PycInvalidationMode.UNCHECKED_HASH}
        if not compileall.compile_dir(new, quiet=1, **by_hash):
            sys.exit(f"The program cannot be compiled in {new}")
        os.sync()
        os.rename(new, directory)


if __name__ == "__main__":
    unpack(*sys.argv[1:])
