# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.clock import Clock, Moment, boot_id, lease, lease_left, pause_after

NOW = Moment(wall=1800000000.0, monotonic=1000.0, boot_id="boot1")


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0.5), (1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (5, 5.0), (10**9, 5.0)]
)
def test_a_pause_doubles_with_each_failure_up_to_the_longest(failures, pause):
    assert pause_after(failures, first=0.5, longest=5.0) == pause


@pytest.mark.parametrize("failures", [0, 1, 10**9])
def test_a_first_pause_that_is_longer_than_the_longest_stays(failures):
    assert pause_after(failures, first=8.0, longest=5.0) == 8.0


# Waiting


def looks(clock, *results):
    """What is found by looks at these results, how many were made, and the time that they took."""
    left = list(results)
    found = Clock(monotonic=clock.monotonic, sleep=clock.sleep).until(lambda: left.pop(0), within=5.0, every=2.0)
    return found, len(results) - len(left), clock.now - 100.0


def test_a_wait_ends_with_the_first_true_result(clock):
    assert looks(clock, "", "found", "later") == ("found", 2, 2.0)


def test_a_wait_looks_a_last_time_at_its_end_and_returns_what_it_finds_then(clock):
    assert looks(clock, "", "", "", "found") == ("found", 4, 5.0)


def test_a_wait_whose_time_is_over_returns_the_last_result(clock):
    assert looks(clock, 0, (), None, "") == ("", 4, 5.0)


def test_a_wait_without_time_looks_once(clock):
    assert Clock(monotonic=clock.monotonic, sleep=clock.sleep).until(lambda: "", within=0.0) == ""
    assert clock.pauses == []


# Ages and leases


@pytest.mark.parametrize(
    ("stamp", "age"),
    [
        ({"wall": 1799999000.0, "monotonic": 940.0, "boot_id": "boot1"}, 60.0),
        ({"wall": 1799998000.0, "monotonic": 77777.0, "boot_id": "boot0"}, 2000.0),
        ({"wall": 1799999900.0, "monotonic": 77777.0, "boot_id": "boot0"}, 1000.0),
        ({"wall": 1900000000.0, "monotonic": 77777.0, "boot_id": "boot0"}, 1000.0),
        ({"wall": 1799999000.0, "monotonic": 940.0, "boot_id": ""}, 1000.0),
    ],
    ids=[
        "in one boot, the wall clock does not count",
        "after a reboot it does",
        "and is at least as old as the boot",
        "also when the clock was set back",
        "without a boot id, the wall clock counts",
    ],
)
def test_ages_do_not_depend_on_a_clock_that_is_set(stamp, age):
    assert NOW.since(stamp) == age


def later(seconds, *, set_by=0.0, boot="boot1"):
    return Moment(NOW.wall + seconds + set_by, NOW.monotonic + seconds if boot == "boot1" else 1.0, boot)


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (later(0), 60.0),
        (later(45), 15.0),
        (later(60), 0.0),
        (later(45, set_by=-86400.0), 15.0),
        (later(45, set_by=86400.0), 15.0),
        (later(45, boot="boot2"), 15.0),
        (later(75, boot="boot2"), 0.0),
    ],
    ids=["at once", "later", "at its end", "clock set back", "clock set forward", "after a reboot", "long after it"],
)
def test_a_lease_lasts_its_seconds_whatever_happens_to_the_clock(now, left):
    assert lease_left(lease(60.0, NOW), now) == left


@pytest.mark.parametrize(("ahead", "left"), [(59.0, 60.0), (61.0, 0.0)], ids=["two machines", "a clock set back"])
def test_without_a_boot_id_a_lease_of_the_future_counts_only_as_far_as_clocks_differ(ahead, left):
    written = lease(60.0, NOW._replace(wall=NOW.wall + ahead, boot_id=""))
    assert lease_left(written, NOW) == left


@pytest.mark.parametrize("written", [{}, {"seconds": 5}, {"seconds": "x", "at": {}}, {"seconds": 5, "at": {"wall": 1}}])
def test_what_is_not_a_lease_is_an_error(written):
    with pytest.raises((KeyError, TypeError, ValueError)):
        lease_left(written, NOW)


def test_the_id_of_the_boot_is_that_of_the_kernel():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        assert boot_id() == file.read().strip()
    assert Clock(boot_id=lambda: "b").moment().boot_id == "b"
