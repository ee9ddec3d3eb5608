# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the source sends of a document: what the library reads, without templates."""

import datetime
import json

import documents
import pytest
from _scheduled_events.document import describe, parse

NOW = datetime.datetime(2022, 4, 11, 22, 11, 58, tzinfo=datetime.timezone.utc).timestamp()


def by_the_library(body, vm_name, api_version):
    events = [describe(event, vm_name=vm_name, now=NOW) for event in parse(body, api_version=api_version).events]
    for event in events:
        del event["seconds_until_not_before"]
    return events


@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01"])
@pytest.mark.parametrize("path", documents.RECORDED, ids=lambda path: path.stem)
def test_a_recorded_document_gives_the_events_of_the_library(source, path, version):
    body = path.read_bytes()
    names = {name for event in json.loads(body)["Events"] for name in event["Resources"]}
    for vm_name in (*names, *(name.upper() for name in names), "mysrv", "another"):
        read = source.read_events(body, vm_name=vm_name, api_version=version)
        assert read == by_the_library(body, vm_name, version)


def test_the_remaining_seconds_have_three_decimals(source, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1600000000.0014)
    left = source.with_time_left({"not_before": "2020-09-13T13:26:40Z"})
    assert left["seconds_until_not_before"] == 3599.999
    assert source.with_time_left({"not_before": None})["seconds_until_not_before"] is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ lookup('pipe', 'id') }}", "{ { lookup('pipe', 'id') }}"),
        ("{%if x%}{#y#}{{{", "{ %if x%}{ #y#}{ { {"),
        ("#jinja2:variable_start_string:'['", "# jinja2:variable_start_string:'['"),
        ("{a} #jinja2: 100 % {", "{a} #jinja2: 100 % {"),
    ],
)
def test_a_text_holds_no_template_that_a_play_would_evaluate(source, text, shown):
    raw = {"EventId": "A", "Description": text, "EventType": text, "Resources": [text], text: {text: [text]}}
    body = json.dumps({"Events": [raw]}).encode()
    [event] = source.read_events(body, vm_name="vm1", api_version="2020-07-01")
    assert [event["description"], event["event_type"], event["resources"]] == [shown, shown, [shown]]
    assert event["additional"] == {shown: {shown: [shown]}}


def test_an_id_with_a_template_counts_as_absent_since_it_cannot_be_sent_back(source):
    body = b'{"Events":[{"EventId":"{{ 7 }}"}]}'
    [event] = source.read_events(body, vm_name="vm1", api_version="2020-07-01")
    assert event["event_id"] is None


# Ids to deduplicate by


def content_id(source, vm_name="web1", **fields):
    raw = {"EventId": "A1", "EventStatus": "Scheduled", "Resources": ["web1", "web2"], "DurationInSeconds": 9, **fields}
    body = json.dumps({"Events": [raw]}).encode()
    return source.content_id(*source.read_events(body, vm_name=vm_name, api_version="2020-07-01"))


def test_an_id_does_not_depend_on_the_process_the_reader_or_the_case_of_the_event_id(source):
    expected = "a1-scheduled-3846ce460c97fcee"
    assert content_id(source) == expected
    assert content_id(source, vm_name="web2") == expected
    assert content_id(source, EventId="a1") == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"EventId": "A2"},
        {"EventStatus": "Started"},
        {"Resources": ["web1"]},
        {"DurationInSeconds": -1},
        {"NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"},
        {"Extra": 1},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_another_content_has_another_id(source, fields):
    assert content_id(source, **fields) != content_id(source)
