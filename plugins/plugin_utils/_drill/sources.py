# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sources of the event of a drill: an emulator, or Azure. Private to the collection."""

from __future__ import annotations

import json
import typing as t

from ...module_utils._scheduled_events.checks import WrongValue
from ...module_utils._scheduled_events.clock import Clock
from ...module_utils._scheduled_events.history import Fact, parse
from .._remote.delegate_host import OtherHost, OtherHostError, OtherHostUnreachable
from .course import Announced, DrillRefused, HostLost, Look
from .verdict import Verdict

COMMAND = "/usr/local/lib/scheduled-events/scheduled-events-drill"
EMULATOR_UNIT = "scheduled-events-drill-emulator.service"
DESCRIPTION = "Drill of maintops.scheduled_events"
LEASE = 60.0  # seconds without a look after which the host ends the drill by itself
WITHIN = 200.0  # seconds for one command
LISTENS_WITHIN = 30.0  # seconds until the emulator answers


class Remote:
    """Commands on a host of the inventory. The connection is made again after it broke.

    :param connect: reaches the host.
    """

    def __init__(self, connect: t.Callable[[], OtherHost]) -> None:
        self._connect = connect
        self._host: OtherHost | None = None

    def run(self, *argv: str, within: float = WITHIN) -> str:
        """The output of a command.

        :raises HostLost: the host cannot be reached.
        :raises OtherHostError: the command failed.
        """
        return str(self._run("ansible.builtin.command", {"argv": list(argv)}, within).get("stdout", ""))

    def request(self, method: str, url: str, body: t.Any = None) -> t.Any:
        """The answer of a service on that host.

        :raises HostLost: the host cannot be reached.
        :raises OtherHostError: the service refused, or does not answer.
        """
        options = {"url": url, "method": method, "use_proxy": False, "status_code": [200, 201], "timeout": 10}
        if body is not None:
            options.update(body=json.dumps(body), body_format="raw", headers={"Content-Type": "application/json"})
        return self._run("ansible.builtin.uri", {**options, "return_content": True}, WITHIN).get("json")

    def close(self) -> None:
        """End the connection."""
        if self._host is not None:
            self._host.close()
        self._host = None

    def _run(self, module: str, arguments: dict[str, t.Any], within: float) -> dict[str, t.Any]:
        self._host = self._host or self._connect()
        try:
            return self._host.run(module, arguments, within=within)
        except OtherHostUnreachable as error:
            self.close()
            raise HostLost(str(error)) from error


class DrilledHost:
    """The host of the drill, with its polling unit.

    :param command: of drills, which the role poller installs.
    :param state_directory: of the roles, in which their history is.
    """

    def __init__(self, remote: Remote, command: str, state_directory: str) -> None:
        self._remote, self._command, self._state_directory = remote, command, state_directory
        self.since = 0.0  # seconds since the epoch, on the clock of the host
        self._emulator = ""

    def preview(self, event_type: str) -> dict[str, t.Any]:
        """What the drill would run.

        :raises DrillRefused: the host has no polling unit that can do it.
        """
        try:
            read = json.loads(self._remote.run(self._command, "preview", "--type", event_type))
        except (OtherHostError, ValueError) as error:
            raise DrillRefused(f"{error}. If this command is missing, run the role poller of this release") from error
        self.since = float(read["time"])
        return dict(read)

    def begin(self, endpoint: str, longest: float) -> None:
        """Point the polling unit at the emulator.

        :raises DrillRefused: it was not pointed.
        """
        self._emulator = endpoint
        wanted = (f"--endpoint={endpoint}", f"--lease={LEASE}", f"--longest={longest}", f"--since={self.since}")
        try:
            self._remote.run(self._command, "begin", *wanted)
        except OtherHostError as error:
            raise DrillRefused(str(error)) from error

    def look(self) -> Look:
        """What happened.

        :raises HostLost: the host cannot be reached, or its answer cannot be read.
        """
        try:
            read = json.loads(self._remote.run(self._command, "look", f"--since={self.since}", within=LEASE / 2))
            polled = read["polled"] is not None and read["polled"] >= self.since
            restored = polled and not read["pointed"] and read["endpoint"] != self._emulator
            return Look(_facts(read["facts"]), str(read["why"]), restored)
        except (OtherHostError, ValueError, KeyError, TypeError) as error:
            raise HostLost(str(error)) from error

    def end(self) -> None:
        """Point the polling unit back. What cannot be done now, the host does by itself."""
        try:
            self._remote.run(self._command, "end")
        except (OtherHostError, HostLost):
            return  # the look after it shows whether the host is restored

    def note(self, event_id: str, event_type: str, vm_name: str, verdict: Verdict | None) -> None:
        """Write the drill into the history of the host.

        :raises HostLost: it cannot be written.
        """
        said = (f"--outcome={verdict.outcome}", f"--reason={'; '.join(verdict.problems)}") if verdict else ()
        names = (f"--event-id={event_id}", f"--type={event_type}", f"--vm-name={vm_name}")
        try:
            self._remote.run(self._command, f"--roles-directory={self._state_directory}", "note", *names, *said)
        except OtherHostError as error:
            raise HostLost(str(error)) from error


