# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM owes by its history, when its state was lost."""

import json

import pytest
from _scheduled_events import condition, engine, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse as parse_document
from _scheduled_events.history import DRILL, POLLER, RESPOND, Fact
from _scheduled_events.lost_state import state_from
from _scheduled_events.state import UNKNOWN, dump, parse
from _scheduled_events.terms import Approve, Clear, HookResult, Retry, RunHooks

A, B = "aaaaaaaa-0000-0000-0000-00000000000a", "bbbbbbbb-0000-0000-0000-00000000000b"
NOW = Moment(1600000000.0, 100.0, "boot 3")
CONFIG = terms.Config("vm1", frozenset(["prepare", "started", "recover"]))


def fact(kind, event_id=A, boot=3, **more):
    known = {"vm_name": "vm1", "boot_id": f"boot {boot}", "event_type": "Reboot", **more}
    return Fact(kind, NOW.wall - 60.0, known.pop("source", POLLER), event_id=event_id.upper(), **known)


def phase(kind, name, event_id=A, serial=7, **more):
    return fact("phase_" + kind, event_id, phase=name, run=f"{event_id}.{name}.{serial}", **more)


SEEN = fact("seen", resources=("vm1", "vm2"), not_before=NOW.wall + 600.0)
PREPARED = [SEEN, phase("began", "prepare"), phase("ended", "prepare", outcome="ok")]
MANY = fact("seen", resources=("a", "b"), resource_count=4)
RETURNED = fact("returned")


def lost(*facts, **more):
    return state_from(facts, now=NOW, hook_timeout=600.0, **more)


def conditions(state):
    return {key: condition.condition(state, key, CONFIG).kind for key in state.events}


def document(*ids):
    events = [
        {"EventId": each, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]} for each in ids
    ]
    return parse_document(json.dumps({"DocumentIncarnation": 1, "Events": events}), api_version="2020-07-01")


def step(state, read, *results):
    state, actions = engine.step(state, read, results, NOW, CONFIG)
    return state, [action for action in actions if isinstance(action, (RunHooks, Approve))]


@pytest.mark.parametrize(
    "facts",
    [
        PREPARED,
        PREPARED[:2],
        [phase("ended", "prepare", outcome="failed")],
        [SEEN, phase("began", "started")],
        [*PREPARED, fact("acknowledged"), fact("started"), fact("over")],
        [*PREPARED, phase("began", "recover"), phase("ended", "recover", outcome="failed")],
        [*PREPARED, phase("began", "recover", boot=2)],
        [*PREPARED, phase("began", "recover", serial=10**14 + 1)],
        [*PREPARED, fact("phase_began", phase="recover", run="../../etc/passwd")],
        [*PREPARED, fact("phase_began", phase="recover", run=f"{B}.recover.7")],
        [*PREPARED, fact("phase_began", phase="recover", run=f"{A}.prepare.7")],
        [*PREPARED, RETURNED, *PREPARED],
        [each._replace(boot_id="boot 2") for each in PREPARED],
        [each._replace(boot_id="boot 1") for each in PREPARED] + [fact("over", boot=2)],
    ],
)
def test_an_event_whose_hooks_ran_and_that_has_not_returned_is_a_failed_recovery(facts):
    state = lost(*facts)
    assert parse(dump(state)) == state
    assert conditions(state) == {A: condition.RECOVERY_FAILED}
    assert state.unannounced == UNKNOWN
    known = {name: value for name, value in state.events[A].runs["recover"]._asdict().items() if value}
    assert set(known) == {"request_id", "serial", "first", "outcome", "reason", "issued"}  # no time, and no boot


@pytest.mark.parametrize(
    ("facts", "status", "not_before", "resources"),
    [
        (PREPARED, "Scheduled", NOW.wall + 600.0, ("vm1", "vm2")),
        ([*PREPARED, fact("started", not_before=NOW.wall)], "Started", None, ("vm1", "vm2")),
        ([phase("began", "prepare")], "Scheduled", None, ("vm1",)),
        ([fact("started", not_before=NOW.wall), phase("began", "started")], "Started", None, ("vm1",)),
        ([MANY, *PREPARED[1:]], "Scheduled", None, ("a", "b", "vm1", "?")),  # a fact has the first names only
        ([MANY._replace(resources=("a", "VM1")), *PREPARED[1:]], "Scheduled", None, ("a", "VM1", "?", "?")),
    ],
)
def test_a_lost_event_is_as_the_history_has_it(facts, status, not_before, resources):
    event = lost(*facts).events[A].event
    assert (event.event_id, event.event_type, event.event_status) == (A.upper(), "Reboot", status)
    assert (event.not_before and event.not_before.timestamp(), event.resources) == (not_before, resources)


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [SEEN, fact("held", reason="nothing prepares"), fact("over")],
        [*PREPARED, fact("over"), RETURNED],
        [*PREPARED, phase("began", "recover"), phase("ended", "recover", outcome="ok")],  # the next fact was cut
        [phase("began", "advised"), phase("began", "failed")],
        [each._replace(boot_id="boot 1") for each in PREPARED] + [fact("seen", B, boot=2)],
        [each._replace(source=RESPOND) for each in PREPARED],
        [each._replace(source=DRILL) for each in PREPARED],
        [fact("phase_began", "", phase="prepare")],
    ],
)
def test_an_event_that_owes_nothing_is_not_in_the_state(facts):
    assert lost(*facts).events == {}


