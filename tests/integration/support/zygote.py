# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs without the cost of their start: a process imports what they need once, and forks for each run.

Most CPU time of a run of Ansible is the import of Ansible, and most of a module the compilation of its sources. A child
of a zygote runs the same code, with the arguments, environment, directory and streams of its client, and ends as Python
does. ``zygote.py controller`` runs the commands of Ansible, ``zygote.py modules`` scripts as an interpreter does,
and ``zygote.py emulators`` the emulator.
The standard input of a zygote is a pipe. When the other side closes it, the zygote kills its children and ends.
"""

import array
import atexit
import contextlib
import gc
import importlib
import marshal
import os
import pathlib
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import NamedTuple

from shared_imports import SharedImports

LENGTH = 8  # bytes of a number on the socket
COLLECTION = "maintops.scheduled_events"
COMMANDS = {"ansible": "ansible.cli.adhoc", "ansible-playbook": "ansible.cli.playbook"}
# What nearly each run loads by its name; of the kinds without names, all are loaded.
PLUGINS: dict[str, tuple[str, ...]] = {
    "action": ("command", "copy", "debug", "fail", "include_vars", "normal", "set_fact", "template", "uri"),
    "become": (),
    "cache": ("memory",),
    "callback": (),
    "connection": (),
    "inventory": (),
    "lookup": ("file", "first_found"),
    "shell": (),
    "strategy": ("free", "linear"),
    "vars": (),
}
# The standard library and the one dependency. A module brings its part of Ansible: see shared_imports.py.
OF_MODULES = (
    *("argparse", "ast", "base64", "calendar", "csv", "dataclasses", "datetime", "decimal", "email.utils", "fcntl"),
    *("getpass", "glob", "grp", "http.client", "http.cookiejar", "inspect", "ipaddress", "json", "locale", "logging"),
    *("netrc", "platform", "pwd", "queue", "random", "resource", "runpy", "secrets", "shlex", "shutil", "ssl"),
    *("subprocess", "syslog", "tempfile", "textwrap", "traceback", "typing", "unicodedata", "urllib.request"),
    *("uuid", "zipfile", "requests"),
)


class Request(NamedTuple):
    """What a client wants to run, and as what."""

    arguments: list[bytes]
    environment: dict[bytes, bytes]
    directory: bytes
    umask: int


def receive(connection: socket.socket) -> tuple[Request, list[int]]:
    """The request of a client, and the standard streams that it hands over."""
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(3 * descriptors.itemsize)
    header, ancillary, _flags, _address = connection.recvmsg(LENGTH, room)
    for _level, _kind, content in ancillary:
        descriptors.frombytes(content)
    with connection.makefile("rb") as stream:
        content = stream.read(int.from_bytes(header, "big"))
    # Of this user: the socket is in a directory that no other user can enter.
    return Request(*marshal.loads(content)), list(descriptors)  # noqa: S302


class Zygote:
    """Forks for each request on the socket at ``path``, and sends each client the pid and the end of its child.

    :param refresh: called before each fork.
    """

    def __init__(self, path: str, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._children: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._wake_up, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._wake_up, 0):
            self._selector.register(each, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def next_child(self) -> Request:
        """Serve until the standard input is closed. Returns in each child, and only there."""
        while True:
            for key, _events in self._selector.select():
                if key.fileobj is self._listener:
                    request = self._fork()
                    if request:
                        return request
                elif key.fileobj is self._wake_up:
                    self._reap()
                elif key.fileobj == 0:
                    self._end()
                else:  # the client was killed
                    self._selector.unregister(key.fileobj)
                    for pid in [pid for pid, client in self._children.items() if client is key.fileobj]:
                        os.kill(pid, signal.SIGKILL)

    def _fork(self) -> Request | None:
        connection, _address = self._listener.accept()
        try:
            request, descriptors = receive(connection)
        except (EOFError, OSError, ValueError):  # the client was killed
            connection.close()
            return None
        self._refresh()
        pid = os.fork()
        if not pid:
            self._become(request, connection, descriptors)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        self._send(connection, pid)
        return None

    def _become(self, request: Request, connection: socket.socket, descriptors: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for each in (connection, self._listener, self._wake_up, self._waker, *self._children.values()):
            each.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environb.clear()
        os.environb.update(request.environment)
        os.chdir(request.directory)
        os.umask(request.umask)

    def _reap(self) -> None:
        self._wake_up.recv(4096)
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                client = self._children.pop(pid)
                with contextlib.suppress(KeyError):  # it was killed
                    self._selector.unregister(client)
                self._send(client, os.waitstatus_to_exitcode(status))
                client.close()

    @staticmethod
    def _send(client: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):  # it was killed
            client.sendall(number.to_bytes(LENGTH, "big", signed=True))

    def _end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


class Controller:
    """Runs ``ansible`` and ``ansible-playbook``, with modules as an earlier run packed them."""

    def __init__(self, directory: pathlib.Path) -> None:
        import ansible.cli
        from ansible.plugins import loader

        self._packed = directory / "packed"
        self._packed.mkdir()
        for module in COMMANDS.values():
            importlib.import_module(module)
        loader.init_plugin_loader()  # for the collections that the environment names
        ansible.cli.init_plugin_loader = lambda *_prefixes: None  # not a second time
        # This also reads their documentation, which has their options.
        for kind, names in PLUGINS.items():
            plugins = getattr(loader, f"{kind}_loader")
            for name in names:
                plugins.get(f"ansible.builtin.{name}", class_only=True)
                plugins.get(name, class_only=True)
            if not names:
                list(plugins.all(class_only=True))
        for plugins in (loader.filter_loader, loader.test_loader):
            list(plugins.all())
        with contextlib.suppress(ImportError, AttributeError):  # before ansible-core 2.21
            from ansible._internal._task import UnifiedTaskResult

            for from_module in (False, True):  # which each task would otherwise find out again
                UnifiedTaskResult.get_result_key_to_resolved_field_mapping(source_is_module=from_module)
        with contextlib.suppress(ImportError):
            (place,) = importlib.import_module(f"ansible_collections.{COLLECTION}.plugins.action").__path__
            for path in pathlib.Path(place).glob("[a-z]*.py"):
                loader.action_loader.get(f"{COLLECTION}.{path.stem}", class_only=True)

    def refresh(self) -> None:
        """What the runs leave is shared as files."""

    def run(self, arguments: list[str]) -> None:
        """Run a command."""
        from ansible import constants

        # Each run has one, and removes it.
        constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP")
        packed = pathlib.Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
        packed.mkdir()
        share(self._packed, packed)
        atexit.register(share, packed, self._packed)  # before the directory is removed
        sys.argv = arguments
        importlib.import_module(COMMANDS[arguments[0]]).main()


def share(source: pathlib.Path, target: pathlib.Path) -> None:
    """Link the complete files of ``source`` into ``target``."""
    for path in source.glob("ansible*"):
        if path.suffix != ".lock" and not path.name.endswith("-part"):
            with contextlib.suppress(FileExistsError):
                (target / path.name).hardlink_to(path)


class Modules:
    """Runs a script, or the standard input, as Python does. Imports the same source in a zip file once."""

    def __init__(self, directory: pathlib.Path) -> None:
        for module in OF_MODULES:
            importlib.import_module(module)
        self._shared = SharedImports(directory / "payloads")

    def refresh(self) -> None:
        """Import what the children have imported."""
        self._shared.take_over()

    def run(self, arguments: list[str]) -> None:
        """Run a module, or what else its interpreter is given."""
        sys.argv = arguments[1:] or [""]
        main = types.ModuleType("__main__")
        if sys.argv[0]:
            main.__file__ = os.path.abspath(sys.argv[0])
            source = pathlib.Path(sys.argv[0]).read_bytes()
        else:
            source = sys.stdin.buffer.read()
        sys.path.insert(0, os.path.dirname(os.path.realpath(sys.argv[0])) if sys.argv[0] else "")
        sys.modules["__main__"] = main
        try:
            exec(compile(source, sys.argv[0] or "<stdin>", "exec", dont_inherit=True), main.__dict__)  # noqa: S102
        finally:
            self._shared.hand_over()


class Emulators:
    """Runs the emulator, whose directory is the first argument of its client."""

    def __init__(self, _directory: pathlib.Path) -> None:
        importlib.import_module("aiohttp.web")

    def refresh(self) -> None:
        """The children leave nothing to share."""

    def run(self, arguments: list[str]) -> None:
        """Run it as its command does."""
        sys.path.insert(0, arguments[0])
        sys.argv = arguments
        runpy.run_module("scheduled_events_emulator", run_name="__main__", alter_sys=True)


def exit_code(run: Callable[[], None]) -> int:
    """The exit code that Python would give for ``run``."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(kind: str, directory: pathlib.Path) -> None:
    """Serve; in a child, run and end as Python does, but keep the memory: the system frees it faster."""
    del sys.path[0]  # the directory of this file
    programs = {"controller": Controller, "emulators": Emulators, "modules": Modules}[kind](directory)
    zygote = Zygote(f"{directory}/socket", programs.refresh)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)  # which says that it listens
    gc.collect()
    gc.freeze()  # so that children share this memory
    gc.disable()  # they end soon, and a collection would copy much of it
    request = zygote.next_child()
    code = exit_code(lambda: programs.run([os.fsdecode(argument) for argument in request.arguments]))
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
