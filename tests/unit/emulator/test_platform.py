# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated platform alone, under a clock stepped by hand."""

import pytest
from scheduled_events_emulator.checks import InputError
from scheduled_events_emulator.events import parse_spec
from scheduled_events_emulator.platform import NoSuchEvent, WrongPhase


def gpu_set(domains):
    vms = [
        {
            "name": f"gpu{number}",
            "address": f"127.0.21.{number + 1}",
            "kind": "availability_set",
            "set": "gpus",
            "gpu": True,
            "fault_domain": domain,
        }
        for number, domain in enumerate(domains)
    ]
    return {"vms": vms}


def scale_set(**groups):
    """A uniform scale set: placement group → number of VMs, ids counting on, zones alternating."""
    names = [group for group, count in groups.items() for _number in range(count)]
    return {
        "vms": [
            {
                "name": f"pool_{number}",
                "address": f"127.0.20.{number + 1}",
                "kind": "scale_set_uniform",
                "set": "pool",
                "placement_group": group,
                "zone": str(number % 3 + 1),
                "fault_domain": number,
            }
            for number, group in enumerate(names)
        ]
    }


def test_10_every_vm_of_an_availability_set_sees_the_event_of_one(world):
    event = world.schedule("Reboot", "web1")
    assert [world.seen_by(vm) for vm in ("web1", "web2", "web3")] == [[event]] * 3


def test_10_a_standalone_vm_sees_no_event_of_others(world):
    world.schedule("Reboot", "web1")
    assert world.seen_by("alone") == []


def test_10_a_placement_group_sees_its_events_whatever_the_zone(simulate):
    world = simulate(scale_set(pg0=3, pg1=2))
    event = world.schedule("Reboot", "pool_0")
    assert [world.seen_by(f"pool_{number}") for number in range(5)] == [[event]] * 3 + [[], []]


def test_10_all_vms_of_a_cloud_service_see_its_events(simulate):
    vms = [
        {"name": f"{role}_IN_0", "address": f"127.0.22.{index}", "kind": "cloud_service", "set": "shop"}
        for index, role in enumerate(("Web", "Worker"), 1)
    ]
    world = simulate({"vms": vms})
    event = world.schedule("Reboot", "Web_IN_0")
    assert world.seen_by("Worker_IN_0") == [event]


def test_10_gpu_vms_in_one_fault_domain_see_only_their_own_events(simulate):
    world = simulate(gpu_set([0, 0]))
    event = world.schedule("Reboot", "gpu0")
    assert (world.seen_by("gpu0"), world.seen_by("gpu1")) == ([event], [])


def test_10_gpu_vms_across_fault_domains_see_each_others_events(simulate):
    world = simulate(gpu_set([0, 1]))
    event = world.schedule("Reboot", "gpu0")
    assert world.seen_by("gpu1") == [event]


def test_10_an_event_cannot_name_vms_of_two_scopes(simulate):
    with pytest.raises(InputError, match=r'\["web1", "alone"\] are in 2 scopes .* one event for each scope'):
        simulate().schedule("Reboot", "web1", "alone")


def test_11_any_vm_in_scope_approves_for_every_vm_named(world):
    event = world.schedule("Redeploy", "web1", "web2")
    world.approve("web3", event)
    assert event.status == "Started"


def test_11_a_repeated_approval_changes_nothing_and_is_known(simulate):
    world = simulate(cotenant_delay=60)
    event = world.schedule("Redeploy", "web1")
    first, second = world.approve("web1", event), world.approve("web2", event)
    assert (first, second) == (([event.event_id], []), ([], []))


def test_11_an_approval_of_a_started_event_is_known_and_changes_nothing(world):
    event = world.schedule("Reboot", "web1", direct_started=True)
    assert world.approve("web1", event) == ([], [])
    assert world.kinds() == ["started"]


def test_12_one_unknown_id_keeps_the_whole_post_from_approving(world):
    own, other = world.schedule("Reboot", "web1"), world.schedule("Reboot", "alone")
    assert world.approve("web1", own, other) == ([], [other.event_id])
    assert own.approved_at is None


def test_13_an_approved_event_waits_for_the_cotenants(simulate):
    world = simulate(cotenant_delay=120)
    event = world.schedule("Redeploy", "web1", notice=600)
    world.approve("web1", event)
    world.advance(119)
    assert event.status == "Scheduled"
    world.advance(1)
    assert event.status == "Started"


def test_13_cotenants_never_delay_an_event_beyond_not_before(world):
    event = world.schedule("Redeploy", "web1", notice=600, cotenant_delay=3600)
    world.approve("web1", event)
    world.advance(600)
    assert event.status == "Started"


def test_14_an_event_without_approval_starts_at_not_before_and_no_earlier(world):
    event = world.schedule("Freeze", "web1", notice=900)
    world.advance(899)
    assert event.status == "Scheduled"
    world.advance(1)
    assert event.status == "Started"


