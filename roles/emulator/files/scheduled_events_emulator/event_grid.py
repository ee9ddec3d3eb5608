# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages that Azure Event Grid sends about events. They follow Microsoft's pages; none of them was recorded."""

from __future__ import annotations

import heapq
import itertools
import random
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable

from scheduled_events_emulator.clock import iso
from scheduled_events_emulator.events import CANCELED, COMPLETED, SCHEDULED, STARTED, Event
from scheduled_events_emulator.fleet import Fleet
from scheduled_events_emulator.instance import LOCATION, RESOURCE_GROUP, SUBSCRIPTION
from scheduled_events_emulator.rendering import CURRENT, fields

KEPT_MESSAGES = 10_000
RETRY_AFTER = 1.0  # seconds; Event Grid waits for longer each time
EVENT_GRID, CLOUD_EVENTS = "event_grid", "cloud_events"
SCHEMAS = (EVENT_GRID, CLOUD_EVENTS)
EVENT_TYPE = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"
RESOURCE_TYPE = "microsoft.maintenance/scheduledevents"
TOPIC = f"/subscriptions/{SUBSCRIPTION}"
# A cloud service has no resource of these types, so nothing is published about it.
TARGETS = {
    "single": "virtualMachines",
    "availability_set": "availabilitySets",
    "scale_set_uniform": "virtualMachineScaleSets",
    "scale_set_flexible": "virtualMachineScaleSets",
}


@dataclass(frozen=True)
class Delivery:
    """How messages are posted: ``repeats`` more copies of each, and each copy up to ``disorder`` seconds late."""

    url: str | None = None
    schema: str = EVENT_GRID
    repeats: int = 0
    disorder: float = 0
    token: str | None = None


@dataclass(frozen=True)
class Message:
    """What is the same in both schemas."""

    message_id: str
    time: str
    resource: dict[str, Any]

    def to_json(self, schema: str) -> dict[str, Any]:
        """Return the message as a receiver gets it."""
        data = {"resourceInfo": self.resource, "operationalInfo": {"resourceEventTime": self.time}}
        subject = self.resource["id"]
        if schema == CLOUD_EVENTS:
            head = {"specversion": "1.0", "id": self.message_id, "source": TOPIC, "subject": subject}
            return {**head, "type": EVENT_TYPE, "time": self.time, "data": data}
        head = {"id": self.message_id, "topic": TOPIC, "subject": subject, "eventType": EVENT_TYPE}
        return {**head, "eventTime": self.time, "data": data, "dataVersion": "1", "metadataVersion": "1"}


class Outbox:
    """The messages in the order of the changes, and the copies that are still to be posted."""

    def __init__(self, fleet: Fleet, delivery: Delivery, *, monotonic: Callable[[], float]) -> None:
        self.delivery = delivery
        self.messages: deque[Message] = deque(maxlen=KEPT_MESSAGES)
        self._fleet = fleet
        self._monotonic = monotonic
        self._number = itertools.count(1)
        self._order = itertools.count()
        self._copies: list[tuple[float, int, Message]] = []

    def add(self, event: Event, moment: float) -> None:
        """Publish a change of ``event`` at the emulator time ``moment``."""
        machine = self._fleet.find(event.spec.vms[0])
        if event.spec.is_advisory or machine.kind not in TARGETS:
            return
        target = f"{TARGETS[machine.kind]}/{machine.set_name or machine.name}"
        event_id = event.event_id.lower()
        resource = {
            "id": f"{TOPIC}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/{target}"
            f"/providers/{RESOURCE_TYPE}/{event_id}",
            "name": event_id,
            "type": RESOURCE_TYPE,
            "location": LOCATION,
            "properties": _properties(event),
        }
        message_id = str(uuid.uuid5(uuid.UUID(event.event_id), str(next(self._number))))
        message = Message(message_id, iso(moment), resource)
        self.messages.append(message)
        if self.delivery.url:
            for _copy in range(1 + self.delivery.repeats):
                self.post_later(message, random.uniform(0, self.delivery.disorder))  # noqa: S311 - no secret

    def post_later(self, message: Message, seconds: float) -> None:
        """Have a copy of ``message`` posted after so many real seconds."""
        heapq.heappush(self._copies, (self._monotonic() + seconds, next(self._order), message))

    def due(self) -> Message | None:
        """Return the next copy that is due, which then counts as posted."""
        if not self._copies or self._copies[0][0] > self._monotonic():
            return None
        return heapq.heappop(self._copies)[2]


def _properties(event: Event) -> dict[str, Any]:
    """Return the fields as outside the VMs: ids in lower case, times in ISO 8601, and the statuses of an end."""
    ended = COMPLETED if event.started_at is not None else CANCELED  # a deallocation has no status of its own
    status = event.status if event.status in (SCHEDULED, STARTED) else ended
    not_before = iso(event.not_before)[:-5] + "Z" if status == SCHEDULED and event.not_before is not None else ""
    own = {"EventId": event.event_id.lower(), "EventStatus": status, "NotBefore": not_before, **event.overrides}
    return {name: value for name, value in {**fields(event, CURRENT), **own}.items() if value is not None}
