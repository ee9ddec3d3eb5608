# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The turns of one host: what the module is asked there, how long, and what the run learns from it.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from ...module_utils._respond.request import TurnRequest
from ...module_utils._scheduled_events.clock import Moment
from ...module_utils._scheduled_events.history import ACKNOWLEDGED, RESPOND, Fact, as_json
from ...module_utils._scheduled_events.rules import HOLD
from .context import Context
from .fallback import Fallback
from .phases import Phases
from .play_coordinator import ClaimStatus, SeenEvent

# Seconds that a turn may take in addition to its slice. A machine that is switched off leaves its connections open.
# An acknowledgement that took longer is sent again, which does no harm.
OVERHEAD = 120.0
FIRST_OVERHEAD = 900.0  # since the first request enables the service
LONGEST_SLICE, SHORTEST_SLICE, TAKEOVER_SLICE = 60.0, 5.0, 15.0  # seconds


class HostTurns:
    """The turns of one host.

    :ivar abandoned: the run whose lease this one takes over; ``locked_out``: whether another run had the host.
    :ivar due: when the answer to the last turn was due, in monotonic seconds.
    """

    def __init__(self, context: Context, phases: Phases) -> None:
        self._context, self._phases = context, phases
        self._host, self._notes, self._coordinator = context.host, context.notes, context.coordinator
        self._clock = context.clock
        self.abandoned = ""
        self.locked_out = False
        self.due = 0.0
        asks_azure = context.send and context.acknowledges and not context.check_mode
        self.fallback = Fallback(context, self.record_acknowledgement) if asks_azure else None

    def report(self, outcome: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Take a turn with the outcome. If only this host was waited for, it acknowledges in the same turn."""
        claimed = [event_id for event_id in self.completed_by(outcome) if self.claim(event_id, assuming=self._host)]
        return self.ask_while_claimed(claimed, outcome) if claimed else self._ask(outcome)

    def completed_by(self, outcome: t.Mapping[str, t.Any] | None) -> dict[str, SeenEvent]:
        """The events that the host is prepared for by an outcome, each as the host has prepared for it."""
        events = self.prepared_by(outcome) if self._context.acknowledges else []
        seen = {event["event_id"]: (event["event_type"] or "", self._notes.seen(event["event_id"])) for event in events}
        return {event_id: known for event_id, (kind, known) in seen.items() if known and known.event_type == kind}

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
            self._context.check_mode and notes["answered"] and not acknowledge and not outcome
        )
        request = TurnRequest(
            run=self._context.run,
            host=self._host,
            owner=self._context.owner,
            first=not notes["answered"],
            abandoned=self.abandoned,
            monotonic=self._clock.monotonic(),
            slice=0.0 if acknowledge or self._context.check_mode else self._slice(),
            known=notes["marker"],
            acknowledge=[
                {"event_id": event_id, **SeenEvent(*notes["seen"][event_id])._asdict()} for event_id in acknowledge
            ],
            prepares=not self._context.in_part,
            compute=self.fallback is not None and self.fallback.wants_compute,
            assume_over=notes["over"],
            state=notes["state"],
        )
        asked_at = self._clock.moment()
        self.due = self._clock.monotonic() + request.slice
        overhead = OVERHEAD if notes["answered"] else FIRST_OVERHEAD
        control_node = {**request._asdict(), "vm_name": notes["vm_name"]}
        shown = self._context.execute(control_node, outcome, request.slice + overhead)
        if "next" in shown:
            notes["lost_since"] = None
            self._learn(shown, asked_at)
        return shown

    def _slice(self) -> float:
        """The seconds to poll on the host. They grow if each wait returns to the play, as this nests inclusions."""
        rest = max(1.0, float(self._context.options["wait_timeout"]) - self._context.waited())
        longest = min(rest, LONGEST_SLICE)
        if not self._notes["answered"]:
            # A lease of a run that is dead here is found out at once.
            return min(longest, TAKEOVER_SLICE) if self.locked_out else 0.0
        statuses = self._open_statuses()
        if ClaimStatus.CLAIMED in statuses:
            return min(longest, SHORTEST_SLICE)
        if statuses:
            longest = min(longest, TAKEOVER_SLICE)
        if self._context.shares_fork or self._context.lockstep:  # a host that waits then keeps another one from running
            return min(longest, self.stay())
        return longest

    def stay(self) -> float:
        """The seconds to hold the other hosts. Each time that they continue, inclusions nest deeper."""
        return max(SHORTEST_SLICE, self._context.waited() / 10)

    def _open_statuses(self) -> set[ClaimStatus]:
        """The statuses of the announced events that this host may acknowledge, or that another host is about to."""
        present = {each["event_id"] for each in self._notes["waiting"] if each["present"]}
        announced = (event_id for event_id in self._notes["announced"] if event_id in present)
        return {self._coordinator.status(event_id) for event_id in announced} - {ClaimStatus.ACCEPTED}

    def _learn(self, shown: dict[str, t.Any], asked_at: Moment) -> None:
        notes = self._notes
        notes["vm_name"] = shown["vm_name"]
        for line in shown["story"]:
            self._context.show_progress(line)
        for problem in shown["problems"]:
            self._context.warn_once(problem)
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
        notes.add("named", shown["named"])
        notes.add("prepared", shown["prepared"])
        notes.add("acknowledged", shown["acknowledged"])
        if self.fallback:
            self.fallback.learn(shown, asked_at)
        for event in shown["sight"] or []:
            notes["seen"][event["event_id"]] = SeenEvent(event["event_type"], sorted(set(event["names"])))
            if notes["vm_name"].lower() in event["names"]:
                notes["announced"].setdefault(event["event_id"], "")
        for event_id in shown["prepared"]:  # also what an earlier run has prepared for
            notes["prepared_for"].setdefault(event_id, self._notes.seen(event_id))

    def _has_begun(self, event: t.Mapping[str, t.Any]) -> bool:
        """Whether its impact has come, or may have."""
        return event["impact"] or (event["not_before"] is not None and event["not_before"] <= self._clock.wall())

    def prepared_by(self, outcome: t.Mapping[str, t.Any] | None) -> list[dict[str, t.Any]]:
        """The events for which a preparation has ended well, by its outcome, and that no rule holds."""
        if not (outcome and outcome["phase"] == "prepare" and outcome["ok"] and self._phases.has_work("prepare")):
            return []
        held = [each["event_id"] for each in self._notes["waiting"] if each["decision"] == HOLD]
        return [event for event in outcome["events"] if event["event_id"] not in held]

    def record_acknowledgement(self, event_id: str, event_type: str, text: str) -> None:
        """Record what was acknowledged without the host."""
        self._notes.add("acknowledged", [event_id])
        fact = Fact(
            ACKNOWLEDGED,
            self._clock.wall(),
            RESPOND,
            vm_name=self._notes["vm_name"],
            run=self._context.run,
            event_id=event_id,
            event_type=event_type,
            by=f"the play on {self._context.owner.get('node') or 'the control node'}",
            via="Azure Resource Manager",
            rule="respond_fallback: azure_resource_manager",
        )
        self._notes["facts"].append(as_json(fact))  # the host cannot be reached
        self._context.show_progress({"event_id": event_id, "event_type": event_type, "text": text})
