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


class Service:
    """Scheduled Events of one VM."""

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
        cached = self._cache.get(version)
        if cached is None or cached[0] != self._scope.version:
            types = _VISIBLE[version]
            incarnation = self._scope.revision(types) - self._bases[types] + 1
            document = render_document(incarnation, render_events(self._scope.events.values(), version))
            cached = self._cache[version] = (self._scope.version, document)
        return cached[1]
