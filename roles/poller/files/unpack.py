# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put the files of a release into its directory, in one go: python3 -c … DIRECTORY [--check] <FILES

FILES is an object of texts by path, as JSON in base64. Modules are compiled for this Python, since no other user can
write there later, and each start would compile them again. Prints the paths of the files that differed; with --check it
changes nothing.
"""

import base64
import importlib.util
import json
import marshal
import os
import py_compile
import struct
import sys
from types import CodeType
from typing import List, Tuple

HAS_HASHES = sys.version_info >= (3, 7)  # of sources in compiled files; before, the time of the source has to do


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
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(temporary, path)


def is_compiled(path: str, content: bytes) -> bool:
    """Whether a module has its compiled file, of this source and for this Python."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            compiled = file.read()
            mode = os.fstat(file.fileno()).st_mode & 0o7777
        expected = importlib.util.MAGIC_NUMBER
        if HAS_HASHES:
            expected += struct.pack("<L", 1) + importlib.util.source_hash(content)
        else:
            expected += struct.pack("<LL", int(os.stat(path).st_mtime) & 0xFFFFFFFF, len(content))
        code = marshal.loads(compiled[len(expected) :])  # noqa: S302 - only root writes there
    except (OSError, ValueError, EOFError, TypeError):
        return False
    return compiled.startswith(expected) and mode == 0o644 and isinstance(code, CodeType)


def compile_module(path: str) -> None:
    """Write the compiled file of a module. Its source is not looked at again, as it never changes."""
    target = importlib.util.cache_from_source(path)
    if HAS_HASHES:
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, cfile=target, doraise=True, invalidation_mode=unchecked)
    else:
        py_compile.compile(path, cfile=target, doraise=True)
    os.chmod(target, 0o644)


def unpack(directory: str, files: List[Tuple[str, str]], *, check: bool) -> List[str]:
    """Compare, and correct unless only a check is requested; returns the paths that differed."""
    wrong = []
    for name, text in files:
        path, content = os.path.join(directory, name), text.encode()
        mode = 0o755 if text.startswith("#!") else 0o644
        if not is_as_it_should_be(path, content, mode):
            wrong.append(path)
            if not check:
                put(path, content, mode)
        if name.endswith(".py") and not is_compiled(path, content):
            wrong.append(importlib.util.cache_from_source(path))
            if not check:
                compile_module(path)
    return wrong


def main(directory: str, *options: str) -> None:
    """The command line."""
    os.umask(0o022)
    files = sorted(json.loads(base64.b64decode(sys.stdin.read())).items())
    for path in unpack(directory, files, check="--check" in options):
        sys.stdout.write(path + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
