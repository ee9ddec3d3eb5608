# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import datetime
import json
import locale

import pytest
from _scheduled_events.document import DocumentError, Filter, changes, describe, parse, parse_not_before

from .conftest import document_text, event, payload

UTC = datetime.timezone.utc
NOW = datetime.datetime(2022, 4, 11, 22, 11, 58, 500000, tzinfo=UTC)


def parsed(*events, **options):
    return parse(document_text(*events), api_version=options.get("api_version", "2020-07-01"))


def test_a_recorded_live_migration_is_described_whole():
    document = parse(payload("live-migration-2-scheduled"), api_version="2020-07-01")
    assert document.incarnation == 2
    assert [describe(each, vm_name="westno_1", now=NOW) for each in document.events] == [
        {
            "event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
            "event_type": "Freeze",
            "event_status": "Scheduled",
            "event_source": "Platform",
            "resource_type": "VirtualMachine",
            "resources": ["WestNO_0", "WestNO_1"],
            "not_before": "2022-04-11T22:26:58Z",
            "seconds_until_not_before": 899.5,
            "description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            "duration_in_seconds": 5,
            "affects_this_vm": True,
            "is_leader": False,
            "additional": {},
        }
    ]


def test_fields_that_an_event_lacks_are_null_and_resources_empty():
    document = parse(b'{"Events":[{}]}', api_version="2020-07-01")
    assert document.incarnation is None
    assert describe(document.events[0], vm_name="vm1", now=NOW) == {
        "event_id": None,
        "event_type": None,
        "event_status": None,
        "event_source": None,
        "resource_type": None,
        "resources": [],
        "not_before": None,
        "seconds_until_not_before": None,
        "description": None,
        "duration_in_seconds": None,
        "affects_this_vm": False,
        "is_leader": False,
        "additional": {},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mon, 19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47"),
        ("Mon, 19 Sep 2019 18:29:47 GMT", "2019-09-19T18:29:47"),  # it was a Thursday
        ("19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47"),
        ("Mon, 19 Sep 2016 18:29:47 +0200", "2016-09-19T16:29:47"),
        ("Mon, 19 Sep 2016 18:29:47", "2016-09-19T18:29:47"),
        ("2016-09-19T18:29:47Z", "2016-09-19T18:29:47"),
        ("2016-09-19T18:29:47", "2016-09-19T18:29:47"),
        ("2016-09-19 18:29:47Z", "2016-09-19T18:29:47"),
        ("2016-09-19T18:29:47.1234567Z", "2016-09-19T18:29:47"),
        ("2016-09-19T18:29:47+02:00", "2016-09-19T16:29:47"),
        ("2016-09-19T18:29:47-0130", "2016-09-19T19:59:47"),
        (" 2016-09-19T18:29:47Z ", "2016-09-19T18:29:47"),
    ],
)
def test_every_date_form_is_read_as_utc(text, expected):
    assert parse_not_before(text) == datetime.datetime.strptime(expected, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "Mon, 19 Sep 2016",
        "Mon, 32 Sep 2016 18:29:47 GMT",
        "Mon, 19 Foo 2016 18:29:47 GMT",
        "2016-13-19T18:29:47Z",
        "2016-09-19T25:29:47Z",
        "0001-01-01T00:00:00+02:00",
        "1474309787",
        "18:29:47",
    ],
)
def test_an_unreadable_date_is_null(text):
    assert parse_not_before(text) is None


def test_english_month_names_are_read_in_another_locale():
    before = locale.setlocale(locale.LC_TIME)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_TIME, name)
            break
        except locale.Error:
            continue
    try:
        assert parse_not_before("Tue, 10 May 2022 22:26:58 GMT").month == 5
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_an_unreadable_date_keeps_its_original_and_is_reported():
    read = parsed(event(EventId="A1", NotBefore="soon")).events[0]
    assert read.not_before is None
    assert read.unreadable == {"NotBefore": "soon"}
    assert read.problems() == ['NotBefore "soon" of event A1 cannot be read and counts as absent']


def test_the_empty_date_of_a_started_event_is_no_problem():
    assert parsed(event(EventStatus="Started", NotBefore="")).events[0].problems() == []


@pytest.mark.parametrize(
    ("field", "value", "attribute", "expected"),
    [
        ("EventId", 5, "event_id", None),
        ("EventType", ["Reboot"], "event_type", None),
        ("Resources", "vm1", "resources", ()),
        ("Resources", {"vm1": 1}, "resources", ()),
        ("NotBefore", 1474309787, "not_before", None),
        ("DurationInSeconds", "long", "duration_in_seconds", None),
        ("DurationInSeconds", True, "duration_in_seconds", None),
        ("DurationInSeconds", 2.5, "duration_in_seconds", None),
        ("Description", {}, "description", None),
    ],
)
def test_a_value_of_the_wrong_type_is_absent_and_kept(field, value, attribute, expected):
    read = parsed(event(**{field: value})).events[0]
    assert getattr(read, attribute) == expected
    assert read.unreadable == {field: value}


@pytest.mark.parametrize(("value", "expected"), [(9, 9), ("9", 9), (-1, -1), ("-1", -1), (9.0, 9), (0, 0)])
def test_a_whole_number_is_read_in_each_of_its_forms(value, expected):
    assert parsed(event(DurationInSeconds=value)).events[0].duration_in_seconds == expected


@pytest.mark.parametrize(("sent", "expected"), [(7, 7), ("1", 1), ("abc", "abc"), (None, None), ([], None)])
def test_the_incarnation_is_a_number_where_it_can_be(sent, expected):
    assert parse(document_text(DocumentIncarnation=sent), api_version="2020-07-01").incarnation == expected


