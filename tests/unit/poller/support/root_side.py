# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A root side of the polling unit in a directory of the test."""

import json
import os
import time

import scheduled_events_poller
from hook_units import root_command
from scheduled_events_poller.root import runner
from scheduled_events_poller.spool import Directories, Job, format_request, parse_result

# Seconds: a wait that takes this limit fails, since the time limit of a test (pyproject.toml) ends before it.
LONGER_THAN_A_TEST = 3600

EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
RUN_ID = EVENT_ID.lower() + ".prepare.7"
EVENT = {
    "event_id": EVENT_ID,
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["vm1", "vm2"],
    "not_before": "2026-01-31T12:00:00Z",
    "seconds_until_not_before": 900.0,
    "description": "a 'b' $(touch /tmp/x) \0\ud800 ü\nc",
    "duration_in_seconds": -1,
    "affects_this_vm": True,
    "is_leader": True,
    "additional": {},
}


FILES = os.path.dirname(os.path.dirname(scheduled_events_poller.__file__))


class RootSide:
    """The directories of the root side, with hooks, requests and results in them."""

    event_id, run_id, event = EVENT_ID, RUN_ID, EVENT

    def __init__(self, place):
        self.directories = Directories(
            os.path.join(place, "hooks"), os.path.join(place, "run"), os.path.join(place, "root")
        )
        self.output = os.path.join(place, "output")
        self.command = root_command(FILES, place)
        for directory in (self.directories.requests, self.directories.jobs, self.directories.results):
            os.makedirs(directory)
        os.makedirs(os.path.join(self.directories.hooks, "prepare.d"))

    def job(self, **changes):
        """A job; by default of the phase prepare, with a minute left."""
        fields = {
            "request_id": RUN_ID,
            "phase": "prepare",
            "event": EVENT,
            "vm_name": "vm1",
            "timeout": 60.0,
            "not_later_than": None,
            "deadline": 1769860800.0,
            "ends_at": time.monotonic() + 60.0,
        }
        fields["first_run"] = changes.get("request_id", RUN_ID)
        return Job(**dict(fields, **changes))

    def leave(self, **changes):
        """Leave a request, as the poller does; returns its path."""
        job = self.job(**changes)
        return self.leave_text(format_request(job), job.request_id)

    def leave_raw(self, request_id=RUN_ID, **changes):
        """Leave a request with fields that no job has."""
        return self.leave_text(
            json.dumps(dict(json.loads(format_request(self.job()).decode()), **changes)).encode(), request_id
        )

    def leave_text(self, text, request_id=RUN_ID):
        path = os.path.join(self.directories.requests, request_id)
        with open(path, "wb") as file:
            file.write(text)
        return path

    def accept(self, **changes):
        """Put a job where an accepted one is; returns its path."""
        left = self.leave(**changes)
        path = os.path.join(self.directories.jobs, os.path.basename(left))
        os.rename(left, path)
        return path

    def add_hook(self, script="#!/bin/sh\n", name="10-hook", phase="prepare", mode=0o755):
        directory = os.path.join(self.directories.hooks, phase + ".d")
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, name)
        with open(path, "w") as file:
            file.write(script)
        os.chmod(path, mode)
        return path

    def run_phase(self, clock=runner.CLOCK, revised=lambda: None, **changes):
        """Run the hooks of a phase in this process."""
        with open(self.output, "ab") as output:
            return runner.run_phase(self.job(**changes), self.directories.hooks, output, clock=clock, revised=revised)

    def printed(self):
        """What the hooks wrote, and what was logged about them."""
        with open(self.output, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def result(self, request_id=RUN_ID):
        """The result of a run, or None."""
        try:
            with open(os.path.join(self.directories.results, request_id), "rb") as file:
                return parse_result(file.read(), request_id)
        except FileNotFoundError:
            return None

    def requests(self):
        return sorted(os.listdir(self.directories.requests))

    def jobs(self):
        return sorted(os.listdir(self.directories.jobs))
