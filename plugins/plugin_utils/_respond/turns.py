# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The turns of one host: what the module is asked there, and what the run learns from it. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.clock import Clock
from ...module_utils._scheduled_events.history import ACKNOWLEDGED, RESPOND, Fact, as_json
from ...module_utils._scheduled_events.rules import HOLD
from ...module_utils._scheduled_events.terms import NEVER
from ...module_utils._turn_request import TurnRequest
from .._azure.acknowledgement import AcknowledgementResult
from .fallback import ControlNodeTime, Fallback, FallbackSettings
from .notes import Notes
from .pace import Pace
from .phases import Phases
from .play_coordinator import PlayCoordinator, Seen

# Seconds that a turn may take in addition to its slice. A machine that is switched off leaves its connections open.
# An acknowledgement that took longer is sent again, which does no harm.
OVERHEAD = 120.0
FIRST_OVERHEAD = 900.0  # since the first request enables the service

Execute = t.Callable[[t.Dict[str, t.Any], t.Optional[t.Dict[str, t.Any]], float], t.Dict[str, t.Any]]
Send = t.Callable[[str, str, float], AcknowledgementResult]


class HostTurns:
    """The turns of one host.

    :param execute: runs the module on the host, as :class:`Responding` has it.
    :ivar abandoned: the run whose lease this one takes over; ``locked_out``: whether another run had the host.
    """

    def __init__(
        self,
        *,
        host: str,
        run: str,
        owner: dict[str, t.Any],
        options: t.Mapping[str, t.Any],
        notes: Notes,
        coordinator: PlayCoordinator,
        phases: Phases,
        pace: Pace,
        execute: Execute,
        say: t.Callable[[str], None],
        warn: t.Callable[[str], None],
        check_mode: bool,
        clock: Clock,
        send: Send | None,
        in_part: bool,
    ) -> None:
        self._host, self._run, self._owner = host, run, owner
        self._options, self._notes, self._coordinator = options, notes, coordinator
        self._phases, self._pace = phases, pace
        self._execute, self._say, self._warn = execute, say, warn
        self._check_mode, self._clock, self._in_part = check_mode, clock, in_part
        self._warned: set[str] = set()
        self._acknowledges = options["acknowledge"] != NEVER and not in_part
        self.abandoned = ""
        self.locked_out = False
        self.fallback = self._make_fallback(send) if send and self._acknowledges and not check_mode else None

    def report(self, outcome: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Take a turn with the outcome. If only this host was waited for, it acknowledges in the same turn."""
        events = self.prepared_by(outcome) if self._acknowledges else []
        claimed = [
            event["event_id"]
            for event in events
            if self._is_seen_as(event) and self.claim(event["event_id"], assuming=self._host)
        ]
        return self.ask_while_claimed(claimed, outcome) if claimed else self._ask(outcome)

    def _is_seen_as(self, event: t.Mapping[str, t.Any]) -> bool:
        seen = self._notes.seen(event["event_id"])
        return seen is not None and seen.event_type == (event["event_type"] or "")

    def claim(self, event_id: str, *, assuming: str = "") -> bool:
        """Whether this host may acknowledge the event now, and no other one."""
        seen = self._notes.seen(event_id)
        return seen is not None and self._coordinator.claim(event_id, seen, assuming=assuming)

    def ask_while_claimed(self, claimed: list[str], outcome: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Take a turn that acknowledges the events, and let the other hosts know."""
        accepted: set[str] = set()
        try:
            answer = self._ask(outcome, acknowledge=claimed)
            accepted = {event_id.lower() for event_id in answer.get("acknowledged", [])}
        finally:
            for event_id in claimed:
                if event_id.lower() in accepted:
                    self._coordinator.accept(event_id)
                else:
                    self._coordinator.release(event_id)
        return answer

    def _ask(self, outcome: dict[str, t.Any] | None, acknowledge: t.Sequence[str] = ()) -> dict[str, t.Any]:
        notes = self._notes
        notes["over"] = notes["over"] or bool(
            self._check_mode and notes["answered"] and not acknowledge and not outcome
        )
        request = TurnRequest(
            run=self._run,
            host=self._host,
            owner=self._owner,
            first=not notes["answered"],
            abandoned=self.abandoned,
            monotonic=self._clock.monotonic(),
            slice=0.0 if acknowledge or self._check_mode else self._pace.slice(locked_out=self.locked_out),
            known=notes["marker"],
            acknowledge=[
                {"event_id": event_id, **Seen(*notes["seen"][event_id])._asdict()} for event_id in acknowledge
            ],
            prepares=not self._in_part,
            compute=self.fallback is not None and self.fallback.wants_compute,
            assume_over=notes["over"],
            state=notes["state"],
        )
        asked_at = ControlNodeTime(self._clock.monotonic(), self._clock.wall())
        overhead = OVERHEAD if notes["answered"] else FIRST_OVERHEAD
        shown = self._execute({**request._asdict(), "vm_name": notes["vm_name"]}, outcome, request.slice + overhead)
        if "next" in shown:
            notes["lost_since"] = None
            self._learn(shown, asked_at)
        return shown

    def _learn(self, shown: dict[str, t.Any], asked_at: ControlNodeTime) -> None:
        notes = self._notes
        notes["vm_name"] = shown["vm_name"]
        for line in shown["story"]:
            self.show_progress(line)
        for problem in shown["problems"]:
            self.warn_once(problem)
        notes["facts"].extend(shown.get("facts", []))
        if shown["next"] == "locked":
            if self.fallback:
                self.fallback.forget()
            return
        notes["answered"] = True
        notes["marker"], notes["state"] = shown["marker"], shown["state"]
        notes["waiting"] = shown["waiting"]
        notes["drill"] = notes["drill"] or shown["drill"]
        notes.add("begun", [each["event_id"] for each in shown["waiting"] if self._has_begun(each)])
        notes.add("prepared", shown["prepared"])
        notes.add("acknowledged", shown["acknowledged"])
        if self.fallback:
            self.fallback.learn(shown, asked_at)
        for event in shown["sight"] or []:
            notes["seen"][event["event_id"]] = Seen(event["event_type"], sorted(set(event["names"])))
            if notes["vm_name"].lower() in event["names"]:
                notes["announced"].setdefault(event["event_id"], "")
        for event_id in shown["prepared"]:  # also what an earlier run has prepared for
            notes["prepared_for"].setdefault(event_id, self._notes.seen(event_id))

    def _has_begun(self, event: t.Mapping[str, t.Any]) -> bool:
        """Whether its impact has come, or may have."""
        return event["impact"] or (event["not_before"] is not None and event["not_before"] <= self._clock.wall())

    def prepared_by(self, outcome: t.Mapping[str, t.Any] | None) -> list[dict[str, t.Any]]:
        """The events for which a preparation has ended well, by its outcome, and that no rule holds."""
        if (
            not outcome
            or outcome.get("phase") != "prepare"
            or not outcome["ok"]
            or not self._phases.has_work("prepare")
        ):
            return []
        held = [each["event_id"] for each in self._notes["waiting"] if each["decision"] == HOLD]
        return [event for event in outcome.get("events", []) if event["event_id"] not in held]

    def show_progress(self, line: dict[str, t.Any]) -> None:
        """Show what happened to an event."""
        event = f"{line['event_type']} {line['event_id']}"
        self._notes["told"].append({**line, "at": self._clock.utc()})
        self._notes["story"].setdefault(event, []).append(line["text"])
        self._say(f"{self._host}: {event} {line['text']}")

    def record_acknowledgement(self, event_id: str, event_type: str, text: str) -> None:
        self._notes.add("acknowledged", [event_id])
        fact = Fact(
            ACKNOWLEDGED,
            self._clock.wall(),
            RESPOND,
            vm_name=self._notes["vm_name"],
            run=self._run,
            event_id=event_id,
            event_type=event_type,
            by=f"the play on {self._owner.get('node') or 'the control node'}",
            via="Azure Resource Manager",
            rule="respond_fallback: azure_resource_manager",
        )
        self._notes["facts"].append(as_json(fact))  # the host cannot be reached
        self.show_progress({"event_id": event_id, "event_type": event_type, "text": text})

    def warn_once(self, text: str) -> None:
        """Show a warning, unless this turn has shown it."""
        if text not in self._warned:
            self._warned.add(text)
            self._warn(f"{self._host}: {text}")

    def _make_fallback(self, send: t.Callable[[str, str, float], AcknowledgementResult]) -> Fallback:
        # Where the tasks ran longer, another run may have the host.
        max_age = min(self._options["fallback_max_age"], self._options["phase_timeout"])
        return Fallback(
            FallbackSettings(max_age, self._options["fallback_resource_id"]),
            host=self._host,
            known=self._notes.known,
            coordinator=self._coordinator,
            send=send,
            acknowledged=self.record_acknowledgement,
            warn=self.warn_once,
            wall=self._clock.wall,
            monotonic=self._clock.monotonic,
        )
