# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Months of one VM, in which a clock of the test jumps from poll to poll: what grows with them, and what does not.

The polling unit, its requests to the service, the root side, the spool of the webhooks and their delivery are real.
The hooks end as the test says, since a start of each would take an hour. `make test` lives a month of many events, and
`make soak` a year.
"""

import contextlib
import gc
import os
import random
import shutil
import sys
import time

import pytest
import receiver as receivers
from _scheduled_events import history_file, terms
from fake_clock import FakeClock
from polling_unit import EXECUTABLE
from scheduled_events_poller.notify.delivery import Courier
from scheduled_events_poller.notify.messages import MessageSpool
from scheduled_events_poller.notify.settings import Receiver
from scheduled_events_poller.notify.webhook_hook import leave
from scheduled_events_poller.root import dispatcher, jobs
from scheduled_events_poller.spool import Directories, RunResult
from scheduled_events_poller.unit import poller
from scheduled_events_poller.unit.config import Settings

SOAK = os.environ.get("TIER") == "soak"
WEEKS = 52 if SOAK else 6  # the first ones fill what is kept for a while
EVENTS_A_WEEK = 40 if SOAK else 12
RESULTS = 20  # so few that a week after a reboot leaves all that are kept
POLLS = 60  # at most, until the next thing of an event has happened
DAY = 86400.0


class JumpingPoller(poller.Poller):
    """Waits for its threads alone, and otherwise lets the clock of the test jump to the next poll."""

    def __init__(self, moments, *arguments, **options):
        super().__init__(*arguments, clock=moments, **options)
        self.moments = moments

    def _wait(self):
        if self._polling.busy or self._acknowledger.next_attempt is None:
            self._inbox.wait(30.0, self._take_command)
        else:
            self._inbox.wait(0.0, self._take_command)
            self.moments.sleep(max(0.0, self._next_poll - self._clock.monotonic()))

    def end_threads(self):
        """What the end of a process does."""
        for part in (self._polling, self._acknowledger):
            part._worker.submit(sys.exit)
            for service in (part._service, getattr(part, "_patient_service", None)):
                if service is not None and service._client is not None:
                    service._client.close()
        self._polling._patient_worker.submit(sys.exit)


class Life:
    """A VM with its service, its root side and its receiver of webhooks."""

    def __init__(self, place, imds):
        self.place, self.imds, self.rng = str(place), imds, random.Random(5)
        self.moments = FakeClock(100.0, epoch=1700000000.0)
        self.directories = Directories(*(self.path(name) for name in ("hooks", "run", "root")))
        os.makedirs(self.path("hooks/prepare.d"))
        os.makedirs(self.path("hooks/recover.d"))
        for phase in ("prepare", "recover"):
            path = self.path(f"hooks/{phase}.d/10-hook")
            with open(path, "w") as file:
                file.write("#!/bin/sh\n")
            os.chmod(path, EXECUTABLE)
        self.receiver = receivers.Receiver()
        self.webhooks = self.path("webhooks.json"), self.path("webhooks"), self.path("webhooks-run")
        with open(os.open(self.webhooks[0], os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write('[{"name": "ops", "url": "' + self.receiver.url + '", "max_messages": 20}]')
        self.courier = Courier(
            Receiver(name="ops", url=self.receiver.url),
            MessageSpool(self.webhooks[1]),
            clock=self.moments,
            spread=lambda: 1.0,
        )
        self.events = self.runs = self.boots = 0
        self.reboots = True
        self.boot()

    def path(self, name):
        return os.path.join(self.place, name)

    def boot(self):
        for name in ("run", "root", "webhooks-run"):
            shutil.rmtree(self.path(name), ignore_errors=True)
        os.mkdir(self.path("root"))
        self.moments.now, self.moments.epoch = 0.0, self.moments.wall()
        self.boots += 1
        settings = Settings(endpoint=self.imds.url, vm_name="vm1", metrics_directory=self.place)
        places = poller.Places(self.path("state.json"), self.directories, self.path("drill"))
        self.unit = JumpingPoller(self.moments, lambda: settings, places)
        self.stack = contextlib.ExitStack()
        self.unit._open(self.stack)
        self.root = dispatcher.Dispatcher(self.directories, self.run_hooks)

    def end(self):
        self.unit.end_threads()
        self.stack.close()

    def run_hooks(self, ids):
        """Let the hooks of runs end, and leave a message about each."""
        for run in ids:
            self.runs += 1
            with jobs.held(self.directories, run):
                job = jobs.revision(self.directories, run) or jobs._read(jobs._job(self.directories, run), run)
            environment = {
                "SCHEDULED_EVENT_PHASE": job.phase,
                "SCHEDULED_EVENTS_VM_NAME": "vm1",
                "SCHEDULED_EVENT_FIRST_RUN": job.first_run,
            }
            text = '{"event_id": "' + str(job.event["event_id"]) + '", "event_type": "Reboot", "resources": ["vm1"]}'
            leave(environment, text, *self.webhooks)
            outcome = "failed" if self.rng.random() < 0.1 else "ok"
            jobs.end(self.directories, RunResult(run, outcome, "", 1.0))
        return {}

    def poll_until(self, condition):
        """Poll, and let root and the delivery work, until the condition holds; whether it does."""
        for _poll in range(POLLS):
            self.unit._iterate()
            requests = self.directories.requests
            if os.path.isdir(requests) and os.listdir(requests):
                self.root.look()
            self.courier.step()
            if condition():
                return True
        return False

    def polls(self, number):
        before = self.imds.polls
        assert self.poll_until(lambda: self.imds.polls >= before + number)

    def is_over(self):
        return not self.unit._state.events

    def event(self):
        """One event, from its announcement until nothing is left of it; in one of ten, the service fails meanwhile, and
        one of ten reboots the VM."""
        self.events += 1
        event_id = f"{self.events:08X}-AFDC-4513-B24B-AA5F13A16123"
        not_before = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.moments.wall() + 900))
        self.imds.announce(event_id, NotBefore=not_before)
        acknowledged = len(self.imds.posts)
        if self.rng.random() < 0.1:
            self.polls(2)
            self.imds.status = 500
            self.poll_until(lambda: self.unit._polls.failures > 5)
            self.imds.status = 200
        self.poll_until(lambda: len(self.imds.posts) > acknowledged)  # it is not, where its hooks failed
        self.imds.announce(event_id, EventStatus="Started", NotBefore="")
        self.polls(2)
        if self.reboots and self.rng.random() < 0.1:
            self.end()
            self.moments.sleep(60.0)
            self.boot()
            self.polls(2)
        self.imds.events = []
        if not self.poll_until(self.is_over):
            for key in list(self.unit._state.events):
                assert not self.unit._take_command(terms.Clear(key))
            assert self.poll_until(self.is_over)

    def week(self):
        """The events of a week, during a part of which the receiver of webhooks is down."""
        for number in range(EVENTS_A_WEEK):
            if number % 10 == 5:
                self.receiver.answers = [(503, {})] * 30
            self.moments.sleep(7 * DAY / EVENTS_A_WEEK)
            self.polls(15)
            self.event()
        self.receiver.answers = []
        for _pause in range(100):
            self.moments.sleep(self.courier.step())
        assert not os.listdir(self.path("webhooks/messages"))
        self.polls(3)
        self.imds.posts, self.imds.connections = [], set()
        self.receiver.requests, self.moments.pauses = [], []

    def figures(self):
        """What must not grow."""
        for _time in range(3):
            gc.collect()
        sizes = {
            os.path.relpath(os.path.join(parent, name), self.place): os.path.getsize(os.path.join(parent, name))
            for parent, _directories, names in os.walk(self.place)
            for name in names
        }
        history = sum(size for path, size in sizes.items() if path.startswith("history"))
        results = [path for path in sizes if path.startswith("root/results")]
        return {
            "state": sizes["state.json"],
            "history": history,
            "results": len(results),
            "files": len(sizes) - len(results),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "blocks": sys.getallocatedblocks(),
        }


@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of end_threads
def test_nothing_grows_with_the_events_and_outages_and_reboots_of_a_vm(tmp_path, imds, capsys, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_RESULTS", RESULTS)
    life = Life(tmp_path, imds)
    try:
        weeks = []
        for week in range(WEEKS):
            life.reboots = week < WEEKS // 2  # and then one process lives on
            life.week()
            weeks.append(life.figures())
            capsys.readouterr()  # the journal
    finally:
        life.end()
        life.receiver.stop()
    with capsys.disabled():
        if SOAK:
            print(life.events, "events,", life.runs, "runs,", life.boots, "boots:", weeks[3], weeks[-1])
    first, last = weeks[WEEKS // 2], weeks[-1]  # the first week and the last of the process that lives on
    assert first["results"] == last["results"] == RESULTS  # the dispatcher remembers each that it keeps
    assert last["files"] <= first["files"] + 1  # the history of before
    assert last["descriptors"] <= first["descriptors"] + 2  # connections that are about to close
    assert last["state"] <= first["state"] + 8  # digits
    assert max(week["history"] for week in weeks) <= 2 * history_file.MAX_FILE
    # A list that grew by a number or a text for each poll would have thousands more.
    assert last["blocks"] <= first["blocks"] + 700
    assert life.runs > life.events
    assert life.boots > 2