def test_14_nothing_starts_before_the_whole_second_that_not_before_shows(world):
    world.advance(0.25)
    event = world.schedule("Freeze", "web1", notice=10)
    world.advance(10)
    assert event.status == "Scheduled"
    world.advance(0.75)
    assert event.status == "Started"


def test_14_a_cancelled_event_leaves_without_having_started(world):
    event = world.schedule("Reboot", "web1", notice=900, cancel_after=480)
    world.advance(480)
    assert (world.seen_by("web1"), event.status, event.started_at) == ([], "Canceled", None)
    assert world.kinds() == ["scheduled", "cancelled"]


def test_14_an_event_that_has_started_is_no_longer_cancelled(world):
    event = world.schedule("Reboot", "web1", notice=900, cancel_after=480)
    world.approve("web1", event)
    world.advance(299)
    assert event.status == "Started"
    with pytest.raises(WrongPhase, match="is Started, not Scheduled"):
        world.platform.cancel(event.event_id)


def test_14_a_hardware_failure_starts_without_a_scheduled_phase(world):
    event = world.schedule("Reboot", "web1", direct_started=True)
    assert (event.status, event.not_before, world.kinds()) == ("Started", None, ["started"])


def test_14_an_auto_approve_policy_starts_without_a_scheduled_phase(world):
    event = world.schedule("Reboot", "web1", auto_approve=True)
    assert (event.status, world.journal.since()[0]["reason"]) == ("Started", "policy")


def test_15_one_event_id_lives_through_all_states(world):
    event = world.schedule("Reboot", "web1", notice=60, started_for=60)
    world.advance(120)
    assert {entry["event_id"] for entry in world.journal.since()} == {event.event_id}
    assert world.kinds() == ["scheduled", "started", "removed"]


def test_15_several_events_stand_in_the_array_in_order_of_announcement(world):
    events = [world.schedule("Reboot", vm) for vm in ("web2", "web1", "web3")]
    assert world.seen_by("web1") == events


def test_15_an_event_id_is_never_used_twice(world):
    event = world.schedule("Reboot", "web1", direct_started=True)
    world.platform.complete(event.event_id)
    with pytest.raises(InputError, match="was used before"):
        world.schedule("Reboot", "web1", event_id=event.event_id.lower())


def test_16_started_outlasts_the_impact_and_removal_ends_it(world):
    event = world.schedule("Freeze", "web1", notice=60, duration=5, started_for=300)
    world.advance(60 + 5)
    assert event.status == "Started"
    world.advance(294)
    assert event.status == "Started"
    world.advance(1)
    assert world.seen_by("web1") == []


def test_16_an_event_shorter_than_its_impact_is_refused(simulate):
    with pytest.raises(InputError, match=r"started_for: 5 is not at least the duration \(9 s\)"):
        simulate().schedule("Freeze", "web1", duration=9, started_for=5)


@pytest.mark.parametrize("notice", [0, 1, 39, 319, 900, 7 * 86400])
def test_17_any_notice_from_none_to_days(world, notice):
    event = world.schedule("Redeploy", "web1", notice=notice)
    assert event.not_before - event.created_at == notice
    world.advance(notice)
    assert event.status == "Started"


def test_19_simultaneous_terminates_wait_for_one_another(simulate):
    world = simulate(scale_set(pg0=3))
    first, second = world.schedule("Terminate", "pool_0"), world.schedule("Terminate", "pool_1")
    world.approve("pool_0", first)
    assert first.status == "Scheduled"
    world.approve("pool_1", second)
    assert (first.status, second.status) == ("Started", "Started")


def test_19_terminates_of_different_times_do_not_wait(simulate):
    world = simulate(scale_set(pg0=2))
    first, _second = world.schedule("Terminate", "pool_0"), world.schedule("Terminate", "pool_1", notice=400)
    world.approve("pool_0", first)
    assert first.status == "Started"


def test_19_a_terminate_does_not_wait_for_one_that_was_cancelled(simulate):
    world = simulate(scale_set(pg0=2))
    first, second = world.schedule("Terminate", "pool_0"), world.schedule("Terminate", "pool_1")
    world.approve("pool_0", first)
    world.platform.cancel(second.event_id)
    assert first.status == "Started"


def test_19_waiting_terminates_start_at_not_before(simulate):
    world = simulate(scale_set(pg0=2))
    first, second = world.schedule("Terminate", "pool_0"), world.schedule("Terminate", "pool_1")
    world.approve("pool_0", first)
    world.advance(300)
    assert (first.status, second.status) == ("Started", "Started")


