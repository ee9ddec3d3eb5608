# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP of the IMDS: callers, refusals and answers. One instance serves the whole fleet."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from aiohttp import web

from scheduled_events_emulator.clock import iso_or_none
from scheduled_events_emulator.faults import Fault, Faults
from scheduled_events_emulator.fleet import Machine
from scheduled_events_emulator.instance import NoSuchElement, as_json, as_text, find, instance
from scheduled_events_emulator.platform import Platform
from scheduled_events_emulator.rendering import CURRENT, PREVIEW, VERSIONS, Service, render_error

EVENTS_PATH, INSTANCE_PATH = "/metadata/scheduledevents", "/metadata/instance"
# What faults call the two: a client asks the instance for the VM's name.
METHODS = {"events": ("GET", "POST"), "name": ("GET",)}
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
THROTTLED = b"Throttle Result: Too Many Requests"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in to use this network</body></html>"
WRONG_TYPES = b'{"DocumentIncarnation":[1],"Events":{"EventId":7,"EventStatus":null,"Resources":"vm"}}'


@dataclass(frozen=True)
class ServiceSettings:
    """The behaviour of the service that differs between hosts.

    ``first_answer_delay`` is in real seconds, ``rate_limit`` in requests per real second and VM (0: no limit).
    """

    first_answer_delay: float = 0
    empty_first: bool = False
    etag: bool = False
    unknown_event_status: int = 400
    unknown_version_status: int = 400
    newest_version: str = CURRENT
    rate_limit: int = 5


@dataclass
class Caller:
    """The state of a VM in the front end. Times for reports are emulator time."""

    machine: Machine
    service: Service
    polls: int = 0
    posts: int = 0
    failures_injected: int = 0
    throttled: int = 0
    first: float | None = None
    last: float | None = None
    ready_at: float = 0.0
    owes_empty: bool = False
    recent: deque[float] = field(default_factory=deque)

    def polls_json(self) -> dict[str, Any]:
        """Return the figures that the control API shows."""
        counts = {name: getattr(self, name) for name in ("polls", "posts", "failures_injected", "throttled")}
        return {**counts, "first": iso_or_none(self.first), "last": iso_or_none(self.last)}


class Refused(Exception):
    """A request that breaks a rule of the protocol."""

    def __init__(self, status: int, body: bytes, *, event_ids: Sequence[str] = (), content_type: str = JSON) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.event_ids = event_ids
        self.content_type = content_type


def _bad_request(reason: str) -> Refused:
    return Refused(400, render_error(f"Bad request: . {reason}"))


def _malformed(reason: str) -> Refused:
    return _bad_request(f"Malformed request body: {reason}")


def _answer(body: bytes, *, status: int = 200, content_type: str = JSON, **headers: str) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": content_type, **headers})


