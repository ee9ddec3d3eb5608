# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Time zones as tables of offsets from UTC, which a host needs no package for. Private to the collection."""

from __future__ import annotations

import datetime
import functools
import typing as t

import zoneinfo

from ...module_utils._scheduled_events.checks import WrongValue, show
from ...module_utils._scheduled_events.time_windows import DAY, UTC

# The same years at each run, so that a second run of a role changes nothing. After the last, its last offset counts.
YEARS = (2024, 2047)


def with_offsets(windows: t.Any, place: str) -> t.Any:
    """The windows with the offsets of their zones, as a host reads them; what is not a window is left as it is.

    :param place: the name of the windows in messages.
    :raises WrongValue: a zone is not known, or offsets are given.
    """
    if not isinstance(windows, list):
        return windows
    for index, window in enumerate(windows):
        if isinstance(window, dict) and window.get("offsets") is not None:
            raise WrongValue(f"{place}[{index}].offsets is {show(window['offsets'])}, expected none: use timezone")
    return [
        {**window, "offsets": _offsets(f"{place}[{index}].timezone", str(window["timezone"]))}
        if isinstance(window, dict) and window.get("timezone") not in (None, UTC)
        else window
        for index, window in enumerate(windows)
    ]


def rules_with_offsets(rules: t.Any, place: str) -> t.Any:
    """The rules with the offsets of the zones of their windows; see :func:`with_offsets`."""
    return [
        {**rule, "windows": with_offsets(rule["windows"], f"{place}[{index}].windows")} if rule.get("windows") else rule
        for index, rule in enumerate(rules)
    ]


@functools.cache
def _offsets(place: str, name: str) -> str:
    try:
        zone = zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongValue(
            f"{place}: expected a name such as Europe/Berlin that the control node knows, not {name!r}: correct it, or "
            "install the package tzdata for the Python of Ansible"
        ) from None

    def offset(at: int) -> int:
        found = datetime.datetime.fromtimestamp(at, zone).utcoffset()
        return int(found.total_seconds()) if found else 0

    begin, end = (int(datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc).timestamp()) for year in YEARS)
    changes = [(0, offset(begin))]
    for day in range(begin, end, DAY):
        low, high = day, day + DAY
        if offset(high) == offset(low):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        changes.append((high, offset(high)))
    return " ".join(f"{at}={seconds}" for at, seconds in changes)
