# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the run knows about one host between two tasks, and the clocks. Private to the collection."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

from .play_coordinator import Seen


class Notes:
    """The knowledge of the run about one host between two tasks, in a file of the control node."""

    def __init__(self, path: Path, *, fresh: bool, began: float) -> None:
        self._path = path
        self.known: dict[str, t.Any] = {
            "began": began,
            "vm_name": "",
            "marker": "",
            "state": "",
            "answered": False,
            "drill": False,
            "over": False,
            "ended": False,
            "begun": [],
            "failed_before": None,
            "prepared": [],
            "acknowledged": [],
            "recovered": [],
            "failures": [],
            "announced": {},
            "seen": {},
            "prepared_for": {},
            "waiting": [],
            "unreported": None,
            "lost_since": None,
            "resource_id": "",
            "last_read": None,
            "silent_since": None,
            "fallback": {},
            "story": {},
            "told": [],
            "facts": [],
        }
        if not fresh and path.exists():
            self.known.update(json.loads(path.read_text()))

    def __getitem__(self, name: str) -> t.Any:
        return self.known[name]

    def __setitem__(self, name: str, value: t.Any) -> None:
        self.known[name] = value

    def add(self, name: str, values: t.Iterable[str]) -> None:
        """Add to a list what it does not hold yet."""
        self.known[name] = list(dict.fromkeys([*self.known[name], *values]))

    def keep(self) -> None:
        """Write them for the next task."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(self.known))
        os.replace(temporary, self._path)

    def seen(self, event_id: str) -> Seen | None:
        """The event as the last document of this host showed it."""
        return Seen(*self.known["seen"][event_id]) if event_id in self.known["seen"] else None