def test_known_words_in_odd_case_get_their_usual_spelling():
    read = parsed(event(EventType="FREEZE", EventStatus="scheduled", EventSource="platform")).events[0]
    assert (read.event_type, read.event_status, read.event_source) == ("Freeze", "Scheduled", "Platform")


def test_unknown_types_statuses_and_fields_pass_through():
    read = parsed(event(EventType="SpotRebalanceRecommendation", EventStatus="Paused", New={"a": 1})).events[0]
    assert (read.event_type, read.event_status) == ("SpotRebalanceRecommendation", "Paused")
    assert read.additional == {"New": {"a": 1}}


def test_a_resource_that_is_no_name_still_counts_as_somebody_else():
    read = parsed(event(Resources=["vm1", 7, None])).events[0]
    assert read.resources == ("vm1", "7", "null")
    assert not read.affects_only("vm1")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html></html>",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"Events":null}',
        b'{"Events":{}}',
        b'{"Events":["x"]}',
        b'{"Events":[{},null]}',
        b"\xff\xfe",
        b"[" * 100000,
    ],
)
def test_a_broken_document_is_an_error_and_never_an_empty_one(text):
    with pytest.raises(DocumentError):
        parse(text, api_version="2020-07-01")


def test_a_byte_order_mark_does_no_harm():
    assert parse(b"\xef\xbb\xbf" + document_text().encode(), api_version="2020-07-01").events == ()


def test_an_error_shows_the_beginning_of_a_long_body_on_one_line():
    with pytest.raises(DocumentError) as caught:
        parse("<html>\n" + "x" * 1000, api_version="2020-07-01")
    assert '"<html> xxx' in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("resources", "vm_name", "affects", "leads", "alone"),
    [
        (["vm1"], "vm1", True, True, True),
        (["VM1"], "vm1", True, True, True),
        (["vm1"], "VM1", True, True, True),
        (["vm10"], "vm1", False, False, False),
        (["vm1"], "vm10", False, False, False),
        (["vm2", "vm1"], "vm1", True, False, False),
        (["vm1", "vm2"], "vm1", True, True, False),
        (["vm1", "VM1"], "vm1", True, True, True),
        (["_vm1"], "vm1", False, False, False),
        ([], "vm1", False, False, False),
        ([""], "", False, False, False),
    ],
)
def test_an_event_is_mine_by_a_whole_name_without_regard_to_case(resources, vm_name, affects, leads, alone):
    read = parsed(event(Resources=resources)).events[0]
    assert (read.affects(vm_name), read.is_led_by(vm_name), read.affects_only(vm_name)) == (affects, leads, alone)


@pytest.mark.parametrize(
    ("api_version", "resource", "affects"),
    [
        ("2017-03-01", "_mysrv", True),
        ("2017-03-01", "mysrv", True),
        ("2017-03-01", "__mysrv", False),
        ("2017-08-01", "_mysrv", False),
    ],
)
def test_one_leading_underscore_is_stripped_for_the_preview_alone(api_version, resource, affects):
    read = parsed(event(Resources=[resource]), api_version=api_version).events[0]
    assert read.affects("mysrv") is affects
    assert read.resources == (resource,)


def test_changes_follow_events_by_their_id_without_regard_to_case():
    one, two, three = event(EventId="A1"), event(EventId="b2"), event(EventId="C3")
    before = parsed(one, two)
    after = parsed(event(EventId="a1", EventStatus="Started", NotBefore=""), three, {"EventType": "Reboot"})
    found = changes(before, after)
    assert [each.event_id for each in found.appeared] == ["C3"]
    assert [each.event_id for each in found.updated] == ["a1"]
    assert [each.event_id for each in found.vanished] == ["b2"]


def test_without_a_document_before_every_event_has_appeared():
    document = parse(payload("two-reboots-2018"), api_version="2017-11-01")
    assert changes(None, document) == (document.events, (), ())


def test_an_unchanged_document_brings_no_changes_whatever_its_incarnation():
    before = parse(document_text(event(), DocumentIncarnation=9), api_version="2020-07-01")
    after = parse(document_text(event(), DocumentIncarnation=1), api_version="2020-07-01")
    assert changes(before, after) == ((), (), ())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ["A1", "B2", "C3"]),
        ({"event_ids": ["a1", "c3"]}, ["A1", "C3"]),
        ({"event_types": ["reboot"]}, ["A1"]),
        ({"event_statuses": ["Started"]}, ["B2"]),
        ({"event_sources": ["User"]}, ["C3"]),
        ({"vm_name": "VM2"}, ["B2"]),
        ({"vm_name": "vm1", "event_types": ["Freeze"]}, ["C3"]),
    ],
)
def test_a_filter_selects_what_meets_all_its_conditions(conditions, expected):
    document = parsed(
        event(EventId="A1", EventType="Reboot", EventSource="Platform"),
        event(EventId="B2", EventType="Redeploy", EventStatus="Started", Resources=["vm2"]),
        event(EventId="C3", EventType="Freeze", EventSource="User"),
    )
    assert [each.event_id for each in Filter(**conditions).select(document)] == expected


def test_documents_read_from_bytes_and_text_are_equal():
    raw = payload("odd-wrong-weekday-iso-and-unknown")
    assert parse(raw, api_version="2020-07-01") == parse(raw.decode(), api_version="2020-07-01")
    assert json.loads(raw.decode())["Events"][2]["SomethingNew"] == {"a": 1}
