# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Emulator time: multiplied, stood still, jumped; and the real time behind it."""

import pytest
from scheduled_events_emulator.clock import Clock, iso, parse_iso


class Real:
    """Real time by hand."""

    def __init__(self):
        self.seconds = 50.0

    def running(self, start, speed):
        return Clock(start, speed, monotonic=lambda: self.seconds, wall=lambda: 9000.0 + self.seconds)


@pytest.mark.parametrize("speed", [0.5, 1, 60, 1000])
def test_time_runs_faster_by_the_given_factor(speed):
    real = Real()
    clock = real.running(100.0, speed)
    real.seconds += 2
    assert clock.now() == 100.0 + 2 * speed


def test_a_running_clock_jumps_and_runs_on():
    real = Real()
    clock = real.running(100.0, 60)
    clock.move_to(1000.0)
    real.seconds += 1
    assert clock.now() == 1060.0


def test_the_real_time_of_a_moment_is_when_it_was_reached():
    real = Real()
    clock = real.running(100.0, 60)
    real.seconds += 10
    assert clock.real_at(400.0) == 9055.0


def test_the_real_time_of_what_a_jump_passed_over_is_the_jump():
    real = Real()
    clock = real.running(100.0, 60)
    real.seconds += 10
    clock.move_to(5000.0)
    assert clock.real_at(4000.0) == 9060.0


def test_a_manual_clock_stands_still_until_moved():
    clock = Clock(100.0, speed=0)
    assert clock.now() == clock.now() == 100.0
    clock.move_to(101.5)
    assert clock.now() == 101.5


@pytest.mark.parametrize("clock", [Clock(100.0, speed=0), Real().running(100.0, 1)])
def test_no_clock_goes_backwards(clock):
    clock.move_to(99.0)
    assert clock.now() >= 100.0


@pytest.mark.parametrize("text", ["2022-04-15T05:20:00Z", "2022-04-15T05:20:00", "2022-04-15T07:20:00+02:00"])
def test_start_times_are_utc_unless_they_say_otherwise(text):
    assert iso(parse_iso(text)) == "2022-04-15T05:20:00.000Z"
