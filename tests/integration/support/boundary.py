# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a Python program that dies at a boundary of an action: just before it changes a file, sends or starts a process.

boundary.py record FILE PROGRAM [ARGUMENT...]       write the name of each boundary that is reached to a file
boundary.py die NAME OCCURRENCE PROGRAM [ARGUMENT...]   die with SIGKILL when a boundary is reached so many times
"""

import builtins
import collections
import os
import re
import runpy
import signal
import socket
import sys

REACHED: "collections.Counter[str]" = collections.Counter()
RANDOM_PART = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9a-f]{12,}|[0-9]+")


def main():
    command, *arguments = sys.argv[1:]
    if command == "record":
        record, *sys.argv = arguments
        record_file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def reach(name):
            os.write(record_file, f"{name}\n".encode())

    else:
        wanted, occurrence, *sys.argv = arguments

        def reach(name):
            REACHED[name] += 1
            if (name, REACHED[name]) == (wanted, int(occurrence)):
                os.kill(os.getpid(), signal.SIGKILL)

    own = os.getpid()

    def reach_here(name):
        if os.getpid() == own:
            reach(name)

    watch(reach_here)
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


def watch(reach):
    """Call ``reach`` with a name before each action that others can see."""

    def watched(place, action, named_by=0, only=lambda *_a, **_k: True):
        original = getattr(place, action)

        def replacement(*arguments, **options):
            if only(*arguments, **options):
                reach(f"{action} {name_of(arguments[named_by]) if len(arguments) > named_by else ''}".strip())
            return original(*arguments, **options)

        setattr(place, action, replacement)

    for action in ("replace", "rename", "link"):
        watched(os, action, named_by=1)
    for action in ("unlink", "remove", "rmdir", "mkdir", "chmod", "fsync", "fdatasync", "fchmod", "symlink"):
        watched(os, action)
    watched(os, "open", only=lambda _path, flags, *_a, **_k: flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
    watched(os, "posix_spawn")
    watched(builtins, "open", only=lambda _path, mode="r", *_a, **_k: set(mode) & set("wax+"))
    for action in ("send", "sendall", "sendmsg", "sendto"):
        watched_method(socket.socket, action, reach)
    import subprocess

    started = subprocess.Popen.__init__

    def start(self, arguments, *more, **options):
        reach("start " + name_of(arguments if isinstance(arguments, str) else arguments[-1]))
        started(self, arguments, *more, **options)

    subprocess.Popen.__init__ = start


def watched_method(place, action, reach):
    original = getattr(place, action)

    def replacement(self, data, *arguments, **options):
        first = bytes(data[0] if isinstance(data, (list, tuple)) else data)[:40]
        reach(f"{action} {RANDOM_PART.sub('N', first.split(b' ')[0].decode('ascii', 'replace'))[:20]}")
        return original(self, data, *arguments, **options)

    setattr(place, action, replacement)


def name_of(path):
    """The name of a file without what is random in it, such as the end of a temporary name."""
    if isinstance(path, int):
        path = os.readlink(f"/proc/self/fd/{path}")
    return RANDOM_PART.sub("N", os.path.basename(os.fsdecode(path)))[:40]


if __name__ == "__main__":
    main()
