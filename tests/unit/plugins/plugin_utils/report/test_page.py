# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a report. The expected page is the file report.html; write it again with REPORT_GOLDEN=write."""

import html.parser
import json
import os
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest
from histories import AT, a_fact, a_maintenance, a_phase, announcement
from hypothesis import given
from hypothesis import strategies as st

from plugins.module_utils._scheduled_events.history import KINDS, Fact, format_moment, parse_moment
from plugins.module_utils._scheduled_events.history import as_json as fact_as_json
from plugins.plugin_utils._report.data import as_json, as_junit, as_otlp
from plugins.plugin_utils._report.gather import histories_of
from plugins.plugin_utils._report.page import LARGEST, page
from plugins.plugin_utils._report.story import tell

HERE = pathlib.Path(__file__).parent
HOSTILE = "</section><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Reader(html.parser.HTMLParser):
    """The elements of a page, which must be closed in their order."""

    EMPTY = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def drawn(histories, unread=()):
    return page(tell(histories, dict(unread)), made=AT + 3600, version="1.0.0")


def sample():
    failed = [announcement("web3"), *a_phase("prepare", 1, 60, "web3", "failed", "drain: exit status 1")]
    return {
        "web1": a_maintenance(),
        "web2": a_maintenance("web2", later=30, leads=False),
        "web3": [fact._replace(event_id="E2", resources=("web3",), resource_count=1) for fact in failed],
    }


def test_the_page_of_a_known_history_is_that_of_its_file():
    text, golden = drawn(sample()), HERE / "report.html"
    if os.environ.get("REPORT_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(("announced", "shown"), [(9.0, ", announced 9 s"), (0.0, ", announced 0 s"), (-1.0, "")])
def test_an_impact_is_shown_beside_the_announced_duration_if_there_is_one(announced, shown):
    facts = [announcement()._replace(announced_seconds=announced), *a_maintenance()[1:]]
    assert f"rebooted 48.2 s{shown}" in drawn({"web1": facts})
    assert (", announced" in drawn({"web1": facts})) == bool(shown)


def test_the_page_refers_to_nothing_and_has_no_script():
    reader = Reader(drawn(sample()))
    assert reader.open == []
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(reader.found)
    assert not [value for name, value in reader.attributes if name in ("src", "href") or "url(" in (value or "")]


def test_no_text_of_an_event_or_of_a_host_changes_the_elements_of_the_page():
    def of(text):
        facts = [announcement("web1", event_type=text, event_source=text, resources=(text, text))]
        facts += a_phase("prepare", 1, 60, outcome="failed", reason=text)
        return drawn({"web1": [fact._replace(event_id=text, vm_name=text) for fact in facts]}, {text: [text]})

    assert Reader(of(HOSTILE)).found == Reader(of("plain")).found


TEXT = st.sampled_from(["", "ok", "failed", "prepare", "recover", "none", "paused", HOSTILE])
TIME = st.floats(0, 4e9) | st.just(parse_moment("2199-12-31T23:59:59.000Z"))
FACT = st.builds(
    Fact,
    kind=st.sampled_from(KINDS),
    time=TIME,
    source=st.just("poller"),
    vm_name=TEXT,
    run=TEXT,
    event_id=st.sampled_from(["", "A", "a", "B", HOSTILE]),
    event_type=TEXT,
    phase=TEXT,
    outcome=TEXT,
    reason=TEXT,
    not_before=st.none() | TIME,
    resources=st.lists(TEXT, max_size=3).map(tuple),
    resource_count=st.none() | st.integers(0, 10**9),
    announced_seconds=st.none() | st.floats(-1, 1e9),
    measured_seconds=st.none() | st.floats(0, 1e9),
)


@given(st.dictionaries(st.sampled_from(["web1", "web2", HOSTILE]), st.lists(FACT, max_size=20)))
def test_any_histories_make_a_page_and_data(histories):
    story = tell(histories, {})
    assert Reader(page(story, made=AT, version="1.0.0")).open == []
    assert len(json.loads(as_json(story, made=AT, version="1.0.0"))["events"]) == len(story.events)
    ET.fromstring(as_junit(story))
    spans = [
        span
        for resource in json.loads(as_otlp(story, version="1.0.0"))["resourceSpans"]
        for span in resource["scopeSpans"][0]["spans"]
    ]
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)


