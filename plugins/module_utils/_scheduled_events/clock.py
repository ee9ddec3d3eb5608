# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time as an argument."""

import time
from typing import Callable, NamedTuple


class Clock(NamedTuple):
    """The time, and how to let it pass. Tests have their own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def utc(self) -> str:
        """The time for people."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.wall()))


CLOCK = Clock()
