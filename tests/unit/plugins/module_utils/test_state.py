# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state's text: what is read again, and what is refused."""

import json
import os
import stat

import pytest
from _scheduled_events import engine, terms
from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse as parse_document
from _scheduled_events.state import EventState, State, StateFile, dump, parse
from _scheduled_events.terms import ApprovalResult, HookResult, NotAsked

A, B = "c7061bac-afdc-4513-b24b-aa5f13a16123", "51941b56-8080-45ac-81ae-8bda818f5958"
ALL = frozenset(["prepare", "started", "recover", "advised", "failed"])
CONFIG = terms.Config("vm1", ALL)


def document(*events):
    return parse_document(json.dumps({"DocumentIncarnation": 8, "Events": list(events)}), api_version="2020-07-01")


def event(event_id=A, **more):
    return dict({"EventId": event_id, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}, **more)


def now(monotonic=200.0, boot_id="4f2f0c8e"):
    return Moment(1600000000.0 + monotonic, monotonic, boot_id)


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


def known_of(fields):
    return {name: value for name, value in fields._asdict().items() if value}


def test_a_new_event_is_kept_with_what_is_known_of_it_and_nothing_else():
    state, _actions = engine.step(State(serial=4), document(event()), [], now(100.0), CONFIG)
    [entry] = state.events.values()
    assert known_of(State(4)) == {"serial": 4}
    assert known_of(state) == {"serial": 5, "incarnation": 8, "events": {A: entry}}
    assert set(known_of(entry)) == {"event", "first_seen", "present", "runs", "approval", "ran", "owed"}
    assert set(known_of(EventState(entry.event, 1.0))) == {"event", "first_seen", "present", "approval"}
    assert known_of(entry.approval) == {}
    assert known_of(entry.runs["prepare"]) == {
        "request_id": A + ".prepare.5",
        "serial": 5,
        "first": 5,
        "outcome": "running",
        "boot_id": "4f2f0c8e",
        "issued": True,
        "event_type": "Reboot",
        "preparation": "hooks",
        "timeout": 600.0,
        "deadline": 1600000700.0,
        "ends_at": 700.0,
    }


def test_the_file_keeps_the_state(tmp_path):
    file = StateFile(str(tmp_path / "state.json"))
    assert file.load() is None
    file.save(a_rich_state())
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o640
    assert file.load() == a_rich_state()


def test_the_state_and_its_name_are_on_the_disk_when_it_is_saved(tmp_path, monkeypatch):
    kinds = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: kinds.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    StateFile(str(tmp_path / "state.json")).save(a_rich_state())
    assert kinds == [stat.S_IFREG, stat.S_IFDIR]


def test_a_file_that_is_not_utf_8_is_refused_with_its_name(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b'{"version": "\xe9"}')
    with pytest.raises(WrongValue, match=r"state\.json"):
        StateFile(str(path)).load()


def test_an_unreadable_file_is_kept_under_another_name(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("x")
    os.utime(str(path), (1600000000.0, 1600000000.0))
    kept = [StateFile(str(path)).put_aside() for _again in range(2)]
    assert kept == [str(path) + ".broken-20200913T122640Z"] * 2
    with open(kept[0]) as file:
        assert file.read() == "x"


def test_an_unreadable_file_is_in_its_place_until_another_one_replaces_it(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("x")
    file = StateFile(str(path))
    kept = file.put_aside()
    with pytest.raises(WrongValue):
        file.load()
    file.save(a_rich_state())
    assert file.load() == a_rich_state()
    with open(kept) as broken:
        assert broken.read() == "x"


def test_a_link_in_place_of_the_state_is_kept_as_a_link(tmp_path):
    (tmp_path / "elsewhere").write_text("x")
    path = tmp_path / "state.json"
    path.symlink_to(tmp_path / "elsewhere")
    assert os.readlink(StateFile(str(path)).put_aside()) == str(tmp_path / "elsewhere")


def test_a_directory_in_place_of_the_state_is_moved(tmp_path):
    path = tmp_path / "state.json"
    path.mkdir()
    assert os.path.isdir(StateFile(str(path)).put_aside())
    assert not path.exists()


# What is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[]", "version null is not 2"),
        ('{"version": 3}', "version 3 is not 2"),
        (
            '{"version": 2, "serial": "x", "recovered": 0, "unnamed": 0, "events": {}, "ignored": {}}',
            'serial: expected a whole number from -1000000000000000 to 1000000000000000, not "x"',
        ),
        (
            '{"version": 2, "serial": 1, "recovered": 0, "unnamed": 0, "recoveries": 0, "unannounced": 0, "lost": "", '
            '"withheld": false, "events": {"a": {}}, "ignored": {}}',
            "events.a.event: it is missing",
        ),
        ('{"version": 1, "serial": 1, "unnamed": 0, "events": {}}', "version 1 is not 2"),
    ],
)
def test_a_text_that_is_not_a_state_is_refused_with_its_place(text, reason):
    with pytest.raises(WrongValue, match=reason):
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
    except WrongValue as error:
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
TEXT = dump(a_rich_state())


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:12])
def test_a_hostile_value_at_any_place_gives_an_error_or_a_state_that_works(value):
    for path in places(json.loads(TEXT)):
        if path:
            must_not_matter(changed(TEXT, path, value))


def test_a_state_that_lacks_any_of_its_values_gives_an_error_or_a_state_that_works():
    for path in places(json.loads(TEXT)):
        if path:
            root = json.loads(TEXT)
            holder = root
            for key in path[:-1]:
                holder = holder[key]
            del holder[path[-1]]
            must_not_matter(json.dumps(root))


def test_a_state_that_was_cut_is_refused():
    text = TEXT.rstrip()
    for length in range(0, len(text), 7):
        with pytest.raises(WrongValue):
            parse(text[:length])


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [200, 900, 980, 5000, 100000])
def test_a_text_that_is_nested_too_deep_is_refused(opening, depth):
    with pytest.raises(WrongValue):
        parse(opening * depth)
    closing = {"[": "]", '{"a":': "1" + "}"}[opening]
    nested = opening * depth + closing[:1].replace("]", "") + closing[-1] * depth
    for text in (nested, '{"version": ' + nested + "}", '{"version": 2, "events": ' + nested + "}"):
        with pytest.raises(WrongValue):
            parse(text)


@pytest.mark.parametrize("serial", ["²", "9" * 5000, "-1", "1e5"])
def test_an_odd_serial_in_a_request_id_gives_an_error_or_a_state_that_works(serial):
    must_not_matter(TEXT.replace(A + ".prepare.5", A + ".prepare." + serial))


@pytest.mark.parametrize("value", ["NaN", "1e999", "1" * 400])
@pytest.mark.parametrize("field", ["ends_at", "deadline", "not_before", "not_later_than", "timeout", "ask_at"])
def test_a_time_that_is_not_a_time_is_refused(field, value):
    path = ("events", A, "runs", "prepare", field)
    with pytest.raises(WrongValue):
        parse(changed(TEXT, path, value))
