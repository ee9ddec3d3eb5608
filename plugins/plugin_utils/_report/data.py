# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report for programs: JSON, JUnit XML, and spans of OpenTelemetry. Private to the collection."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
import xml.etree.ElementTree as ET

from ...module_utils._scheduled_events.history import format_moment
from .audit import Audit
from .story import EventStory, Lane, Story

VERSION = 1  # of the JSON report; a new key does not change it
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LANE_TIMES = ("seen", "prepared", "acknowledged", "started", "over", "returned", "not_before")
LANE_FIELDS = (
    *("host", "vm_name", "by", "via", "rule", "ignored", "held", "refused", "impact"),
    *("announced_seconds", "measured_seconds", "margin", "problem", "unfinished", "drill"),
)


def as_json(story: Story, *, made: float, version: str, audit: Audit | None = None) -> str:
    """All events, with times of UTC; what is not known is null.

    :param made: seconds since the epoch.
    :param version: of the collection.
    """
    document = {
        "version": VERSION,
        "made": format_moment(made),
        "collection": version,
        "verdict": story.verdict,
        "good": story.is_good and (audit is None or audit.is_good),
        "hosts": list(story.hosts),
        "unread": {host: list(reasons) for host, reasons in sorted(story.unread.items())},
        "events": [_event(event) for event in story.events],
        "audit": audit.as_dict() if audit else None,
    }
    return json.dumps(document, indent=2) + "\n"


def _event(event: EventStory) -> dict[str, t.Any]:
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "event_source": event.event_source,
        "resources": list(event.resources),
        "resource_count": event.resource_count,
        "announced_at": format_moment(event.began),
        "margin": event.margin,
        "finding": event.finding,
        "hosts": [_lane(lane) for lane in event.lanes],
    }


def _lane(lane: Lane) -> dict[str, t.Any]:
    phases = [
        {**each._asdict(), "begin": format_moment(each.begin), "end": _moment(each.end)} for each in lane.stretches
    ]
    times = {name: _moment(getattr(lane, name)) for name in LANE_TIMES}
    return {**{name: getattr(lane, name) for name in LANE_FIELDS}, **times, "phases": phases}


def _moment(time: float | None) -> str | None:
    return None if time is None else format_moment(time)


def as_junit(story: Story) -> str:
    """A suite for each event, and a test for each of its VMs, which fails if it needs a look."""
    root = ET.Element("testsuites", name="maintenance")
    for event in story.events:
        name, problems = f"{event.event_type} {event.event_id}", event.problems
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_plain(name),
            tests=str(len(event.lanes)),
            failures=str(len(problems)),
            errors="0",
            timestamp=format_moment(event.began)[:19],
        )
        for lane in event.lanes:
            seconds = lane.times[-1] - lane.times[0]
            case = ET.SubElement(suite, "testcase", name=_plain(lane.host), classname=_plain(name))
            case.set("time", f"{seconds:.3f}")
            if lane.host in problems:
                ET.SubElement(case, "failure", message=_plain(problems[lane.host]))
            elif lane.unfinished:
                ET.SubElement(case, "skipped", message=_plain(lane.unfinished))
    if story.unread:
        count = str(len(story.unread))
        suite = ET.SubElement(root, "testsuite", name="histories", tests=count, failures="0", errors=count)
        for host, reasons in sorted(story.unread.items()):
            case = ET.SubElement(suite, "testcase", name=_plain(host), classname="histories")
            ET.SubElement(case, "error", message=_plain("; ".join(reasons)))
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def as_otlp(story: Story, *, version: str) -> str:
    """Spans as the receiver ``otlpjsonfile`` of a collector reads them, in one line.

    The id of a trace comes from the EventId alone. So the spans of all VMs of an event belong to one trace, also if
    they come from several reports.
    """
    found = [_resource_spans(event, lane, version) for event in story.events for lane in event.lanes]
    return json.dumps({"resourceSpans": found}, separators=(",", ":")) + "\n"


def _resource_spans(event: EventStory, lane: Lane, version: str) -> dict[str, t.Any]:
    trace = _id(32, event.event_id.lower())
    own = _id(16, trace, lane.vm_name or lane.host, format_moment(lane.seen))
    whole = {
        **_span(trace, own, event.event_type or "event", lane.times[0], lane.times[-1], lane.problem),
        "attributes": _attributes(
            event_id=event.event_id,
            event_type=event.event_type,
            event_source=event.event_source,
            acknowledged_by=lane.by,
            rule=lane.rule,
            margin_seconds=lane.margin,
            impact=lane.impact,
            announced_seconds=lane.announced_seconds,
            measured_seconds=lane.measured_seconds,
        ),
        "events": [
            {"timeUnixNano": _nanoseconds(getattr(lane, name)), "name": name}
            for name in ("seen", "acknowledged", "started", "over", "returned")
            if getattr(lane, name) is not None
        ],
    }
    phases = [
        {
            **_span(
                trace,
                _id(16, own, each.phase, str(number)),
                each.phase,
                each.begin,
                each.begin if each.end is None else each.end,
                (each.reason or each.outcome) if each.failed else "",
            ),
            "parentSpanId": own,
        }
        for number, each in enumerate(lane.stretches)
    ]
    names = {"service.name": "scheduled-events", "host.name": lane.host, "azure.vm.name": lane.vm_name}
    return {
        "resource": {"attributes": [_attribute(key, value) for key, value in names.items() if value]},
        "scopeSpans": [{"scope": {"name": "maintops.scheduled_events", "version": version}, "spans": [whole, *phases]}],
    }


def _span(trace: str, own: str, name: str, begin: float, end: float, error: str) -> dict[str, t.Any]:
    return {
        "traceId": trace,
        "spanId": own,
        "name": name,
        "kind": 1,  # SPAN_KIND_INTERNAL
        "startTimeUnixNano": _nanoseconds(begin),
        "endTimeUnixNano": _nanoseconds(end),
        "status": {"code": 2, "message": error} if error else {"code": 1},  # STATUS_CODE_ERROR, STATUS_CODE_OK
    }


def _attributes(**values: str | float | None) -> list[dict[str, t.Any]]:
    known = {name: value for name, value in values.items() if value not in ("", None)}
    return [_attribute(f"scheduled_events.{name}", value) for name, value in known.items()]


def _attribute(key: str, value: str | float | None) -> dict[str, t.Any]:
    return {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}}


def _nanoseconds(time: float) -> str:
    return str(round(time * 1000) * 1_000_000)


def _id(digits: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]
