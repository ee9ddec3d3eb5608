# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a Python program with a fault at a boundary: just before it changes a file, sends or starts a process.

boundary.py PLAN PROGRAM [ARGUMENT...]

PLAN is a directory with the file plan.json. All programs with the same plan count together, so a fault occurs once:
    fault    a name of FAULTS; "die" ends what the process has started, too, and "alone" does not
    name, occurrence    the boundary, and which time it is reached
    disk     the directory of what outlasts a reboot
    run      the directories of what does not

They leave there:
    reached  the names of the boundaries, in their order
    struck   once the fault has occurred
    files, names    what of the disk is durable: the content of files by their inodes, the names of directories
"""

import builtins
import contextlib
import errno
import fcntl
import json
import os
import re
import runpy
import shutil
import signal
import socket
import stat
import sys
import time
import zlib
from urllib.parse import quote

RANDOM_PART = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{1,12}){1,4}|[0-9a-f]{12,}|[0-9]+")
# As tempfile makes them.
TEMPORARY = re.compile(r"^(pymp-|listener-|tmp|ansible-local-[0-9]+)?(?=[a-z]*[0-9_])[a-z0-9_]{8}$")
PAYLOAD = re.compile(r"(?<=_payload_)[a-z0-9_]{8}$")  # of a module of Ansible
CHANGES = ("replace", "rename", "link", "unlink", "remove", "rmdir", "mkdir", "chmod", "fsync", "fdatasync")
CHANGES += ("fchmod", "symlink", "write", "ftruncate")
CLOCK = {"clock ahead": 5 * 3600.0, "clock back": -5 * 3600.0}  # seconds by which the wall clock is set
ERRORS = {"full": errno.ENOSPC, "read-only": errno.EROFS}
# What the disk holds after a power cut: all, only synced names, or all names with the synced content only.
CUTS = ("reboot", "names lost", "content lost")
EMPTIED = "run emptied"
FAULTS = ("none", "die", "alone", EMPTIED, *CUTS, *ERRORS, *CLOCK)

OPEN, KILL, NOW, NAMES = os.open, os.kill, time.time, os.listdir
PLAIN_OPEN, REPLACE, RENAME, WRITE, REMOVE = builtins.open, os.replace, os.rename, os.write, os.unlink


def main():
    plan, *sys.argv = sys.argv[1:]
    verb = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    Watch(plan, f"{os.path.basename(sys.argv[0])} {verb}").install()
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


class Watch:
    """The boundaries of this process and of its forks."""

    def __init__(self, directory, label):
        with PLAIN_OPEN(os.path.join(directory, "plan.json")) as file:
            plan = json.load(file)
        self._directory, self._label, self._pid = directory, label, os.getpid()
        self._fault, self._name, self._occurrence = plan["fault"], plan["name"], plan["occurrence"]
        self._disk, self._run = os.path.realpath(plan["disk"]), plan.get("run", ())

    def _path(self, name):
        return os.path.join(self._directory, name)

    def struck(self):
        return os.path.exists(self._path("struck"))

    def reach(self, action, about, path=None):
        """Take note of a boundary.

        :param path: of the file that is about to change.
        :raises OSError: the disk does not work.
        """
        if self.struck():
            self._go_on(path)
            return
        label = self._label if os.getpid() == self._pid else f"{self._label}'s fork"
        name = f"{label}: {action} {about}".strip()
        record = OPEN(self._path("reached"), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(record, fcntl.LOCK_EX)
            WRITE(record, name.encode() + b"\n")
            if name != self._name or self.struck():
                return
            reached = os.pread(record, os.fstat(record).st_size, 0).decode().splitlines()
            if reached.count(name) < self._occurrence or self._fault == "none":
                return
            os.close(OPEN(self._path("struck"), os.O_CREAT, 0o600))
        finally:
            os.close(record)
        if self._fault == "die":  # as the main process of a unit, whose other processes systemd ends
            end(descendants(os.getpid()))
        if self._fault in ("die", "alone"):
            KILL(os.getpid(), signal.SIGKILL)
        if self._fault == EMPTIED:
            empty(self._run)
        self._go_on(path)

    def _go_on(self, path):
        """The time after the fault."""
        if self._fault in CUTS:
            while True:  # the machine is off: the harness ends the process
                time.sleep(60)
        if self._fault in ERRORS and path is not None and not os.path.exists(self._path("repaired")):
            directory = os.path.realpath(os.path.dirname(path))
            if os.path.join(directory, "").startswith(os.path.join(self._disk, "")):
                with PLAIN_OPEN(self._path("failed"), "a") as file:
                    file.write(f"{self._label}\n")
                raise OSError(ERRORS[self._fault], os.strerror(ERRORS[self._fault]), path)

    def install(self):
        for action in CHANGES:
            self._watch(os, action, named_by=1 if action in ("replace", "rename", "link", "symlink") else 0)
        self._watch(os, "open", only=lambda _path, flags, *_a, **_k: flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
        self._watch(builtins, "open", only=lambda _path, mode="r", *_a, **_k: set(mode) & set("wax+"))
        for action in ("send", "sendall", "sendmsg", "sendto"):
            self._watch_socket(action)
        spawned = os.posix_spawn

        def spawn(path, *arguments, **options):
            self.reach("start", name_of(path))
            return spawned(path, *arguments, **options)

        os.posix_spawn = spawn
        import subprocess

        started = subprocess.Popen.__init__

        def start(process, arguments, *more, **options):
            self.reach("start", name_of(arguments if isinstance(arguments, (str, bytes)) else arguments[-1]))
            started(process, arguments, *more, **options)

        subprocess.Popen.__init__ = start
        if self._fault in CLOCK:
            time.time = lambda: NOW() + (CLOCK[self._fault] if self.struck() else 0.0)

    def _watch(self, place, action, named_by=0, only=lambda *_a, **_k: True):
        original = getattr(place, action)

        def replacement(*arguments, **options):
            watched = len(arguments) > named_by and only(*arguments, **options)
            if watched and action in ("write", "ftruncate"):
                watched = stat.S_ISREG(os.fstat(arguments[0]).st_mode)
            if watched:
                directory = options.get("dst_dir_fd", options.get("dir_fd"))
                path = path_of(arguments[named_by], directory)
                self.reach(action, name_of(path), path)
            is_new = watched and not os.path.lexists(path)
            result = original(*arguments, **options)
            if watched and self._fault in CUTS:
                if action == "open" and isinstance(result, int) and is_new:
                    self._set_aside(os.fstat(result).st_ino)
                if action == "fsync":
                    self._keep(arguments[0])
            return result

        setattr(place, action, replacement)

    def _set_aside(self, inode):
        """A new file has the inode of a removed one, which exists again after a cut if its removal was not synced."""
        aside = f"{inode}-{time.monotonic_ns()}"
        try:
            RENAME(self._path(f"files/{inode}"), self._path(f"files/{aside}"))
        except FileNotFoundError:
            return
        for name in NAMES(self._path("names")) if os.path.isdir(self._path("names")) else ():
            with PLAIN_OPEN(self._path(f"names/{name}")) as file:
                entries = json.load(file)
            if inode in entries.values():
                entries = {each: aside if found == inode else found for each, found in entries.items()}
                self._store(f"names/{name}", json.dumps(entries).encode())

    def _keep(self, given):
        """Keep what is durable from now on."""
        if not os.path.join(path_of(given), "").startswith(os.path.join(self._disk, "")):
            return
        found = os.fstat(given)
        if stat.S_ISDIR(found.st_mode):
            directory = path_of(given)
            entries = {name: os.lstat(os.path.join(directory, name)).st_ino for name in NAMES(directory)}
            self._store(f"names/{quote(directory, safe='')}", json.dumps(entries).encode())
        else:
            with PLAIN_OPEN(f"/proc/self/fd/{given}", "rb") as file:
                self._store(f"files/{found.st_ino}/content", file.read())

    def _store(self, name, content):
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = self._path(f"temporary-{os.getpid()}-{zlib.crc32(name.encode())}")
        with PLAIN_OPEN(temporary, "wb") as file:
            file.write(content)
        REPLACE(temporary, path)

    def _watch_socket(self, action):
        original = getattr(socket.socket, action)

        def replacement(used, data, *arguments, **options):
            first = bytes(data[0] if isinstance(data, (list, tuple)) else data)[:40]
            self.reach(action, RANDOM_PART.sub("N", first.split(b" ")[0].decode("ascii", "replace"))[:20])
            return original(used, data, *arguments, **options)

        setattr(socket.socket, action, replacement)


def changes(name):
    """Whether a file changes at a boundary, so that a disk that does not work makes a difference."""
    return name.partition(": ")[2].partition(" ")[0] in ("open", *CHANGES)


def empty(directories):
    for directory in directories:
        for name in NAMES(directory) if os.path.isdir(directory) else ():
            path = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):  # another program has removed it
                shutil.rmtree(path) if os.path.isdir(path) else REMOVE(path)


def descendants(pid):
    """The processes that a process started, and those that these started."""
    found = []
    for thread in NAMES(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), PLAIN_OPEN(f"/proc/{pid}/task/{thread}/children") as file:
            found += [int(child) for child in file.read().split()]
    return [*found, *(other for child in found if os.path.exists(f"/proc/{child}") for other in descendants(child))]


def end(pids):
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            KILL(pid, signal.SIGKILL)


def after_a_power_cut(plan, disk, fault):
    """Make the disk what it is after the cut. No program runs."""
    for directory, _directories, files in list(os.walk(disk)):
        names = {name: os.lstat(os.path.join(directory, name)).st_ino for name in files}
        if fault == "names lost":
            synced = os.path.join(plan, "names", quote(os.path.realpath(directory), safe=""))
            names = {}
            if os.path.exists(synced):
                with PLAIN_OPEN(synced) as file:
                    names = json.load(file)
        contents = {}
        for name, inode in names.items():
            kept = os.path.join(plan, "files", str(inode), "content")
            contents[name] = b""
            if os.path.exists(kept):
                with PLAIN_OPEN(kept, "rb") as file:
                    contents[name] = file.read()
        for name in files:
            os.unlink(os.path.join(directory, name))
        for name, content in contents.items():
            if not os.path.isdir(os.path.join(directory, name)):
                with PLAIN_OPEN(os.path.join(directory, name), "wb") as file:
                    file.write(content)
                os.chmod(os.path.join(directory, name), 0o600)


def path_of(given, directory=None):
    if isinstance(given, int):
        return os.readlink(f"/proc/self/fd/{given}")
    path = os.fsdecode(given)
    if directory is not None:
        path = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), path)
    return os.path.abspath(path)


def name_of(path):
    """The name of a file without what is random in it, such as the end of a temporary name."""
    name = TEMPORARY.sub(r"\1N", PAYLOAD.sub("N", os.path.basename(os.fsdecode(path))))
    return RANDOM_PART.sub("N", name)[:60]


if __name__ == "__main__":
    main()
