# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put the files of the emulator into its directory, in one go: python3 -c … DIRECTORY [--check] <FILES

FILES is an object of texts by path, as JSON in base64. Prints the paths of the files that differed; with --check it
changes nothing.
"""

import base64
import json
import os
import stat
import sys


def differs(path: str, content: bytes, mode: int) -> bool:
    """Whether the file does not have this content, this mode and this user."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            return (file.read(), stat.S_IMODE(found.st_mode), found.st_uid) != (content, mode, os.geteuid())
    except OSError:
        return True


def put(path: str, content: bytes, mode: int) -> None:
    """Replace the file as a whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = path + ".new"
    with open(temporary, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
    os.replace(temporary, path)


def main() -> None:
    """The command line."""
    os.umask(0o022)
    directory, check = sys.argv[1], "--check" in sys.argv[2:]
    for name, text in sorted(json.loads(base64.b64decode(sys.stdin.read())).items()):
        path, content, mode = os.path.join(directory, name), text.encode(), 0o755 if text.startswith("#!") else 0o644
        if differs(path, content, mode):
            print(path)
            if not check:
                put(path, content, mode)


if __name__ == "__main__":
    main()
