# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documents as the IMDS writes them, and the service that gives them to one VM.

Each api-version has its field set, names and visible types; all is compact JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from typing import Any

from scheduled_events_emulator.events import STARTED, TYPES, Event
from scheduled_events_emulator.fleet import Machine
from scheduled_events_emulator.platform import Platform

PREVIEW = "2017-03-01"
CURRENT = "2020-07-01"
VERSIONS = (PREVIEW, "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", CURRENT, "2024-07-09")
DISABLED_AFTER = 24 * 3600.0
_VISIBLE = {
    version: tuple(event_type for event_type, (since, _notice) in TYPES.items() if version >= since)
    for version in VERSIONS
}


def fields(event: Event, version: str) -> dict[str, Any]:
    """Return the fields of the event in the api-version."""
    prefix = "_" if version == PREVIEW else ""
    announced = event.status != STARTED and event.not_before is not None
    shown: dict[str, Any] = {
        "EventId": event.event_id,
        "EventStatus": event.status,
        "EventType": event.spec.event_type,
        "ResourceType": "VirtualMachine",
        "Resources": [prefix + name for name in event.resources],
        "NotBefore": formatdate(event.not_before, usegmt=True) if announced else "",
    }
    later = (
        ("2019-04-01", "Description", event.spec.description),
        ("2019-08-01", "EventSource", event.spec.source),
        ("2020-07-01", "DurationInSeconds", event.spec.duration),
    )
    shown.update((name, value) for since, name, value in later if version >= since)
    for name, value in event.overrides.items():
        if value is None:
            shown.pop(name, None)
        else:
            shown[name] = value
    return shown


def render_document(incarnation: int, events: Iterable[Event], version: str) -> bytes:
    """Return the response document with the events that the api-version knows."""
    shown = [fields(event, version) for event in events if event.spec.event_type in _VISIBLE[version]]
    return json.dumps({"DocumentIncarnation": incarnation, "Events": shown}, separators=(",", ":")).encode("ascii")


def render_error(message: str, newest_versions: Sequence[str] = ()) -> bytes:
    """Return an error body of the IMDS."""
    body: dict[str, Any] = {"error": message}
    if newest_versions:
        body["newest-versions"] = list(newest_versions)
    return json.dumps(body, separators=(",", ":")).encode("ascii")


class Service:
    """Scheduled Events of one VM: enabled by the first request, disabled by a day without one; counts incarnations."""

    def __init__(self, machine: Machine, platform: Platform) -> None:
        self._scope = platform.scope_state(machine)
        self._last_request: float | None = None
        self._bases: dict[tuple[str, ...], int] = {}
        self._cache: dict[str, tuple[int, bytes]] = {}

    def request(self, now: float) -> bool:
        """Note a request at emulator time ``now``; return whether it is the one that enables the service."""
        enabling = self._last_request is None or now - self._last_request >= DISABLED_AFTER
        self._last_request = now
        if enabling:  # the present array is incarnation 1
            self._cache.clear()
            self._bases = {types: self._scope.revision(types) for types in set(_VISIBLE.values())}
        return enabling

    @property
    def enabled(self) -> bool:
        """Whether a request has enabled the service (a day without one shows at the next request)."""
        return self._last_request is not None

    def document(self, version: str) -> bytes:
        """Return the document for the api-version. The service must be enabled."""
        types = _VISIBLE[version]
        incarnation = self._scope.revision(types) - self._bases[types] + 1
        if self._cache.get(version, (0, b""))[0] != incarnation:
            self._cache[version] = incarnation, render_document(incarnation, self._scope.events.values(), version)
        return self._cache[version][1]