def test_a_fact_of_the_year_9999_is_left_out_and_named():
    facts = [announcement(), *a_phase("prepare", 60, 90)[:1]]
    facts = [fact_as_json(fact) for fact in facts]
    late = {**facts[0], "time": "9999-12-31T23:59:59.999Z"}
    histories, unread = histories_of(["web1"], {"web1": {"read": {"facts": [*facts, late], "problems": []}}}, "read")
    reason = 'time: expected a time from 1970-01-01T00:00:00.000Z to 2199, not "9999-12-31T23:59:59.999Z"'
    assert unread == {"web1": [f"1 fact left out. The first: {reason}"]}
    assert "The history of web1 is incomplete" in page(tell(histories, unread), made=AT, version="1.0.0")


@pytest.mark.parametrize(("events", "hosts"), [(1, 200), (12, 80), (800, 1)])
def test_the_page_is_never_larger_than_its_limit_and_says_what_is_missing(events, hosts):
    histories = {
        f"a-host-with-a-long-name-{host:03}": [
            fact._replace(event_id=f"E{event}", time=fact.time + 10000 * event)
            for event in range(events)
            for fact in a_maintenance(f"a-host-with-a-long-name-{host:03}")
        ]
        for host in range(hosts)
    }
    text = drawn(histories)
    assert len(text.encode()) <= LARGEST
    assert Reader(text).open == []
    sections = text.count("<h2>")
    assert sections == events or f"{events - sections} events do not fit on this page." in text


def test_two_hundred_vms_of_an_event_are_all_drawn():
    histories = {f"node-{n:03}": a_maintenance(f"node-{n:03}", later=n / 10) for n in range(200)}
    assert drawn(histories).count('<div class="lane">') == 200


def test_a_far_notbefore_leaves_what_happened_the_width_and_is_named():
    text = drawn({"web1": [fact._replace(not_before=AT + 36000) for fact in a_maintenance()]})
    assert 'x="0.2%" y="0" width="26.7%" height="22" rx="4" class="busy"' in text  # 120 of 450 seconds
    assert "<i>NotBefore 21:50:00 is beyond</i>" in text
    assert 'class="due"' not in text


def test_a_near_notbefore_is_on_the_axis_with_the_times_below():
    text = drawn({"web1": a_maintenance()})
    assert 'class="due"' in text
    times = [" ".join(each.split(">")[1:2]).partition("<")[0] for each in text.split("<text")[1:]]
    assert times == ["11:55", "12:00"]


def test_what_is_pending_ends_at_the_time_of_the_report():
    pending = {"web1": [announcement(), *a_phase("prepare", 0, 90)]}
    text = page(tell(pending, {}), made=AT + 600, version="1.0.0")
    assert "prepared: 2026-01-31 11:51:30 to 2026-01-31 12:00:00" in text


def test_a_vm_that_an_event_met_unprepared_is_drawn_so():
    facts = [announcement(), a_fact("held", 2, reason="hooks missing"), a_fact("started", 900), a_fact("over", 1200)]
    assert 'class="bare"><title>not prepared: 2026-01-31 11:50:00 to 2026-01-31 12:05:00' in drawn({"web1": facts})


def test_a_time_on_another_day_than_the_announcement_has_its_date():
    text = drawn({"web1": [announcement(), *a_phase("prepare", 60, 3 * 86400)]})
    assert "<td>11:50:00.000</td><td>2026-02-03 11:50:00.000</td>" in text


def test_the_time_in_service_before_a_chosen_moment_is_drawn_until_the_preparation_begins():
    waits = a_fact("held", 10, reason="waits for its moment: 300 s before NotBefore")
    text = drawn({"web1": [announcement("web1"), waits, *a_phase("prepare", 70, 90)]})
    begin, end = (f"{format_moment(AT + seconds)[11:19]}" for seconds in (10, 70))
    assert re.search(rf'class="waits"><title>waits in service: [^<]*{begin}[^<]* to [^<]*{end}', text)
