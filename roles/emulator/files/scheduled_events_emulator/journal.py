# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ordered log: approvals as posted, and every transition of every event."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

from scheduled_events_emulator.clock import iso

KEPT_ENTRIES = 100_000


class Journal:
    """Entries numbered from 1; the oldest are dropped beyond ``KEPT_ENTRIES``."""

    def __init__(self, real_at: Callable[[float], float]) -> None:
        self._real_at = real_at
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT_ENTRIES)
        self._last = 0

    def record(self, kind: str, moment: float, **details: Any) -> None:
        """Add an entry of ``kind`` that happened at the emulator time ``moment``."""
        self._last += 1
        entry = {"seq": self._last, "kind": kind, "at": iso(moment), "at_real": round(self._real_at(moment), 3)}
        entry.update(details)
        self._entries.append(entry)

    def since(self, seq: int = 0) -> list[dict[str, Any]]:
        """Return the entries after number ``seq``, oldest first."""
        return [entry for entry in self._entries if entry["seq"] > seq]
