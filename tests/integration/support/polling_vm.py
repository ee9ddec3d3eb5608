# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A polling unit as a process, with hooks that note their begin and end, alone or with all that belongs to a VM."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import boundary
from emulation import LIMIT
from hook_units import HookUnits, root_command

# A line at its begin and its end: event, phase, time.
HOOK = """#!/bin/sh
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE begin $(date +%s.%N)" >> {log}
sleep 0.2
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE end $(date +%s.%N)" >> {log}
"""
PHASES = ("prepare", "started", "recover")


class Vm:
    """One VM: a poller with its files, and the hooks' own log."""

    def __init__(self, collection: pathlib.Path, directory: pathlib.Path, endpoint: str) -> None:
        self.directory = directory
        self.state_file = directory / "state.json"
        self.hook_log = directory / "hooks.log"
        self.hook_log.touch()
        self.programs = collection / "roles" / "poller" / "files"
        for phase in PHASES:
            self.add_hook(phase, "10-log", HOOK.format(log=self.hook_log))
        config = directory / "poller.json"
        config.write_text(json.dumps({"endpoint": endpoint, "interval": 0.25}))
        (directory / "root").mkdir()
        self._root_command = root_command(self.programs, directory)
        self._directories = self._root_command[3:]

    def add_hook(self, phase: str, name: str, content: str) -> None:
        hook = self.directory / "hooks" / f"{phase}.d" / name
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(content)
        hook.chmod(0o755)

    def command(self, *arguments: str) -> list[str]:
        """The command scheduled-events with the files of this VM."""
        config, state = f"--config={self.directory / 'poller.json'}", f"--state-file={self.state_file}"
        return [str(self.programs / "scheduled-events"), config, state, *self._directories, *arguments]

    def start(self) -> None:
        """Start the polling unit, and the stand-in for the units that run its hooks."""
        self._hook_units = HookUnits(self._root_command, self.directory, "poller.log")
        self._hook_units.start()
        self._poller = self._spawn(sys.executable, *self.command("run"))

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.directory / "poller.log").open("ab") as output:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")

    def runs(self) -> bool:
        return self._poller.poll() is None

    def stop(self) -> None:
        self._poller.terminate()
        self._poller.wait(LIMIT)
        self._hook_units.stop()

    def remembered(self) -> dict[str, Any] | None:
        """The events of the state, by their keys; ``None`` without a state."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads(self.state_file.read_text())["events"]
        return None

    def remembers_nothing(self) -> bool:
        return self.remembered() == {}

    def hooks_of(self, event_id: str) -> list[tuple[str, str, float]]:
        lines = [line.split() for line in self.hook_log.read_text().splitlines()]
        return [(phase, mark, float(moment)) for event, phase, mark, moment in lines if event == event_id]

    def journal(self) -> str:
        return (self.directory / "poller.log").read_text()[-5000:]


class Host(Vm):
    """A VM with a stand-in for systemd, all of whose programs share one plan of a fault: see boundary.py.

    Besides the units that run hooks, it knows two: that of the poller, and that of the webhooks.
    """

    def __init__(
        self,
        collection: pathlib.Path,
        directory: pathlib.Path,
        endpoint: str,
        receiver: str,
        fault: str = "none",
        name: str = "",
        occurrence: int = 0,
    ) -> None:
        super().__init__(collection, directory, endpoint)
        self.fault = fault
        self.plan, self._disk = directory / "plan", directory / "disk"
        self._messages = self._disk / "webhooks" / "messages"
        # The roles and systemd make these directories.
        for each in (self.plan, self._messages, self._disk / "history"):
            each.mkdir(parents=True)
        self.state_file = self._disk / "state.json"
        self._run = [str(directory / each) for each in ("run", "root", "webhooks-run")]
        plan = {"fault": fault, "name": name, "occurrence": occurrence, "disk": str(self._disk), "run": self._run}
        (self.plan / "plan.json").write_text(json.dumps(plan))
        receivers = directory / "webhooks.json"
        receivers.write_text(json.dumps([{"name": "receiver", "url": receiver}]))
        receivers.chmod(0o600)
        self._webhooks = [str(receivers), str(self._disk / "webhooks"), str(directory / "webhooks-run")]
        spool = " ".join(self._watched("scheduled-events-webhooks", "spool", *self._webhooks))
        for phase in PHASES:
            self.add_hook(phase, "50-webhooks", f"#!/bin/sh\nexec {spool}\n")
        # A life without a fault has to reach the boundaries of a run's end, too.
        root = self._watched("scheduled-events-hooks", *self._directories)
        self._hook_units = HookUnits(root, directory, "poller.log", all_end=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def _watched(self, program: str, *arguments: str) -> list[str]:
        return [sys.executable, boundary.__file__, str(self.plan), str(self.programs / program), *arguments]

    def _start(self, unit: str, program: str, *arguments: str) -> None:
        self._running[unit] = self._spawn(*self._watched(program, *arguments))

    def start(self) -> None:
        program, *arguments = self.command("run")
        self._start("poller", os.path.basename(program), *arguments)

    def struck(self) -> bool:
        """Whether the fault has occurred."""
        return (self.plan / "struck").exists()

    def failed(self) -> list[str]:
        """The programs that met a disk that does not work."""
        path = self.plan / "failed"
        return sorted(set(path.read_text().splitlines())) if path.exists() else []

    def repair(self) -> None:
        """Let the disk work again."""
        (self.plan / "repaired").touch()

    def reached(self) -> list[str]:
        return (self.plan / "reached").read_text().splitlines()

    def tend(self) -> None:
        """Do what systemd does. Call it again and again."""
        if self.struck() and self.fault in boundary.CUTS and self._running:
            self._reboot()
        ended = [unit for unit, process in self._running.items() if process.poll() is not None]
        for unit in ended:
            del self._running[unit]
        if "poller" not in self._running:
            self.start()
        self._hook_units.tend()
        if "webhooks" not in self._running and self.messages():
            self._start("webhooks", "scheduled-events-webhooks", "deliver", *self._webhooks)

    def _reboot(self) -> None:
        self.switch_off()
        if self.fault != "reboot":
            boundary.after_a_power_cut(str(self.plan), str(self._disk), self.fault)
        for directory in self._run:
            shutil.rmtree(directory, ignore_errors=True)
        (self.directory / "root").mkdir()
        # From now on the programs run as if nothing were planned.
        plan = json.loads((self.plan / "plan.json").read_text())
        (self.plan / "plan.json").write_text(json.dumps({**plan, "fault": "none"}))
        self.fault = "over"

    def switch_off(self) -> None:
        """End all processes at once."""
        for process in self._running.values():
            if process.poll() is None:
                boundary.end([*boundary.descendants(process.pid), process.pid])
            process.wait()
        self._running = {}
        self._hook_units.end_all()

    def messages(self) -> list[str]:
        """The messages that wait to be delivered."""
        return [name for name in os.listdir(self._messages) if not name.startswith(".")]

    def status(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command("status"), capture_output=True, text=True, timeout=LIMIT, check=False)

    def retry(self, event_id: str) -> None:
        """Do what an operator does after a failed recovery."""
        subprocess.run(self.command("retry", event_id), capture_output=True, timeout=LIMIT, check=False)
