# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import datetime
import json
import locale
import time

import pytest
from _scheduled_events.document import (
    DELETING_TYPES,
    LEAST_NOTICE,
    DocumentError,
    Filter,
    describe,
    parse,
    parse_not_before,
)

from .conftest import document_text, event, payload

pytestmark = pytest.mark.edge

UTC = datetime.timezone.utc
NOW = datetime.datetime(2022, 4, 11, 22, 11, 58, 500400, tzinfo=UTC).timestamp()


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


@pytest.fixture
def vm_in_japan(monkeypatch):
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("vm_in_japan")
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
        (f"2016-09-19T18:29:47.{'0' * 43}Z", "2016-09-19T18:29:47"),  # 64 characters
        ("2016-09-19T18:29:47+02:00", "2016-09-19T16:29:47"),
        ("2016-09-19T18:29:47-0130", "2016-09-19T19:59:47"),
        (" 2016-09-19T18:29:47Z ", "2016-09-19T18:29:47"),
        ("Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00"),
        ("2199-12-31T23:59:59Z", "2199-12-31T23:59:59"),
    ],
)
def test_every_date_form_is_read_as_utc_wherever_the_vm_is(text, expected):
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
        f"2016-09-19T18:29:47.{'0' * 44}Z",
        "2016-13-19T18:29:47Z",
        "2016-09-19T25:29:47Z",
        "2016-09-19T18:29:47+99:99",
        "2016-09-19T18:29:47-24:00",
        "0001-01-01T00:00:00+02:00",
        "1474309787",
        "18:29:47",
        "Mon, 01 Jan 0001 00:00:00 GMT",  # .NET's "none", which is not the year 2001
        "01-Jan-0001 00:00:00",
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+02:00",
        "Thu, 01 Jan 1970 00:00:00 +0200",
        "2200-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-23:59",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 19 Sep 16 18:29:47 GMT",
        "Mon, 19 Sep 2016 18:29:47 +" + "9" * 30,
        "Mon, 19 Sep 2016 18:29:47 +9999",
        "Mon, 19 Sep 2016 18:29:47 -99999999",
        "Mon, 19 Sep 99999 18:29:47 GMT",
        "Mon, 19 Sep -2016 18:29:47 GMT",
        "Mon, 99999999999999999999 Sep 2016 18:29:47 GMT",
        ", 18:29:47",
        "Mon 18:29:47",
        "18:29:47 Sep 2016",
        "\u0662016-09-19T18:29:47Z",
        "Mon, 19 Sep 2016 18:29:47 GMT" + " " * 100 + "x",
        "\ud800 18:29:47",
    ],
)
def test_an_unreadable_date_is_null(text):
    assert parse_not_before(text) is None


def test_each_type_has_the_least_notice_that_azure_documents_and_two_delete_the_vm():
    assert LEAST_NOTICE == {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
    assert DELETING_TYPES == ("Preempt", "Terminate")


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


def test_the_empty_date_of_a_started_event_is_not_a_problem():
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


@pytest.mark.parametrize(
    "value", [10**15, -(10**15), "1" + "0" * 15, 1e15, 1e300, 10**400, "9" * 400, float("inf"), float("nan")]
)
def test_a_number_that_is_too_long_is_unreadable(value):
    read = parsed(event(DurationInSeconds=value)).events[0]
    assert read.duration_in_seconds is None
    assert list(read.unreadable) == ["DurationInSeconds"]
    assert len(read.problems()[0]) < 300


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (7, 7),
        ("1", 1),
        ("abc", "abc"),
        (None, None),
        ([], None),
        ({"a": []}, None),
        (True, None),
        ("\ud800\0", "\ufffd\ufffd"),
        (10**15 - 1, 10**15 - 1),
        (10**15, "1000000000000000"),
        ("x" * 100, "x" * 63 + "…"),
        (2.5, "2.5"),
    ],
)
def test_the_incarnation_is_a_number_where_it_can_be(sent, expected):
    assert parse(document_text(DocumentIncarnation=sent), api_version="2020-07-01").incarnation == expected


def test_known_words_in_odd_case_get_their_usual_spelling():
    read = parsed(event(EventType="FREEZE", EventStatus="scheduled", EventSource="platform")).events[0]
    assert (read.event_type, read.event_status, read.event_source) == ("Freeze", "Scheduled", "Platform")


