# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for systemd, which knows as much of the units that run hooks as a test needs."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

PAUSE = 0.02  # seconds between two looks
RESTART = 1.0  # seconds, as in the unit of the dispatcher

# Leaves an empty file for each run whose unit is to be started.
SYSTEMCTL = """#!/bin/sh
cd {asked} || exit 1
for unit; do case $unit in *@*) unit=${{unit#*@}}; : > "${{unit%.service}}" ;; esac; done
"""


def root_command(files, directory):
    """The command of root's side, as its units have it, for a polling unit with all its files in one directory."""
    places = {"hooks": "hooks", "runtime": "run", "hooks-runtime": "root"}
    options = [f"--{name}-directory={os.path.join(str(directory), place)}" for name, place in places.items()]
    return [sys.executable, "-IS", os.path.join(str(files), "scheduled-events-hooks"), *options]


class HookUnits(threading.Thread):
    """Starts the dispatcher when there are requests, and the runs of hooks that the dispatcher asks systemctl for.

    It works until it is stopped, also while no polling unit runs. A test that does not start it calls :meth:`tend`.

    :param command: see :func:`root_command`.
    :param log: the file in the directory to which all write.
    :param all_end: start the end of a run also when it left no job. The unit of systemd saves this start of Python.
    """

    def __init__(self, command, directory, log="units.log", *, all_end=False):
        super().__init__(daemon=True)
        self._command, self._all_end = command, all_end
        asked, programs = "units/asked", "units/bin"
        places = [os.path.join(str(directory), place) for place in (asked, programs, "run/requests", "root/jobs", log)]
        self._asked, programs, self._requests, self._jobs, self._log = places
        for place in (self._asked, programs):
            os.makedirs(place, exist_ok=True)
        with open(os.path.join(programs, "systemctl"), "w") as file:
            file.write(SYSTEMCTL.format(asked=shlex.quote(self._asked)))
            os.fchmod(file.fileno(), 0o755)
        self.path = programs + os.pathsep + os.environ["PATH"]
        self._running = {}  # the processes, by their arguments
        self._rests_until = 0.0
        self._stopped = threading.Event()

    def run(self):
        while not self._stopped.wait(PAUSE):
            self.tend()

    def tend(self):
        """Do once what systemd does all the time."""
        for arguments, process in list(self._running.items()):
            if process.poll() is not None:
                del self._running[arguments]
                self._follow(process.returncode, *arguments)
        if ("dispatch",) not in self._running and time.monotonic() >= self._rests_until and _names(self._requests):
            self._start("dispatch")
        for run in _names(self._asked):
            if ("ended", run) not in self._running:
                os.unlink(os.path.join(self._asked, run))
                if ("run", run) not in self._running:
                    self._start("run", run)

    def _follow(self, status, command, run=""):
        """Do what follows the end of a process."""
        if command == "dispatch" and status:
            self._rests_until = time.monotonic() + RESTART
        if command == "run" and (self._all_end or os.path.exists(os.path.join(self._jobs, run))):
            self._start("ended", run)

    def _start(self, *arguments):
        with open(self._log, "ab") as log:
            self._running[arguments] = subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=dict(os.environ, PATH=self.path),
            )

    def end_all(self):
        """End all processes at once, and forget which ones were to be started."""
        for process in self._running.values():
            process.send_signal(signal.SIGSTOP)  # so that it starts no other one meanwhile
            groups = _children(process.pid)  # each one has a session of its own
            process.kill()
            for group in groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
            process.wait()
        self._running = {}
        for run in _names(self._asked):
            os.unlink(os.path.join(self._asked, run))

    def stop(self):
        """End with all processes."""
        self._stopped.set()
        if self.is_alive():
            self.join()
        self.end_all()


def _names(directory):
    with contextlib.suppress(OSError):
        return os.listdir(directory)
    return []


def _children(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
    return []
