# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state's text: what is read again, what release 0.1.0 left behind, and what is refused."""

import glob
import json
import os

import pytest
from _scheduled_events import engine, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse as parse_document
from _scheduled_events.state import UNKNOWN, Failure, State, StateError, StateFile, dump, parse
from _scheduled_events.terms import ApprovalResult, HookResult, NotAsked

# States that the polling unit of 0.1.0 wrote, each in the file of its name.
OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "states_0_1_0")
A, B = "c7061bac-afdc-4513-b24b-aa5f13a16123", "51941b56-8080-45ac-81ae-8bda818f5958"
ALL = frozenset(["prepare", "started", "recover", "advised", "failed"])
CONFIG = terms.Config("vm1", ALL)


def old_text(name):
    with open(os.path.join(OLD, name + ".json"), encoding="utf-8") as file:
        return file.read()


def old_state(name):
    return engine.resume(parse(old_text(name)))


def document(*events):
    return parse_document(json.dumps({"DocumentIncarnation": 8, "Events": list(events)}), api_version="2020-07-01")


def event(event_id=A, **more):
    return dict({"EventId": event_id, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}, **more)


def now(monotonic=200.0, boot_id="4f2f0c8e"):
    return Moment(1600000000.0 + monotonic, monotonic, boot_id)


def begun(actions):
    return [action.request_id for action in actions if isinstance(action, terms.RunHooks)]


def a_rich_state():
    """One with every kind of entry: runs that run, failed, and could not be asked for, failures, a refused attempt."""
    raw = event(
        NotBefore="Sun, 13 Sep 2020 12:46:40 GMT", Description="é \ud800", DurationInSeconds=-1, New={"a": [1, None]}
    )
    state, _actions = engine.step(State(serial=4), document(raw, event(B, NotBefore="soon")), [], now(100.0), CONFIG)
    results = [
        HookResult(B + ".prepare.6", "failed", "10-drain: exit status 1"),
        NotAsked(A + ".prepare.5", "the spool is full"),
        ApprovalResult(A, accepted=False, error="400", refused=True),
    ]
    state, _actions = engine.step(state, document(raw, event(B)), results, now(101.0), CONFIG)
    assert {run.outcome for entry in state.events.values() for run in entry.runs.values()} == {"running", "failed"}
    assert state.events[B].failures
    return state


@pytest.mark.parametrize("state", [State(serial=0), State(3, 2, "x", 1), a_rich_state()], ids=["new", "odd", "rich"])
def test_a_state_is_read_again_as_it_was(state):
    assert parse(dump(state)) == state


def test_the_file_keeps_the_state(tmp_path):
    file = StateFile(str(tmp_path / "state.json"))
    assert file.load() is None
    file.save(a_rich_state())
    assert file.load() == a_rich_state()


def test_a_file_that_is_not_utf_8_is_refused_with_its_name(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b'{"version": "\xe9"}')
    with pytest.raises(StateError, match=r"state\.json"):
        StateFile(str(path)).load()


def test_an_unreadable_file_is_kept_under_another_name(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("x")
    kept = StateFile(str(path)).put_aside(1600000000.0)
    assert kept == str(path) + ".broken-20200913T122640Z"
    assert not path.exists()


# What release 0.1.0 left behind


@pytest.mark.parametrize("name", sorted(os.path.basename(path)[:-5] for path in glob.glob(os.path.join(OLD, "*.json"))))
def test_a_state_of_0_1_0_is_taken_over_and_written_in_the_present_form(name):
    state = parse(old_text(name))
    assert state.events
    assert parse(dump(state)) == state


def test_a_preparation_that_runs_since_0_1_0_is_asked_for_again_under_its_id():
    state, actions = engine.step(old_state("prepare_runs"), None, [], now(), CONFIG)
    assert begun(actions) == [A + ".prepare.5"]
    state, actions = engine.step(state, None, [HookResult(A + ".prepare.5", "ok")], now(), CONFIG)
    assert [type(action) for action in actions if not isinstance(action, terms.Report)] == [terms.Approve]


def test_what_was_prepared_by_0_1_0_is_acknowledged_without_another_preparation():
    _state, actions = engine.step(old_state("acknowledgement_repeated"), None, [], now(), CONFIG)
    assert [type(action) for action in actions] == [terms.Approve]


def test_what_ran_under_0_1_0_is_recovered():
    _state, actions = engine.step(old_state("under_way"), document(), [], now(), CONFIG)
    assert begun(actions) == [A + ".recover.7"]


def test_recoveries_that_run_since_0_1_0_are_asked_for_again_under_their_ids():
    state, actions = engine.step(old_state("two_recoveries_run"), document(), [], now(), CONFIG)
    assert begun(actions) == [A + ".recover.9", B + ".recover.10"]
    results = [HookResult(request_id, "ok") for request_id in begun(actions)]
    assert engine.step(state, document(), results, now(), CONFIG)[0].events == {}


def test_a_failure_of_0_1_0_is_known_without_its_reason():
    assert parse(old_text("recovery_waits_and_failure_reported")).events[B].failures == (Failure("prepare", ""),)


def test_an_event_without_prepare_hooks_under_0_1_0_has_nothing_to_recover():
    state = old_state("no_prepare_hooks")
    assert state.events[A].runs == {}
    config = CONFIG._replace(hooks=ALL - {"prepare"})
    assert engine.step(state, document(), [], now(), config)[0].events == {}


def test_started_hooks_that_ran_under_0_1_0_without_prepare_hooks_are_recovered():
    state = old_state("no_prepare_hooks_started_run")
    results = [HookResult(A + ".started.5", "ok")]
    _state, actions = engine.step(state, document(), results, now(), CONFIG._replace(hooks=ALL - {"prepare"}))
    assert begun(actions) == [A + ".recover.6"]


def test_a_preparation_that_0_1_0_lost_with_the_boot_is_recovered():
    state = old_state("interrupted_by_a_reboot")
    assert state.events[A].runs["prepare"].outcome == "interrupted"
    (started,) = [run.request_id for run in state.events[A].runs.values() if run.outcome == "running"]
    _state, actions = engine.step(state, document(), [HookResult(started, "ok")], now(boot_id="other"), CONFIG)
    assert [each.split(".")[1] for each in begun(actions)] == ["recover"]


def test_a_state_of_the_release_before_does_not_say_when_its_events_were_announced():
    raw = json.loads(dump(a_rich_state()))
    for entry in raw["events"].values():
        del entry["unannounced"]
    del raw["recoveries"], raw["unannounced"]
    state = parse(json.dumps(raw))
    assert state.recoveries == 0
    assert {state.unannounced, *(entry.unannounced for entry in state.events.values())} == {UNKNOWN}


# What is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[]", "the state: an object was expected"),
        ('{"version": 3}', "version 3 is not 2"),
        ('{"version": 2, "serial": "x", "recovered": 0, "unnamed": 0, "events": {}}', "serial: int was expected"),
        ('{"version": 2, "serial": 1, "recovered": 0, "unnamed": 0, "events": {"a": {}}}', "events.a.runs"),
        ('{"version": 1, "serial": 1, "unnamed": 0, "events": {"a": {}}}', "events.a.runs"),
    ],
)
def test_a_text_that_is_not_a_state_is_refused_with_its_place(text, reason):
    with pytest.raises(StateError, match=reason):
        parse(text)


