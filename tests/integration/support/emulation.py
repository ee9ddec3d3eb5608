# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The emulator of the installed collection, in a separate process, on loopback."""

import http.client
import json
import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from zygotes import ZYGOTES

from playbooks import LOCAL

LIMIT = 300.0  # seconds; only so that a hang is named
OUTLIVES = 3600.0  # seconds after which it ends, should the test not end it
NEWEST = "2020-07-01"


def until(
    condition: Callable[[], Any], *, timeout: float = LIMIT, what: str = "the condition", every: float = 0.1
) -> Any:
    """Return the first true value of ``condition``; fail if there is none in ``timeout`` seconds."""
    give_up_at = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < give_up_at, f"{what} did not come about in {timeout:g} s"
        time.sleep(every)  # to look costs more than many a task


def ask(
    base: str, method: str, path: str, *, body: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Send one request without any proxy; the status and the body of the answer."""
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LIMIT)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Emulator:
    """A running emulator.

    :param program: the directory with the package of the emulator.
    :param directory: for its files.
    :param vms: as the fleet file spells them; a VM without an address gets a separate one on loopback.
    :param options: more options of ``serve``. The clock runs unless they say ``--manual-clock``.
    """

    def __init__(
        self, program: pathlib.Path, directory: pathlib.Path, vms: list[dict[str, Any]], options: tuple[str, ...] = ()
    ) -> None:
        fleet, started, log = directory / "fleet.json", directory / "started", directory / "emulator.log"
        addresses = [f"127.0.{77 + number // 256}.{number % 256}" for number in range(1, len(vms) + 1)]
        fleet.write_text(
            json.dumps({"vms": [{"address": address, **vm} for address, vm in zip(addresses, vms, strict=True)]})
        )
        arguments = ["serve", "--fleet", str(fleet), "--port", "0", "--control", "127.0.0.1:0"]
        arguments += ["--exit-after", str(OUTLIVES), "--started-file", str(started), *options]
        with log.open("wb") as output:
            self._process = ZYGOTES.run_emulator(program, arguments, output=output)
        until(
            lambda: started.exists() or self._process.poll() is not None,
            what="the emulator's start",
        )
        assert started.exists(), f"the emulator did not start: {log.read_text()}"
        self.control_url = started.read_text().strip()
        self.endpoints: dict[str, str] = {vm["name"]: vm["endpoint"] for vm in self.state()["vms"]}

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # The control API

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer of the control API on ``/control/`` + ``path``."""
        payload = None if body is None else json.dumps(body)
        status, answer = ask(self.control_url, method, "/control/" + path, body=payload)
        assert status < 400, f"{method} {path} {payload}: {status} {answer.decode()}"
        return json.loads(answer)

    def state(self) -> dict[str, Any]:
        """What is: VMs, events, ended events."""
        return self.control("GET", "state")

    def schedule(self, event_type: str, *vms: str, **fields: Any) -> str:
        """Announce an event; its id."""
        return self.control("POST", "events", {"type": event_type, "vms": list(vms), **fields})["event_id"]

    def scenario(self, name: str, *vms: str, **fields: Any) -> list[str]:
        """Start a named timeline; the ids of its events."""
        return self.control("POST", f"scenarios/{name}", {"vms": list(vms), **fields})["event_ids"]

    def cancel(self, event_id: str) -> None:
        """Withdraw a Scheduled event."""
        self.control("POST", f"events/{event_id}/cancel", {})

    def start(self, event_id: str) -> None:
        """Start a Scheduled event."""
        self.control("POST", f"events/{event_id}/start", {})

    def complete(self, event_id: str) -> None:
        """Remove a Started event."""
        self.control("POST", f"events/{event_id}/complete", {})

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.control("POST", "advance", {"seconds": seconds})

    def fault(self, kind: str, **fields: Any) -> None:
        """Let requests fail."""
        self.control("POST", "faults", {"kind": kind, **fields})

    def clear_faults(self) -> None:
        """Lift all faults."""
        self.control("DELETE", "faults")

    def polls(self, vm: str) -> dict[str, Any]:
        """What the VM asked: polls, posts, failures_injected, throttled, first, last."""
        return self.control("GET", "polls")["polls"][vm]

    def log(self, *kinds: str) -> list[dict[str, Any]]:
        """The entries of the log of these kinds, in order."""
        return [entry for entry in self.control("GET", "log")["log"] if not kinds or entry["kind"] in kinds]

    def posts(self) -> list[tuple[str, list[str], Any]]:
        """Every acknowledgement as it was posted: the VM, the ids, the status."""
        return [(entry["vm"], entry["event_ids"], entry["status"]) for entry in self.log("post")]

    # As a VM sees it

    def document(self, vm: str, api_version: str = NEWEST) -> bytes:
        """The body of a GET."""
        path = f"/metadata/scheduledevents?api-version={api_version}"
        status, body = ask(self.endpoints[vm], "GET", path, headers={"Metadata": "true"})
        assert status == 200, body
        return body

    def inventory(self, **host_vars: Callable[[str], Any]) -> dict[str, Any]:
        """An inventory of the VMs, all on this machine, each with its ``imds_endpoint``.

        :param host_vars: more variables of each host, from its name.
        """
        return {
            "all": {
                "hosts": {
                    name: {
                        **LOCAL,
                        "imds_endpoint": endpoint,
                        **{variable: value(name) for variable, value in host_vars.items()},
                    }
                    for name, endpoint in self.endpoints.items()
                }
            }
        }