async def _body(request: web.BaseRequest) -> bytes:
    """Read the body, for which some clients wait until they may send it (RFC 9110, section 10.1.1)."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await request.read()


STATUS_KINDS = ("status", "redirect", "closed")  # faults that the log names by their status


class Imds:
    """The handler behind every address of the fleet."""

    def __init__(
        self,
        platform: Platform,
        faults: Faults,
        settings: ServiceSettings,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._platform = platform
        self._faults = faults
        self._settings = settings
        self._monotonic = monotonic
        self._versions = frozenset(version for version in VERSIONS if version <= settings.newest_version)
        self.callers = {
            machine.name: Caller(machine, Service(machine, platform)) for machine in platform.fleet.machines
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        called, calling = _addresses(request)
        machine = self._platform.fleet.caller(called, calling)
        if machine is None:
            reason = f"Not found: this emulator has no VM that calls from {calling} or to {called}"
            return _answer(render_error(reason), status=404)
        caller = self.callers[machine.name]
        path = _kind(request.path)
        self._count(caller, request.method, path)
        try:
            self._throttle(caller)
            if path is None:
                raise Refused(404, render_error("Not found"))
            if request.method not in METHODS[path]:
                raise Refused(405, render_error(f"Method not allowed: {request.method}"))
            fault = self._faults.match(caller.machine.name, request.method, path)
            if fault is not None:
                caller.failures_injected += 1
                failed = await self._fail(fault, request, caller)
                if failed is not None:
                    return failed
            return await self._serve(request, caller, path)
        except (web.RequestPayloadError, ConnectionError):
            refused = _malformed("it cannot be decoded")
        except web.HTTPRequestEntityTooLarge:
            refused = _malformed("it is too large")
        except Refused as error:
            refused = error
        if request.method == "POST" and path == "events":
            self._log_post(caller.machine.name, refused.event_ids, refused.status, [])
        return _answer(refused.body, status=refused.status, content_type=refused.content_type)

    # Who calls, and how often

    def _count(self, caller: Caller, method: str, path: str | None) -> None:
        if path != "events":
            return
        now = self._platform.sync()
        if method == "POST":
            caller.posts += 1
            return
        caller.polls += 1
        caller.first = now if caller.first is None else caller.first
        caller.last = now

    def _throttle(self, caller: Caller) -> None:
        """Count a request of the VM; refused above the rate: real time, all paths, any second. Raises Refused."""
        limit = self._settings.rate_limit
        if limit == 0:
            return
        now = self._monotonic()
        recent = caller.recent
        while recent and now - recent[0] >= 1.0:
            recent.popleft()
        if len(recent) >= limit:
            caller.throttled += 1
            raise Refused(429, THROTTLED, content_type=TEXT)
        recent.append(now)

    # The rules

    def _check_request(self, request: web.BaseRequest, kind: str) -> str:
        """Check headers and query and return the api-version. Raises Refused."""
        query = request.query
        version = query.get("api-version", "")
        # In the preview a POST without the header is accepted (docs/contract.md, section 3).
        exempt = version == PREVIEW and request.method == "POST"
        if request.headers.get("Metadata", "").lower() != "true" and not exempt:
            raise _bad_request("Required metadata header not specified")
        if "X-Forwarded-For" in request.headers:
            raise _bad_request("Requests with an X-Forwarded-For header are not served")
        if len(set(query)) != len(query):
            raise _bad_request("Duplicate query parameters are not allowed")
        if kind == "name":
            if not DATE.fullmatch(version):
                raise self._bad_version(400)
        elif version not in self._versions:
            known_elsewhere = version in VERSIONS
            raise self._bad_version(self._settings.unknown_version_status if known_elsewhere else 400)
        return version

    def _bad_version(self, status: int) -> Refused:
        newest = sorted(self._versions, reverse=True)[:3]
        return Refused(
            status,
            render_error("Bad request. api-version is invalid or was not specified in the request.", newest),
        )

    # Answers

    async def _serve(self, request: web.BaseRequest, caller: Caller, kind: str) -> web.Response:
        version = self._check_request(request, kind)
        if kind == "name":
            return _serve_instance(request, caller.machine)
        # What a POST asks for is read whole before anything waits.
        body = await _body(request) if request.method == "POST" else b""
        await self._enable(caller)
        if request.method == "POST":
            return self._serve_post(caller, body)
        if caller.owes_empty:
            caller.owes_empty = False
            return _answer(b"")
        return self._serve_document(request, caller.service.document(version))

    async def _enable(self, caller: Caller) -> None:
        """Enable the service by the first request: it, and all that come meanwhile, wait for the first answer."""
        settings = self._settings
        if caller.service.request(self._platform.sync()):
            caller.ready_at = self._monotonic() + settings.first_answer_delay
            caller.owes_empty = settings.empty_first
        wait = caller.ready_at - self._monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
            self._platform.sync()

    def _serve_document(self, request: web.BaseRequest, document: bytes) -> web.Response:
        if not self._settings.etag:
            return _answer(document)
        etag = f'"{hashlib.sha256(document).hexdigest()[:16]}"'
        candidates = [value.strip() for value in request.headers.get("If-None-Match", "").split(",")]
        if etag in candidates:
            return web.Response(status=304, headers={"ETag": etag})
        return _answer(document, ETag=etag)

    def _serve_post(self, caller: Caller, body: bytes) -> web.Response:
        name = caller.machine.name
        try:
            event_ids = _start_requests(body)
        except ValueError as error:
            raise _malformed(str(error)) from None
        refusal = self._settings.unknown_event_status
        approved, unknown = self._platform.approve(caller.machine, event_ids, partly=refusal == 200)
        status = refusal if unknown else 200
        if status != 200:
            body = render_error(f"Bad request: . Unknown EventId {unknown[0]}")
            raise Refused(status, body, event_ids=event_ids)
        self._log_post(name, event_ids, status, approved)
        return _answer(b"")

    def _log_post(self, vm: str, event_ids: Sequence[str], status: int | str, approved: list[str]) -> None:
        self._platform.journal.record(
            "post", self._platform.now, vm=vm, event_ids=list(event_ids), status=status, approved=approved
        )

    # Failures on demand

    async def _fail(self, fault: Fault, request: web.BaseRequest, caller: Caller) -> web.Response | None:
        """Let ``fault`` answer the request; None leaves the answer, after a delay, to the service."""
        body = await _body(request) if request.method == "POST" else b""
        if fault.delay > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(fault.cleared.wait(), fault.delay)
        if fault.kind == "slow":
            return None
        if request.method == "POST":
            self._platform.sync()
            answered: int | str = fault.status if fault.kind in STATUS_KINDS else fault.kind
            self._log_post(caller.machine.name, _ids_or_none(body), answered, [])
        if fault.kind in ("hang", "reset"):
            _drop(request, with_reset=fault.kind == "reset")
            return _answer(b"")
        if fault.kind == "cut":
            return self._cut(request, caller)
        return self._wrong_answer(fault, request)

    def _cut(self, request: web.BaseRequest, caller: Caller) -> web.Response:
        document = (
            caller.service.document(self._settings.newest_version)
            if caller.service.enabled
            else b'{"DocumentIncarnation":1}'
        )
        if request.transport is not None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {len(document)}\r\n\r\n"
            request.transport.write(head.encode() + document[: len(document) // 2])
            request.transport.close()
        return _answer(b"")

    @staticmethod
    def _wrong_answer(fault: Fault, request: web.BaseRequest) -> web.Response:
        if fault.kind == "redirect":
            return _answer(b"", status=fault.status, Location=fault.location or f"http://{request.host}/redirected")
        if fault.kind == "closed":  # which stands before the service, and closes the connection
            refusal = _answer(fault.body or b"", status=fault.status, content_type=TEXT)
            refusal.force_close()
            return refusal
        if fault.kind == "status":
            is_text = fault.status == 429 or fault.body is not None
            body = THROTTLED if fault.body is None else fault.body
            if not is_text:
                body = render_error(f"Injected status {fault.status}")
            return _answer(body, status=fault.status, content_type=TEXT if is_text else JSON)
        bodies = {
            "broken_json": b'{"DocumentIncarnation":1,"Events":[',
            "wrong_types": WRONG_TYPES,
            "empty": b"",
            "html": HTML,
        }
        body = bodies[fault.kind] if fault.body is None else fault.body
        content_type = "text/html; charset=utf-8" if fault.kind == "html" else JSON
        return _answer(body, status=fault.status, content_type=content_type)


def _kind(path: str) -> str | None:
    """Return which of ``METHODS`` is asked for; the case of the path does not matter."""
    lowered = path.lower()
    if lowered == EVENTS_PATH:
        return "events"
    return "name" if lowered == INSTANCE_PATH or lowered.startswith(INSTANCE_PATH + "/") else None


def _serve_instance(request: web.BaseRequest, machine: Machine) -> web.Response:
    path = request.path[len(INSTANCE_PATH) :].strip("/")
    try:
        node = find(instance(machine), path.split("/") if path else [])
    except NoSuchElement:
        raise Refused(404, render_error("Not found")) from None
    wanted = request.query.get("format", "json").lower()
    if wanted not in ("json", "text"):
        raise _bad_request("The format is json or text")
    if wanted == "text":
        return _answer(as_text(node), content_type=TEXT)
    body = as_json(node)
    if body is None:
        raise _bad_request("A single value is served with format=text only")
    return _answer(body)


def _addresses(request: web.BaseRequest) -> tuple[str, str]:
    """Return the addresses called to and called from; of a connection that has gone, empty ones."""
    transport = request.transport
    if transport is None:
        return "", ""
    # A socket for :: also takes calls over IPv4, and writes their addresses so.
    called, calling = (transport.get_extra_info(name)[0].removeprefix("::ffff:") for name in ("sockname", "peername"))
    return called, calling


def _drop(request: web.BaseRequest, *, with_reset: bool) -> None:
    """Drop the connection without an answer."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if with_reset and connection is not None:
        # Closing with a zero linger time sends RST instead of FIN.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _start_requests(body: bytes) -> list[str]:
    """Return the ids of a POST body, whatever its Content-Type said. Raises ValueError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    requests = document.get("StartRequests") if isinstance(document, dict) else None
    if not isinstance(requests, list) or not requests:
        raise ValueError("StartRequests is missing or no list of requests")
    ids = [item.get("EventId") if isinstance(item, dict) else None for item in requests]
    if not all(isinstance(event_id, str) and event_id for event_id in ids):
        raise ValueError("a StartRequest has no EventId")
    return [str(event_id) for event_id in ids]


def _ids_or_none(body: bytes) -> list[str]:
    try:
        return _start_requests(body)
    except ValueError:
        return []
