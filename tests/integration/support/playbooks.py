# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run playbooks and modules as a user does, in a separate process, and read the result of each task."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import time
from typing import Any

from zygotes import ZYGOTES

ACTIONS = pathlib.Path(__file__).parent / "action_plugins"
CALLBACKS = pathlib.Path(__file__).parent / "callback_plugins"
CONNECTIONS = pathlib.Path(__file__).parent / "connection_plugins"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": ZYGOTES.interpreter}
LOCALHOST = {"all": {"hosts": {"localhost": LOCAL}}}
# Each host at an address made from its name, as many inventories do it; ADDRESSED_LOG gets "address module" lines.
ADDRESSED = {"ansible_connection": "addressed", "ansible_host": "at-{{ inventory_hostname }}"}
COLLECTION = "maintops.scheduled_events"
TIMEOUT = 400.0  # seconds; only so that a run that hangs ends


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """What one task gave on one host. ``status`` is ok, failed, ignored, skipped or unreachable."""

    host: str
    task: str
    action: str
    status: str
    seconds: float
    result: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.result[key]

    @property
    def failed(self) -> bool:
        """Whether the task failed, even if the play went on."""
        return self.status in ("failed", "ignored", "unreachable")


@dataclasses.dataclass(frozen=True)
class Run:
    """An ended run. ``started`` and ``ended`` are wall times, ``tasks`` in the order in which they ended."""

    rc: int
    output: str
    started: float
    ended: float
    tasks: list[TaskResult]

    def all(self, *, task: str | None = None, host: str | None = None, action: str | None = None) -> list[TaskResult]:
        """The results of the tasks with this name, on this host, of this action; each condition may be left out."""
        return [
            result
            for result in self.tasks
            if task in (None, result.task, result.task.rpartition(" : ")[2])  # a role puts its name before
            and host in (None, result.host)
            and action in (None, result.action)
        ]

    def one(self, **conditions: str) -> TaskResult:
        """The only result for which ``all`` conditions hold."""
        found = self.all(**conditions)
        assert len(found) == 1, f"{len(found)} results of {conditions}:\n{self.output}"
        return found[0]


class StartedRun:
    """A run under way. ``result`` waits for its end."""

    def __init__(self, command: list[str], directory: pathlib.Path, env: dict[str, str]) -> None:
        self._record = directory / "results.jsonl"
        self._timed_out_after = TIMEOUT
        self._result: Run | None = None
        self._started = time.time()
        self._output_path = directory / "output.txt"
        with self._output_path.open("wb") as output:
            environ = environment(RECORD_RESULTS=str(self._record), **env)
            self._process = ZYGOTES.run_ansible(command, cwd=directory, env=environ, output=output)

    @property
    def running(self) -> bool:
        """Whether the run has not ended."""
        return self._process.poll() is None

    def all(self, **conditions: str) -> list[TaskResult]:
        """The results so far for which the conditions hold; see ``Run.all``."""
        return Run(0, "", 0, 0, self.tasks).all(**conditions)

    @property
    def output(self) -> str:
        """What the run showed so far."""
        return self._output_path.read_text()

    @property
    def tasks(self) -> list[TaskResult]:
        """The results so far."""
        lines = self._record.read_text().splitlines(keepends=True) if self._record.exists() else []
        return [TaskResult(**json.loads(line)) for line in lines if line.endswith("\n")]

    def result(self, *, timeout: float = TIMEOUT) -> Run:
        """Wait for the end; a run that does not end in ``timeout`` seconds is killed and fails the test."""
        if self._result is None:
            try:
                rc = self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.stop()
                raise AssertionError(f"did not end in {timeout:g} s:\n{self._output_path.read_text()}") from None
            self._result = Run(rc, self._output_path.read_text(), self._started, time.time(), self.tasks)
        return self._result

    def processes(self) -> list[int]:
        """The processes of the run. Those that it started can outlive it when it is killed."""
        own = str(self._record).encode()
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if (process / "cwd").readlink() == self._record.parent or own in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found

    def stop(self) -> None:
        """End the run if it is still under way."""
        if self.running:
            self._process.kill()
        self._process.wait()