def _facts(raw: t.Iterable[t.Any]) -> tuple[Fact, ...]:
    """The facts that can be read; the host can return anything."""
    facts = []
    for each in raw:
        try:
            facts.append(parse(each))
        except WrongValue:
            continue
    return tuple(facts)


class Emulation(t.NamedTuple):
    """The event, and the emulator of it.

    :param directory: in which the program of the emulator and its fleet file are.
    :param address: at which the drilled host reaches the emulator.
    :param longest: seconds after which the emulator ends.
    """

    vm_name: str
    event_type: str
    notice: float | None
    started_for: float
    directory: str
    python: str
    address: str
    port: int
    longest: float


class EmulatorSource:
    """An event of an emulator, to which the polling unit is pointed for the drill.

    :param where: the host on which the emulator runs.
    """

    def __init__(self, host: DrilledHost, where: Remote, emulation: Emulation, clock: Clock) -> None:
        self._host, self._where = host, where
        self._emulation = emulation
        self._clock = clock
        self._event_id = ""
        self._control = f"http://127.0.0.1:{emulation.port + 1}/control"

    def begin(self) -> None:
        """Start the emulator, and point the polling unit at it.

        :raises DrillRefused: one of them failed.
        """
        self._stop()
        wanted = self._emulation
        properties = ("DynamicUser=yes", "ProtectHome=yes", "ProtectSystem=strict", "NoNewPrivileges=yes")
        try:
            self._where.run(
                "systemd-run",
                "--quiet",
                f"--unit={EMULATOR_UNIT}",
                *(f"--property={each}" for each in properties),
                f"--property=RuntimeMaxSec={wanted.longest:.0f}",
                f"--setenv=PYTHONPATH={wanted.directory}",
                *(wanted.python, "-m", "scheduled_events_emulator", "serve"),
                f"--fleet={wanted.directory}/fleet.json",
                f"--port={wanted.port}",
                f"--control=127.0.0.1:{wanted.port + 1}",
                f"--exit-after={wanted.longest:.0f}",
            )
            self._wait_until_it_listens()
        except (OtherHostError, HostLost) as error:
            raise DrillRefused(
                f"the emulator does not start: {error}. See 'journalctl -u {EMULATOR_UNIT}'. It needs Python 3.9 and "
                "aiohttp"
            ) from error
        bracketed = f"[{wanted.address}]" if ":" in wanted.address else wanted.address
        self._host.begin(f"http://{bracketed}:{wanted.port}", wanted.longest)

    def _wait_until_it_listens(self) -> None:
        give_up_at = self._clock.monotonic() + LISTENS_WITHIN
        while True:
            try:
                self._where.request("GET", f"{self._control}/state")
                return
            except OtherHostError:
                if self._clock.monotonic() > give_up_at:
                    raise
            self._clock.sleep(0.5)

    def announce(self) -> Announced:
        """Announce the event.

        :raises DrillRefused: the emulator refused it.
        """
        wanted = self._emulation
        body = {"type": wanted.event_type, "vms": [wanted.vm_name], "started_for": wanted.started_for}
        body["description"] = DESCRIPTION
        if wanted.notice is not None:
            body["notice"] = wanted.notice
        try:
            self._event_id = event_id = str(self._where.request("POST", f"{self._control}/events", body)["event_id"])
            log = self._where.request("GET", f"{self._control}/log")["log"]
        except (OtherHostError, HostLost) as error:
            raise DrillRefused(f"the emulator did not announce the event: {error}") from error
        return Announced(event_id, next(entry["at_real"] for entry in log if entry.get("event_id") == event_id))

    def look(self) -> Look:
        """What happened.

        :raises HostLost: the host cannot be reached.
        """
        return self._host.look()

    def cancel(self) -> bool:
        """Remove the event; whether it will be gone."""
        for verb in ("cancel", "complete"):
            try:
                self._where.request("POST", f"{self._control}/events/{self._event_id}/{verb}", {})
                return True
            except (OtherHostError, HostLost):
                continue
        return False

    def end(self) -> None:
        """Point the polling unit back, and stop the emulator."""
        self._host.end()
        self._stop()

    def _stop(self) -> None:
        for verb in ("stop", "reset-failed"):
            try:
                self._where.run("systemctl", verb, EMULATOR_UNIT)
            except (OtherHostError, HostLost):
                continue  # it does not exist, or ends by itself

    def note(self, event_id: str, verdict: Verdict | None) -> None:
        """Write the drill into the history of the host.

        :raises HostLost: it cannot be written.
        """
        self._host.note(event_id, self._emulation.event_type, self._emulation.vm_name, verdict)
