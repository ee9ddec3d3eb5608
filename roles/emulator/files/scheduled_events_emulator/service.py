# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service as one VM sees it: enabled by the first request, disabled by a day without one, counting incarnations."""

from __future__ import annotations

from scheduled_events_emulator.fleet import Machine
from scheduled_events_emulator.platform import Platform
from scheduled_events_emulator.rendering import VERSIONS, render_document, render_events, visible_types

DISABLED_AFTER = 24 * 3600.0
_VISIBLE = {version: visible_types(version) for version in VERSIONS}
_NO_EVENTS = b"[]"


class Service:
    """Scheduled Events of one VM. ``events_within``: seconds of emulator time from enabling until events flow."""

    def __init__(self, machine: Machine, platform: Platform, events_within: float = 0) -> None:
        self.machine = machine
        self._unit = platform.unit_state(machine)
        self._events_within = events_within
        self._enabled_at: float | None = None
        self._last_request = 0.0
        self._flows = False
        self._bases: dict[tuple[str, ...], int] = {}
        self._cache: dict[str, tuple[int, bytes]] = {}

    def request(self, now: float) -> bool:
        """Note a request at emulator time ``now``; return whether it is the one that enables the service."""
        enabling = self._enabled_at is None or now - self._last_request >= DISABLED_AFTER
        self._last_request = now
        if enabling:
            self._enabled_at = now
            self._flows = self._events_within <= 0
            self._reset(start_empty=False)
        elif not self._flows and self._enabled_at is not None and now >= self._enabled_at + self._events_within:
            self._flows = True
            self._reset(start_empty=True)
        return enabling

    def _reset(self, *, start_empty: bool) -> None:
        """Let the present array be incarnation 1, or 2 when an empty array was shown as 1 before."""
        self._cache.clear()
        for types in set(_VISIBLE.values()):
            holds_some = any(event.spec.event_type in types for event in self._unit.events.values())
            self._bases[types] = self._unit.revision(types) - (1 if start_empty and holds_some else 0)

    @property
    def enabled(self) -> bool:
        """Whether a request has enabled the service (a day without one shows at the next request)."""
        return self._enabled_at is not None

    def document(self, version: str) -> bytes:
        """Return the document for the api-version. The service must be enabled."""
        if not self._flows:
            return render_document(1, _NO_EVENTS)
        cached = self._cache.get(version)
        if cached is None or cached[0] != self._unit.version:
            types = _VISIBLE[version]
            incarnation = self._unit.revision(types) - self._bases[types] + 1
            document = render_document(incarnation, render_events(self._unit.events.values(), version))
            cached = self._cache[version] = (self._unit.version, document)
        return cached[1]