def environment(**more: str) -> dict[str, str]:
    """The environment of an ansible process: nothing of the user's configuration, the results recorded."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **inherited,
        "ANSIBLE_CONFIG": str(ZYGOTES.home / "ansible.cfg"),
        "ANSIBLE_ACTION_PLUGINS": str(ACTIONS),
        "ANSIBLE_CALLBACKS_ENABLED": "record_results",
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
        "ANSIBLE_CONNECTION_PLUGINS": str(CONNECTIONS),
        "ANSIBLE_DEPRECATION_WARNINGS": "true",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",  # for the command ansible, which loads none by itself
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_PIPELINING": "true",  # a module starts in half the time
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        **more,
    }


class Ansible:
    """Starts runs. Each gets a directory under ``base`` for its files."""

    def __init__(self, base: pathlib.Path) -> None:
        self._base = base
        self._runs: list[StartedRun] = []
        self._numbers = itertools.count()

    def start_playbook(
        self,
        playbook: str | pathlib.Path | list[dict[str, Any]],
        *,
        inventory: dict[str, Any] | None = None,
        extra_vars: dict[str, Any] | None = None,
        check: bool = False,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> StartedRun:
        """Start ansible-playbook.

        :param playbook: a path, the full name of a playbook of the collection, or the plays themselves.
        :param inventory: as a YAML inventory spells it; without one, localhost alone.
        """
        directory = self._directory()
        if isinstance(playbook, list):
            playbook = self._write(directory / "playbook.yml", playbook)
        command = [
            "ansible-playbook",
            str(playbook),
            "-i",
            self._write(directory / "inventory.yml", inventory or LOCALHOST),
        ]
        if extra_vars:
            command += ["-e", "@" + self._write(directory / "extra_vars.yml", extra_vars)]
        if check:
            command.append("--check")
        return self._start([*command, *options], directory, env)

    def run_playbook(self, playbook: str | pathlib.Path | list[dict[str, Any]], **how: Any) -> Run:
        """Run ansible-playbook to its end; see ``start_playbook``."""
        return self.start_playbook(playbook, **how).result()

    def run_ad_hoc(self, module: str, arguments: str, *, env: dict[str, str] | None = None) -> Run:
        """Run ``ansible localhost -m maintops.scheduled_events.MODULE -a ARGUMENTS``."""
        command = ["ansible", "localhost", "-m", f"{COLLECTION}.{module}", "-a", arguments]
        return self._start(command, self._directory(), env).result()

    def run_modules(
        self, calls: list[tuple[str, dict[str, Any]]], *, env: dict[str, str] | None = None, **keywords: Any
    ) -> list[TaskResult]:
        """Run modules of the collection on localhost, one after the other, in one play.

        :param calls: the name and the arguments of each.
        :param env: the environment of ansible-playbook and so, on localhost, of the modules.
        :param keywords: of each task, such as ``check_mode``.
        :returns: a result for each call, whether it failed or not.
        """
        tasks = [module_task(name, arguments, **keywords) for name, arguments in calls]
        run = self.run_playbook([play(tasks)], env=env)
        assert len(run.tasks) == len(calls), run.output
        return run.tasks

    def run_module(
        self, name: str, arguments: dict[str, Any], *, check: bool = False, env: dict[str, str] | None = None
    ) -> TaskResult:
        """Run one module of the collection on localhost; its result, whether it failed or not."""
        return self.run_modules([(name, arguments)], env=env, check_mode=check)[0]

    def stop(self) -> None:
        """End the runs still under way."""
        for run in self._runs:
            run.stop()

    def _start(self, command: list[str], directory: pathlib.Path, env: dict[str, str] | None) -> StartedRun:
        own = {"ANSIBLE_HOME": str(ZYGOTES.home)}
        run = StartedRun(command, directory, {**own, **(env or {})})
        self._runs.append(run)
        return run

    def _directory(self) -> pathlib.Path:
        directory = self._base / f"run-{next(self._numbers)}"
        directory.mkdir()
        return directory

    @staticmethod
    def _write(path: pathlib.Path, value: Any) -> str:
        path.write_text(json.dumps(value))  # JSON is YAML
        return str(path)


def play(tasks: list[dict[str, Any]], **keywords: Any) -> dict[str, Any]:
    """A play of ``tasks``, on all hosts, without facts unless ``keywords`` say otherwise."""
    return {"hosts": "all", "gather_facts": False, **keywords, "tasks": tasks}


def module_task(name: str, arguments: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """A task that runs a module of the collection and lets the play go on when it fails."""
    return {"name": name, f"{COLLECTION}.{name}": arguments, "ignore_errors": True, **keywords}
