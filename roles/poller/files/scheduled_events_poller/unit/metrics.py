# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures for node_exporter's textfile collector. Counters begin at zero with each start, as Prometheus expects."""

import collections
import os
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from _scheduled_events.document import Document
from _scheduled_events.files import write_atomically

FILE_NAME = "scheduled_events.prom"
LARGEST = 2.0**63  # of an incarnation; a larger value counts nothing

Labels = Tuple[Tuple[str, str], ...]


class Metrics:
    """Counts what happens, and writes it down in Prometheus' text format."""

    def __init__(self) -> None:
        self._last_success: Optional[float] = None
        self._document: Optional[Document] = None
        self._vm_name = ""
        self._polls = {"success": 0, "failure": 0}
        self._approvals = {"accepted": 0, "failed": 0}
        self._delay, self._delays = 0.0, 0
        self.unprepared = 0  # events that are left to their NotBefore, since nothing prepares for them
        self.waits_until: Optional[float] = None  # the next moment that a rule chose, in seconds since the epoch
        self.unsaved = False  # whether the state could not be saved the last time
        self._hook_seconds: Dict[str, float] = collections.defaultdict(float)
        self._hook_runs: Dict[Tuple[str, str], int] = collections.defaultdict(int)
        self._impacts: Dict[Labels, Tuple[float, int]] = {}

    def poll_succeeded(self, document: Document, *, vm_name: str, now: float) -> None:
        """A document was read at ``now``, in seconds since the epoch."""
        self._polls["success"] += 1
        self._last_success, self._document, self._vm_name = now, document, vm_name

    def poll_failed(self) -> None:
        """A poll gave no document."""
        self._polls["failure"] += 1

    def hooks_ended(self, phase: str, outcome: str, seconds: float) -> None:
        """The hooks of a phase of an event have ended."""
        self._hook_runs[phase, outcome] += 1
        self._hook_seconds[phase] += seconds

    def approval_ended(self, *, accepted: bool) -> None:
        """An attempt to acknowledge has ended."""
        self._approvals["accepted" if accepted else "failed"] += 1

    def acknowledged(self, seconds: float) -> None:
        """An event was acknowledged so many seconds after it was seen."""
        self._delay += max(0.0, seconds)
        self._delays += 1

    def impact(self, event_type: str, outcome: str, seconds: float) -> None:
        """An impact was measured."""
        labels = (("type", event_type), ("outcome", outcome))
        total, count = self._impacts.get(labels, (0.0, 0))
        self._impacts[labels] = total + seconds, count + 1

    @property
    def polled(self) -> bool:
        """Whether a document has been read."""
        return self._document is not None

    def write(self, directory: str) -> None:
        """Replace the file in the directory.

        :raises OSError: it cannot be replaced.
        """
        write_atomically(os.path.join(directory, FILE_NAME), self.render().encode(), mode=0o644)

    def render(self) -> str:
        """The metrics as text that every encoder takes."""
        return "".join(self._families()).encode("utf-8", "replace").decode("utf-8")

    def _families(self) -> Iterator[str]:
        polls = [((("result", result),), count) for result, count in self._polls.items()]
        yield _family("polls_total", "counter", "Requests for the document.", polls)
        if self._last_success is not None:
            yield _family(
                "last_successful_poll_timestamp_seconds",
                "gauge",
                "When a document was read last.",
                [((), self._last_success)],
            )
        if self._document is not None:
            incarnation = self._document.incarnation
            if isinstance(incarnation, int) and abs(incarnation) <= LARGEST:
                yield _family("incarnation", "gauge", "DocumentIncarnation read last.", [((), float(incarnation))])
            yield _family("events", "gauge", "Events of this VM in the document read last.", self._events())
        yield _family(
            "events_nothing_prepares",
            "gauge",
            "Events that are not acknowledged, because nothing prepares this VM for them.",
            [((), self.unprepared)],
        )
        yield _family(
            "waits_until_timestamp_seconds",
            "gauge",
            "When the next event is prepared for or acknowledged that waits for a moment of its rule.",
            [] if self.waits_until is None else [((), self.waits_until)],
        )
        unsaved = [((), float(self.unsaved))]
        yield _family("state_unsaved", "gauge", "1 while the state cannot be saved, so nothing is done.", unsaved)
        approvals = [((("result", result),), count) for result, count in self._approvals.items()]
        yield _family("approvals_total", "counter", "Attempts to acknowledge an event.", approvals)
        yield _family(
            "approval_delay_seconds",
            "summary",
            "From an event's first sight to its acknowledgement.",
            [],
            summary=[((), self._delay, self._delays)],
        )
        impacts = [(labels, total, count) for labels, (total, count) in self._impacts.items()]
        yield _family("impact_seconds", "summary", "Measured impact of events.", [], summary=impacts)
        runs = [
            ((("phase", phase), ("outcome", outcome)), count) for (phase, outcome), count in self._hook_runs.items()
        ]
        yield _family("hook_runs_total", "counter", "Ended runs of the hooks of a phase.", runs)
        durations = [
            ((("phase", phase),), seconds, self._runs_of(phase)) for phase, seconds in self._hook_seconds.items()
        ]
        yield _family("hook_duration_seconds", "summary", "What the hooks of a phase took.", [], summary=durations)

    def _runs_of(self, phase: str) -> int:
        return sum(count for (of, _outcome), count in self._hook_runs.items() if of == phase)

    def _events(self) -> List[Tuple[Labels, float]]:
        counts: Dict[Labels, float] = collections.defaultdict(float)
        for event in self._document.events if self._document else ():
            if event.affects(self._vm_name):
                counts[("type", event.event_type or ""), ("status", event.event_status or "")] += 1
        return list(counts.items())


def _family(
    name: str,
    kind: str,
    meaning: str,
    values: Sequence[Tuple[Labels, float]],
    *,
    summary: Sequence[Tuple[Labels, float, int]] = (),
) -> str:
    name = f"scheduled_events_{name}"
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in values]
    for labels, total, count in summary:
        lines += [f"{name}_sum{_labels(labels)} {total:.17g}", f"{name}_count{_labels(labels)} {count}"]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
