# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The emulator for tests: the pure platform by hand, and the real server on loopback in a separate thread."""

import asyncio
import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import pytest
from scheduled_events_emulator.clock import Clock
from scheduled_events_emulator.events import parse_spec
from scheduled_events_emulator.fleet import parse_fleet
from scheduled_events_emulator.platform import Journal, Platform
from scheduled_events_emulator.protocol import ServiceSettings
from scheduled_events_emulator.server import Emulator, Options

START = 1_650_000_000.0  # Fri, 15 Apr 2022 05:20:00 GMT
NEWEST = "2020-07-01"
LIMIT = 300.0  # seconds; only so that a hang is named
FLEET = {
    "vms": [
        {"name": "web1", "address": "127.0.10.1", "kind": "availability_set", "set": "web", "fault_domain": 0},
        {"name": "web2", "address": "127.0.10.2", "kind": "availability_set", "set": "web", "fault_domain": 1},
        {"name": "web3", "address": "127.0.10.3", "kind": "availability_set", "set": "web", "fault_domain": 1},
        {"name": "alone", "address": "127.0.10.4"},
        {
            "name": "mySpotVM",
            "resource_name": "myspotvm",
            "hostname": "spot-host",
            "address": "127.0.10.5",
            "spot": True,
        },
    ]
}


class Simulation:
    """The platform under a manual clock."""

    def __init__(self, fleet=None, **settings):
        self.clock = Clock(START, speed=0)
        self.journal = Journal(self.clock.real_at)
        self.platform = Platform(parse_fleet(fleet or FLEET), self.clock, self.journal, **settings)

    def machine(self, name):
        return self.platform.fleet.find(name)

    def schedule(self, event_type, *vms, **fields):
        return self.platform.schedule(parse_spec({"type": event_type, "vms": list(vms), **fields}))

    def approve(self, vm, *events, partly=False):
        return self.platform.approve(self.machine(vm), [event.event_id for event in events], partly=partly)

    def advance(self, seconds):
        self.clock.move_to(self.clock.now() + seconds)
        self.platform.sync()

    def seen_by(self, vm):
        return list(self.platform.scope_state(self.machine(vm)).events.values())

    def kinds(self):
        return [entry["kind"] for entry in self.journal.since()]


@pytest.fixture
def simulate():
    return Simulation


@pytest.fixture
def world():
    return Simulation()


class Answer:
    """Status, headers and body of an HTTP answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


def ask(base, method, path, *, headers=None, body=None, timeout=LIMIT):
    """Send one request, as it is, and return the Answer."""
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Served:
    """A running emulator. ``real`` is the real time that its front end believes in."""

    def __init__(self, fleet, options, settings, platform):
        self.real = 1000.0
        self._clock = Clock(START, speed=0)
        self._emulator = Emulator(
            parse_fleet(fleet),
            self._clock,
            ServiceSettings(**{"rate_limit": 0, **settings}),
            Options(port=0, serve_on=("127.0.0.1", 0), **options),
            **platform,
            monotonic=lambda: self.real,
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(LIMIT), "the emulator did not start"

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        async with self._emulator.serving():
            self._ready.set()
            await self._end.wait()

    def stop(self):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the emulator did not stop"

    @property
    def control_url(self):
        return self._emulator.control_url

    def endpoint(self, vm):
        return self._emulator.endpoint_of(self._emulator.platform.fleet.find(vm))

    def control(self, method, path, body=None):
        return ask(self.control_url, method, "/control/" + path, body=None if body is None else json.dumps(body))

    def schedule(self, event_type, *vms, **fields):
        answer = self.control("POST", "events", {"type": event_type, "vms": list(vms), **fields})
        assert answer.status == 201, answer.body
        return answer.json["event_id"]

    def advance(self, seconds):
        assert self.control("POST", "advance", {"seconds": seconds}).status == 200

    def log(self, kind):
        return [entry for entry in self.control("GET", "log").json["log"] if entry["kind"] == kind]

    def wait_for_polls(self, vm, count):
        """Wait until so many requests of a VM for its document have arrived, answered or not."""
        give_up_at = time.monotonic() + LIMIT
        while self.control("GET", "polls").json["polls"][vm]["polls"] < count:
            assert time.monotonic() < give_up_at, f"{vm} did not poll {count} times"
            time.sleep(0.01)

    def get(self, vm, *, version=NEWEST, headers=None, **options):
        return ask(
            self.endpoint(vm),
            "GET",
            f"/metadata/scheduledevents?api-version={version}",
            headers={"Metadata": "true", **(headers or {})},
            **options,
        )

    def events(self, vm, version=NEWEST):
        return self.get(vm, version=version).json["Events"]

    def post(self, vm, *event_ids, version=NEWEST, body=None, headers=None):
        requests = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        return ask(
            self.endpoint(vm),
            "POST",
            f"/metadata/scheduledevents?api-version={version}",
            headers={"Metadata": "true"} if headers is None else headers,
            body=json.dumps(requests) if body is None else body,
        )


@pytest.fixture
def emulate():
    """Return a function that starts an emulator for the test; what it takes by name are ServiceSettings."""
    running = []

    def start(fleet=None, *, platform=None, options=None, **settings):
        served = Served(fleet or FLEET, options or {}, settings, platform or {})
        running.append(served)
        return served

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def served(emulate):
    """An emulator as it is by default."""
    return emulate()


@pytest.fixture
def send():
    """Return the function that sends one raw request: ``send(base, method, path, headers=, body=, timeout=)``."""
    return ask
