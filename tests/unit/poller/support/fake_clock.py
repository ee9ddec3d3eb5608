# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A clock of a test."""

from _scheduled_events.clock import Clock


class FakeClock:
    """A wall clock and a monotonic one, which go together, and which only sleeping moves."""

    def __init__(self, now=1769860200.0):
        self.now = now

    def wall(self):
        return self.now

    monotonic, until = wall, Clock.until

    def sleep(self, seconds):
        self.now += seconds
