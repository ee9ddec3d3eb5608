# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fact is one line of JSON, whatever its texts hold, and each line is read as it was written."""

import json

import pytest
from _scheduled_events import history
from _scheduled_events.checks import WrongValue
from _scheduled_events.history import Fact, as_json, line_of, parse_line

pytestmark = pytest.mark.edge


def a_fact(**fields):
    return Fact(**dict({"kind": "seen", "time": 1600000000.5, "source": "poller"}, **fields))


def a_line(**fields):
    raw = dict({"version": 1, "kind": "seen", "time": "2020-09-13T12:26:40.500Z", "source": "poller"}, **fields)
    return json.dumps(raw).encode()


def test_the_longest_fact_fits_into_a_line():
    text = "\U0001f600" * 10000
    fields = {name: text for name, kind in Fact.__annotations__.items() if kind is str}
    longest = Fact(**dict(fields, kind="phase_began", time=1e9, source="rolling_maintenance"))
    longest = longest._replace(
        resources=(text,) * 1000, resource_count=10**9, announced_seconds=1e9, measured_seconds=1e9
    )
    assert len(line_of(longest._replace(not_before=1e9))) <= history.MAX_LINE


def test_a_fact_shows_what_is_known_and_its_version():
    fact = a_fact(vm_name="vm1", event_id="A1", not_before=1600000900.0, resources=("vm1",), announced_seconds=-1.0)
    assert as_json(fact) == {
        "version": 1,
        "kind": "seen",
        "time": "2020-09-13T12:26:40.500Z",
        "source": "poller",
        "vm_name": "vm1",
        "event_id": "A1",
        "not_before": "2020-09-13T12:41:40.000Z",
        "resources": ["vm1"],
        "announced_seconds": -1.0,
    }


def test_hostile_text_reaches_no_terminal():
    line = line_of(a_fact(reason="a\x1b[2J\nb\u202e\ud800"))
    assert json.loads(line.decode("utf-8"))["reason"] == "a\ufffd[2J b\ufffd\ufffd"


def test_hostile_text_in_a_file_is_cleaned_when_it_is_read():
    assert parse_line(a_line(reason="a\x1b[2Jb")).reason == "a\ufffd[2Jb"


def test_a_key_of_a_later_release_is_left_out():
    assert parse_line(a_line(colour="blue")) == a_fact()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 10000, "it is not JSON"),
        (b"[]", "expected a dictionary, not []"),
        (b"x" * (history.MAX_LINE + 1), "it has more than 16384 bytes"),
        (a_line(version=2), "version: expected 1, which this release reads, not 2"),
        (a_line(version=True), "version: expected 1, which this release reads, not true"),
        (a_line(kind="rumour"), "kind: expected one of seen, phase_began"),
        (a_line(source="nobody"), "source: expected one of poller, respond"),
        (a_line(time="now"), "time: expected a time from"),
        (a_line(time="2020-02-30T00:00:00.000Z"), "time: expected a time from"),
        (a_line(time=""), "time: expected a time from"),
        (a_line(time=1600000000), "time: expected a time from"),
        (a_line(reason=["a"]), 'reason: expected a text, not ["a"]'),
        (a_line(measured_seconds="long"), 'measured_seconds: expected a number from -1 to 1e+09, not "long"'),
        (a_line(measured_seconds=float("nan")), "it is not JSON"),
        (a_line(resources=[1]), "resources[0]: expected a text, not 1"),
        (a_line(resource_count=-1), "resource_count: expected a whole number from 0 to 1000000000, not -1"),
    ],
)
def test_a_line_that_is_no_fact_is_refused(line, message):
    with pytest.raises(WrongValue) as refused:
        parse_line(line)
    assert str(refused.value).startswith(message)
