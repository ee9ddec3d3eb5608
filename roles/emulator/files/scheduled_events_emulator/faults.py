# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Injected faults: which requests fail, how, and how often. Counts are per VM, seconds are real seconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Callable

from scheduled_events_emulator.checks import Fields
from scheduled_events_emulator.fleet import Fleet

KEYS = ("kind", "vms", "methods", "paths", "status", "delay", "body", "location", "count", "seconds")
KINDS = ("status", "hang", "reset", "cut", "broken_json", "wrong_types", "empty", "slow", "html", "redirect", "closed")
DEFAULT_STATUS = {"status": 500, "redirect": 302, "closed": 403}
DEFAULT_DELAY = {"hang": 150.0, "slow": 5.0}


@dataclass
class Fault:
    """One fault. ``delay``: real seconds before the answer (hang: before the connection is dropped)."""

    fault_id: str
    kind: str
    vms: frozenset[str] | None
    methods: frozenset[str]
    paths: frozenset[str]
    status: int
    delay: float
    body: bytes | None
    location: str | None
    count: int | None
    until: float | None
    left: dict[str, int] = field(default_factory=dict)
    cleared: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, vm: str, method: str, path: str, now: float) -> bool:
        """Return whether the request fails this way; a counted fault is used up by that."""
        if not self.is_in_force(now, frozenset((vm,))):
            return False
        if method not in self.methods or path not in self.paths or (self.vms is not None and vm not in self.vms):
            return False
        if self.count is not None:
            left = self.left.get(vm, self.count)
            self.left[vm] = max(0, left - 1)
            return left > 0
        return True

    def is_in_force(self, now: float, vms: frozenset[str]) -> bool:
        """Return whether a request of one of its VMs, else of ``vms``, can still meet the fault."""
        is_left = self.count is None or any(self.left.get(vm, self.count) for vm in self.vms or vms)
        return is_left and (self.until is None or now < self.until)

    def to_json(self) -> dict[str, Any]:
        """Return the fault as the control API shows it."""
        return {
            "fault_id": self.fault_id,
            "kind": self.kind,
            "vms": None if self.vms is None else sorted(self.vms),
            "methods": sorted(self.methods),
            "paths": sorted(self.paths),
            "status": self.status,
            "delay": self.delay,
            "count": self.count,
            "left": dict(self.left),
        }


def _body(fields: Fields) -> bytes | None:
    """Return the body as bytes. U+DC80 to U+DCFF stand for single bytes, as in the arguments of a command."""
    text = fields.text("body", None)
    try:
        return None if text is None else str(text).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise fields.fail("body", "a text of whole characters") from None


class Faults:
    """The faults in force, the oldest first to match."""

    def __init__(self, fleet: Fleet, *, monotonic: Callable[[], float]) -> None:
        self._fleet = fleet
        self._monotonic = monotonic
        self._faults: list[Fault] = []
        self._number = 0

    def add(self, value: Any) -> Fault:
        """Put the fault of a JSON object in force. Raises InputError."""
        fields = Fields(value, "", KEYS)
        kind = fields.text("kind", choices=KINDS)
        names = fields.texts("vms", None)
        seconds = fields.number("seconds", None)
        status = fields.integer("status", DEFAULT_STATUS.get(kind, 200), least=200, most=599)
        if kind == "closed" and status not in (403, 421):
            raise fields.fail("status", "403 (not on the list) or 421 (caller not identified)")
        location = fields.text("location", None)
        if location is not None and not (location.isascii() and location.isprintable()):
            raise fields.fail("location", "a URL of ASCII characters, the rest as %XX")
        fault = Fault(
            fault_id=f"fault-{self._number + 1}",
            kind=kind,
            vms=None if names is None else frozenset(self._fleet.find(name).name for name in names),
            methods=frozenset(fields.texts("methods", ["GET", "POST"], choices=("GET", "POST"))),
            paths=frozenset(fields.texts("paths", ["events"], choices=("events", "name"))),
            status=status,
            delay=fields.number("delay", DEFAULT_DELAY.get(kind, 0.0)),
            body=_body(fields),
            location=location,
            count=fields.integer("count", None, least=1),
            until=None if seconds is None else self._monotonic() + seconds,
        )
        self._number += 1
        self._faults.append(fault)
        return fault

    def match(self, vm: str, method: str, path: str) -> Fault | None:
        """Return the fault that a request meets, None for none."""
        now = self._monotonic()
        return next((fault for fault in self._faults if fault.takes(vm, method, path, now)), None)

    def clear(self) -> int:
        """Remove all faults, end hanging requests, and return the number of faults."""
        faults, self._faults = self._faults, []
        for fault in faults:
            fault.cleared.set()
        return len(faults)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the faults still in force."""
        now, vms = self._monotonic(), frozenset(machine.name for machine in self._fleet.machines)
        return [fault.to_json() for fault in self._faults if fault.is_in_force(now, vms)]
