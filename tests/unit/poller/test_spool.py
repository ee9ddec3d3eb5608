# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The formats of requests and results: the reader reads all written files, and no hostile file breaks the reader."""

import json
import random

import pytest
from _scheduled_events import document
from _scheduled_events.checks import WrongValue
from _scheduled_events.document import MAX_DESCRIPTION
from _scheduled_events.exchange import MAX_BODY
from _scheduled_events.runs import run_id_of
from scheduled_events_poller import spool
from scheduled_events_poller.spool import RunResult, format_request, format_result, parse_request, parse_result


def request(root_side, **changes):
    return json.dumps(dict(json.loads(format_request(root_side.job()).decode()), **changes)).encode()


def test_a_request_is_read_as_it_was_written(root_side):
    job = root_side.job(hooks=("10-a", "ü"), not_later_than=1769860790.5)
    assert parse_request(format_request(job), job.request_id) == job


def test_a_request_of_failed_hooks_names_the_phase_and_the_reason(root_side):
    job = root_side.job(
        request_id=root_side.event_id.lower() + ".failed.8",
        phase="failed",
        failed_phase="prepare",
        failure="exit status 3",
    )
    assert parse_request(format_request(job), job.request_id) == job


def test_root_accepts_the_request_for_an_event_that_fills_the_longest_document(root_side):
    names = [chr(0x10000) * 12] * 19900  # of four bytes, which are twelve in a request
    fields = {"EventId": root_side.event_id, "Resources": names}
    text = json.dumps(
        {"DocumentIncarnation": 1, "Events": [fields]}, ensure_ascii=False, separators=(",", ":")
    ).encode()
    assert MAX_BODY * 0.95 < len(text) < MAX_BODY
    (found,) = document.parse(text, api_version="2020-07-01").events
    job = root_side.job(
        event=dict(root_side.event, resources=list(found.resources), description="\\" * MAX_DESCRIPTION)
    )
    assert parse_request(format_request(job), job.request_id) == job


def _nested(levels):
    value = "inside"
    for _level in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (".._.._etc_passwd", {}, "its name is not"),
        ("c7061bac.explode.1", {}, "its name is not"),
        ("x y.prepare.1", {}, "its name is not"),
        (None, {"version": 1}, "not an object of version 2"),
        ("0.prepare.1", {}, "its name belongs to another event"),
        (None, {"event": []}, "event: expected an event"),
        (None, {"event": {"event_id": 1}}, "event: expected an event"),
        (None, {"vm_name": None}, "vm_name: it is missing"),
        (None, {"timeout": "1"}, "timeout: expected a number"),
        (None, {"timeout": True}, "timeout: expected a number"),
        (None, {"timeout": float("nan")}, "it is not JSON"),
        (None, {"timeout": float("inf")}, "it is not JSON"),
        (None, {"timeout": 7 * 24 * 3600.0 + 1}, "timeout: expected a number"),
        (None, {"deadline": -1}, "deadline: expected a number"),
        (None, {"deadline": 1e11 + 1}, "deadline: expected a number"),
        (None, {"recovered": 10**15 + 1}, "recovered: expected a whole number"),
        (None, {"ends_at": None}, "ends_at: it is missing"),
        (None, {"not_later_than": []}, "not_later_than: expected a number"),
        (None, {"hooks": "10-a"}, "hooks: expected a list of names"),
        (None, {"hooks": [1]}, "expected a text, not 1"),
        (None, {"undone": 1}, "undone: expected true or false"),
        (None, {"undone": None}, "undone: it is missing"),
        (None, {"failed_phase": "prepair"}, "failed_phase: expected one of"),
        (None, {"failure": 1}, "failure: expected a text"),
        (None, {"padding": "x" * spool.MAX_REQUEST}, "longer than"),
        (None, {"padding": [{}] * spool.MOST_BRACKETS}, "more than 20000 objects and lists"),
        (None, {"event": {"event_id": "x" * 257}}, "event: expected an event"),
        (None, {"timeout": 10**100}, "timeout: expected a number from 0 to 604800"),
    ],
)
def test_a_malformed_request_is_refused_with_the_reason(root_side, name, changes, message):
    with pytest.raises(WrongValue, match=message):
        parse_request(request(root_side, **changes), name or root_side.run_id)


@pytest.mark.parametrize(
    "limits",
    [
        {"timeout": 0.0, "deadline": 0.0, "ends_at": 0.0, "not_later_than": 0.0, "recovered": 0},
        {"timeout": 7 * 24 * 3600.0, "deadline": 1e11, "ends_at": 1e11, "not_later_than": 1e11, "recovered": 10**15},
    ],
)
def test_a_request_is_read_with_values_at_their_limits(root_side, limits):
    job = parse_request(request(root_side, **limits, padding=10**99), root_side.run_id)
    assert {name: getattr(job, name) for name in limits} == limits


