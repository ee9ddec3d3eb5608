# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small metadata service on loopback, and the polling unit as a process."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

from command_runs import Runs
from hook_units import HookUnits, root_command
from web_servers import Handler, WebServer

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..", ".."))
FILES = os.path.join(ROOT, "roles", "poller", "files")
COMMAND = os.path.join(FILES, "scheduled-events")
COMMANDS = Runs(COMMAND)
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
OTHER_ID = "D8172CBD-B0ED-4624-C35C-BB6024B27234"
GIVE_UP = 300.0  # seconds; only so that a hang is named
EXECUTABLE = 0o755
SOAK = os.environ.get("TIER") == "soak"  # where no result may be due to the forks


def until(condition, what):
    give_up_at = time.monotonic() + GIVE_UP
    while not condition():
        assert time.monotonic() < give_up_at, what + " did not come about"
        time.sleep(0.01)


class Imds:
    """A service of one VM: ``events`` is what it announces, ``posts`` what it was sent."""

    def __init__(self):
        self.events, self.posts, self.connections, self.polls = [], [], set(), 0
        self.status, self.post_status, self.hanging = 200, 200, threading.Event()
        self.name_status, self.names_asked = 200, 0
        self.hang_next, self.hang_on_new_connection, self.release = False, False, threading.Event()
        imds = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                if self.path.startswith("/metadata/instance/"):
                    imds.names_asked += 1
                    self.answer(imds.name_status, b"vm1")
                    return
                imds.polls += 1
                new_one = imds.hang_on_new_connection and self.client_address not in imds.connections
                imds.connections.add(self.client_address)
                if imds.hang_next or new_one:
                    imds.hang_next = imds.hang_on_new_connection = False
                    imds.hanging.set()
                    imds.release.wait(GIVE_UP)
                document = {"DocumentIncarnation": len(imds.events), "Events": imds.events}
                self.answer(imds.status, json.dumps(document).encode())

            def do_POST(self):
                imds.posts.append(json.loads(self.content().decode()))
                self.answer(imds.post_status, b"")

            def answer(self, status, body):
                with contextlib.suppress(OSError):
                    self.reply(status, body)

        self.server = WebServer(Answer)
        self.url = self.server.url

    def announce(self, *ids, **changes):
        event = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
        self.events = [dict(event, EventId=event_id, **changes) for event_id in ids or [ID]]

    def acknowledged(self):
        """The ids of each request to acknowledge."""
        return [[each["EventId"] for each in post["StartRequests"]] for post in self.posts]

    def stop(self):
        self.release.set()
        self.server.stop()


class Unit:
    """The polling unit as a process, its files in one directory."""

    def __init__(self, directory, url):
        self.directory = directory
        self.process = None
        self.settings = {"endpoint": url, "interval": 0.25}
        self.arguments = [
            sys.executable,
            COMMAND,
            f"--config={self.path('poller.json')}",
            f"--state-file={self.path('state.json')}",
            f"--runtime-directory={self.path('run')}",
            f"--hooks-directory={self.path('hooks')}",
            f"--hooks-runtime-directory={self.path('root')}",
            f"--roles-directory={self.path('roles')}",
        ]
        os.mkdir(self.path("root"))
        self._hook_units = HookUnits(root_command(FILES, directory), directory)
        self._hook_units.start()
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(self.path("systemd"))
        self.notified.settimeout(GIVE_UP)

    def path(self, name):
        return os.path.join(str(self.directory), name)

    def configure(self, **changes):
        self.settings.update(changes)
        with open(self.path("poller.json"), "w") as file:
            json.dump(self.settings, file)

    def add_hook(self, phase, script, name="10-hook"):
        directory = os.path.join(self.path("hooks"), phase + ".d")
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, name)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path, EXECUTABLE)

    def start(self, *, separately=SOAK):
        """Start the unit, as a process of its own if ``separately``: see command_runs.py."""
        if not os.path.exists(self.path("poller.json")):
            self.configure()
        environment = {"NOTIFY_SOCKET": self.path("systemd"), "PYTHONPATH": os.path.join(ROOT, "tests", "guard")}
        if separately:
            with open(self.path("log"), "ab") as log:
                self.process = subprocess.Popen(
                    [*self.arguments, "run"], stdout=log, stderr=log, env=dict(os.environ, **environment)
                )
        else:
            self.process = COMMANDS.start([*self.arguments[2:], "run"], self.path("log"), **environment)
        self.await_notification("READY=1")

    def await_acknowledgement(self, event_id=ID):
        """Wait until the unit has noted that it acknowledged an event.

        The request alone is too early for what follows: the unit can read the next document before the answer.
        """
        until(lambda: f"{event_id}: acknowledged" in self.log(), "the acknowledgement")

    def acknowledge(self, imds):
        """Start the unit, and have it acknowledge an event."""
        self.start()
        imds.announce()
        self.await_acknowledgement()

    def await_notification(self, wanted):
        while True:
            message = self.notified.recv(4096).decode()
            if wanted in message:
                return message

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(GIVE_UP)
        self._hook_units.stop()
        self.notified.close()

    def kill(self):
        self.process.kill()
        self.process.wait(GIVE_UP)

    def restart(self):
        self.process.terminate()
        self.process.wait(GIVE_UP)
        self.start()

    def ran(self):
        with contextlib.suppress(FileNotFoundError), open(self.path("ran")) as file:
            return file.read()
        return ""

    def log(self):
        with open(self.path("log")) as file:
            return file.read()

    def command(self, *arguments):
        status, output, errors = COMMANDS.run([*self.arguments[2:], *arguments])
        assert "Traceback" not in errors
        return status, output, errors
