# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Windows of the week in which a maintenance suits the owner. The time is an argument: no clock, no I/O.

Python 3.6 has no time zones. So the control node gives each window the offsets of its zone from UTC for decades. A rule
of POSIX such as ``CET-1CEST,M3.5.0,M10.5.0/3`` would be shorter, but wrong for zones such as Africa/Casablanca.
"""

import re
from bisect import bisect
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Tuple

from .checks import Kind, WrongValue, check_fields, converted, list_of, show, text, words

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
UTC = "UTC"
DAY = 86400
_AHEAD = 16  # days in which each window opens, even if the clocks of its zone leave one day out
_THURSDAY = 3  # the first day of the epoch


class TimeWindow(NamedTuple):
    """``begins`` and ``ends`` are seconds after the midnight before, by the clocks of the zone. A window that ends no
    later than it begins ends on the next day. ``offsets``: seconds from UTC, each with the moment from which it counts,
    in seconds since the epoch; the first counts before its moment, too."""

    days: Tuple[str, ...] = DAYS
    begins: int = 0
    ends: int = DAY
    timezone: str = UTC
    offsets: Tuple[Tuple[int, int], ...] = ((0, 0),)

    def __str__(self) -> str:
        days = "every day" if set(self.days) == set(DAYS) else ", ".join(self.days)
        return f"{days} {_clock(self.begins)} to {_clock(self.ends)} {self.timezone}"

    def is_open(self, wall: float) -> bool:
        """Whether the window is open at ``wall``, in seconds since the epoch."""
        day, second = divmod(wall + self.offsets[self._index(wall)][1], DAY)
        if self.begins < self.ends:
            return self._has(day) and self.begins <= second < self.ends
        return (second >= self.begins and self._has(day)) or (second < self.ends and self._has(day - 1))

    def opens_after(self, wall: float) -> float:
        """When it opens next, in seconds since the epoch, if it is not open at ``wall``."""
        changes = self.offsets[self._index(wall - DAY) : self._index(wall + _AHEAD * DAY) + 1]
        today = wall // DAY
        moments = {(today + day) * DAY + self.begins - offset for day in range(-1, _AHEAD) for _at, offset in changes}
        moments.update(float(at) for at, _offset in changes)  # clocks that are set can skip the beginning
        return min(moment for moment in moments if moment > wall and self.is_open(moment))

    def _index(self, wall: float) -> int:
        return max(0, bisect(self.offsets, (wall, DAY)) - 1)

    def _has(self, day: float) -> bool:
        return DAYS[int(day + _THURSDAY) % 7] in self.days


def next_opening(windows: Iterable[TimeWindow], wall: float) -> Optional[Tuple[float, TimeWindow]]:
    """When the first of the windows opens, and which; ``wall`` itself if one is open, ``None`` without any."""
    moments = [(wall if each.is_open(wall) else each.opens_after(wall), each) for each in windows]
    return min(moments, key=lambda moment: moment[0]) if moments else None


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}"


def _second(value: Any) -> int:
    found = re.match(r"(\d\d):(\d\d)\Z", value, re.ASCII)
    if found is None or int(found.group(2)) > 59 or int(found.group(1)) * 60 + int(found.group(2)) > 24 * 60:
        raise ValueError
    return int(found.group(1)) * 3600 + int(found.group(2)) * 60


def _offsets(value: Any) -> Sequence[Tuple[int, int]]:
    pairs = [(int(at), int(offset)) for at, offset in (pair.split("=") for pair in value.split())]
    if not pairs or pairs != sorted(pairs) or any(abs(offset) > DAY for _at, offset in pairs):
        raise ValueError
    return tuple(pairs)


_TIME = converted('a time in quotes from "00:00" to "24:00"', _second)
_FIELDS = {
    "days": words(*DAYS),
    "from": _TIME,
    "to": _TIME,
    "timezone": text("the name of a time zone such as Europe/Berlin", longest=64),
    "offsets": converted('offsets such as "0=3600 1774746000=7200"', _offsets),
}


def _window(value: Any, place: str) -> TimeWindow:
    given = check_fields(value, _FIELDS, place=place)
    if given.get("timezone", UTC) != UTC and "offsets" not in given:
        raise WrongValue(f"{place}.timezone: expected UTC without offsets, not {show(given['timezone'])}: add them")
    names = {"from": "begins", "to": "ends"}
    window = TimeWindow(**{names.get(name, name): found for name, found in given.items()})
    if (window.begins, window.ends) == (DAY, 0):  # it would never open
        raise WrongValue(f'{place}: "24:00" to "00:00" has no length. Give other times')
    return window


WINDOW = Kind("a window", _window)
WINDOWS = list_of(WINDOW, "windows")
