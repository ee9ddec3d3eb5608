# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time as an argument: clocks, waits, pauses after failures, and leases. All times are in seconds."""

import contextlib
import time
from typing import Any, Callable, Dict, Mapping, NamedTuple, TypeVar

MOST_DOUBLINGS = 32  # more than any limit needs; a number of failures can be anything

Found = TypeVar("Found")


class Moment(NamedTuple):
    """A point in time. ``wall``: since the epoch, and can jump. ``monotonic``: counts within one boot. ``boot_id``:
    empty if it is not known.
    """

    wall: float
    monotonic: float
    boot_id: str

    def since(self, stamp: Mapping[str, Any]) -> float:
        """The time since the moment that was written as ``stamp``; below 0 if the clock went back.

        Within one boot the monotonic clock counts. After a reboot the wall clock counts, which may have been set; the
        result is then at least the time since the boot.

        :raises KeyError, TypeError, ValueError: it is not a moment.
        """
        wall, monotonic = self.wall - float(stamp["wall"]), self.monotonic - float(stamp["monotonic"])
        if not self.boot_id or not stamp["boot_id"]:
            return wall
        return monotonic if stamp["boot_id"] == self.boot_id else max(self.monotonic, wall)


def boot_id() -> str:
    """The kernel's id of this boot. It stays the same when a container starts again; empty where it is not known."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


class Clock(NamedTuple):
    """The time, and how to let it pass. Tests have their own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    boot_id: Callable[[], str] = boot_id

    def utc(self) -> str:
        """The time for people."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.wall()))

    def moment(self) -> Moment:
        return Moment(self.wall(), self.monotonic(), self.boot_id())

    def until(self, look: Callable[[], Found], *, within: float, every: float = 1.0) -> Found:
        """Look until the result is true, or the time is over.

        It looks at least once, and once more at the end of the time unless a look lasts longer.

        :returns: the last result of ``look``.
        """
        give_up_at = self.monotonic() + within
        while True:
            found = look()
            left = give_up_at - self.monotonic()
            if found or left <= 0:
                return found
            self.sleep(min(every, left))


CLOCK = Clock()


def pause_after(failures: int, *, first: float, longest: float) -> float:
    """The time until the next attempt: twice as long with each failure, up to the longest, unless the first is longer.

    :param failures: in a row, before the one that this pause follows.
    """
    return min(first * 2.0 ** min(failures, MOST_DOUBLINGS), max(first, longest))


def lease(seconds: float, now: Moment) -> Dict[str, Any]:
    """The part of a file that says until when something counts. It survives reboots and clocks that are set."""
    return {"at": dict(now._asdict()), "seconds": seconds}


def lease_left(written: Mapping[str, Any], now: Moment) -> float:
    """The time for which a lease still counts; 0 if it has run out, or begins in the future by more than its length.

    :raises KeyError, TypeError, ValueError: it is not a lease.
    """
    seconds = float(written["seconds"])
    age = now.since(written["at"])
    return max(0.0, seconds - max(0.0, age)) if age > -seconds else 0.0