def test_a_request_as_large_as_it_may_be_is_read(root_side):
    event = dict(root_side.event, additional=_nested(48))
    text = request(root_side, event=event, padding=[{}] * 100, more="")
    missing = 20000 - text.count(b"{") - text.count(b"[")
    text = text.replace(b"[{}, ", b"[" + b"{}, " * (missing + 1), 1)
    text = text.replace(b'"more": "', b'"more": "' + b"x" * (4 * 1024 * 1024 - len(text)))
    assert parse_request(text, root_side.run_id).event == event
    for larger, message in ((text.replace(b"x", b"{", 1), "objects and lists"), (text + b" ", "longer than")):
        with pytest.raises(WrongValue, match=message):
            parse_request(larger, root_side.run_id)


def test_an_event_that_is_nested_deep_is_refused(root_side):
    event = dict(root_side.event, additional=_nested(49))
    with pytest.raises(WrongValue, match="50 levels, at most"):
        parse_request(request(root_side, event=event), root_side.run_id)


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"[" * 100000, b"{}", b"null", b"1" * 100000, b'{"a":' * 20000, b"\0"]
)
def test_bytes_that_are_not_a_request_are_refused(root_side, text):
    with pytest.raises(WrongValue):
        parse_request(text, root_side.run_id)


SIGNS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8"]
WORDS = [b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"9" * 400, b'"\\ud800"', b'"event"', b'"event_id"']
PIECES = [*SIGNS, *WORDS, b"[" * 3000, b'{"a":' * 3000]


def _mutated(chance, text):
    for _change in range(chance.randint(1, 4)):
        at, upto = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        upto = min(upto, at + chance.choice((0, 1, 8, 200)))
        text = text[:at] + chance.choice(PIECES) + text[upto:]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_in_a_request_it_is_read_or_refused_and_never_breaks_a_hook(root_side, seed):
    from scheduled_events_poller.root.runner import environment

    chance = random.Random(seed)
    whole = format_request(root_side.job())
    for _time in range(200):
        try:
            job = parse_request(_mutated(chance, whole), root_side.run_id)
        except WrongValue:
            continue
        assert all(b"\0" not in value for value in environment(job, job.deadline).values())
        json.dumps(job.event)


@pytest.mark.parametrize("key", ["c7061bac-afdc", "../..", "a b", "ü", "x" * 256, "", "\ud800", "-x"])
def test_any_event_id_gives_a_name_that_is_accepted(root_side, key):
    name = run_id_of(key, "prepare", 12)
    if key.upper().lower() == key:
        assert (
            parse_request(request(root_side, event={"event_id": key.upper()}, first_run=name), name).phase == "prepare"
        )
    assert "/" not in name
    assert len(name) < 128


@pytest.mark.parametrize("key", ["c7061bac-afdc-4513-b24b-aa5f13a16123", "drill-20261126-vm1"])
def test_the_output_of_hooks_is_found_in_the_journal_by_the_id_of_a_real_event_and_of_a_drill(key):
    assert run_id_of(key, "prepare", 12) == f"{key}.prepare.12"


def test_no_event_id_takes_the_name_of_the_runs_of_another_event():
    hashed = run_id_of("a b", "prepare", 12).partition(".")[0]
    assert run_id_of(hashed, "prepare", 12) != f"{hashed}.prepare.12"


def test_a_result_is_read_as_it_was_written(root_side):
    result = RunResult(root_side.run_id, "failed", "10-a: exit status 3", 1.5)
    assert parse_result(format_result(result), root_side.run_id) == result


def test_the_reason_of_a_result_can_be_encoded_and_shown_on_one_line(root_side):
    result = RunResult(root_side.run_id, "failed", "10-gr\udcfcn\n\x1b[2J: exit status 3", 1.5)
    read = parse_result(format_result(result), root_side.run_id)
    assert read.reason == "10-gr\ufffdn \ufffd[2J: exit status 3"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100000,
        b'{"outcome": "well", "reason": "", "seconds": 1}',
        b'{"outcome": "ok", "seconds": 1}',
        b'{"outcome": "ok", "reason": "", "seconds": NaN}',
        b'{"outcome": "ok", "reason": "", "seconds": 1e999}',
        b'{"outcome": "ok", "reason": "", "seconds": -1}',
        b'{"outcome": "ok", "reason": "", "seconds": []}',
        b'{"outcome": [], "reason": "", "seconds": 1}',
        b'{"outcome": "ok", "reason": "", "seconds": 1' + b"0" * 400 + b"}",
    ],
)
def test_what_is_not_a_result_counts_as_none(root_side, text):
    assert parse_result(text, root_side.run_id) is None
