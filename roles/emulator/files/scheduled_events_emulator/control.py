# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control API: JSON over HTTP to steer the simulation and to see what the VMs did."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Callable

from aiohttp import web

from scheduled_events_emulator import graph
from scheduled_events_emulator.checks import Fields, InputError, require_json, shown
from scheduled_events_emulator.clock import LATEST, SPAN, iso, iso_or_none
from scheduled_events_emulator.event_grid import EVENT_GRID, SCHEMAS, Outbox
from scheduled_events_emulator.events import parse_spec
from scheduled_events_emulator.faults import Faults
from scheduled_events_emulator.fleet import Machine
from scheduled_events_emulator.platform import NoSuchEvent, Platform, WrongPhase
from scheduled_events_emulator.protocol import Imds
from scheduled_events_emulator.scenarios import start_scenario

SEQ = re.compile(r"[0-9]{1,18}")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _json(value: Any, status: int = 200) -> web.Response:
    return web.json_response(value, status=status, dumps=lambda item: json.dumps(item) + "\n")


async def _body(request: web.Request) -> Any:
    """Return the JSON body; none at all is an empty object. Raises InputError."""
    raw = await request.read()
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError("request body: not JSON, expected a JSON object") from None


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as JSON with its reason."""
    if "Origin" in request.headers:  # which browsers send, also after a rebinding of a name to this address
        return _json({"error": "a web page asks: expected a request without an Origin"}, 403)
    try:
        return await handler(request)
    except InputError as error:
        return _json({"error": str(error)}, 400)
    except web.RequestPayloadError:
        return _json({"error": "request body: cannot be decoded, expected a JSON object"}, 400)
    except NoSuchEvent as error:
        return _json({"error": str(error)}, 404)
    except WrongPhase as error:
        return _json({"error": str(error)}, 409)
    except web.HTTPException as error:
        return _json({"error": f"{error.status} {error.reason}: {request.method} {request.path}"}, error.status)


@dataclass(frozen=True)
class Control:
    """The handlers of the control API. ``shut_down`` is called once the answer to a shutdown is on its way."""

    platform: Platform
    imds: Imds
    faults: Faults
    outbox: Outbox
    endpoint_of: Callable[[Machine], str]
    shut_down: Callable[[], None]

    def application(self) -> web.Application:
        """Return the web application."""
        app = web.Application(middlewares=[_errors, self._sync])
        app.router.add_get("/control/state", self.state)
        app.router.add_post("/control/events", self.schedule)
        app.router.add_post("/control/events/{event_id}/{verb:cancel|start|complete}", self.steer)
        app.router.add_post("/control/events/{event_id}/overrides", self.override)
        app.router.add_post("/control/advance", self.advance)
        app.router.add_get("/control/log", self.log)
        app.router.add_get("/control/polls", self.polls)
        app.router.add_get("/control/event-grid", self.event_grid)
        app.router.add_post(graph.PATH, self.resource_graph)
        app.router.add_get("/control/faults", self.list_faults)
        app.router.add_post("/control/faults", self.add_fault)
        app.router.add_delete("/control/faults", self.clear_faults)
        app.router.add_post("/control/scenarios/{name}", self.scenario)
        app.router.add_post("/control/vms/{name}/{verb:deallocate|restart}", self.stop_vm)
        app.router.add_post("/control/shutdown", self.shutdown)
        return app

    @web.middleware
    async def _sync(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the time of the platform pass until a request is there as a whole."""
        await request.read()
        self.platform.sync()
        return await handler(request)

    # What is, and what was

    async def state(self, _request: web.Request) -> web.Response:
        """GET /control/state"""
        platform = self.platform
        return _json(
            {
                "now": iso(platform.now),
                "next_change": iso_or_none(platform.next_change()),
                "vms": [self._vm(machine) for machine in platform.fleet.machines],
                "events": [event.to_json() for event in platform.events()],
                "ended": [event.to_json() for event in platform.ended],
            }
        )

    def _vm(self, machine: Machine) -> dict[str, Any]:
        return {
            "name": machine.name,
            "resource_name": machine.resource_name,
            "hostname": machine.hostname,
            "kind": machine.kind,
            "set": machine.set_name,
            "placement_group": machine.placement_group,
            "zone": machine.zone,
            "fault_domain": machine.fault_domain,
            "gpu": machine.gpu,
            "spot": machine.spot,
            "endpoint": self.endpoint_of(machine),
            "from": list(machine.sources),
            "scope": "/".join(str(part) for part in self.platform.fleet.scope(machine) if part is not None),
            "enabled": self.imds.callers[machine.name].service.enabled,
        }

    async def log(self, request: web.Request) -> web.Response:
        """GET /control/log?since=N"""
        since = request.query.get("since", "0")
        if not SEQ.fullmatch(since):
            raise InputError(f"since: {shown(since)} is not a number, expected the seq of the last entry that you have")
        return _json({"log": self.platform.journal.since(int(since))})

    async def polls(self, _request: web.Request) -> web.Response:
        """GET /control/polls"""
        return _json({"polls": {name: caller.polls_json() for name, caller in self.imds.callers.items()}})

    async def event_grid(self, request: web.Request) -> web.Response:
        """GET /control/event-grid?schema=NAME"""
        schema = request.query.get("schema", EVENT_GRID)
        if schema not in SCHEMAS:
            raise InputError(f"schema: {shown(schema)}, expected one of {', '.join(SCHEMAS)}")
        return _json({"messages": [message.to_json(schema) for message in self.outbox.messages]})

    async def resource_graph(self, request: web.Request) -> web.Response:
        """POST /providers/Microsoft.ResourceGraph/resources"""
        return _json(graph.answer(await _body(request), self.platform.fleet, self.outbox))

    # Events

    async def schedule(self, request: web.Request) -> web.Response:
        """POST /control/events"""
        spec = parse_spec(await _body(request))
        return _json({"event_id": self.platform.schedule(spec).event_id}, 201)

    async def steer(self, request: web.Request) -> web.Response:
        """POST /control/events/{id}/cancel, start, complete"""
        verb = {"cancel": self.platform.cancel, "start": self.platform.start, "complete": self.platform.complete}
        verb[request.match_info["verb"]](request.match_info["event_id"])
        return _json({"event_id": request.match_info["event_id"]})

    async def override(self, request: web.Request) -> web.Response:
        """POST /control/events/{id}/overrides"""
        value = await _body(request)
        if not isinstance(value, dict):
            raise InputError("request body: expected an object of raw fields")
        require_json(value, "request body")
        self.platform.override(request.match_info["event_id"], value)
        return _json({"event_id": request.match_info["event_id"]})

    async def scenario(self, request: web.Request) -> web.Response:
        """POST /control/scenarios/{name}"""
        value = await _body(request)
        name = request.match_info["name"]
        return _json({"scenario": name, "event_ids": start_scenario(name, value, self.platform)}, 201)

    # Time

    async def advance(self, request: web.Request) -> web.Response:
        """POST /control/advance"""
        fields = Fields(await _body(request), "", ("seconds", "until"))
        seconds = fields.number("seconds", None)
        until = fields.text("until", None, choices=("next",))
        if (seconds is None) == (until is None):
            raise InputError('expected either {"seconds": N} or {"until": "next"}')
        target = self.platform.now + seconds if seconds is not None else self.platform.next_change()
        if target is None:
            raise WrongPhase("no change of state is pending, expected a live event to step to")
        if target > LATEST:
            raise InputError(f"seconds: {shown(seconds)} leads beyond the emulator's time, expected a time {SPAN}")
        self.platform.clock.move_to(target)
        return _json({"now": iso(self.platform.sync())})

    # Faults and VMs

    async def list_faults(self, _request: web.Request) -> web.Response:
        """GET /control/faults"""
        return _json({"faults": self.faults.to_json()})

    async def add_fault(self, request: web.Request) -> web.Response:
        """POST /control/faults"""
        fault = self.faults.add(await _body(request))
        self.platform.journal.record("fault", self.platform.now, fault=fault.to_json())
        return _json({"fault_id": fault.fault_id}, 201)

    async def clear_faults(self, _request: web.Request) -> web.Response:
        """DELETE /control/faults"""
        cleared = self.faults.clear()
        self.platform.journal.record("faults_cleared", self.platform.now, count=cleared)
        return _json({"cleared": cleared})

    async def stop_vm(self, request: web.Request) -> web.Response:
        """POST /control/vms/{name}/deallocate, restart"""
        try:
            machine = self.platform.fleet.find(request.match_info["name"])
        except InputError as error:
            raise NoSuchEvent(str(error)) from None
        verb = {"deallocate": self.platform.deallocate, "restart": self.platform.restart}
        return _json({"vm": machine.name, "cleared": verb[request.match_info["verb"]](machine)})

    async def shutdown(self, _request: web.Request) -> web.Response:
        """POST /control/shutdown"""
        self.shut_down()
        return _json({"shutdown": True})
