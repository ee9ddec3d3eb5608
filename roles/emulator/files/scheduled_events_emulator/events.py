# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One scheduled event: its request and its state."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, fields
from typing import Any

from scheduled_events_emulator.checks import Fields, InputError, require_json
from scheduled_events_emulator.clock import iso, iso_or_none
from scheduled_events_emulator.fleet import Scope

SCHEDULED, STARTED, ADVISORY = "Scheduled", "Started", "Advisory"
COMPLETED, CANCELED, CLEARED = "Completed", "Canceled", "Cleared"

# The first api-version with the type, and seconds between the announcement and NotBefore; None: a hint, which never
# starts (the versions: docs/contract.md, section 3; the notice: docs/contract.md, section 7).
TYPES: dict[str, tuple[str, int | None]] = {
    "Freeze": ("", 900),
    "Reboot": ("", 900),
    "Redeploy": ("", 600),
    "Preempt": ("2017-11-01", 30),
    "Terminate": ("2019-01-01", 300),
    "SpotRebalanceRecommendation": ("2024-07-09", None),
}
DEFAULT_DURATION = {"Freeze": 5}
DEFAULT_STARTED_FOR = 300
GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def new_event_id() -> str:
    """Return a GUID in upper case, as the IMDS writes them."""
    return str(uuid.uuid4()).upper()


@dataclass(frozen=True)
class EventSpec:
    """The request for an event. All times in seconds of emulator time.

    ``started_for`` counts from Started, for a hint from its announcement, to removal; ``cotenant_delay`` from the
    approval to Started (None: the platform's); ``cancel_after`` from the announcement. ``direct_started`` skips the
    phase Scheduled, as ``auto_approve`` does for a VM whose policy approves beforehand. ``overrides`` replaces raw
    fields of the document (None drops one).
    """

    event_type: str
    vms: tuple[str, ...]
    event_id: str = field(default_factory=new_event_id)
    notice: float = 900
    duration: int = -1
    source: str = "Platform"
    description: str = ""
    started_for: float = DEFAULT_STARTED_FOR
    cancel_after: float | None = None
    cotenant_delay: float | None = None
    auto_approve: bool = False
    direct_started: bool = False
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def is_advisory(self) -> bool:
        """Whether the event is a hint."""
        return TYPES[self.event_type][1] is None


KEYS = ("type", *(each.name for each in fields(EventSpec) if each.name != "event_type"))


def parse_spec(value: Any) -> EventSpec:
    """Return the spec of a JSON object. Raises InputError."""
    given = Fields(value, "", KEYS)
    event_type = given.text("type", choices=tuple(TYPES))
    duration = given.integer("duration", DEFAULT_DURATION.get(event_type, -1), least=-1)
    event_id = given.text("event_id", None)
    if event_id is not None and not GUID.fullmatch(event_id):
        raise given.fail("event_id", "a GUID such as C7061BAC-AFDC-4513-B24B-AA5F13A16123 (overrides can show any)")
    started_for = given.number("started_for", max(DEFAULT_STARTED_FOR, duration))
    if started_for < duration:
        raise given.fail("started_for", f"at least the duration ({duration} s): Started outlasts the impact")
    overrides = given.mapping("overrides")
    require_json(overrides, given.where("overrides"))
    spec = EventSpec(
        event_type=event_type,
        vms=tuple(given.texts("vms")),
        event_id=event_id or new_event_id(),
        notice=given.number("notice", TYPES[event_type][1] or 0),
        duration=duration,
        source=given.text("source", "Platform", choices=("Platform", "User")),
        description=given.text("description", ""),
        started_for=started_for,
        cancel_after=given.number("cancel_after", None),
        cotenant_delay=given.number("cotenant_delay", None),
        auto_approve=given.boolean("auto_approve", False),
        direct_started=given.boolean("direct_started", False),
        overrides=overrides,
    )
    if spec.is_advisory and (spec.direct_started or spec.auto_approve):
        raise InputError(
            f"{given.where('type')}: {event_type} never starts, expected neither direct_started nor auto_approve."
            " Leave them out"
        )
    if len({name.lower() for name in spec.vms}) != len(spec.vms):
        raise InputError(f"{given.where('vms')}: a VM is named twice, expected each once")
    return spec


@dataclass
class Event:
    """An event in its life. ``not_before`` is a whole epoch second, or None when it was never announced."""

    spec: EventSpec
    scope: Scope
    resources: list[str]
    created_at: float
    not_before: int | None = None
    status: str = SCHEDULED
    overrides: dict[str, Any] = field(default_factory=dict)
    approved_at: float | None = None
    approvals: list[dict[str, Any]] = field(default_factory=list)
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def event_id(self) -> str:
        """The one EventId of all its states."""
        return self.spec.event_id

    @property
    def shown_id(self) -> Any:
        """The EventId that documents show, which acknowledges the event."""
        return self.overrides.get("EventId", self.event_id)

    def to_json(self) -> dict[str, Any]:
        """Return the event as the control API shows it."""
        impact = max(self.spec.duration, 0)
        return {
            "event_id": self.event_id,
            "type": self.spec.event_type,
            "status": self.status,
            "resources": list(self.resources),
            "not_before": iso_or_none(self.not_before),
            "source": self.spec.source,
            "description": self.spec.description,
            "duration": self.spec.duration,
            "overrides": self.overrides,
            "scheduled_at": iso(self.created_at),
            "approved_at": iso_or_none(self.approved_at),
            "approved_by": list(self.approvals),
            "started_at": iso_or_none(self.started_at),
            "impact_ended_at": iso_or_none(None if self.started_at is None else self.started_at + impact),
            "ended_at": iso_or_none(self.ended_at),
        }
