# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The named timelines, played through by hand: what happens, and after how many seconds."""

import pytest
from scheduled_events_emulator.checks import InputError
from scheduled_events_emulator.clock import parse_iso
from scheduled_events_emulator.scenarios import NAMES, start_scenario

MINUTE = 60
SPOT = {"vms": [{"name": "spot1", "address": "127.0.10.1", "spot": True}]}
POOL = {
    "vms": [
        {
            "name": f"pool_{number}",
            "address": f"127.0.10.{number + 1}",
            "kind": "scale_set_uniform",
            "set": "pool",
            "fault_domain": number % 2,
        }
        for number in range(4)
    ]
}


def timeline(world, seconds):
    """Let ``seconds`` pass; return (seconds since the start, kind, names) of all that happened."""
    start = world.clock.now()
    world.advance(seconds)
    return [(parse_iso(entry["at"]) - start, entry["kind"], entry["vms"]) for entry in world.journal.since()]


@pytest.mark.parametrize(
    ("name", "event_type", "scheduled", "started", "duration", "source"),
    [
        ("live_migration", "Freeze", 15, 5, 5, "Platform"),
        ("user_reboot", "Reboot", 15, 10, -1, "User"),
        ("host_agent_maintenance", "Freeze", 15, 10, 9, "Platform"),
        ("platform_redeploy", "Redeploy", 15, 10, -1, "Platform"),
        ("user_redeploy", "Redeploy", 15, 10, -1, "User"),
        ("degraded_hardware", "Redeploy", 7 * 24 * 60, 10, -1, "Platform"),
    ],
)
def test_a_timeline_has_the_typical_minutes(simulate, name, event_type, scheduled, started, duration, source):
    world = simulate()
    start_scenario(name, {"vms": ["web1", "web2"]}, world.platform)
    spec = world.seen_by("web1")[0].spec
    assert (spec.event_type, spec.duration, spec.source) == (event_type, duration, source)
    names = ["web1", "web2"]
    assert timeline(world, 30 * 86400) == [
        (0, "scheduled", names),
        (scheduled * MINUTE, "started", names),
        ((scheduled + started) * MINUTE, "removed", names),
    ]


def test_14_a_cancelled_event_leaves_after_eight_minutes(simulate):
    world = simulate()
    start_scenario("cancelled", {"vms": ["web1"]}, world.platform)
    assert timeline(world, 86400) == [(0, "scheduled", ["web1"]), (480, "cancelled", ["web1"])]


def test_14_a_hardware_failure_has_no_scheduled_phase(simulate):
    world = simulate()
    start_scenario("hardware_failure", {"vms": ["web1"]}, world.platform)
    assert world.seen_by("web1")[0].spec.event_type == "Redeploy"
    assert timeline(world, 86400) == [(0, "started", ["web1"]), (600, "removed", ["web1"])]


def test_a_rebalance_recommendation_stands_for_an_hour_and_never_starts(simulate):
    world = simulate(SPOT)
    start_scenario("spot_rebalance", {"vms": ["spot1"]}, world.platform)
    assert timeline(world, 86400) == [(0, "advised", ["spot1"]), (3600, "removed", ["spot1"])]


def test_17_a_spot_eviction_comes_thirty_seconds_ahead(simulate):
    world = simulate(SPOT)
    start_scenario("spot_eviction", {"vms": ["spot1"]}, world.platform)
    assert world.seen_by("spot1")[0].spec.event_type == "Preempt"
    assert timeline(world, 31) == [(0, "scheduled", ["spot1"]), (30, "started", ["spot1"])]


def test_17_a_spot_eviction_wants_a_spot_vm(simulate):
    with pytest.raises(InputError, match='"web1" is not a Spot VM'):
        start_scenario("spot_eviction", {"vms": ["web1"]}, simulate().platform)


def test_19_a_scale_set_terminate_gives_one_event_each_and_they_wait_for_one_another(simulate):
    world = simulate(POOL)
    start_scenario("scale_set_terminate", {"vms": ["pool_0", "pool_1"]}, world.platform)
    first, second = world.seen_by("pool_3")
    world.approve("pool_0", first)
    assert first.status == "Scheduled"
    world.approve("pool_1", second)
    assert (first.status, second.status, first.resources) == ("Started", "Started", ["pool_0"])


def test_19_a_scale_set_terminate_wants_a_scale_set(simulate):
    with pytest.raises(InputError, match='"web1" is availability_set, expected VMs of a scale set'):
        start_scenario("scale_set_terminate", {"vms": ["web1"]}, simulate().platform)


def test_22_fault_domains_are_served_one_after_the_other_back_to_back(simulate):
    world = simulate(POOL)
    ids = start_scenario("fault_domains", {"vms": [f"pool_{number}" for number in range(4)]}, world.platform)
    even, odd = ["pool_0", "pool_2"], ["pool_1", "pool_3"]
    assert timeline(world, 86400) == [
        (0, "scheduled", even),
        (900, "started", even),
        (1500, "removed", even),
        (1500, "scheduled", odd),
        (2400, "started", odd),
        (3000, "removed", odd),
    ]
    assert [event.event_id for event in world.platform.ended] == ids


def test_22_a_second_event_for_the_same_vm_follows_at_once(simulate):
    world = simulate()
    start_scenario("back_to_back", {"vms": ["web1"], "notice": 60, "started_for": 60}, world.platform)
    kinds = [(at, kind) for at, kind, _vms in timeline(world, 86400)]
    assert kinds == [
        (0, "scheduled"),
        (60, "started"),
        (120, "removed"),
        (120, "scheduled"),
        (180, "started"),
        (240, "removed"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("earthquake", {"vms": ["web1"]}, "expected one of " + ", ".join(NAMES)),
        ("user_reboot", {}, "vms: missing"),
        ("user_reboot", {"vm": ["web1"]}, "vm: unknown key"),
        ("user_reboot", [], "expected a JSON object"),
        ("user_reboot", {"vms": ["web1"], "type": "Freeze"}, "type: given by the scenario user_reboot"),
        ("user_reboot", {"vms": ["web1"], "notices": 1}, "notices: unknown key"),
        ("user_reboot", {"vms": ["web1", "alone"]}, "are in 2 scopes"),
        ("spot_eviction", {"vms": ["mySpotVM", "MYSPOTVM"]}, "vms: a VM is named twice, expected each once"),
    ],
)
def test_a_scenario_that_cannot_be_played_schedules_nothing(simulate, name, value, message):
    world = simulate()
    with pytest.raises(InputError) as error:
        start_scenario(name, value, world.platform)
    assert message in str(error.value)
    assert world.platform.events() == []
