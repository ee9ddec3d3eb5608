# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Named timelines: the typical behaviour of Azure, as events to schedule (docs/contract.md, section 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable, NamedTuple

from scheduled_events_emulator.checks import Fields, InputError, shown
from scheduled_events_emulator.events import KEYS, EventSpec, new_event_id, parse_spec
from scheduled_events_emulator.fleet import Machine
from scheduled_events_emulator.platform import Platform

MINUTE = 60
DAY = 24 * 60 * MINUTE
MAINTENANCE = "Host server is undergoing maintenance."
LIVE_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
DEGRADED = "The virtual machine is running on degraded hardware and will be moved."

# A scenario cuts the VMs into groups, one event each.
Cut = Callable[[Sequence[Machine]], list[list[Machine]]]


def _together(machines: Sequence[Machine]) -> list[list[Machine]]:
    return [list(machines)]


def _each(machines: Sequence[Machine]) -> list[list[Machine]]:
    return [[machine] for machine in machines]


def _each_spot(machines: Sequence[Machine]) -> list[list[Machine]]:
    for machine in machines:
        if not machine.spot:
            raise InputError(f"vms: {shown(machine.name)} is not a Spot VM, expected VMs with spot: true in the fleet")
    return _each(machines)


def _each_of_scale_set(machines: Sequence[Machine]) -> list[list[Machine]]:
    for machine in machines:
        if not machine.kind.startswith("scale_set"):
            raise InputError(f"vms: {shown(machine.name)} is {machine.kind}, expected VMs of a scale set")
    return _each(machines)


def _fault_domains(machines: Sequence[Machine]) -> list[list[Machine]]:
    domains = sorted({machine.fault_domain for machine in machines})
    return [[machine for machine in machines if machine.fault_domain == domain] for domain in domains]


def _twice(machines: Sequence[Machine]) -> list[list[Machine]]:
    return [list(machines), list(machines)]


class _Scenario(NamedTuple):
    """The fields of its events, the cut of the VMs, and whether an event waits until the one before has left."""

    event: dict[str, Any]
    cut: Cut
    serial: bool


def _scenario(
    event_type: str, scheduled: float, started: float, cut: Cut = _together, *, serial: bool = False, **fields: Any
) -> _Scenario:
    """The scenario whose events are so many seconds Scheduled and Started."""
    return _Scenario({"type": event_type, "notice": scheduled, "started_for": started, **fields}, cut, serial)


_SCENARIOS: Mapping[str, _Scenario] = {
    "live_migration": _scenario("Freeze", 15 * MINUTE, 5 * MINUTE, duration=5, description=LIVE_MIGRATION),
    "user_reboot": _scenario("Reboot", 15 * MINUTE, 10 * MINUTE, duration=-1, source="User"),
    "host_agent_maintenance": _scenario("Freeze", 15 * MINUTE, 10 * MINUTE, duration=9, description=MAINTENANCE),
    "platform_redeploy": _scenario("Redeploy", 15 * MINUTE, 10 * MINUTE, duration=-1, description=MAINTENANCE),
    "user_redeploy": _scenario("Redeploy", 15 * MINUTE, 10 * MINUTE, duration=-1, source="User"),
    "cancelled": _scenario("Reboot", 15 * MINUTE, 10 * MINUTE, cancel_after=8 * MINUTE, description=MAINTENANCE),
    "spot_eviction": _scenario("Preempt", 30, 5 * MINUTE, _each_spot),
    "scale_set_terminate": _scenario("Terminate", 5 * MINUTE, 5 * MINUTE, _each_of_scale_set),
    "spot_rebalance": _scenario("SpotRebalanceRecommendation", 0, 60 * MINUTE, _each_spot),
    "hardware_failure": _scenario("Redeploy", 0, 10 * MINUTE, direct_started=True),
    "degraded_hardware": _scenario("Redeploy", 7 * DAY, 10 * MINUTE, description=DEGRADED),
    "os_image_upgrade": _scenario("Reboot", 15 * MINUTE, 10 * MINUTE, _each_of_scale_set, source="User"),
    "fault_domains": _scenario(
        "Reboot", 15 * MINUTE, 10 * MINUTE, _fault_domains, serial=True, description=MAINTENANCE
    ),
    "back_to_back": _scenario(
        "Freeze", 15 * MINUTE, 5 * MINUTE, _twice, serial=True, duration=5, description=MAINTENANCE
    ),
}
NAMES = tuple(_SCENARIOS)


def start_scenario(name: str, value: Any, platform: Platform) -> list[str]:
    """Start scenario ``name`` for the VMs of the JSON object ``value``.

    Every field of an event but ``type`` and ``event_id`` may be given too and replaces the scenario's. Returns the ids
    of all its events, those to come included. Raises InputError; then nothing is scheduled.
    """
    if name not in _SCENARIOS:
        raise InputError(f"scenario {shown(name)}: unknown, expected one of {', '.join(NAMES)}")
    template, cut, serial = _SCENARIOS[name]
    names = Fields(value, "", KEYS).texts("vms")
    for key in ("type", "event_id"):
        if key in value:
            raise InputError(f"{key}: given by the scenario {name}, expected no value. Leave it out")
    machines = [platform.fleet.find(vm) for vm in names]
    whole = parse_spec({**template, **value})
    specs = [
        replace(whole, vms=tuple(machine.name for machine in group), event_id=new_event_id()) for group in cut(machines)
    ]
    platform.reserve(specs)
    _run(specs, platform, serial=serial)
    return [spec.event_id for spec in specs]


def _run(specs: Sequence[EventSpec], platform: Platform, *, serial: bool) -> None:
    if serial:
        for before, spec in zip(specs, specs[1:]):
            platform.follow(before.event_id, spec)
    for spec in specs[:1] if serial else specs:
        platform.announce(spec)
