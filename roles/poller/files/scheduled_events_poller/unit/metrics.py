# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures for node_exporter's textfile collector. Counters begin at zero with each start, as Prometheus expects."""

import os
from typing import Dict, Iterator, Optional

from _scheduled_events.document import Document
from _scheduled_events.files import write_atomically
from _scheduled_events.runs import FAILED, TIMEOUT

FILE_NAME = "scheduled_events.prom"

FAMILIES = {
    "polls_total": ("counter", "Requests for the document."),
    "last_successful_poll_timestamp_seconds": ("gauge", "When a document was read last."),
    "incarnation": ("gauge", "DocumentIncarnation read last."),
    "events": ("gauge", "Events of this VM in the document read last."),
    "unprepared_events": (
        "gauge",
        "Events that are not acknowledged, because nothing prepares this VM for them.",
    ),
    "waits_until_timestamp_seconds": (
        "gauge",
        "When the next event is prepared for or acknowledged that waits for a moment of its rule.",
    ),
    "status": ("gauge", "How the unit and its events are: 0 OK, 1 warning, 2 critical, 3 unknown."),
    "state_unsaved": ("gauge", "1 while the state cannot be saved, so nothing is done."),
    "approvals_total": ("counter", "Attempts to acknowledge an event."),
    "approval_delay_seconds": ("summary", "From an event's first sight to its acknowledgement."),
    "impact_seconds": ("summary", "Measured impact of events."),
    "hook_runs_total": ("counter", "Ended runs of the hooks of a phase."),
    "hook_failure_timestamp_seconds": ("gauge", "When the hooks of a phase failed last, since the start."),
    "hook_duration_seconds": ("summary", "What the hooks of a phase took."),
}


class Metrics:
    """Counts what happens, and writes it down in Prometheus' text format.

    :ivar polled: whether a document has been read.
    """

    def __init__(self) -> None:
        self.polled = False
        # The samples of each family, by what follows its name.
        self._samples: Dict[str, Dict[str, float]] = {name: {} for name in FAMILIES}
        for family, outcomes in (("polls_total", ("ok", "failed")), ("approvals_total", ("accepted", "failed"))):
            for outcome in outcomes:
                self._add(family, 0, outcome=outcome)
        self._add("approval_delay_seconds", 0, "_sum")
        self._add("approval_delay_seconds", 0, "_count")
        for family in ("unprepared_events", "state_unsaved"):
            self.set(family, 0)

    def _add(self, family: str, value: float = 1, suffix: str = "", **labels: str) -> None:
        key = suffix + _shown(labels)
        self._samples[family][key] = self._samples[family].get(key, 0.0) + value

    def _observe(self, family: str, seconds: float, **labels: str) -> None:
        self._add(family, seconds, "_sum", **labels)
        self._add(family, 1, "_count", **labels)

    def set(self, family: str, value: Optional[float]) -> None:
        """Set a gauge without labels; ``None``: it is not shown."""
        self._samples[family].clear()
        if value is not None:
            self._add(family, value)

    def poll_succeeded(self, document: Document, *, vm_name: str, now: float) -> None:
        """A document was read at ``now``, in seconds since the epoch."""
        self.polled = True
        self._add("polls_total", outcome="ok")
        self.set("last_successful_poll_timestamp_seconds", now)
        self.set("incarnation", document.incarnation if isinstance(document.incarnation, int) else None)
        self._samples["events"].clear()
        for event in document.events:
            if event.affects(vm_name):
                self._add("events", type=event.event_type or "", status=event.event_status or "")

    def poll_failed(self) -> None:
        """A poll gave no document."""
        self._add("polls_total", outcome="failed")

    def hooks_ended(self, phase: str, outcome: str, *, now: float) -> None:
        """The hooks of a phase of an event have ended, or are taken to have ended without a result, at ``now``."""
        self._add("hook_runs_total", phase=phase, outcome=outcome)
        if outcome in (FAILED, TIMEOUT):
            self._samples["hook_failure_timestamp_seconds"][_shown({"phase": phase, "outcome": outcome})] = now

    def hooks_took(self, phase: str, seconds: float) -> None:
        """A result of the hooks of a phase of an event was read."""
        self._observe("hook_duration_seconds", seconds, phase=phase)

    def approval_ended(self, *, accepted: bool) -> None:
        """An attempt to acknowledge has ended."""
        self._add("approvals_total", outcome="accepted" if accepted else "failed")

    def acknowledged(self, seconds: float) -> None:
        """An event was acknowledged so many seconds after it was seen."""
        self._observe("approval_delay_seconds", max(0.0, seconds))

    def impact(self, event_type: str, outcome: str, seconds: float) -> None:
        """An impact was measured."""
        self._observe("impact_seconds", seconds, type=event_type, outcome=outcome)

    def write(self, directory: str) -> None:
        """Replace the file in the directory.

        :raises OSError: it cannot be replaced.
        """
        write_atomically(os.path.join(directory, FILE_NAME), self.render().encode(), mode=0o644)

    def render(self) -> str:
        """The metrics as text that every encoder takes."""
        return "".join(f"{line}\n" for line in self._lines()).encode("utf-8", "replace").decode("utf-8")

    def _lines(self) -> Iterator[str]:
        for family, (kind, meaning) in FAMILIES.items():
            name, samples = f"scheduled_events_{family}", self._samples[family]
            if samples:
                yield from (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}")
                yield from (f"{name}{key} {value:.17g}" for key, value in samples.items())


def _shown(labels: Dict[str, str]) -> str:
    shown = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{shown}}}" if shown else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
