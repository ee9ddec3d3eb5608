# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledge in the place of a host that has prepared and no longer answers. Private to the collection.

A VM judges a fresh document before it acknowledges. From outside no document can be read, so this judges the last one
that the run has read there, and takes it for right for a bounded time. The id of an event is never used again, and
Azure refuses an id that is not pending, so an event that was cancelled or has started is out of danger. What remains:
Azure may have named another VM, or another type, under the same id since. No acknowledgement can exclude that, since
the service compares nothing; here the time in which it can happen is longer.
"""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.clock import Moment
from ...module_utils._scheduled_events.condition import NOT_ACCEPTED, TO_BE_ACKNOWLEDGED
from .._azure.acknowledgement import is_of, resource_id_of, scope_of
from .._azure.arm import ArmError
from .context import Context, Send
from .play_coordinator import PREPARED, HostReport, Outcome, SeenEvent

# Seconds of silence after which the other hosts count this one's preparation, and may acknowledge with a fresh
# document; and after which it is acknowledged from here. A host that waits for others polls for 15 seconds at a time.
TELL_AFTER, SEND_AFTER = 10.0, 30.0
PAUSE = 30.0  # seconds between two attempts, unless Azure asks for more
PATIENCE = 60.0  # seconds for which one attempt repeats what Azure refuses for the moment


class Fallback:
    """The actions of the control node in place of a lost host, in the process of that host.

    :param acknowledged: ``acknowledged(event_id, event_type, text)`` records an acknowledgement.
    """

    def __init__(self, context: Context, acknowledged: t.Callable[[str, str, str], None]) -> None:
        self._context, self._acknowledged = context, acknowledged
        self._host, self._known, self._coordinator = context.host, context.notes, context.coordinator
        self._warn, self._wall, self._monotonic = context.warn_once, context.clock.wall, context.clock.monotonic
        # Where the tasks ran longer, another run may have the host.
        self._max_age = min(context.options["fallback_max_age"], context.options["phase_timeout"])
        self._given_resource = str(context.options["fallback_resource_id"] or "")

    @property
    def wants_compute(self) -> bool:
        """Whether the role has to ask the host for its resource id."""
        return not self._given_resource and not self._known["resource_id"]

    def learn(self, shown: t.Mapping[str, t.Any], asked_at: Moment) -> None:
        """Take what a turn showed. What it read, it read after ``asked_at``."""
        self._learn_resource(shown.get("compute") or {})
        if shown["sight"] is None:
            self.miss(self._monotonic())
        else:
            # Azure knows nothing of the event of a drill.
            named = [event for event in shown["sight"] if self._known["vm_name"].lower() in event["names"]]
            own = [event for event in named if not event["drill"]]
            self._known["silent_since"] = None
            names = {event["event_id"]: {"names": sorted(set(event["names"]))} for event in own}
            self._known["last_read"] = {"at": asked_at._asdict(), "events": names}
        last = self._known["last_read"]
        if last is not None:
            # Without a document the host may still have taken an outcome.
            last["events"] = {
                each["event_id"]: {
                    "names": last["events"][each["event_id"]]["names"],
                    "event_type": each["event_type"],
                    "not_before": each["not_before"],
                    "ready": each["condition"] in (TO_BE_ACKNOWLEDGED, NOT_ACCEPTED),
                }
                for each in shown["waiting"]
                if each["event_id"] in last["events"]
                and (each["present"] and not each["impact"] and not each["accepted"])
            }

    def _learn_resource(self, compute: t.Mapping[str, t.Any]) -> None:
        if not compute or not self.wants_compute:
            return
        try:
            resource_id = resource_id_of(compute)
        except ArmError as error:
            self._warn(f"respond_fallback cannot acknowledge for this host: {error}")
            return
        if compute["name"].lower() == self._known["vm_name"].lower():
            self._known["resource_id"] = resource_id

    def forget(self) -> None:
        """Another run has the host: what this one has read says nothing any more."""
        self._known["last_read"] = None

    def miss(self, due: float) -> None:
        """No document could be read on the host, for whatever reason.

        :param due: when its answer was due. A VM that hangs leaves its connection open, so it is given up much later.
        """
        if self._known["silent_since"] is None:
            self._known["silent_since"] = min(due, self._monotonic())

    def act(self, prepared: t.Sequence[str]) -> None:
        """Acknowledge what may be, if the host has been silent for long enough.

        :param prepared: ids of events for which it has prepared in this run, which the fallback could not send yet.
        """
        since, last = self._known["silent_since"], self._known["last_read"]
        if since is None or last is None:
            return
        silent_for = self._monotonic() - since
        # An older document does not count here either: another run may have undone the preparation since.
        if silent_for >= TELL_AFTER and self._age() <= self._max_age:
            self._publish([event_id for event_id in prepared if self._is_unchanged(event_id)], last["events"])
        if silent_for < SEND_AFTER:
            return
        for event_id, event in last["events"].items():
            if (event["ready"] or event_id in prepared) and self._is_due(event_id):
                self._attempt(event_id, event)

    def _publish(self, prepared: t.Sequence[str], events: t.Mapping[str, dict[str, t.Any]]) -> None:
        outcomes = {event_id: Outcome(PREPARED, events[event_id]["event_type"] or "") for event_id in prepared}
        if outcomes:
            self._coordinator.publish(HostReport(host=self._host, vm_name=self._known["vm_name"], outcomes=outcomes))

    def _is_due(self, event_id: str) -> bool:
        attempt = self._known["fallback"].get(event_id, {})
        return not attempt.get("end") and self._monotonic() >= attempt.get("next_try", 0.0)

    def _is_unchanged(self, event_id: str) -> bool:
        """Whether the last document shows the names and the type that the host has prepared for."""
        before, event = self._known["prepared_for"].get(event_id), self._known["last_read"]["events"].get(event_id)
        return before is not None and event is not None and SeenEvent(*before) == _seen(event)

    def _objection(self, event_id: str, event: t.Mapping[str, t.Any], seen: SeenEvent) -> str:
        """Why an event of the last document must not be acknowledged from here; empty if it can be."""
        if self._age() > self._max_age:
            return f"the last document that was read on the host is older than {self._max_age:g} s"
        if event["not_before"] is not None and event["not_before"] <= self._wall():
            return "its NotBefore has passed"
        if not self._is_unchanged(event_id):
            return "the last document that was read on the host names other VMs, or another type, than was prepared for"
        return self._coordinator.obstacle(event_id, seen) or self._missing_resource()

    def _age(self) -> float:
        at = Moment(**self._known["last_read"]["at"])  # one clock stops with the machine, the other may be set
        return float(max(self._monotonic() - at.monotonic, self._wall() - at.wall))

    def _missing_resource(self) -> str:
        given, vm_name = self._given_resource, self._known["vm_name"]
        if given and not is_of(given, vm_name):
            return f"{given} is not the resource of {vm_name}. Correct respond_fallback_resource_id"
        if not self._resource_id:
            return f"the metadata service did not return the resource of {vm_name}. Set respond_fallback_resource_id"
        return ""

    @property
    def _resource_id(self) -> str:
        return self._given_resource or str(self._known["resource_id"])

    def _attempt(self, event_id: str, event: t.Mapping[str, t.Any]) -> None:
        seen = _seen(event)
        objection = self._objection(event_id, event, seen)
        if objection:
            self._warn(f"{event_id} is not acknowledged through Azure Resource Manager: {objection}")
            return
        if not self._coordinator.claim(event_id, seen):
            return  # another host does it
        accepted = False
        try:
            accepted = self._acknowledge(event_id, event)
        finally:
            if accepted:
                self._coordinator.accept(event_id)
            else:
                self._coordinator.release(event_id)

    def _acknowledge(self, event_id: str, event: t.Mapping[str, t.Any]) -> bool:
        left = [self._max_age - self._age(), PATIENCE]
        if event["not_before"] is not None:
            left.append(event["not_before"] - self._wall())
        attempt = self._known["fallback"].setdefault(event_id, {})
        try:
            answer = t.cast(Send, self._context.send)(scope_of(self._resource_id), event_id, max(0.0, min(left)))
        except ArmError as error:
            fleeting = error.throttled or error.fleeting or error.conflict or error.status == 401  # with an old token
            lasting = 400 <= error.status < 500 and not fleeting
            attempt["end"] = str(error) if lasting else ""
            attempt["next_try"] = self._monotonic() + max(PAUSE, error.asked_pause)
            self._warn(f"{event_id} was not acknowledged through Azure Resource Manager: {error}")
            return False
        if not answer.approved:
            refused = "".join(f" ({each['code']} {each['message']})" for each in answer.refused)
            attempt["end"] = f"Azure Resource Manager does not acknowledge it any more{refused}"
            self._warn(f"{event_id}: {attempt['end']}. Check whether it has started or is over")
            return False
        ahead = ""
        if event["not_before"] is not None:
            ahead = f" {event['not_before'] - self._wall():.0f} s before NotBefore"
        self._acknowledged(event_id, event["event_type"], f"acknowledged through Azure Resource Manager{ahead}")
        return True


def _seen(event: t.Mapping[str, t.Any]) -> SeenEvent:
    return SeenEvent(event["event_type"] or "", event["names"])
