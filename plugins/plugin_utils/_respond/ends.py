# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of the hosts of a play: artifacts for a controller, and a summary for people. Private to the collection.

Each host of a play adds its part at its end, in its own process. The parts of the others are in a directory of
the control node.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import typing as t
from pathlib import Path

from ansible.utils.vars import merge_hash

from ...module_utils._scheduled_events.history import ACKNOWLEDGED
from ...module_utils._scheduled_events.text import counted
from .._ansible.other_host import failure_in
from .._ansible.run import digest, keep_file, kept

ARTIFACT = "scheduled_events_report"
DIRECTORY = "ends"  # in the directory of the play
# What the file of a host ends with: its part; a part that more follows; and what counts if nothing follows.
WHOLE, BEGUN, UNFINISHED = ".json", ".begun", ".unfinished"

SHOWN = ("event_type", "event_status", "event_source", "not_before", "resources")

Part = t.Dict[str, t.Any]


def of_respond(host: str, result: t.Mapping[str, t.Any]) -> Part:
    """The part of a host after the role respond; ``result`` is its fact respond_result."""
    if "story" not in result:
        return _part(host, {}, [result.get("problem") or "the role ended without a result. See its tasks"])
    story = result["story"]
    held = {each["event_id"]: each["reason"] for each in result["held"]}
    ids = [*(line["event_id"] for line in story), *held, *result["prepared"], *result["recovered"]]
    ids += result["named"]
    events = {}
    for event_id in dict.fromkeys(ids):
        lines = [line for line in story if line["event_id"] == event_id]
        texts = [line["text"] for line in lines]
        if event_id in held:
            texts.append(f"held: {held[event_id]}")
        events[event_id] = {
            **({"event_type": lines[0]["event_type"]} if lines else {}),
            **_acknowledged(host, event_id, result),
            "hosts": {host: ", ".join(texts) or "nothing to do"},
        }
    return _part(host, events, result["failures"])


