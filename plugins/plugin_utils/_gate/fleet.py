# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask many hosts at the same time. Private to the collection.

Ansible runs one task on one host; a loop with delegate_to asks one host after the other. So this forks, as Ansible
itself does for its hosts: each child asks one host after the other, over separate connections, and a host that hangs
does not delay those that other children ask.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import socket
import time
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from .._ansible.core import is_windows
from .._ansible.other_host import OtherHost, OtherHostError, OtherHostUnreachable
from .._ansible.run import note_worker
from .._windows.host import WindowsHost
from .._windows.modules import COLLECTION, run_here
from .store import Store

LOOK_TIMEOUT = 60.0  # seconds for one host
HOST_TIMEOUT = 20.0  # seconds more for a look at several, for each that a fork asks
WINDOWS_PATIENCE = 4.0  # times as long, where PowerShell starts about fifteen times for a look

Result = t.Dict[str, t.Any]


class FleetHost(OtherHost):
    """A host of the fleet, which runs modules of this collection.

    :param facts: what was found out about it in this run, such as its Python.
    """

    TAKES_WINDOWS = True

    def __init__(
        self, action: ActionBase, name: str, task_vars: t.Mapping[str, t.Any], *, facts: t.Mapping[str, t.Any]
    ) -> None:
        super().__init__(action, name, task_vars, become=action._task.become)
        self._known_facts = facts

    def options(self, table: t.Mapping[str, str]) -> dict[str, t.Any]:
        """The options of a module for which a variable of the host has a value."""
        values = {option: self.variables.get(name) for option, name in table.items()}
        return {option: value for option, value in values.items() if value not in (None, "")}

    def _execute(self, action: ActionBase, module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if not is_windows(action._connection):
            return super()._execute(action, f"{COLLECTION}.{module}", arguments)
        return run_here(WindowsHost(action, self._task_vars, name=f"{COLLECTION}.{module}"), module, arguments)

    def _connect(self) -> ActionBase:
        action = super()._connect()
        facts = self._task_vars["ansible_facts"]
        self._task_vars["ansible_facts"] = {**self._known_facts, **facts}
        return action


class Fleet:
    """The hosts that a gate asks.

    :param names: of all of them.
    """

    def __init__(self, action: ActionBase, task_vars: dict[str, t.Any], store: Store, names: t.Sequence[str]) -> None:
        self._action, self._task_vars, self._store = action, task_vars, store
        self._forks = max(1, int(task_vars.get("ansible_forks") or 5))
        known = [task_vars["hostvars"][host] for host in names if host in task_vars["hostvars"]]
        self._patience = WINDOWS_PATIENCE if any(map(_is_meant_as_windows, known)) else 1.0

    def longest(self, hosts: t.Sequence[str]) -> float:
        """Seconds that a look at these hosts takes at most."""
        return self._patience * (LOOK_TIMEOUT + HOST_TIMEOUT * math.ceil(len(hosts) / self._forks))

    def ask(self, hosts: t.Sequence[str], options: t.Callable[[FleetHost], dict[str, t.Any]]) -> dict[str, Result]:
        """Run the module of the gate on these hosts, with the options for each; for the results see ``ask_all``."""
        with self._store.open() as store:
            known = store.get("facts", {})

        def ask_one(name: str) -> Result:
            self._action._task.timeout = 0  # its alarm is that of the process that forked this one
            try:
                host = FleetHost(self._action, name, self._task_vars, facts=known.get(name, {}))
                try:
                    return host.run("maintenance_gate", options(host), within=LOOK_TIMEOUT * self._patience)
                finally:
                    host.close()
            except OtherHostError as error:
                unreachable = isinstance(error, OtherHostUnreachable)
                return {"problem": str(error).removeprefix(f"{name}: "), "unreachable": unreachable}

        answers = ask_all(hosts, ask_one, forks=self._forks, timeout=self.longest(hosts))
        found = {host: answer["ansible_facts"] for host, answer in answers.items() if answer.get("ansible_facts")}
        if found:
            with self._store.open() as store:
                store.setdefault("facts", {}).update(found)
        return answers


def _is_meant_as_windows(variables: t.Mapping[str, t.Any]) -> bool:
    """Whether the variables of a host say that it is a Windows host, before there is a connection."""
    with contextlib.suppress(AnsibleError):  # omitted, or not known yet; the look at this host shows what is wrong
        connection = str(variables.get("ansible_connection", "")).rpartition(".")[2]
        return connection in ("winrm", "psrp") or variables.get("ansible_shell_type") in ("powershell", "cmd")
    return False


def ask_all(
    hosts: t.Sequence[str],
    ask: t.Callable[[str], Result],
    *,
    forks: int,
    timeout: float,
    clock: t.Callable[[], float] = time.monotonic,
) -> dict[str, Result]:
    """Call ``ask`` for each host, in other processes.

    :param ask: returns what can be written as JSON.
    :param forks: how many processes at the same time.
    :param timeout: seconds for all. Who has not answered by then is given up.
    :returns: by host its answer, or ``problem`` with the reason why there is none, and ``unreachable`` if it was late.
    """
    waiting, answers = list(hosts), dict[str, Result]()
    give_up_at = clock() + timeout
    with selectors.DefaultSelector() as selector:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < max(1, forks):
                child = _Child(ask, others=[key.data for key in selector.get_map().values()])
                selector.register(child.socket, selectors.EVENT_READ, child)
                child.begin(waiting.pop(0))
            left = give_up_at - clock()
            for key, _mask in selector.select(max(0.0, left)):
                child = key.data
                if not child.has_answered():
                    continue
                if child.lives and waiting:
                    answers[child.host] = child.answer()
                    child.begin(waiting.pop(0))
                else:
                    selector.unregister(child.socket)
                    status = child.end()
                    answers[child.host] = child.answer(status)
            if left <= 0:
                late = {"problem": f"no answer within {timeout:g} s", "unreachable": True}
                for key in list(selector.get_map().values()):
                    selector.unregister(key.data.socket)
                    key.data.kill()
                    answers[key.data.host] = late
                answers.update(dict.fromkeys(waiting, late))
                waiting = []
    return answers


class _Child:
    """A process that asks one host after the other: a fork takes longer than the rest of what a host costs.

    :param others: those that were started before, whose sockets it must not hold open.
    """

    def __init__(self, ask: t.Callable[[str], Result], *, others: t.Sequence[_Child]) -> None:
        self.host = ""
        self.lives = True
        self._parts: list[bytes] = []
        self.socket, own_socket = socket.socketpair()
        worker, self._pid = os.getpid(), os.fork()
        if self._pid == 0:
            note_worker(worker)
            self._run(ask, own_socket, others)
        own_socket.close()

    def begin(self, host: str) -> None:
        """Have it ask a host."""
        self.host, self._parts = host, []
        with contextlib.suppress(OSError):  # it has ended, which is its answer
            self.socket.sendall(json.dumps(host).encode() + b"\n")

    def has_answered(self) -> bool:
        """Take what there is; whether nothing more can come for this host."""
        try:
            part = self.socket.recv(1 << 16)
        except ConnectionError:
            part = b""
        self._parts.append(part)
        self.lives = bool(part)
        return not part or part.endswith(b"\n")

    def answer(self, status: int = 0) -> Result:
        try:
            return t.cast(Result, json.loads(b"".join(self._parts)))
        except ValueError:
            return {"problem": f"the process that asked it ended with status {status}"}

    def end(self) -> int:
        """Let it end; its status."""
        self.socket.close()
        return os.waitpid(self._pid, 0)[1]

    def kill(self) -> None:
        """End it, and the programs that it started."""
        for end in (os.killpg, os.kill):
            try:
                end(self._pid, signal.SIGKILL)
            except ProcessLookupError:  # it is not the leader of its group yet, or over
                continue
        self.end()

    def _run(self, ask: t.Callable[[str], Result], own_socket: socket.socket, others: t.Sequence[_Child]) -> t.NoReturn:
        """In the child. It never returns to the code above, which belongs to the parent."""
        try:
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for each in (self, *others):
                each.socket.close()
            with own_socket.makefile("rb") as hosts:  # until the parent ends it, or has itself ended
                for host in hosts:
                    try:
                        answer = ask(json.loads(host))
                    except Exception as error:
                        answer = {"problem": str(error) or type(error).__name__}
                    own_socket.sendall(json.dumps(answer, default=str).encode() + b"\n")
        finally:
            os._exit(0)
