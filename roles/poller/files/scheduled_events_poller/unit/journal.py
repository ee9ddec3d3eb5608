# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Troubles that come and go, in the journal."""

from typing import Dict

from _scheduled_events.clock import Clock

from .. import systemd

REPEAT_COMPLAINT = 60.0  # seconds after which a lasting trouble is reported again


class Journal:
    """Each trouble is reported once a minute at most, however often it comes and goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next: Dict[str, float] = {}
        self._open: Dict[str, bool] = {}

    def complain(self, about: str, message: str) -> None:
        """Report a trouble."""
        now = self._clock.monotonic()
        if now >= self._next.get(about, 0.0):
            self._next[about] = now + REPEAT_COMPLAINT
            self._open[about] = True
            systemd.log(systemd.WARNING, message)

    def better(self, about: str, message: str) -> None:
        """Report the end of a trouble, if the trouble itself was reported."""
        if self._open.pop(about, False):
            systemd.log(systemd.INFO, message)