def test_unknown_types_statuses_and_fields_pass_through():
    read = parsed(event(EventType="SpotRebalanceRecommendation", EventStatus="Paused", New={"a": 1})).events[0]
    assert (read.event_type, read.event_status) == ("SpotRebalanceRecommendation", "Paused")
    assert read.additional == {"New": {"a": 1}}


def test_a_resource_that_is_not_a_name_still_counts_as_another_vm():
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


HARMFUL = ["\0", "\x1b", "\x7f", "\x9b", "\ud800", "\udfff", "\u2028", "\u202e"]


def texts_of(value):
    """All texts in a value, keys too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in texts_of(each)]
    return [text for each in value for text in texts_of(each)] if isinstance(value, (list, tuple)) else []


class TestHarmfulText:
    """What cannot be encoded, or what a terminal obeys."""

    @pytest.mark.parametrize("harmful", HARMFUL)
    def test_it_is_replaced_in_every_field(self, harmful):
        odd = f"a{harmful}b"
        read = parsed(
            event(
                EventStatus=odd,
                EventType=odd,
                EventSource=odd,
                ResourceType=odd,
                Resources=[odd, [odd], {odd: odd}],
                Description=odd,
                NotBefore=odd,
                DurationInSeconds=odd,
                **{odd: [odd, {odd: odd}], "New": odd},
            )
        ).events[0]
        shown = describe(read, vm_name="vm1", now=NOW)
        assert (read.event_type, read.description, read.resources[0]) == ("a\ufffdb",) * 3
        for text in texts_of([dict(read._asdict()), shown, read.problems()]):
            text.encode("utf-8")
            assert harmful not in text

    def test_line_breaks_become_spaces(self):
        assert parsed(event(Description="one\r\ntwo\tthree")).events[0].description == "one  two three"

    def test_other_text_stays_as_it_is(self):
        text = "Ünïcödé 漢字 🎉 \u00a0 <b>&amp;'\"\\"
        assert parsed(event(Description=text)).events[0].description == text

    @pytest.mark.parametrize("harmful", [*HARMFUL, "\n"])
    def test_an_id_with_it_cannot_be_sent_back_and_is_unreadable(self, harmful):
        read = parsed(event(EventId=f"A{harmful}1")).events[0]
        assert (read.event_id, read.key, list(read.unreadable)) == (None, "", ["EventId"])
        assert "an event without a readable EventId" in read.problems()[0]

    @pytest.mark.parametrize("event_id", ["", " ", "A" * 257])
    def test_an_id_that_is_empty_or_too_long_is_unreadable(self, event_id):
        assert parsed(event(EventId=event_id)).events[0].event_id is None

    def test_the_longest_id_is_kept_verbatim(self):
        assert parsed(event(EventId="a" * 256)).events[0].event_id == "a" * 256

    def test_a_name_with_it_is_not_the_name_without_it(self):
        assert not parsed(event(Resources=["vm\u202e1", "vm1\0"])).events[0].affects("vm1")


class TestTooMuch:
    """Useless values that would be kept and passed on."""

    @staticmethod
    def with_field(text):
        return parse('{"Events":[{"EventId":"A1","New":' + text + "}]}", api_version="2020-07-01").events[0]

    def test_long_texts_are_cut(self):
        read = parsed(event(EventType="T" * 9000, Description="D" * 9000, Resources=["R" * 9000])).events[0]
        assert (read.event_type, read.resources) == ("T" * 255 + "…", ("R" * 255 + "…",))
        assert read.description == "D" * 8191 + "…"

    def test_a_document_of_too_many_objects_and_lists_is_refused(self):
        texts = ['{"Events":[{"New":[' + ",".join(["{},[]"] * 4998 + more) + "]}]}" for more in ([], ["{}"])]
        assert len(parse(texts[0], api_version="2020-07-01").events) == 1
        with pytest.raises(DocumentError, match="it holds more than 10000 objects and lists"):
            parse(texts[1], api_version="2020-07-01")

    @pytest.mark.parametrize("depth", [33, 900, 4000, 9500])
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
    def test_a_field_that_is_nested_deep_says_so(self, depth, opening, closing):
        try:
            read = self.with_field(opening * depth + "1" + closing * depth)
        except DocumentError:  # more than this Python can follow
            assert depth > 800
            return
        assert read.additional == {"New": "(cut: nested deeper than 32 levels)"}

    def test_a_field_that_is_nested_moderately_is_kept(self):
        value = []
        for _level in range(31):
            value = [value]
        assert self.with_field(json.dumps(value)).additional == {"New": value}

    @pytest.mark.parametrize(
        "text",
        ['"' + "x" * 20000 + '"', json.dumps(["x"] * 6000), json.dumps({"x" * 20000: 1}), "[" + "1," * 9000 + "1]"],
    )
    def test_a_field_that_is_long_says_so(self, text):
        assert next(iter(self.with_field(text).additional.values())).startswith("(cut: longer than 163")

    def test_many_fields_are_cut_and_counted(self):
        names = {f"Field{number}": "x" * 50 for number in range(1000)}
        additional = parsed(event(**names)).events[0].additional
        assert len(json.dumps(additional)) < 16384 + 200
        kept = len(additional) - 1
        assert additional["(cut)"] == f"{1000 - kept} more fields, which are longer than 16384 characters in all"

    def test_what_follows_a_long_field_is_kept(self):
        additional = parsed(event(Long="x" * 20000, Short="y")).events[0].additional
        assert additional == {"Long": "(cut: longer than 16374 characters)", "Short": "y"}

    def test_a_field_without_a_name_gets_one(self):
        # ansible-rulebook looks for a key of an event with dpath, which raises at an empty one.
        assert parsed(event(**{"": {"": 1}})).events[0].additional == {"(empty)": {"(empty)": 1}}

    @pytest.mark.parametrize("name", ["__ansible_type", "__ansible_unsafe"])
    def test_a_field_whose_name_means_something_to_ansible_in_a_result_gets_another_one(self, name):
        # ansible-core 2.19 and newer read it as a type, and fail the task.
        assert parsed(event(**{name: {name: 1}})).events[0].additional == {f"({name})": {f"({name})": 1}}

    def test_numbers_that_json_does_not_have_become_texts(self):
        read = self.with_field("[NaN, -Infinity, 1e999, %s, 1.5, 7]" % ("9" * 5000))
        assert read.additional["New"] == ["NaN", "-Infinity", "inf", "9" * 39 + "…", 1.5, 7]
        json.dumps(read.additional, allow_nan=False)

    @pytest.mark.parametrize("depth", [100, 987, 4000, 9500])
    def test_resources_that_are_nested_deep_name_no_vm(self, depth):
        text = '{"Events":[{"EventId":"A1","Resources":["vm1",' + "[" * depth + "]" * depth + "]}]}"
        try:
            read = parse(text, api_version="2020-07-01").events[0]
        except DocumentError:
            assert depth > 800
            return
        assert read.resources == ("vm1", '"(cut: nested deeper than 32 levels)"')
        assert not read.affects_only("vm1")

    def test_a_value_of_the_wrong_type_is_kept_only_as_far_as_it_is_short(self):
        read = parsed(event(EventType=["x" * 5000], DurationInSeconds=[[]] * 900)).events[0]
        assert set(read.unreadable.values()) == {"(cut: longer than 1024 characters)"}

    def test_thousands_of_names_are_not_a_problem(self):
        names = [f"pool_{number}" for number in range(5000)]
        read = parsed(event(Resources=names)).events[0]
        assert read.resources == tuple(names)
        assert read.affects("POOL_4999")

    def test_a_document_of_too_many_objects_is_an_error(self):
        with pytest.raises(DocumentError) as caught:
            parsed(*[{}] * 10001)
        assert "it holds more than 10000 objects and lists" in str(caught.value)


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


@pytest.mark.parametrize(
    ("asked", "selected"),
    [
        ({}, ["A1"]),
        ({"event_sources": ["Platform"]}, ["A1"]),
        ({"event_statuses": ["Advisory"]}, ["B2"]),
        ({"event_types": ["spotrebalancerecommendation"]}, ["B2"]),
        ({"event_ids": ["b2"]}, ["B2"]),
    ],
)
def test_a_filter_without_hints_selects_one_only_if_an_id_a_type_or_a_status_asks_for_it(asked, selected):
    hint = event(EventId="B2", EventType="SpotRebalanceRecommendation", EventStatus="Advisory", EventSource="Platform")
    read = parsed(event(EventSource="Platform"), hint)
    assert [each.event_id for each in Filter(hints=False, **asked).select(read)] == selected
    assert "B2" in [each.event_id for each in Filter(**asked).select(read)]
