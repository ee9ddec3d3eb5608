# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install the files of a release of the polling unit."""

import json
import os
from typing import Callable, Dict, List

from .._scheduled_events.files import write_atomically

COMPILER = "scheduled_events_poller/root/compiling.py"  # the module of the release that compiles the release

RunsPython = Callable[..., str]


def is_as_it_should_be(path: str, content: bytes, mode: int) -> bool:
    """Whether the file has this content and this mode."""
    try:
        with open(path, "rb") as file:
            return file.read() == content and os.fstat(file.fileno()).st_mode & 0o7777 == mode
    except OSError:
        return False


def install(directory: str, files: Dict[str, str], run_python: RunsPython, *, check: bool) -> List[str]:
    """Compare, and correct unless only a check is requested; returns the paths that differed.

    :param files: texts by path.
    :param run_python: runs a program with the Python of the unit, given its text, its arguments, and its standard input
        as ``data``; returns its output. A module of Ansible does not run with each Python that the unit supports.
    """
    os.umask(0o022)
    wrong = []
    for name, text in sorted(files.items()):
        path, content, mode = os.path.join(directory, name), text.encode(), 0o755 if text.startswith("#!") else 0o644
        if not is_as_it_should_be(path, content, mode):
            wrong.append(path)
            if not check:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_atomically(path, content, mode=mode, durable=True)
    modules = json.dumps({name: text for name, text in files.items() if name.endswith(".py")})
    compiled = run_python(files[COMPILER], directory, *(["--check"] if check else []), data=modules)
    return wrong + compiled.splitlines()
