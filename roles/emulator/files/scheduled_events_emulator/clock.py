# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock of the simulated platform. Seconds since the epoch, as a float."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Callable

LATEST = 32503680000.0  # the year 3000: what follows from an event then still has a date
SPAN = "from 1970 to 2999"


def iso(moment: float) -> str:
    """Return ``moment`` (epoch seconds) as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def iso_or_none(moment: float | None) -> str | None:
    """Return the same of a moment that may be missing."""
    return None if moment is None else iso(moment)


def parse_iso(text: str) -> float:
    """Return the epoch seconds of an ISO 8601 time; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


class Clock:
    """Real time multiplied by ``speed`` (0: it stands still), which can also be jumped forward."""

    def __init__(
        self,
        start: float,
        speed: float = 1.0,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._speed = speed
        self._monotonic = monotonic
        self._wall = wall
        self._rebase(start)

    def _rebase(self, moment: float) -> None:
        self._base = moment
        self._base_monotonic = self._monotonic()
        self._base_wall = self._wall()

    def now(self) -> float:
        """Return the emulator time."""
        return self._base + (self._monotonic() - self._base_monotonic) * self._speed

    def move_to(self, moment: float) -> None:
        """Jump forward to ``moment``, unless that has passed."""
        self._rebase(max(moment, self.now()))

    def real_at(self, moment: float) -> float:
        """Return the real (wall) time at which emulator time reached ``moment``."""
        # What a jump passed over happened, in real time, at the jump.
        if self._speed == 0:
            return self._wall()
        return self._base_wall + max(0.0, moment - self._base) / self._speed
