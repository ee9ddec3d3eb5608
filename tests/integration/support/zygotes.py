# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use of zygote.py: processes as subprocess.Popen has them, and an interpreter for modules."""

import array
import atexit
import marshal
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from typing import IO, NamedTuple

LIMIT = 120.0  # seconds; only so that a zygote that does not start is named
PROGRAM = pathlib.Path(__file__).with_name("zygote.py")
# `make soak` shows that no result is due to the zygotes: runs of Ansible and modules are separate processes there.
SEPARATELY = os.environ.get("TIER") == "soak"
CONTROLLERS = 4  # at the same time: each takes some 60 MB
LENGTH = 8  # bytes of a number on the socket
# What Python or Ansible reads while it is imported. A child has the values with which its zygote started.
READ_AT_START = ("ANSIBLE_", "PYTHON", "LC_", "LANG", "HOME", "TMPDIR")
# In place of an interpreter: it hands over what it was given. Written for its start to cost little.
INTERPRETER = """\
#!{python} -IS
import marshal, posix, sys, _socket

def run():
    started_with = {python_variables}
    variables = {{name: value for name, value in posix.environ.items() if name.startswith(b"PYTHON")}}
    if variables != started_with or sys.argv[1:2] and sys.argv[1].startswith("-"):
        return None
    connection = _socket.socket(_socket.AF_UNIX)
    try:
        connection.connect({socket!r})
    except OSError:
        return None
    umask = posix.umask(0)
    posix.umask(umask)
    arguments = [argument.encode(errors="surrogateescape") for argument in sys.argv]
    request = marshal.dumps((arguments, posix.environ, posix.getcwdb(), umask))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    header = len(request).to_bytes({length}, "big")
    connection.sendmsg([header], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    connection.sendall(request)
    answer = b""
    while len(answer) < 2 * {length}:
        answer += connection.recv(2 * {length} - len(answer)) or posix._exit(255)
    return int.from_bytes(answer[{length}:], "big", signed=True)

code = run()
if code is None:
    posix.execv({python!r}, [{python!r}, *sys.argv[1:]])
if code < 0:
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


class ForkedProcess:
    """A child of a zygote, with the part of subprocess.Popen that the tests need."""

    def __init__(
        self, path: str, command: list[str], cwd: pathlib.Path, env: dict[str, str], output: IO[bytes]
    ) -> None:
        self.returncode: int | None = None
        environment = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        umask = os.umask(0)
        os.umask(umask)
        request = marshal.dumps(([os.fsencode(word) for word in command], environment, os.fsencode(cwd), umask))
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        with open(os.devnull, "rb") as nothing:
            streams = array.array("i", [nothing.fileno(), output.fileno(), output.fileno()])
            handed_over = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
            self._connection.sendmsg([len(request).to_bytes(LENGTH, "big")], handed_over)
        self._connection.sendall(request)
        self.pid = self._number()

    def _number(self) -> int:
        data = self._connection.recv(LENGTH, socket.MSG_WAITALL)
        assert len(data) == LENGTH, "the zygote ended"
        return int.from_bytes(data, "big", signed=True)

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = self._number()
            self._connection.close()
        return self.returncode


class Controller(NamedTuple):
    """A zygote for runs of Ansible with the same settings."""

    name: str
    children: list[ForkedProcess]


class Zygotes:
    """The zygotes of a test session. Each is started at the first need of it."""

    def __init__(self) -> None:
        # Not in the directory of pytest: the path of a socket has at most 107 characters.
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="zygotes-", dir="/tmp"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._controllers: dict[frozenset[tuple[str, str]], Controller] = {}
        self._number = 0
        self.home = self._directory / "home"
        self.home.mkdir()
        # Ansible looks for results a thousand times a second, which costs more than the tasks of a run that waits.
        (self.home / "ansible.cfg").write_text("[defaults]\ninternal_poll_interval = 0.01\n")
        self._interpreter = self._directory / "python"
        self._write_interpreter(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        atexit.register(self.stop)

    @property
    def interpreter(self) -> str:
        """What ansible_python_interpreter is to be: this Python, which ``start_modules`` makes start fast."""
        return str(self._interpreter)

    def _write_interpreter(self, content: str) -> None:
        self._interpreter.write_text(content)
        self._interpreter.chmod(0o755)

    def start_modules(self) -> None:
        """Start what runs modules with the present environment."""
        if SEPARATELY:
            return
        path = self._start("modules", dict(os.environ), "modules")
        variables = {
            os.fsencode(name): os.fsencode(value) for name, value in os.environ.items() if name.startswith("PYTHON")
        }
        self._write_interpreter(
            INTERPRETER.format(python=sys.executable, python_variables=variables, socket=path, length=LENGTH)
        )

    def run_ansible(
        self, command: list[str], *, cwd: pathlib.Path, env: dict[str, str], output: IO[bytes]
    ) -> ForkedProcess | subprocess.Popen[bytes]:
        """Start a command of Ansible."""
        if SEPARATELY:
            return subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        settings = frozenset((name, value) for name, value in env.items() if name.startswith(READ_AT_START))
        running = self._controllers.pop(settings, None) or self._make_room()
        self._controllers[settings] = running  # the last one is the one last used
        socket_path = self._start(running.name, env, "controller")
        running.children.append(ForkedProcess(socket_path, command, cwd, env, output))
        return running.children[-1]

    def run_emulator(self, directory: pathlib.Path, arguments: list[str], *, output: IO[bytes]) -> ForkedProcess:
        """Start the emulator of a directory."""
        env = dict(os.environ)
        command = [str(directory), *arguments]
        return ForkedProcess(self._start("emulators", env, "emulators"), command, pathlib.Path("/"), env, output)

    def _make_room(self) -> Controller:
        """End the zygote that was idle for longest, if there are many; a new one."""
        idle = [
            key for key, each in self._controllers.items() if all(child.poll() is not None for child in each.children)
        ]
        if len(self._controllers) >= CONTROLLERS and idle:
            self._end(self._controllers.pop(idle[0]).name)
        self._number += 1
        return Controller(f"controller{self._number}", [])

    def _start(self, name: str, env: dict[str, str], kind: str) -> str:
        """The path of the socket of a zygote."""
        directory = self._directory / name
        path = directory / "socket"
        if name not in self._processes:
            directory.mkdir()
            self._processes[name] = subprocess.Popen(
                [sys.executable, str(PROGRAM), kind, str(directory)],
                cwd="/",
                env={name: value for name, value in env.items() if name.startswith((*READ_AT_START, "PATH"))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            # It closes its output when it listens.
            select.select([self._processes[name].stdout], [], [], LIMIT)
            assert path.exists(), f"the zygote {name} did not start"
        return str(path)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.stdin.close()
        process.stdout.close()
        process.wait(LIMIT)
        shutil.rmtree(self._directory / name)

    def stop(self) -> None:
        """End all of them."""
        for name in list(self._processes):
            self._end(name)
        shutil.rmtree(self._directory, ignore_errors=True)


ZYGOTES = Zygotes()