def _acknowledged(host: str, event_id: str, result: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Who acknowledged the event, and when: a fact of the run, which has none in check mode."""
    times = [
        fact["time"].partition(".")[0] + "Z"  # without its milliseconds
        for fact in result["history"]
        if fact["kind"] == ACKNOWLEDGED and fact["event_id"].lower() == event_id.lower()
    ]
    return {"acknowledged_by": host, "acknowledged_at": times[-1]} if times else {}


def of_events(host: str, result: t.Mapping[str, t.Any]) -> Part:
    """The part of a host whose events were read; ``result`` is that of the module scheduled_events_info."""
    if "events" not in result:
        return _part(host, {}, [failure_in(result) if result else "its events could not be read"])
    events = {
        _key(event): {
            **{name: event[name] for name in SHOWN},
            "hosts": {host: "named" if event["affects_this_vm"] else "sees it"},
        }
        for event in result["events"]
    }
    return _part(host, events, [])


def _key(event: t.Mapping[str, t.Any]) -> str:
    """The id of an event. Without one, hosts see the same event where they see the same fields."""
    if event["event_id"]:
        return str(event["event_id"])
    fields = json.dumps([event[name] for name in SHOWN])
    return f"without EventId ({hashlib.sha256(fields.encode()).hexdigest()[:8]})"


def of_maintenance(host: str, result: t.Mapping[str, t.Any]) -> Part:
    """The part of a host after the role rolling_maintenance; ``result`` is its fact rolling_maintenance_result."""
    if "outcome" not in result:
        return {"maintenance": {host: "failed"}, "failures": {host: ["the maintenance failed. See its tasks"]}}
    return {"maintenance": {host: result["outcome"]}}


KINDS: dict[str, t.Callable[[str, t.Mapping[str, t.Any]], Part]] = {
    "events": of_events,
    "maintenance": of_maintenance,
    "respond": of_respond,
}


def _part(host: str, events: Part, failures: t.Sequence[str]) -> Part:
    return {"events": events, **({"failures": {host: list(failures)}} if failures else {})}


def merge(parts: t.Iterable[Part]) -> Part:
    """All parts as one, as Ansible merges the artifacts of a job."""
    return functools.reduce(merge_hash, parts, {})


def summary(parts: t.Mapping[str, Part], *, hosts: int) -> list[str]:
    """The lines for people.

    :param parts: by host.
    :param hosts: how many hosts the play has.
    """
    whole = merge(parts[host] for host in sorted(parts))
    lines = [f"Summary of {counted(hosts, 'host')}:"]
    for event_id, event in sorted(whole.get("events", {}).items()):
        lines.append(f"  {event.get('event_type', 'event')} {event_id}: {_headline(event)}")
        lines += [f"    {host}: {text}" for host, text in event["hosts"].items()]
    by_outcome: dict[str, list[str]] = {}
    for host, outcome in whole.get("maintenance", {}).items():
        by_outcome.setdefault(outcome, []).append(host)
    lines += [f"  {outcome}: {', '.join(names)}" for outcome, names in sorted(by_outcome.items())]
    for host, failures in whole.get("failures", {}).items():
        lines += [f"  FAILED {host}: {failure}" for failure in failures]
    idle = [host for host, part in parts.items() if not any(part.values())]
    if idle:
        lines.append(f"  no event: {counted(len(idle), 'host')}")
    if len(parts) < hosts:
        lines.append(f"  without a result: {hosts - len(parts)} (unreachable or not started; see the recap)")
    return lines


def _headline(event: t.Mapping[str, t.Any]) -> str:
    if "event_status" in event:
        before = f", NotBefore {event['not_before']}" if event["not_before"] else ""
        return f"{event['event_status']}{before}, from {event['event_source']}, for {', '.join(event['resources'])}"
    if "acknowledged_by" in event:
        return f"acknowledged by {event['acknowledged_by']} at {event['acknowledged_at']}"
    return "not acknowledged by this job"


def of_unfinished(host: str, following: t.Mapping[str, t.Any]) -> Part:
    """The part of a host that does not come to the end of a phase; ``following`` is its last turn."""
    events = ", ".join(f"{event['event_type']} {event['event_id']}" for event in following["events"])
    text = (
        f"did not come to the end of {following['next']} for {events}: it became unreachable there, or a task such "
        "as meta: end_host took it out of the play. Fix this, and run the role again"
    )
    return _part(host, {}, [text])


class Ends:
    """The parts of the hosts of one play, in a directory of the control node.

    ``play``: the directory of the play, which Ansible removes at the end of the run.
    """

    def __init__(self, play: Path) -> None:
        self._directory = play / DIRECTORY

    def add(self, host: str, part: Part, *, hosts: int, kind: str = WHOLE) -> list[str]:
        """Leave a part of one host; the summary if it is the last of the ``hosts`` of the play, and else nothing."""
        unfinished, begun, whole = (self._directory / f"{digest(host)}{each}" for each in (UNFINISHED, BEGUN, WHOLE))
        if kind == UNFINISHED:
            path = unfinished
        else:
            unfinished.unlink(missing_ok=True)  # first: another host may read all as soon as this part is there
            path = begun if kind == BEGUN else whole
            part = merge([*(kept(known)["part"] for known in (begun, whole) if known.exists()), part])
        keep_file(path, {"host": host, "part": part, "hosts": hosts})
        # By their names alone, since each host of a large fleet counts them.
        count = sum(name.endswith(WHOLE) for name in os.listdir(self._directory))
        return self.show() if count >= hosts else []

    def parts(self) -> dict[str, Part]:
        """The part of each host that has left one."""
        return {each["host"]: each["part"] for each in self._known(BEGUN, WHOLE, UNFINISHED)}

    def unfinished(self) -> list[str]:
        """The hosts that have not come to the end of a phase."""
        return [each["host"] for each in self._known(UNFINISHED)]

    def show(self) -> list[str]:
        """The summary, unless it has been shown."""
        try:
            (self._directory / "shown").touch(exist_ok=False)
        except FileExistsError:
            return []
        return summary(self.parts(), hosts=max(each["hosts"] for each in self._known(BEGUN, WHOLE, UNFINISHED)))

    def _known(self, *kinds: str) -> list[dict[str, t.Any]]:
        return [kept(path) for kind in kinds for path in sorted(self._directory.glob(f"*{kind}"))]


def ends_of_all_plays(run: Path) -> list[Ends]:
    """The plays of a run; ``run`` is the directory of all of them."""
    return [Ends(directory.parent) for directory in sorted(run.glob(f"*/{DIRECTORY}"))]