def test_the_boot_before_is_the_last_one_with_a_fact():
    facts = [phase("began", "prepare", A, boot=1), phase("began", "prepare", B, boot=2)]
    assert set(lost(*facts).events) == {B}
    assert set(lost(*facts, phase("began", "prepare", A, boot=3)).events) == {A, B}


def test_the_event_is_shown_as_the_history_has_it():
    event = lost(*PREPARED).events[A].event
    assert (event.event_id, event.event_type, event.resources) == (A.upper(), "Reboot", ("vm1", "vm2"))
    assert event.not_before.timestamp() == NOW.wall + 600.0


def test_an_operator_has_it_recovered():
    state, actions = step(lost(*PREPARED), document(), Retry(A))
    assert [action.phase for action in actions] == ["recover"]
    state, _actions = step(state, document(), HookResult(actions[0].request_id, "ok"))
    assert state.events == {}


def test_it_stays_visible_where_no_recover_hooks_are_configured_now():
    config = CONFIG._replace(hooks=frozenset(["prepare"]))
    state, _actions = engine.step(lost(*PREPARED), document(), [], NOW, config)
    assert condition.condition(state, A, config).kind == condition.RECOVERY_FAILED


@pytest.mark.parametrize("key", [A, ""])
def test_an_operator_clears_it(key):
    assert step(lost(*PREPARED), document(), Clear(key))[0].events == {}


def test_an_event_that_is_announced_again_is_prepared_again():
    state, actions = step(lost(*PREPARED), document(A))
    assert [action.phase for action in actions] == ["prepare"]
    _state, actions = step(state, document(A), HookResult(actions[0].request_id, "ok"))
    assert [type(action) for action in actions] == [Approve]


def test_no_result_of_an_earlier_run_counts():
    state, actions = step(lost(*PREPARED), document(A))
    assert step(state, document(A), HookResult(f"{A}.prepare.7", "ok"))[1] == []
    assert actions[0].request_id != f"{A}.prepare.7"


def test_a_recovery_that_runs_is_waited_for_before_anything_is_acknowledged():
    state = lost(*PREPARED, phase("began", "recover"))
    assert conditions(state) == {A: condition.RUNS}
    state, [prepare] = step(state, document(B))
    state, actions = step(state, document(B), HookResult(prepare.request_id, "ok"))
    assert actions == []
    state, [again] = step(state, document(B), HookResult(f"{A}.recover.7", "ok"))
    assert (again.event["event_id"].lower(), again.phase, set(state.events)) == (B, "prepare", {B})
    assert [type(action) for action in step(state, document(B), HookResult(again.request_id, "ok"))[1]] == [Approve]


@pytest.mark.parametrize("number", [int((NOW.wall + 86400.0) * 1000), 10**14])  # the second one: in the year 5138
def test_a_recovery_that_began_before_the_clock_was_set_back_is_waited_for_and_no_number_comes_again(number):
    state = lost(*PREPARED, phase("began", "recover", serial=number))
    assert conditions(state) == {A: condition.RUNS}
    assert state.serial > number


def test_without_a_readable_history_nothing_is_acknowledged_until_an_operator_has_looked_at_the_vm():
    state = lost(unread="2 lines left out")
    assert parse(dump(state)) == state
    state, [prepare] = step(state, document(B))
    state, actions = step(state, document(B), HookResult(prepare.request_id, "ok"))
    assert (actions, conditions(state)) == ([], {B: condition.STATE_LOST})
    state, [again] = step(engine.resume(state), document(B), Clear(""))
    assert (state.lost, again.phase) == ("", "prepare")
    assert [type(action) for action in step(state, document(B), HookResult(again.request_id, "ok"))[1]] == [Approve]


def test_clearing_all_leaves_what_is_announced_or_runs():
    state, _actions = step(lost(*PREPARED), document(B))
    state, _actions = step(state, document(B), Clear(""))
    assert set(state.events) == {B}


def test_what_is_not_known_is_not_cleared_with_one_event():
    state, _actions = step(lost(*PREPARED, unread="2 lines left out"), document(), Clear(A))
    assert (state.events, state.lost, state.withheld) == ({}, "2 lines left out", True)
