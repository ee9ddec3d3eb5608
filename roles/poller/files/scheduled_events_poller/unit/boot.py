# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mark of this boot: a file in a directory that does not outlast the boot.

The kernel's own id stays the same when a container starts again, and is out of sight in a sandbox.
"""

import os
import uuid
from typing import Tuple

from _scheduled_events.files import NotPlain, read_plain, write_atomically


def find_boot_id(runtime_directory: str) -> str:
    """The mark that the poller left; empty if it has not run since the boot."""
    try:
        return read_plain(os.path.join(runtime_directory, "boot"), most=100).decode("ascii").strip()
    except (FileNotFoundError, NotPlain, UnicodeDecodeError):
        return ""


def boot_id(runtime_directory: str) -> Tuple[str, bool]:
    """The mark, and whether it was made now because there was none."""
    found = find_boot_id(runtime_directory)
    if found:
        return found, False
    made = uuid.uuid4().hex
    write_atomically(os.path.join(runtime_directory, "boot"), made.encode(), mode=0o644)
    return made, True
