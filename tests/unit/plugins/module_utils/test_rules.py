# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.checks import WrongValue
from _scheduled_events.document import TYPES, parse
from _scheduled_events.rules import decide, parse_rules

from .conftest import document_text, event


def read(**fields):
    return parse(document_text(event(**fields)), api_version="2020-07-01").events[0]


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({"EventType": "Freeze", "DurationInSeconds": 0}, "approve"),
        ({"EventType": "Freeze", "DurationInSeconds": 5}, "approve"),
        ({"EventType": "Freeze", "DurationInSeconds": 8}, "approve"),
        ({"EventType": "Freeze", "DurationInSeconds": 9}, "prepare"),
        ({"EventType": "Freeze", "DurationInSeconds": -1}, "prepare"),
        ({"EventType": "Freeze"}, "prepare"),
        ({"EventType": "Reboot", "DurationInSeconds": 5}, "prepare"),
        ({"EventType": "SomethingNew"}, "prepare"),
    ],
)
def test_by_default_everything_is_prepared_and_one_rule_approves_short_freezes(fields, action):
    assert decide(read(**fields), ()) == "prepare"
    rule = {"event_types": ["Freeze"], "min_duration": 0, "max_duration": 8, "action": "approve"}
    assert decide(read(**fields), parse_rules([rule])) == action


def test_the_first_rule_that_matches_wins():
    rules = parse_rules([{"event_types": ["Reboot"], "action": "hold"}, {"action": "ignore"}])
    assert decide(read(EventType="Reboot"), rules) == "hold"
    assert decide(read(EventType="Freeze"), rules) == "ignore"


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ({"event_types": ["reboot"]}, {"EventType": "Reboot"}, {"EventType": "Freeze"}),
        ({"event_types": ["Redeploy", " Reboot"]}, {"EventType": "Reboot"}, {"EventType": "Freeze"}),
        ({"event_sources": ["user"]}, {"EventSource": "User"}, {"EventSource": "Platform"}),
        ({"event_sources": ["User"]}, {"EventSource": "User"}, {}),
        ({"event_statuses": ["started"]}, {"EventStatus": "Started"}, {"EventStatus": "Scheduled"}),
        ({"min_duration": 10}, {"DurationInSeconds": 10}, {"DurationInSeconds": 9}),
        ({"max_duration": 10}, {"DurationInSeconds": 10}, {"DurationInSeconds": 11}),
        ({"max_duration": 10}, {"DurationInSeconds": 0}, {"DurationInSeconds": -1}),
        ({"min_duration": 0}, {"DurationInSeconds": 0}, {}),
        ({"max_resources": 1}, {"Resources": ["vm1"]}, {"Resources": ["vm1", "vm2"]}),
    ],
)
def test_each_condition_distinguishes_events(condition, matching, other):
    rules = parse_rules([dict(condition, action="hold")])
    assert decide(read(**matching), rules) == "hold"
    assert decide(read(**other), rules) == "prepare"


def test_a_condition_without_a_value_is_none():
    assert decide(read(), parse_rules([{"event_types": None, "max_duration": None, "action": "ignore"}])) == "ignore"


def test_a_lead_time_is_more_than_nothing_and_at_most_30_days():
    assert parse_rules([{"lead_time": 0.5, "action": "prepare"}])[0].lead_time == 0.5
    assert parse_rules([{"lead_time": 30 * 24 * 3600, "action": "prepare"}])[0].lead_time == 2592000.0


def test_an_empty_list_has_no_rule():
    assert parse_rules([]) == ()


