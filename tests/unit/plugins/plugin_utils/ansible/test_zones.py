# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host knows the hours of a window in any zone, with the offsets that the control node gives it."""

import datetime

import pytest
import zoneinfo
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.module_utils._scheduled_events.checks import check
from plugins.module_utils._scheduled_events.time_windows import DAYS, WINDOWS
from plugins.plugin_utils._ansible.zones import YEARS, rules_with_offsets, with_offsets

# With changes at midnight, of half an hour, at other moments each year, with and without summer time.
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Pacific/Chatham",
    "UTC",
]
BEGIN, END = (datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc).timestamp() for year in YEARS)
MINUTE = 60


def is_open(window, wall):
    """By the zones of Python."""
    now = datetime.datetime.fromtimestamp(wall, zoneinfo.ZoneInfo(window["timezone"]))
    minute = f"{now:%H:%M}"
    today, yesterday = DAYS[now.weekday()], DAYS[now.weekday() - 1]
    if window["from"] < window["to"]:
        return today in window["days"] and window["from"] <= minute < window["to"]
    return (today in window["days"] and minute >= window["from"]) or (
        yesterday in window["days"] and minute < window["to"]
    )


TIMES = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.sampled_from([0, 10, 30]))
CHANGES = [
    datetime.datetime(2026, 3, 29, 1, tzinfo=datetime.timezone.utc).timestamp(),
    datetime.datetime(2026, 10, 25, 1, tzinfo=datetime.timezone.utc).timestamp(),
    datetime.datetime(2040, 3, 11, 7, tzinfo=datetime.timezone.utc).timestamp(),
]


@settings(max_examples=5 * settings.default.max_examples)
@given(
    window=st.fixed_dictionaries(
        {
            "days": st.lists(st.sampled_from(DAYS), min_size=1, unique=True),
            "from": TIMES,
            "to": TIMES,
            "timezone": st.sampled_from(ZONES),
        }
    ),
    wall=st.floats(BEGIN, END - 30 * 86400)
    | st.builds(lambda change, hours: change + hours * 3600.0, st.sampled_from(CHANGES), st.integers(-60, 60)),
)
def test_a_window_is_open_and_opens_as_the_clocks_of_its_zone_say(window, wall):
    [found] = check(with_offsets([window], "windows"), WINDOWS, "windows")
    assert found.is_open(wall) == is_open(window, wall)
    if not found.is_open(wall):
        opening = found.opens_after(wall)
        assert is_open(window, opening)
        assert not is_open(window, opening - 1)
        between = range(int(wall), int(opening), 10 * MINUTE)
        assert not any(is_open(window, moment) for moment in between), "it opened before"


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../etc/passwd", "Europe", ""])
def test_a_zone_that_the_control_node_does_not_know_is_refused(name):
    with pytest.raises(ValueError, match=r"rules\[1\]\.windows\[0\]\.timezone: expected a name such as Europe/Berlin"):
        rules_with_offsets([{"action": "hold"}, {"windows": [{"timezone": name}]}], "rules")


def test_offsets_are_not_taken_from_the_variables_of_a_user():
    with pytest.raises(
        ValueError, match=r'\Arules\[0\]\.windows\[1\]\.offsets is "0=3600", expected none: use timezone\Z'
    ):
        rules_with_offsets([{"windows": [{"offsets": None}, {"offsets": "0=3600"}]}], "rules")


@pytest.mark.parametrize("windows", [None, [], [{}], [{"timezone": "UTC"}], [{"timezone": None}], "nightly", ["night"]])
def test_windows_without_a_zone_are_left_as_they_are(windows):
    assert with_offsets(windows, "windows") == windows


def test_a_table_of_a_zone_is_the_same_at_each_run():
    [first] = with_offsets([{"timezone": "Europe/Berlin"}], "a")
    [second] = with_offsets([{"timezone": "Europe/Berlin"}], "b")
    assert first == second
    assert first["offsets"].startswith("0=3600 1711846800=7200 1729990800=3600 ")
