# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML file, without references to other files and without scripts. Private to the collection."""

from __future__ import annotations

import math
import typing as t
from html import escape

from ...module_utils._scheduled_events.history import NO_IMPACT, format_moment
from ...module_utils._scheduled_events.text import counted, some
from .audit import MOST, Audit, Finding
from .story import EventStory, Lane, Story

LARGEST = 256 * 1024  # bytes
LARGEST_TABLE = LARGEST // 4  # bytes of each table of an audit
RESERVE = 700  # bytes for an event that is only named, and for the end of the page
LEAST_LANE = 100  # bytes that a lane takes at least
LANE_HEIGHT = 22
MOST_TICKS = 6
# Seconds between two ticks.
STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 7 * 86400)
LEAST_SHARE = 0.4  # of the width, for what happened; otherwise NotBefore is not on the axis
PHASES = ("drain", "tasks", "reboot", "health", "return")  # of a maintenance of the owner

STYLE = """
:root{--ink:#1f2933;--soft:#52606d;--paper:#fff;--line:#cbd2d9;--good:#1b7f4b;--bad:#b3261e;
--busy:#e0a800;--ready:#5b8def;--away:#d9695f;--empty:#eef1f4;--late:#9b2c2c}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--soft:#9aa5b1;--paper:#16191d;--line:#3e4c59;
--good:#4cc38a;--bad:#ff8a80;--busy:#c99700;--ready:#3f6fd1;--away:#b9534a;--empty:#23282e;--late:#ff8a80}}
@media print{:root{--ink:#000;--soft:#333;--line:#999}
.lane,tr,dl{break-inside:avoid}
h2,dl{break-after:avoid}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:70rem;background:var(--paper);color:var(--ink);
font:16px/1.45 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;
-webkit-print-color-adjust:exact;print-color-adjust:exact}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:0}
p{margin:.25rem 0}.soft,.legend,dt,figcaption{color:var(--soft);font-size:.875rem}
.verdict{border-left:.4rem solid var(--good);padding:.5rem .75rem;margin:1rem 0;background:var(--empty);font-weight:600}
.verdict.bad{border-color:var(--bad)}
section{border-top:1px solid var(--line);padding:1rem 0}
dl{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;margin:.5rem 0}dl div{min-width:0}dd{margin:0;overflow-wrap:anywhere}
.lane{display:grid;grid-template-columns:minmax(5rem,11rem) 1fr minmax(5rem,15rem);gap:0 .75rem;align-items:center;
padding:.15rem 0}
.lane b{font-weight:600;overflow-wrap:anywhere}.lane i{font-style:normal;color:var(--soft);font-size:.875rem}
.lane em{grid-column:1/-1;font-style:normal;color:var(--bad);font-size:.9rem;overflow-wrap:anywhere}
.lane svg{display:block;width:100%;height:22px;overflow:visible}
.empty{fill:var(--empty)}.waits{fill:var(--good);opacity:.4}.busy{fill:var(--busy)}.ready{fill:var(--ready)}.away{fill:var(--away)}.failed{fill:var(--bad)}
.bare{fill:var(--bad);fill-opacity:.15;stroke:var(--bad);stroke-width:2;stroke-dasharray:6 4}
.tick{fill:var(--soft);font-size:.75rem}
.notch{stroke:var(--soft)}
.finding{color:var(--bad)}
.ack{stroke:var(--ink);stroke-width:2}.due{stroke:var(--late);stroke-width:2;stroke-dasharray:4 3}
.legend{display:flex;flex-wrap:wrap;gap:0 .75rem}.legend span{white-space:nowrap}
.key{display:inline-block;width:.9rem;height:.9rem;border-radius:.2rem;vertical-align:-.1rem;margin:0 .25rem 0 0}
table{border-collapse:collapse;width:100%;font-size:.8rem}th,td{text-align:left;padding:.15rem .5rem .15rem 0;
border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
code{font-size:.8rem;overflow-wrap:anywhere}
@media (max-width:36rem){.lane{grid-template-columns:fit-content(60%) 1fr}.lane i{text-align:right}
.lane svg{grid-column:1/-1;grid-row:2}}
"""
LEGEND = (
    ("waits", "waits in service"),
    ("busy", "prepares, recovers, or is maintained"),
    ("ready", "prepared"),
    ("away", "started"),
    ("failed", "failed"),
    ("bare", "not prepared"),
)


