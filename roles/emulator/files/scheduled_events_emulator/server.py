# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process: sockets on every address of the fleet, the control API, and the automatic stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from scheduled_events_emulator.checks import InputError
from scheduled_events_emulator.client import url
from scheduled_events_emulator.clock import Clock
from scheduled_events_emulator.control import Control
from scheduled_events_emulator.delivery import post_messages
from scheduled_events_emulator.event_grid import Delivery, Outbox
from scheduled_events_emulator.faults import Faults
from scheduled_events_emulator.fleet import Fleet, Machine
from scheduled_events_emulator.platform import Journal, Platform
from scheduled_events_emulator.protocol import Imds, ServiceSettings

BACKLOG = 1024
CHOICES_OF_PORT = 20
GRACE = 0.2


@dataclass(frozen=True)
class Options:
    """The options of the server. ``port`` 0, control port 0: choose one. ``exit_after``: real seconds, 0 for never."""

    port: int
    serve_on: tuple[str, int]  # the control API
    listen: Sequence[str] = ()
    exit_after: float = 3600
    started_file: str | None = None
    delivery: Delivery = field(default_factory=Delivery)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"cannot listen on {host}: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # where several sockets may be bound, this is what fails
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


def bind_all(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Bind one port on every address; port 0 chooses one that all have free. Raises InputError."""
    for attempt in range(CHOICES_OF_PORT):
        chosen = port
        with contextlib.ExitStack() as bound:
            listeners = []
            try:
                for host in hosts:
                    listener = _bind(host, chosen)
                    bound.callback(listener.close)
                    listeners.append(listener)
                    chosen = listener.getsockname()[1]
            except InputError:
                if port != 0 or not listeners or attempt == CHOICES_OF_PORT - 1:
                    raise
                continue
            bound.pop_all()
            return listeners
    raise AssertionError("the last attempt returns or raises")


def _allow_files(count: int) -> None:
    """Raise the soft limit of open files to ``count``, as far as the hard limit lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _write_whole(path: str, text: str) -> None:
    """Write a file so that a reader sees all of it or none. Raises InputError."""
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "x", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(text)
        os.replace(draft, path)
    except OSError as error:
        raise InputError(f"--started-file {path}: {error.strerror}, expected a file that can be written") from None


class Emulator:
    """The whole emulator in one event loop."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        settings: ServiceSettings,
        options: Options,
        cotenant_delay: float = 0,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._hosts = list(dict.fromkeys([*fleet.addresses, *options.listen]))
        self._shared = [host for host in options.listen if host not in fleet.addresses]
        for machine in fleet.machines:
            if not machine.address and not self._shared:
                raise InputError(f"VM {machine.name} has no address that it can call. Add --listen ADDRESS")
        self.outbox = Outbox(fleet, options.delivery, monotonic=monotonic)
        self.platform = Platform(fleet, clock, Journal(clock.real_at), cotenant_delay, publish=self.outbox.add)
        self.faults = Faults(fleet, monotonic=monotonic)
        self.imds = Imds(self.platform, self.faults, settings, monotonic=monotonic)
        self._port = options.port
        self.control_url = ""
        self._stop: asyncio.Event | None = None

    def endpoint_of(self, machine: Machine) -> str:
        """Return the URL that ``machine`` calls."""
        return url(machine.address or self._shared[-1], self._port)

    def stop(self) -> None:
        """Have ``run`` end soon."""
        if self._stop is not None:
            asyncio.get_running_loop().call_soon(self._stop.set)

    async def run(self) -> None:
        """Serve until stopped by a signal, by the control API or by ``exit_after``. Raises InputError."""
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if self._options.exit_after > 0:
            loop.call_later(self._options.exit_after, self.stop)
        # A listener and a few connections for every VM.
        _allow_files(64 + 8 * (len(self._hosts) + len(self.platform.fleet.machines)))
        async with self.serving():
            print(f"scheduled-events-emulator: control API on {self.control_url}", flush=True)
            if self._options.started_file:
                _write_whole(self._options.started_file, self.control_url + "\n")
            await self._stop.wait()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve within a context. Raises InputError."""
        listeners = bind_all(self._hosts, self._options.port)
        self._port = listeners[0].getsockname()[1]
        try:
            control_listener = _bind(*self._options.serve_on)
        except InputError:
            for listener in listeners:
                listener.close()
            raise
        self.control_url = url(*control_listener.getsockname()[:2])
        control = Control(
            self.platform,
            self.imds,
            self.faults,
            self.outbox,
            endpoint_of=self.endpoint_of,
            shut_down=self.stop,
        )
        runner = web.AppRunner(control.application(), access_log=None)
        await runner.setup()
        back = runner.server
        if back is None:
            raise RuntimeError("aiohttp created no server for the control API")
        front = web.Server(self.imds.handle, access_log=None)
        loop = asyncio.get_running_loop()
        # The control API listens last, so that a client that reaches it reaches every VM's endpoint.
        servers = [await loop.create_server(front, sock=listener, backlog=BACKLOG) for listener in listeners]
        servers.append(await loop.create_server(back, sock=control_listener, backlog=BACKLOG))
        posting = None
        if self._options.delivery.url:
            posting = loop.create_task(post_messages(self.outbox, self.platform.sync))
        try:
            yield
        finally:
            if posting is not None:
                posting.cancel()
                await asyncio.wait([posting])
            for server in servers:
                server.close()
            self.faults.clear()
            await front.shutdown(GRACE)
            await back.shutdown(GRACE)
            await runner.cleanup()
