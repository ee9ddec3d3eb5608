# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A clock of a test."""

from _scheduled_events.clock import Clock


class FakeClock:
    """A wall clock and a monotonic one, which go together, and which only sleeping moves.

    :ivar now: the monotonic time; ``epoch``: the wall clock at its beginning.
    :ivar pauses: how long each sleep was.
    :ivar at: what is to happen when its time has come: (time, function).
    """

    def __init__(self, now=1000.0, epoch=1769859200.0):
        self.now, self.epoch = now, epoch
        self.pauses, self.at = [], []

    def monotonic(self):
        return self.now

    def wall(self):
        return self.epoch + self.now

    def boot_id(self):
        return "boot"

    moment, until = Clock.moment, Clock.until

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds
        due = [happen for time, happen in self.at if time <= self.now]
        self.at = [event for event in self.at if event[0] > self.now]
        for happen in due:
            happen()
