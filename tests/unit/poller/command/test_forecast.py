# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preparation takes, by the history, and whether it fits into the notice."""

import pytest
from _scheduled_events.document import EVENT_TYPES
from _scheduled_events.history import Fact, needed, preparations
from scheduled_events_poller.command.forecast import forecast

pytestmark = pytest.mark.edge


def a_phase(began, ended, *, run="1", phase="prepare", outcome="ok", event_id="A"):
    same = {"source": "poller", "run": run, "phase": phase, "event_id": event_id}
    return [
        Fact(kind="phase_began", time=began, **same),
        Fact(kind="phase_ended", time=ended, outcome=outcome, **same),
    ]


def test_a_preparation_lasts_from_its_beginning_to_its_end():
    facts = [*a_phase(100.0, 141.5, run="1"), *a_phase(100.0, 120.0, run="2")]
    assert preparations([facts[0], facts[2], facts[3], facts[1], *a_phase(1.0, 1.0)]) == [20.0, 41.5, 0.0]


@pytest.mark.parametrize(
    "facts",
    [
        a_phase(1.0, 2.0, phase="recover"),
        a_phase(1.0, 2.0, outcome="failed"),
        a_phase(1.0, 2.0)[:1],
        a_phase(1.0, 2.0)[1:],
        a_phase(2.0, 1.0),
    ],
    ids=["another phase", "failed", "no end", "no beginning", "a clock that was set back"],
)
def test_what_is_no_whole_preparation_does_not_count(facts):
    assert preparations(facts) == []


@pytest.mark.parametrize(("seconds", "expected"), [([], None), ([7.0], 7.0), (range(1, 21), 19), (range(1, 101), 95)])
def test_95_percent_of_the_preparations_are_not_longer_than_what_is_needed(seconds, expected):
    assert needed(list(reversed(seconds))) == expected


def test_a_preparation_fits_into_the_notice_less_the_margin():
    found = {each.event_type: (each.given, each.fits) for each in forecast(378.0, margin=10.0)}
    assert tuple(found) == EVENT_TYPES
    assert (found["Redeploy"], found["Preempt"]) == ((590.0, True), (20.0, False))


@pytest.mark.parametrize(("margin", "given"), [(60.0, 30.0), (29.0, 29.0), (16.0, 16.0), (14.0, 16.0)])
def test_a_short_notice_leaves_hooks_as_much_as_the_margin(margin, given):
    assert forecast(20.0, margin=margin, event_types=["Preempt"]) == [("Preempt", 20.0, given)]