def test_20_deallocation_clears_the_events_of_the_vm(world):
    own, other = world.schedule("Reboot", "web1"), world.schedule("Reboot", "web2")
    assert world.platform.deallocate(world.machine("web1")) == [own.event_id]
    assert world.seen_by("web1") == [other]


def test_20_deallocation_clears_events_that_wait_for_one_another_and_starts_none(world):
    first, second = (world.schedule("Terminate", "web1", started_for=0) for _number in range(2))
    world.approve("web1", second)
    assert world.platform.deallocate(world.machine("web1")) == [first.event_id, second.event_id]
    assert world.seen_by("web1") == []
    assert [event.status for event in world.platform.ended] == ["Cleared", "Cleared"]


def test_20_deallocation_clears_what_was_to_follow_for_the_vm_alone(world):
    first = world.schedule("Reboot", "web1")
    alone, both = (parse_spec({"type": "Freeze", "vms": vms}) for vms in (["WEB1"], ["web1", "web2"]))
    world.platform.reserve([alone, both])
    for spec in (alone, both):
        world.platform.follow(first.event_id, spec)
    world.platform.deallocate(world.machine("web1"))
    assert [event.event_id for event in world.seen_by("web1")] == [both.event_id]


@pytest.mark.parametrize(
    ("gone", "expected"), [(["web2"], ["web1", "web3"]), (["web1", "web2"], ["web3"]), (["web1", "web2", "web3"], [])]
)
def test_20_what_was_to_follow_is_announced_without_the_vms_that_are_gone(world, gone, expected):
    first = world.schedule("Reboot", "alone")
    specs = [parse_spec({"type": "Freeze", "vms": vms}) for vms in (["web1", "web2"], ["WEB1"], ["web3"])]
    world.platform.reserve(specs)
    for before, spec in zip([first.event_id, *(each.event_id for each in specs)], specs):
        world.platform.follow(before, spec)
    for name in gone:
        world.platform.deallocate(world.machine(name))
    seen = []
    world.platform.cancel(first.event_id)
    while world.platform.events():
        [event] = world.platform.events()
        seen += event.resources
        world.platform.cancel(event.event_id)
    assert sorted(set(seen)) == expected


def test_20_deallocation_takes_the_vm_out_of_an_event_of_several(world):
    event = world.schedule("Reboot", "web1", "web2")
    world.platform.deallocate(world.machine("web1"))
    assert (event.status, event.resources) == ("Scheduled", ["web2"])


def test_forced_start_comes_before_not_before_and_only_once(world):
    event = world.schedule("Reboot", "web1")
    world.platform.start(event.event_id.lower())
    assert event.status == "Started"
    with pytest.raises(WrongPhase, match="is Started, not Scheduled"):
        world.platform.start(event.event_id)


def test_completing_takes_a_started_event(world):
    event = world.schedule("Reboot", "web1")
    with pytest.raises(WrongPhase, match="is Scheduled, not Started"):
        world.platform.complete(event.event_id)


def test_an_event_that_has_gone_is_not_found(world):
    event = world.schedule("Reboot", "web1")
    world.platform.cancel(event.event_id)
    with pytest.raises(NoSuchEvent, match=event.event_id):
        world.platform.start(event.event_id)


def test_next_change_passes_over_what_will_not_happen(world):
    event = world.schedule("Reboot", "web1", notice=900, started_for=600)
    world.approve("web1", event)
    assert world.platform.next_change() == world.clock.now() + 600


def test_a_long_jump_carries_out_every_step_at_its_own_time(world):
    world.schedule("Reboot", "web1", notice=60, started_for=60, event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123")
    world.advance(86400)
    times = [entry["at"][11:19] for entry in world.journal.since()]
    assert times == ["05:20:00", "05:21:00", "05:22:00"]


# Hints

HINT = "SpotRebalanceRecommendation"


def test_an_acknowledgement_of_a_hint_has_no_effect(world):
    event = world.schedule(HINT, "web1", notice=60, started_for=600)
    assert world.approve("web1", event) == ([], [])
    world.advance(599)
    assert world.seen_by("web1")[0].status == "Advisory"
    world.advance(1)
    assert world.seen_by("web1") == []
    assert world.kinds() == ["advised", "removed"]


def test_a_hint_cannot_be_started_or_cancelled_and_can_be_removed(world):
    event = world.schedule(HINT, "web1")
    for steer in (world.platform.start, world.platform.cancel):
        with pytest.raises(WrongPhase, match="is Advisory, not Scheduled"):
            steer(event.event_id)
    world.platform.complete(event.event_id)
    assert world.seen_by("web1") == []


@pytest.mark.parametrize("field", ["direct_started", "auto_approve"])
def test_a_hint_that_should_start_is_refused(simulate, field):
    with pytest.raises(InputError, match="SpotRebalanceRecommendation never starts"):
        simulate().schedule(HINT, "web1", **{field: True})
