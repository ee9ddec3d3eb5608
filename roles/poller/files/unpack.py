# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put the files of a release into its directory, in one go: python3 -c … DIRECTORY [--check] <FILES

FILES is an object of texts by path, as JSON in base64. Prints the paths of the files that were not as they should be;
with --check it changes nothing.
"""

import base64
import json
import os
import sys


def is_as_it_should_be(path: str, content: bytes, mode: int) -> bool:
    """Whether the file has this content and this mode."""
    try:
        with open(path, "rb") as file:
            return file.read() == content and os.fstat(file.fileno()).st_mode & 0o7777 == mode
    except OSError:
        return False


def put(path: str, content: bytes, mode: int) -> None:
    """Replace the file as a whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = path + ".new"
    with open(temporary, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(temporary, path)


def main(directory: str, *options: str) -> None:
    """Compare, and mend unless told only to check."""
    os.umask(0o022)
    for name, text in sorted(json.loads(base64.b64decode(sys.stdin.read())).items()):
        path, content = os.path.join(directory, name), text.encode()
        mode = 0o755 if text.startswith("#!") else 0o644
        if is_as_it_should_be(path, content, mode):
            continue
        if "--check" not in options:
            put(path, content, mode)
        sys.stdout.write(path + "\n")


main(*sys.argv[1:])
