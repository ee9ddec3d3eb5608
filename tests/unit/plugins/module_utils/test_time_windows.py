# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a window of the week is open, and when it opens next."""

import datetime

import pytest
from _scheduled_events.checks import WrongValue, check
from _scheduled_events.time_windows import WINDOWS, next_opening

SUMMER, WINTER = 1774746000, 1792890000  # in Berlin in 2026, at 01:00 UTC
BERLIN = f"0=3600 {SUMMER}=7200 {WINTER}=3600"


def window(**fields):
    named = {"from_": "from"}
    [found] = check([{named.get(name, name): value for name, value in fields.items()}], WINDOWS, "windows")
    return found


def wall(text):
    return datetime.datetime.strptime(text + " +0000", "%Y-%m-%d %H:%M %z").timestamp()


def opens(found, text):
    return datetime.datetime.fromtimestamp(found.opens_after(wall(text)), datetime.timezone.utc).strftime(
        "%Y-%m-%d %H:%M"
    )


@pytest.mark.parametrize(
    ("fields", "moment", "expected"),
    [
        ({}, "2026-06-01 00:00", True),
        ({"from_": "22:00", "to": "05:00"}, "2026-06-01 22:00", True),
        ({"from_": "22:00", "to": "05:00"}, "2026-06-01 04:59", True),
        ({"from_": "22:00", "to": "05:00"}, "2026-06-01 05:00", False),
        ({"from_": "22:00", "to": "05:00", "days": ["Mon"]}, "2026-06-02 04:59", True),
        ({"from_": "22:00", "to": "05:00", "days": ["Mon"]}, "2026-06-01 04:59", False),
        ({"from_": "08:00", "to": "09:00", "days": ["Mon"]}, "2026-06-02 08:30", False),
        ({"from_": "08:00", "to": "08:00", "days": ["Mon"]}, "2026-06-02 07:59", True),
        ({"from_": "08:00", "to": "24:00"}, "2026-06-02 23:59", True),
        ({"from_": "23:59", "to": "24:00"}, "2026-06-02 23:59", True),
        ({"from_": "22:00", "to": "23:00", "timezone": "Europe/Berlin", "offsets": BERLIN}, "2026-01-01 21:00", True),
        ({"from_": "22:00", "to": "23:00", "timezone": "Europe/Berlin", "offsets": BERLIN}, "2026-06-01 21:00", False),
        ({"from_": "22:00", "to": "23:00", "timezone": "Europe/Berlin", "offsets": BERLIN}, "2026-06-01 20:00", True),
    ],
)
def test_a_window_is_open_at(fields, moment, expected):
    assert window(**fields).is_open(wall(moment)) is expected


@pytest.mark.parametrize(
    ("fields", "moment", "expected"),
    [
        ({"from_": "22:00", "to": "05:00"}, "2026-06-01 05:00", "2026-06-01 22:00"),
        ({"from_": "22:00", "to": "05:00", "days": ["Mon"]}, "2026-06-02 05:00", "2026-06-08 22:00"),
        # On the day on which the clocks go forward from 02:00 to 03:00, the window opens at 03:00.
        (
            {"from_": "02:30", "to": "04:00", "timezone": "Europe/Berlin", "offsets": BERLIN},
            "2026-03-29 00:00",
            "2026-03-29 01:00",
        ),
        # A window within the hour that does not exist opens a day later.
        (
            {"from_": "02:10", "to": "02:50", "timezone": "Europe/Berlin", "offsets": BERLIN},
            "2026-03-29 00:00",
            "2026-03-30 00:10",
        ),
        (
            {"from_": "02:10", "to": "02:50", "days": ["Sun"], "timezone": "Europe/Berlin", "offsets": BERLIN},
            "2026-03-29 00:00",
            "2026-04-05 00:10",
        ),
        # On the day on which the clocks go back from 03:00 to 02:00, it opens twice.
        (
            {"from_": "02:10", "to": "02:50", "timezone": "Europe/Berlin", "offsets": BERLIN},
            "2026-10-25 00:55",
            "2026-10-25 01:10",
        ),
    ],
)
def test_a_window_opens_next_at(fields, moment, expected):
    assert opens(window(**fields), moment) == expected


def test_the_window_that_opens_first_counts():
    late, early = window(from_="23:00"), window(from_="22:00")
    assert next_opening([late, early], wall("2026-06-01 10:00")) == (wall("2026-06-01 22:00"), early)


def test_a_window_that_is_open_opens_now():
    now = wall("2026-06-01 22:30")
    assert next_opening([window(from_="23:00"), window(from_="22:00")], now)[0] == now


def test_without_windows_none_opens():
    assert next_opening([], 0.0) is None


def test_a_window_that_never_opens_is_refused():
    with pytest.raises(WrongValue, match=r'^windows\[0\]: "24:00" to "00:00" has no length. Give other times$'):
        window(from_="24:00", to="00:00")


@pytest.mark.parametrize("days", [["Mon", "Tue"], "Mon,Tue", "Mon, Tue", ["Mon", " Tue"]])
def test_days_are_a_list_or_separated_by_commas(days):
    assert window(days=days).days == ("Mon", "Tue")


@pytest.mark.parametrize("days", ["", [], {"Mon": 1}, 1, "Mon,", ["Mon", 2]])
def test_what_names_no_days_is_refused(days):
    with pytest.raises(WrongValue, match=r"^windows\[0\]\.days(\[[01]\])?: expected "):
        window(days=days)


def test_a_window_shows_its_days_times_and_zone():
    assert str(window(days=["Mon", "Tue"], from_="22:00", to="05:30")) == "Mon, Tue 22:00 to 05:30 UTC"
    assert str(window()) == "every day 00:00 to 24:00 UTC"
