# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report for programs. The expected contents are the files beside this one; see test_page.py."""

import base64
import json
import os
import pathlib
import xml.etree.ElementTree as ET

import pytest
from google.protobuf import json_format
from histories import AT, ID, a_fact, a_maintenance, a_phase, announcement
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from plugins.plugin_utils._report.data import as_json, as_junit, as_otlp
from plugins.plugin_utils._report.gather import histories_of
from plugins.plugin_utils._report.page import LARGEST, page
from plugins.plugin_utils._report.story import tell

HERE = pathlib.Path(__file__).parent
SEEN = {"version": 1, "kind": "seen", "time": "2026-01-31T11:50:00.000Z", "source": "poller", "event_id": ID}


def story():
    failed = [announcement("web3"), *a_phase("prepare", 1, 60, "web3", "failed", "drain: exit status 1")]
    histories = {
        "web1": a_maintenance(),
        "web2": a_maintenance("web2", later=30, leads=False),
        "web3": [fact._replace(event_id="E2", resources=("web3",), resource_count=1) for fact in failed],
    }
    return tell(histories, {"web4": ["its history was not read"]})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("report.json", lambda: as_json(story(), made=AT + 3600, version="1.0.0")),
        ("report.otlp.json", lambda: as_otlp(story(), version="1.0.0")),
        ("report.junit.xml", lambda: as_junit(story())),
    ],
)
def test_the_report_of_a_known_history_is_that_of_its_file(name, write):
    if os.environ.get("REPORT_GOLDEN") == "write":
        (HERE / name).write_text(write(), encoding="utf-8")
    assert write() == (HERE / name).read_text(encoding="utf-8")


def spans_of(text):
    """The spans as the classes of the protocol read them; in JSON, ids are hexadecimal."""
    document = json.loads(text)
    for resource in document["resourceSpans"]:
        for span in resource["scopeSpans"][0]["spans"]:
            for name in {"traceId", "spanId", "parentSpanId"} & set(span):
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    request = json_format.Parse(json.dumps(document), ExportTraceServiceRequest())
    return [span for resource in request.resource_spans for span in resource.scope_spans[0].spans]


def test_the_classes_of_opentelemetry_read_the_spans():
    spans = spans_of(as_otlp(story(), version="1.0.0"))
    assert [span.name for span in spans] == [
        *("Redeploy", "prepare", "recover"),
        *("Redeploy", "prepare", "recover"),
        *("Redeploy", "prepare"),
    ]
    assert {(len(span.trace_id), len(span.span_id)) for span in spans} == {(16, 8)}
    assert len({span.span_id for span in spans}) == len(spans)
    prepare = spans[1]
    assert prepare.parent_span_id == spans[0].span_id
    assert prepare.end_time_unix_nano - prepare.start_time_unix_nano == 120 * 10**9
    assert [span.status.code for span in spans] == [1, 1, 1, 1, 1, 1, 2, 2]


def test_the_vms_of_an_event_have_one_trace_also_in_separate_reports():
    together = spans_of(as_otlp(story(), version="1.0.0"))
    alone = spans_of(as_otlp(tell({"web2": a_maintenance("web2", later=30)}, {}), version="1.0.0"))
    assert {span.trace_id for span in together[:6]} == {span.trace_id for span in alone}
    assert together[6].trace_id != together[0].trace_id


def test_junit_counts_what_needs_a_look_and_what_could_not_be_read():
    root = ET.fromstring(as_junit(story()))
    assert [(suite.get("tests"), suite.get("failures"), suite.get("errors")) for suite in root] == [
        ("2", "0", "0"),
        ("1", "1", "0"),
        ("1", "0", "1"),
    ]
    assert root.find(".//failure").get("message") == "the preparation failed: drain: exit status 1"


def test_characters_that_xml_cannot_hold_are_replaced():
    facts = [announcement(), a_fact("held", 1, reason="bad \x00\x1b text")]
    assert "bad \ufffd\ufffd text" in ET.fromstring(as_junit(tell({"web1": facts}, {}))).find(".//failure").get(
        "message"
    )


def test_a_host_that_registered_nothing_is_named():
    hostvars = {
        "web1": {"read": {"facts": [SEEN], "problems": []}},
        "web2": {"read": {"msg": "no way in", "unreachable": True}},
        "web3": {},
        "web4": {"read": {"facts": [{"version": 2}], "problems": []}},
    }
    histories, unread = histories_of(hostvars, hostvars, "read")
    assert [fact.time for fact in histories["web1"]] == [AT]
    assert unread == {
        "web2": ["no way in"],
        "web3": [
            "its history was not read: read is not a result of scheduled_events_history_info. The host failed or "
            "cannot be reached, or no task registers this variable"
        ],
        "web4": ["1 fact left out. The first: version: expected 1, which this release reads, not 2"],
    }


@pytest.mark.parametrize(
    "read",
    [
        {"facts": 5},
        {"facts": {"kind": "seen"}},
        {"facts": [{**SEEN, "announced_seconds": 10**400}, {**SEEN, "announced_seconds": float("nan")}], "problems": 3},
        {"msg": "\ud800" * 5000},
        {"facts": [], "problems": ["\ud800" * 5000] * 5000},
    ],
)
def test_whatever_a_host_returns_there_is_a_report_that_names_the_host(read):
    story = tell(*histories_of(["web1"], {"web1": {"read": read}}, "read"))
    assert (story.is_good, list(story.unread)) == (False, ["web1"])
    assert len(page(story, made=AT, version="1.0.0").encode()) < LARGEST
    for text in (as_json(story, made=AT, version="1.0.0"), as_otlp(story, version="1.0.0")):
        json.loads(text, parse_constant=pytest.fail)
    as_junit(story).encode()


def test_an_absurdly_long_name_of_a_host_leaves_the_page_within_its_limit():
    name = "h" * 10**6
    story = tell(*histories_of([name], {name: {}}, "read"))
    assert len(page(story, made=AT, version="1.0.0").encode()) < LARGEST


def test_junit_passes_no_event_that_is_not_finished():
    root = ET.fromstring(as_junit(tell({"web1": [announcement()]}, {})))
    assert root.find(".//skipped").get("message") == "the event is not over"