def places(value, path=()):
    """Every place in a decoded JSON value."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from places(item, (*path, key))


def changed(text, path, value):
    """The text with another value, which is given as JSON, at one place."""
    root = json.loads(text)
    holder = root
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = "@@"
    return json.dumps(root).replace('"@@"', value)


def must_not_matter(text):
    """Read the text; what is taken for a state must do for the engine as well."""
    try:
        state = parse(text)
    except StateError as error:
        str(error).encode("utf-8")  # fit for the journal
        return
    dump(state)
    for document_read in (None, document(event()), document()):
        engine.step(engine.resume(state), document_read, [], now(), CONFIG)


HOSTILE = [
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "-Infinity",
    "1" * 400,
    '""',
    '"\\ud800"',
    '"prepare"',
    "[]",
    "[null]",
    "{}",
    '{"\\ud800": 1}',
    "[" * 900 + "]" * 900,
]
TEXTS = {"rich": dump(a_rich_state())}
TEXTS.update((name, old_text(name)) for name in ("recovery_waits_and_failure_reported", "unusual_id"))


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:12])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_hostile_value_at_any_place_gives_a_state_error_or_a_state_that_works(name, value):
    for path in places(json.loads(TEXTS[name])):
        if path:
            must_not_matter(changed(TEXTS[name], path, value))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_state_that_lacks_any_of_its_values_gives_a_state_error_or_a_state_that_works(name):
    for path in places(json.loads(TEXTS[name])):
        if path:
            root = json.loads(TEXTS[name])
            holder = root
            for key in path[:-1]:
                holder = holder[key]
            del holder[path[-1]]
            must_not_matter(json.dumps(root))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_state_that_was_cut_is_refused(name):
    text = TEXTS[name].rstrip()
    for length in range(0, len(text), 7):
        with pytest.raises(StateError):
            parse(text[:length])


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [200, 900, 980, 5000, 100000])
def test_a_text_that_is_nested_too_deep_is_refused(opening, depth):
    with pytest.raises(StateError):
        parse(opening * depth)
    closing = {"[": "]", '{"a":': "1" + "}"}[opening]
    nested = opening * depth + closing[:1].replace("]", "") + closing[-1] * depth
    for text in (nested, '{"version": ' + nested + "}", '{"version": 2, "events": ' + nested + "}"):
        with pytest.raises(StateError):
            parse(text)


@pytest.mark.parametrize("serial", ["²", "9" * 5000, "-1", "1e5"])
def test_an_odd_serial_in_a_request_id_of_0_1_0_gives_a_state_error_or_a_state_that_works(serial):
    request_id = A + ".prepare.5"
    must_not_matter(old_text("prepare_runs").replace(request_id, A + ".prepare." + serial))


@pytest.mark.parametrize("value", ["NaN", "1e999", "1" * 400])
@pytest.mark.parametrize("field", ["ends_at", "deadline", "not_before", "not_later_than", "timeout", "ask_at"])
def test_a_time_that_is_not_a_time_is_refused(field, value):
    path = ("events", A, "runs", "prepare", field)
    with pytest.raises(StateError):
        parse(changed(TEXTS["rich"], path, value))
