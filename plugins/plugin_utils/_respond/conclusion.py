# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of the run for one host: what became of its events, and what holds the others. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.condition import NOT_ACCEPTED, TO_BE_ACKNOWLEDGED
from .context import Context
from .play_coordinator import ClaimStatus

# The reason of a phase that failed although no task of this host did.
STOPPED = (
    "no task of this host failed. A tasks file could not be included, or another host failed "
    "(any_errors_fatal, run_once)"
)


class Conclusion:
    """The result of one host.

    :param prepares: whether the play has anything to run that prepares the host.
    """

    def __init__(self, context: Context, *, prepares: bool) -> None:
        self._context, self._prepares = context, prepares
        self._host, self._notes, self._coordinator = context.host, context.notes, context.coordinator

    def explained(self, outcome: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
        """The outcome of a phase, with a reason if it failed."""
        if not outcome or outcome["ok"] or outcome["reason"]:
            return outcome
        return {**outcome, "reason": STOPPED}

    def note(self, outcome: t.Mapping[str, t.Any]) -> None:
        """Note what became of a phase."""
        phase, events = outcome["phase"], outcome["events"]
        if phase == "recover" and outcome["ok"]:
            self._notes.add("recovered", [event["event_id"] for event in events])
        if not outcome["ok"]:
            names = ", ".join(f"{event['event_type']} {event['event_id']}" for event in events)
            again = ". Run the role again to repeat it" if phase == "recover" else ""
            self._notes.add("failures", [f"{phase} failed for {names}: {outcome['reason'].rstrip('.')}{again}"])

    def done(self) -> dict[str, t.Any]:
        """Return the result at the end of the run."""
        notes = self._notes
        held = self._held()
        is_real = not (self._context.check_mode or self._context.options["within_maintenance"])
        if self._prepares and is_real and not notes["failures"]:
            notes.add("failures", self._unprepared_hosts())
        self._coordinator.end(self._host)
        result = {
            "vm_name": notes["vm_name"],
            **{name: notes[name] for name in ("named", "prepared", "acknowledged", "recovered", "failures", "drill")},
            "held": held,
            "story": notes["told"],
            "history": notes["facts"],
        }
        lines = [
            *(f"{event} {', '.join(texts)}" for event, texts in notes["story"].items()),
            *(f"{each['event_id']} held: {each['reason']}" for each in held),
            *(f"FAILED: {failure}" for failure in notes["failures"]),
        ]
        idle = "no event" if self._prepares else "no event, and nothing is configured that prepares for events"
        if notes["named"]:  # the rules ignore it, or an earlier run has done all that is to do
            idle = f"nothing to do for {', '.join(notes['named'])}"
        summary = f"{self._host}: " + ("; ".join(lines) or idle)
        self._context.say(summary)
        done: dict[str, t.Any] = {"next": "done", "summary": summary, "respond_result": result}
        if notes["failures"]:
            done.update(failed=True, msg=f"{notes['vm_name']}: {'; '.join(notes['failures'])}")
        return done

    def failure(self, text: str) -> dict[str, t.Any]:
        """End with a failure."""
        self._notes.add("failures", [text])
        return self.done()

    def still_held(self) -> str:
        """Why the run ends although events are not over."""
        held = [
            f"{each['event_type']} {each['event_id']} ({self._what_it_waits_for(each)})"
            for each in self._notes["waiting"]
        ]
        return (
            f"not over after {self._context.options['wait_timeout']:g} s: {', '.join(held)}. Run the role again to "
            "finish, or wait longer with respond_wait_timeout"
        )

    def _what_it_waits_for(self, event: t.Mapping[str, t.Any]) -> str:
        is_open = event["condition"] in (TO_BE_ACKNOWLEDGED, NOT_ACCEPTED) and self._context.acknowledges
        obstacle = self._obstacle(event["event_id"]) if is_open else None
        return str(obstacle or event["detail"] or event["condition"])

    def _unprepared_hosts(self) -> t.Iterator[str]:
        """A failure for each event that was not acknowledged since a VM that it names was not prepared.

        A host that fails, or that cannot be reached before anything has happened, lets the run fail itself.
        """
        for event_id in self._notes["announced"]:
            seen = self._notes.seen(event_id)
            if seen is None or event_id in self._waiting():
                continue
            if self._coordinator.status(event_id) is ClaimStatus.ACCEPTED:
                continue
            late = [host for host in self._coordinator.not_started(seen) if host in self._context.active_hosts]
            obstacle = self._coordinator.neglected(event_id, seen) if event_id in self._notes["begun"] else None
            if late:
                yield (
                    f"{event_id} was over before {', '.join(late)} had started, and it may name "
                    f"{'this host' if len(late) == 1 else 'one of these hosts'}: {', '.join(seen.names)}. "
                    "Run the role for all hosts of the play at the same time"
                )
            elif obstacle:
                yield f"{event_id} has begun, and was not acknowledged: {obstacle}"

    def missing_events(self) -> list[str]:
        """The ids of the events that Azure has published, and that the document of this VM has not shown."""
        return self._context.published.missing(self._notes["vm_name"], self._notes["named"])

    def _held(self) -> list[dict[str, str]]:
        held = {
            event_id: self._waiting().get(event_id) or self._obstacle(event_id) or self._why_not(event_id)
            for event_id in self._notes["announced"]
        }
        missing = "Azure has published it, but the metadata service has not shown it"
        held.update(dict.fromkeys(self.missing_events(), missing))
        return [
            {"event_id": event_id, "reason": reason}
            for event_id, reason in held.items()
            if self._coordinator.status(event_id) is not ClaimStatus.ACCEPTED
        ]

    def _waiting(self) -> dict[str, str]:
        """The events that wait for a moment of their rules, with the reason."""
        return {each["event_id"]: each["detail"] for each in self._notes["waiting"] if each["waits_until"]}

    def _obstacle(self, event_id: str) -> str | None:
        seen = self._notes.seen(event_id)
        return None if seen is None else self._coordinator.obstacle(event_id, seen)

    def _why_not(self, event_id: str) -> str:
        if not self._context.acknowledges:
            return "respond_acknowledge is never"
        details = [
            each["detail"] or each["condition"] for each in self._notes["waiting"] if each["event_id"] == event_id
        ]
        return next(filter(None, details), "") or "it was over before a host could acknowledge it"