NESTED = []
for _level in range(2000):  # more than Python can follow
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "rules: expected a list of rules, not {}"),
        (None, "rules: expected a list of rules, not null"),
        (["hold"], 'rules[0]: expected a dictionary, not "hold"'),
        (
            [{"action": "hold"}, {"event_type": "Freeze", "action": "hold"}],
            "rules[1].event_type: unknown key; allowed are event_types, event_sources, event_statuses, min_duration, "
            "max_duration, max_resources, action, lead_time, windows",
        ),
        ([{}], "rules[0].action: it is missing; expected one of prepare, approve, ignore, hold"),
        (
            [{"action": "aprove"}],
            'rules[0].action: expected one of prepare, approve, ignore, hold, not "aprove"',
        ),
        (
            [{"event_types": ["Rebot"], "action": "hold"}],
            f'rules[0].event_types[0]: expected one of {", ".join(TYPES)}, not "Rebot"',
        ),
        (
            [{"event_sources": {"User": 1}, "action": "hold"}],
            'rules[0].event_sources: expected a list of Platform, User (1 or more), not {"User": 1}',
        ),
        (
            [{"event_statuses": [], "action": "hold"}],
            "rules[0].event_statuses: expected a list of Scheduled, Started, Advisory (1 or more), not []",
        ),
        (
            [{"windows": [], "action": "hold"}],
            "rules[0].windows: expected a list of windows (1 or more), not []",
        ),
        (
            [{"max_duration": -1, "action": "hold"}],
            "rules[0].max_duration: expected a whole number, 0 or more, not -1",
        ),
        (
            [{"max_resources": True, "action": "hold"}],
            "rules[0].max_resources: expected a whole number, 1 or more, not true",
        ),
        (
            [{"min_duration": "5", "action": "hold"}],
            'rules[0].min_duration: expected a whole number, 0 or more, not "5"',
        ),
        (
            [{"lead_time": "soon", "action": "hold"}],
            'rules[0].lead_time: expected seconds above 0, 2592000 at most, or announced, not "soon"',
        ),
        (
            [{"max_resources": 0, "action": "hold"}],
            "rules[0].max_resources: expected a whole number, 1 or more, not 0",
        ),
        (
            [{"lead_time": 0, "action": "hold"}],
            "rules[0].lead_time: expected seconds above 0, 2592000 at most, or announced, not 0",
        ),
        (
            [{"lead_time": 10**400, "action": "hold"}],
            "rules[0].lead_time: expected seconds above 0, 2592000 at most, or announced, "
            'not "(cut: longer than 200 characters)"',
        ),
        (
            [{"lead_time": 2592001, "action": "hold"}],
            "rules[0].lead_time: expected seconds above 0, 2592000 at most, or announced, not 2592001",
        ),
        (
            [{"lead_time": True, "action": "hold"}],
            "rules[0].lead_time: expected seconds above 0, 2592000 at most, or announced, not true",
        ),
        (
            [{"min_duration": 9, "max_duration": 8, "action": "approve"}],
            "rules[0].max_duration: expected min_duration or more, not 8: exchange them",
        ),
        (
            [{"event_types": ["Freeze"], "action": "approve"}, {"action": "ignore"}, {"action": "hold"}],
            "rules[1]: without a condition, expected it behind all others: move it there",
        ),
        (
            [{"lead_time": 60, "action": "prepare"}, {"max_resources": 1, "action": "hold"}],
            "rules[0]: without a condition, expected it behind all others: move it there",
        ),
        (
            [{"lead_time": 60, "action": "approve"}],
            "rules[0]: expected no lead_time and no windows with the action approve: take them out",
        ),
        (
            [{"lead_time": "announced", "windows": [{}], "action": "prepare"}],
            "rules[0]: expected no windows with the lead_time announced: take one of them out",
        ),
        (
            [{"windows": [{"days": ["Monday"]}], "action": "hold"}],
            'rules[0].windows[0].days[0]: expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun, not "Monday"',
        ),
        (
            [{"windows": [{"from": "1320"}], "action": "hold"}],
            'rules[0].windows[0].from: expected a time in quotes from "00:00" to "24:00", not "1320"',
        ),
        (
            [{"windows": [{"to": "24:01"}], "action": "hold"}],
            'rules[0].windows[0].to: expected a time in quotes from "00:00" to "24:00", not "24:01"',
        ),
        (
            [{"windows": [{"timezone": "Europe/Berlin"}], "action": "hold"}],
            'rules[0].windows[0].timezone: expected UTC without offsets, not "Europe/Berlin": add them',
        ),
        (
            [{"windows": [{"offsets": "5=3600 4=0"}], "action": "hold"}],
            'rules[0].windows[0].offsets: expected offsets such as "0=3600 1774746000=7200", not "5=3600 4=0"',
        ),
        pytest.param(
            [{"min_duration": NESTED, "action": "hold"}],
            'rules[0].min_duration: expected a whole number, 0 or more, not "(cut: nested deeper than 32 levels)"',
            id="nested",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_what_is_allowed(value, message):
    with pytest.raises(WrongValue) as caught:
        parse_rules(value)
    assert str(caught.value) == message