def page(story: Story, *, made: float, version: str, audit: Audit | None = None) -> str:
    """The page, of at most LARGEST bytes. What does not fit is counted, the oldest events first.

    :param made: seconds since the epoch.
    :param version: of the collection.
    """
    head = _head(story, made=made, version=version) + (_audit(audit) if audit else "")
    left = LARGEST - len(head.encode()) - RESERVE
    parts, rest = [head], 0
    for event in story.events:
        shown = _fitting(event, left, made)
        if shown is None:
            rest += 1
            continue
        left -= len(shown.encode())
        parts.append(shown)
    if rest:
        events = "1 event does" if rest == 1 else f"{rest} events do"
        parts.append(f"<section><p>{events} not fit on this page. The JSON report has all events.</p></section>\n")
    return "".join([*parts, "</main>\n</body>\n</html>\n"])


def _head(story: Story, *, made: float, version: str) -> str:
    kind = "verdict" if story.is_good else "verdict bad"
    keys = "".join(
        f'<span><svg class="key"><rect width="100%" height="100%" class="{style}"/></svg>{text}</span>'
        for style, text in LEGEND
    )
    hosts = counted(len(story.hosts), "host")
    unread = "".join(
        f"<p>The history of {escape(host)} is incomplete: {escape('; '.join(reasons)[:300])}</p>"
        for host, reasons in sorted(story.unread.items())[:20]
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="maintops.scheduled_events {escape(version)}">
<title>Maintenance report</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Maintenance report</h1>
<p class="soft">{_moment(made)} UTC · {hosts} · maintops.scheduled_events {escape(version)} · all times are UTC</p>
<p class="{kind}">{escape(story.verdict)}</p>
{unread}
<p class="legend">{keys}<span>solid line: acknowledged</span><span>dashed line: NotBefore</span></p>
"""


def _audit(audit: Audit) -> str:
    coverage = [(what.replace("_", " "), str(len(names)), some(names)) for what, names in audit.coverage.items()]
    policies = [(text, str(len(hosts)), some(hosts)) for text, hosts in audit.policies.items()]
    return f"""<section>
<h2>Audit</h2>
<p class="{"soft" if audit.is_good else "finding"}">{escape(audit.verdict)}</p>
{_table(("row",), [(reason,) for reason in audit.unreadable[:MOST]])}{_table(Finding._fields, audit.findings)}
{_table(("coverage", "count", "names"), coverage)}{_table(("policy", "count", "hosts"), policies)}</section>
"""


def _table(heads: t.Sequence[str], lines: t.Sequence[t.Sequence[str]]) -> str:
    """A table with the lines that fit, and the number of the others."""
    if not lines:
        return ""
    rows, size = [], 0
    for line in lines:
        row = f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>"
        size += len(row.encode())
        if size > LARGEST_TABLE:
            break
        rows.append(row)
    titles = "".join(f"<th>{head.replace('_', ' ')}</th>" for head in heads)
    rest = f"<p>The JSON report has {len(lines) - len(rows)} more.</p>" if len(rows) < len(lines) else ""
    return f'<div class="wide"><table><tr>{titles}</tr>{"".join(rows)}</table></div>{rest}\n'


def _fitting(event: EventStory, left: int, made: float) -> str | None:
    """The event with as much as fits: its lanes with their times, its lanes, those with a problem, or its summary."""
    troubled = [lane for lane in event.lanes if lane.problem]
    for lanes, times in ((event.lanes, True), (event.lanes, False), (troubled, False), ([], False)):
        if len(lanes) * LEAST_LANE <= left:
            shown = _event(event, lanes, made, times=times)
            if len(shown.encode()) <= left:
                return shown
    return None


def _event(event: EventStory, lanes: t.Sequence[Lane], made: float, *, times: bool) -> str:
    axis = _axis(event, made)
    rows = "".join(_lane(lane, axis, made) for lane in lanes) + (_ticks(event, axis) if lanes else "")
    if event.finding:
        rows = f'<p class="finding">{escape(event.finding)}</p>{rows}'
    rest = len(event.lanes) - len(lanes)
    if rest:
        vms = "1 VM is" if rest == 1 else f"{rest} VMs are"
        rows += f'<p class="soft">{vms} not drawn. The JSON report has all VMs.</p>'
    return f"""<section>
<h2>{escape(_title(event))}</h2>
<p class="soft"><code>{escape(event.event_id)}</code></p>
<dl>{"".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in _figures(event))}</dl>
{rows}
{_times(event) if times else ""}</section>
"""


def _title(event: EventStory) -> str:
    count = event.resource_count if event.resource_count is not None else len(event.lanes)
    names = ", ".join(event.resources[:4] or [lane.vm_name or lane.host for lane in event.lanes[:4]])
    more = f" and {count - 4} more" if count > 4 else ""
    is_drill = any(lane.drill for lane in event.lanes)
    return f"{'Drill: ' if is_drill else ''}{event.event_type or 'Event'} of {names}{more}"


def _figures(event: EventStory) -> list[tuple[str, str]]:
    sender = event.acknowledgement
    figures = [
        ("Began" if event.is_maintenance else "First seen", _moment(event.began)),
        ("Source", event.event_source),
        ("NotBefore", _moment(event.not_before)),
        ("Acknowledged", _moment(sender.acknowledged) if sender else "" if event.is_maintenance else "no"),
        ("By", f"{sender.by} ({sender.via})" if sender else ""),
        ("Rule", sender.rule if sender else ""),
        ("Smallest margin", _seconds(event.margin)),
    ]
    return [(name, value) for name, value in figures if value]


def _axis(event: EventStory, made: float) -> Axis:
    """From the first time to the last, and to NotBefore, unless that leaves what happened no room."""
    times = [time for lane in event.lanes for time in lane.times]
    first, last = min(times), max(times)
    if event.not_before is not None:
        if any(lane.is_open for lane in event.lanes):
            last = max(last, min(made, event.not_before))
        if last - first >= LEAST_SHARE * (event.not_before - first) or last == first:
            last = max(last, event.not_before)
    return Axis(first, max(last, first + 1.0))


def _ticks(event: EventStory, axis: Axis) -> str:
    """The times below the lanes."""
    span = axis.last - axis.first
    step = next((step for step in STEPS if span / step <= MOST_TICKS), span / MOST_TICKS)
    day = format_moment(event.began)[:10]
    first = math.ceil(axis.first / step)
    marks = [
        f"{mark(axis, number * step, top=-4, bottom=3, style='notch')}"
        f'<text x="{axis.at(number * step)}" y="16" text-anchor="middle" class="tick">'
        f"{_clock(number * step, day).partition('.')[0].removesuffix(':00')}</text>"
        for number in range(first, first + MOST_TICKS + 1)
        if 3 <= axis.place(number * step) <= 97 and number * step < axis.last
    ]
    later = event.not_before is not None and event.not_before > axis.last
    note = f"NotBefore {_clock(event.not_before, day).partition('.')[0]} is beyond" if later else ""
    return f'<div class="lane scale"><b></b><svg aria-hidden="true">{"".join(marks)}</svg><i>{note}</i></div>\n'


def _lane(lane: Lane, axis: Axis, made: float) -> str:
    shapes = [f'<rect width="100%" height="{LANE_HEIGHT}" rx="4" class="empty"/>']
    now = min(made, axis.last)  # what has no end has lasted until now
    if lane.waits is not None:
        until = next((each for each in lane.times if each > lane.waits), max(lane.waits, now))
        shapes.append(_box(axis, lane.waits, until, "waits", "waits in service"))
    if lane.prepared is not None:
        until = lane.started or lane.over or now
        if until > lane.prepared:
            shapes.append(_box(axis, lane.prepared, until, "ready", "prepared"))
    elif lane.started is not None and lane.problem:
        shapes.append(_box(axis, lane.seen, lane.started, "bare", "not prepared"))
    if lane.started is not None:
        shapes.append(_box(axis, lane.started, lane.over or max(lane.started, now), "away", "started"))
    for each in lane.stretches:
        style = "failed" if each.failed else "busy"
        end = each.end if each.end is not None else max(each.begin, now)
        shapes.append(_box(axis, each.begin, end, style, f"{each.phase} {each.outcome}".strip()))
    if lane.acknowledged is not None:
        shapes.append(mark(axis, lane.acknowledged, top=-2, bottom=LANE_HEIGHT + 2, style="ack"))
    if lane.not_before is not None and axis.first <= lane.not_before <= axis.last:
        shapes.append(mark(axis, lane.not_before, top=-2, bottom=LANE_HEIGHT + 2, style="due"))
    problem = f"<em>{escape(lane.problem)}</em>" if lane.problem else ""
    summary = ", ".join(filter(None, _summary(lane)))
    label = escape(f"{lane.host}: {_said(lane)}")
    return (
        f'<div class="lane"><b>{escape(lane.host)}</b><svg role="img" aria-label="{label}">{"".join(shapes)}</svg>'
        f"<i>{escape(summary)}</i>{problem}</div>\n"
    )


def _box(axis: Axis, begin: float, end: float, style: str, what: str) -> str:
    """A stretch of time."""
    left, title = axis.place(begin), f"{what}: {_moment(begin)} to {_moment(end)}"
    place = f'x="{left:g}%" y="0" width="{round(axis.place(end) - left, 1):g}%" height="{LANE_HEIGHT}"'
    return f'<rect {place} rx="4" class="{style}"><title>{escape(title)}</title></rect>'


def _said(lane: Lane) -> str:
    """The lane in words, for those who do not see it."""
    said = [f"{each.phase} {each.outcome or 'without an end'}" for each in lane.stretches]
    return ", ".join(filter(None, [*said, *_summary(lane)])) or "nothing to do"


def _summary(lane: Lane) -> tuple[str, ...]:
    cancelled = "over before NotBefore, not started" if lane.was_cancelled else ""
    ignored = f"ignored by {lane.ignored.partition(':')[0]}" if lane.ignored else ""
    margin = "" if lane.margin is None else f"margin {_seconds(lane.margin)}"
    return ignored, margin, _impact(lane), cancelled, lane.unfinished


def _impact(lane: Lane) -> str:
    if not lane.impact:
        return ""
    seconds = lane.announced_seconds
    announced = "" if seconds is None or seconds < 0 else f", announced {_seconds(seconds)}"
    if lane.impact == NO_IMPACT:
        return f"no impact noticed{announced}"
    return f"{lane.impact} {_seconds(lane.measured_seconds)}{announced}"


def _times(event: EventStory) -> str:
    day = format_moment(event.began)[:10]
    lines = [_moments_of(event, lane) for lane in event.lanes]
    heads = "".join(f"<th>{name}</th>" for name in ("host", *lines[0]))
    rows = "".join(
        f"<tr><td>{escape(lane.host)}</td>{''.join(f'<td>{_clock(time, day)}</td>' for time in line.values())}</tr>"
        for lane, line in zip(event.lanes, lines, strict=True)
    )
    is_open = " open" if len(event.lanes) <= 10 else ""
    return (
        f"<details{is_open}><summary>Times</summary>"
        f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div></details>\n'
    )


def _moments_of(event: EventStory, lane: Lane) -> dict[str, float | None]:
    """The times of a lane by the heading of their column, which are the same for all lanes of the event."""
    if event.is_maintenance:
        last = lane.last
        return {**{name: last[name].begin if name in last else None for name in PHASES}, "returned": lane.returned}
    return {
        "seen": lane.seen,
        "prepared": lane.prepared,
        "acknowledged": lane.acknowledged,
        "Started": lane.started,
        "over": lane.over,
        "returned": lane.returned,
    }


def _moment(time: float | None) -> str:
    return "" if time is None else format_moment(time)[:19].replace("T", " ")


def _clock(time: float | None, day: str) -> str:
    """The time, with its date unless it is on the day on which the event was announced."""
    if time is None:
        return ""
    text = format_moment(time)
    return text[11:23] if text[:10] == day else text[:23].replace("T", " ")


def _seconds(number: float | None) -> str:
    """Rounded to what the intervals of the polls allow; the JSON report has all digits."""
    return "" if number is None else f"{number:.1f}".removesuffix(".0") + " s"


class Axis(t.NamedTuple):
    """Where a time is on the picture, in percent of its width."""

    first: float
    last: float

    def place(self, time: float) -> float:
        """The percent from the left."""
        return round((time - self.first) * 100 / (self.last - self.first), 1)

    def at(self, time: float) -> str:
        """The place as an attribute has it."""
        return f"{self.place(time):g}%"


def mark(axis: Axis, time: float, *, top: float, bottom: float, style: str) -> str:
    """A moment, as a line across the lane."""
    return f'<line x1="{axis.at(time)}" y1="{top:g}" x2="{axis.at(time)}" y2="{bottom:g}" class="{style}"/>'
