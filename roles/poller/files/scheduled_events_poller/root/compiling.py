# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compile the modules of a release for the Python that runs this: compiling.py DIRECTORY [--check] <MODULES

MODULES is an object of texts by path, as JSON. Modules are compiled when they are installed, since no other user can
write there later, and each start would compile them again. Prints the paths of the compiled files that differed; with
--check it changes nothing.
"""

import json
import marshal
import os
import py_compile
import struct
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType

HAS_HASHES = sys.version_info >= (3, 7)  # of sources in compiled files; before, the time of the source has to do


def is_compiled(path: str, content: bytes) -> bool:
    """Whether a module has its compiled file, of this source and for this Python."""
    try:
        with open(cache_from_source(path), "rb") as file:
            compiled = file.read()
            mode = os.fstat(file.fileno()).st_mode & 0o7777
        expected = MAGIC_NUMBER
        if HAS_HASHES:
            from importlib.util import source_hash

            expected += struct.pack("<L", 1) + source_hash(content)
        else:
            expected += struct.pack("<LL", int(os.stat(path).st_mtime) & 0xFFFFFFFF, len(content))
        code = marshal.loads(compiled[len(expected) :])  # noqa: S302 - only root writes there
    except (OSError, ValueError, EOFError, TypeError):
        return False
    return compiled.startswith(expected) and mode == 0o644 and isinstance(code, CodeType)


def compile_module(path: str) -> None:
    """Write the compiled file of a module. Its source is not looked at again, as it never changes."""
    target = cache_from_source(path)
    if HAS_HASHES:
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, cfile=target, doraise=True, invalidation_mode=unchecked)
    else:
        py_compile.compile(path, cfile=target, doraise=True)
    os.chmod(target, 0o644)


def main(directory: str, *options: str) -> None:
    """The command line."""
    os.umask(0o022)
    for name, text in sorted(json.loads(sys.stdin.read()).items()):
        path = os.path.join(directory, name)
        if not is_compiled(path, text.encode()):
            if "--check" not in options:
                compile_module(path)
            sys.stdout.write(cache_from_source(path) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
