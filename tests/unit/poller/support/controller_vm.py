# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that run the hook of a controller, with clocks that a test moves."""

import json
import os
import shutil

from fake_clock import FakeClock
from scheduled_events_poller.notify import controller_hook
from scheduled_events_poller.notify.controller_hook import HookFiles

TOKEN = "t0k3n"
NOW = 1600000000.0
IN_10 = "2020-09-13T12:26:50Z"
IN_60, IN_300, IN_900 = "2020-09-13T12:27:40Z", "2020-09-13T12:31:40Z", "2020-09-13T12:41:40Z"
IN_7200 = "2020-09-13T14:26:40Z"
EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
LABEL = f"scheduled-event.{EVENT_ID.lower()}.reboot.20200913T124140Z."  # of the event with NotBefore IN_900
RUN = f"{EVENT_ID.lower()}.prepare."


class Vm:
    """A VM with its settings; ``run`` gives how the hook ended. ``spread``: the factor for its pauses."""

    def __init__(self, directory, url, name="vm1", **settings):
        self.name = name
        os.mkdir(directory)
        names = "controller.json", "status.json", "memory"
        self.files = HookFiles(*(os.path.join(directory, name) for name in names), directory)
        self.clock = FakeClock(0.0, epoch=NOW)
        self.said = []
        self.spread = 1.0
        given = {"url": url, "job_template": "respond", "token": TOKEN, "interval": 1, **settings}
        self.write(self.files.settings, given)
        os.chmod(self.files.settings, 0o600)

    @staticmethod
    def write(path, document):
        with open(path, "w") as file:
            json.dump(document, file)

    def knows(self, *, status="Scheduled", present=True, not_before=IN_900, time=NOW):
        event = {"event_id": EVENT_ID.lower(), "event_status": status, "present": present, "not_before": not_before}
        self.write(self.files.status, {"time": time, "events": [event]})

    def run(
        self,
        not_before=IN_900,
        deadline=IN_300,
        resources=("vm1",),
        kind="Reboot",
        run=1,
        first=None,
        recovered=0,
        undone=False,
    ):
        """A run of the hook. ``run``: its number; ``first``: that of the run which it repeats."""
        event = {"event_id": EVENT_ID, "event_type": kind, "resources": list(resources), "not_before": not_before}
        variables = {
            "SCHEDULED_EVENT_DEADLINE": deadline,
            "SCHEDULED_EVENT_RUN": f"{RUN}{run}",
            "SCHEDULED_EVENT_FIRST_RUN": f"{RUN}{first or run}",
            "SCHEDULED_EVENT_RECOVERED": str(recovered),
            "SCHEDULED_EVENT_UNDONE": "true" if undone else "false",
            "SCHEDULED_EVENTS_VM_NAME": self.name,
        }
        return self.carry_out(event, variables)

    def lose_memory(self):
        shutil.rmtree(self.files.memory, ignore_errors=True)

    def carry_out(self, event, variables):
        """A run of the hook with such an environment."""
        ending = controller_hook.run(
            event, variables, self.files, self.said.append, self.clock, spread=lambda: self.spread
        )
        assert TOKEN not in "".join(self.said) + ending.reason
        return tuple(ending)


def again(times, status=503):
    return [(status, {}, b"")] * times
