# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook that has a controller run a job, as the VMs of an event run it."""

import contextlib
import datetime
import json
import pathlib
import queue
import subprocess
import sys
import threading
import time
import uuid

PROGRAM = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files" / "scheduled-events-controller"
LIMIT = 300.0  # seconds; only so that a hang is named
# What a test wants to be different in the program comes before its main function.
RUN = "import runpy, sys; sys.argv[0] = {program!r}; program = runpy.run_path({program!r})\n{change}\n{main}"
MAIN = "sys.exit(program['main'](sys.argv[1:]))"


def new_event(*resources, not_before=None):
    """A separate event, as a hook reads it. ``not_before``: seconds from now."""
    moment = None if not_before is None else at(not_before)
    return {
        "event_id": str(uuid.uuid4()).upper(),
        "event_type": "Redeploy",
        "event_status": "Scheduled",
        "resources": list(resources),
        "not_before": moment,
        "description": "{{ lookup('pipe', 'id') }}",
    }


def at(seconds):
    """A time so many seconds from now, as the polling unit writes it."""
    moment = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def environment(event, deadline):
    """The environment of the first preparation for an event."""
    run = f"{event.get('event_id', '').lower()}.prepare.1"
    return {
        "SCHEDULED_EVENT_DEADLINE": at(deadline),
        "SCHEDULED_EVENT_RUN": run,
        "SCHEDULED_EVENT_FIRST_RUN": run,
        "SCHEDULED_EVENT_RECOVERED": "0",
        "SCHEDULED_EVENT_UNDONE": "false",
        "http_proxy": "http://127.0.0.1:9",
    }


class Vm:
    """A VM with the settings of a controller."""

    def __init__(self, directory, awx, **settings):
        self._directory = pathlib.Path(directory)
        self._directory.mkdir()
        self._settings = self._directory / "controller.json"
        self._settings.touch(mode=0o600)
        self.token = awx.token
        self._settings.write_text(json.dumps({"url": awx.url, "token": awx.token, "interval": 1.0, **settings}))
        self._status = self._directory / "status.json"

    def knows(self, event, *, present=True, status="Scheduled"):
        """Have the polling unit show the event so."""
        shown = {**event, "present": present, "event_status": status}
        text = json.dumps({"time": time.time() + LIMIT, "events": [shown]})
        new = self._directory / "new"
        new.write_text(text)
        new.replace(self._status)

    def start(self, event, *, change="", deadline=LIMIT, options=()):
        """A run of the hook, with a change to the program."""
        return Run(self, event, self.arguments(change, options), deadline)

    def run(self, event, **options):
        """Exit status and last line of a run."""
        return self.start(event, **options).ended()

    def check(self):
        """Exit status and last line of a run that only checks."""
        return self.start({}, options=("--check",)).ended()

    def arguments(self, change, options):
        """The command."""
        program = RUN.format(program=str(PROGRAM), change=change, main=MAIN)
        places = {"settings": self._settings, "status": self._status, "runtime": self._directory}
        places["memory"] = self._directory / "memory"
        return [sys.executable, "-c", program, *(f"--{name}={path}" for name, path in places.items()), *options]


class Run:
    """One run of the hook."""

    def __init__(self, vm, event, arguments, deadline):
        self._token = vm.token
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(event, deadline),
            text=True,
        )
        command = pathlib.Path(f"/proc/{self._process.pid}/cmdline").read_text()
        assert self._token not in command
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stream:
            stream.write(json.dumps(event))
        self._lines = queue.Queue()
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def kill(self):
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def wait_for(self, text):
        """The first line that has this text."""
        while not (self.said and text in self.said[-1]):
            line = self._lines.get(timeout=LIMIT)
            assert line is not None, f"it ended without {text!r}: {self.said}"
            self.said.append(line)
        return self.said[-1]

    def ended(self):
        """Exit status and last line, which the polling unit shows as the reason; none of the lines has the token."""
        status = self._process.wait(timeout=LIMIT)
        self._reader.join()
        self.said += list(iter(self._lines.get, None))
        assert self._token not in "\n".join(self.said)
        return status, (self.said or [""])[-1]
