# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The measured impact, with clocks that the test moves."""

import json

import pytest
from _scheduled_events import engine, terms
from _scheduled_events.clock import Clock, Moment
from _scheduled_events.document import parse
from _scheduled_events.state import State
from _scheduled_events.transitions import Step
from scheduled_events_poller.unit.impact import ImpactMeter, since_boot

pytestmark = pytest.mark.edge

ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
CONFIG = terms.Config("vm1", frozenset(["prepare", "started", "recover"]))


class Vm:
    """A VM with the loop of the unit, its clocks and its events."""

    def __init__(self, state=None, *, rebooted=False, seconds_since_boot=48.0):
        self.wall, self.monotonic, self.state = 1600000000.0, 100.0, state or State(serial=0)
        clock = Clock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)
        self.meter = ImpactMeter(clock, lambda: seconds_since_boot)
        self.meter.rebooted = rebooted
        if state is None:
            self.step()  # the unit began before the event

    def iterate(self, wall=1.0, monotonic=1.0):
        """An iteration of the loop after which so many seconds have passed by each clock."""
        self.wall += wall
        self.monotonic += monotonic
        return [(fact.outcome, fact.measured_seconds) for fact in self.meter.iteration()]

    def step(self, status=None, *, polled=True, name="vm1"):
        """A step of the engine with an event of this status, or without one."""
        event = {"EventId": ID, "EventType": "Freeze", "Resources": ["vm1"], "DurationInSeconds": 5}
        events = [dict(event, EventStatus=status)] if status else []
        document = parse(json.dumps({"Events": events}), api_version="2020-07-01")
        before, now = self.state, Moment(self.wall, self.monotonic, "boot")
        config = CONFIG._replace(vm_name=name)
        self.state, actions = engine.step(before, document, [], now, config)
        self.facts = self.meter.step(Step(before, self.state, actions, now, config), polled=polled)
        return [(fact.outcome, fact.measured_seconds) for fact in self.facts]


@pytest.fixture
def vm():
    return Vm()


@pytest.mark.parametrize(
    ("wall", "monotonic"), [(7.5, 7.5), (7.5, 1.0), (1.0, 7.5)], ids=["both clocks", "monotonic stops", "wall stops"]
)
def test_a_pause_of_a_started_event_is_measured_by_the_clock_that_shows_it(wall, monotonic, vm):
    vm.step("Started")
    vm.iterate()
    assert vm.iterate(wall, monotonic) == [("paused", 7.5)]


def test_an_impact_names_what_was_announced(vm):
    vm.step("Started")
    vm.step()
    [fact] = vm.facts
    assert (fact.kind, fact.event_id, fact.announced_seconds, fact.measured_seconds) == ("impact", ID, 5.0, 0.0)


def test_a_pause_of_a_started_event_of_a_former_name_is_its_impact(vm):
    vm.step("Started")
    vm.step("Started", name="new")
    vm.iterate()
    assert vm.iterate(7.5, 7.5) == [("paused", 7.5)]


def test_a_pause_without_a_started_event_is_no_impact(vm):
    vm.step("Scheduled")
    vm.iterate()
    assert vm.iterate(60, 60) == []


def test_iterations_of_ordinary_length_are_no_impact(vm):
    vm.step("Started")
    assert [vm.iterate(seconds, seconds) for seconds in (0.1, 1.0, 2.5)] == [[], [], []]


def test_a_clock_that_is_set_back_is_no_impact(vm):
    vm.step("Started")
    vm.iterate()
    assert vm.iterate(-3600, 1.0) == []


def test_an_event_that_is_over_without_an_impact_says_so_once(vm):
    vm.step("Started")
    vm.iterate()
    assert [vm.step(), vm.step()] == [[("none", 0.0)], []]


def test_an_event_whose_impact_was_measured_does_not_end_without_one(vm):
    vm.step("Started")
    vm.iterate()
    vm.iterate(8, 8)
    assert vm.step() == []


def test_a_cancelled_event_had_no_impact_to_measure(vm):
    vm.step("Scheduled")
    assert vm.step() == []


def test_a_reboot_is_measured_from_the_boot_until_the_first_document():
    before = Vm()
    before.step("Started")
    vm = Vm(before.state, rebooted=True)
    assert vm.step("Started", polled=False) == []
    assert vm.step("Started") == [("rebooted", 48.0)]
    assert vm.facts[0].reason == "rebooted, 48 s until the first poll"
    assert [vm.step("Started"), vm.step()] == [[], []]


@pytest.mark.parametrize("before", ["Scheduled", "Started"])
@pytest.mark.parametrize("after", ["Scheduled", "Started", None])
def test_a_reboot_is_the_impact_of_an_event_of_the_former_name_as_of_another(before, after):
    vm, other = Vm(), Vm()
    for name, each in (("new", vm), ("vm1", other)):
        each.step(before)
        assert each.step(before, name=name) == []
    expected = [] if (before, after) == ("Scheduled", "Scheduled") else [("rebooted", 48.0)]
    assert Vm(vm.state, rebooted=True).step(after, name="new") == expected
    assert Vm(other.state, rebooted=True).step(after) == expected


def test_an_event_of_a_former_name_has_no_impact_only_when_it_is_over(vm):
    vm.step("Started")
    assert [vm.step("Started", name="new"), vm.step(name="new")] == [[], [("none", 0.0)]]


def test_a_reboot_before_the_event_has_started_is_no_impact_of_it():
    before = Vm()
    before.step("Scheduled")
    vm = Vm(before.state, rebooted=True)
    assert [vm.step("Scheduled"), vm.step("Started"), vm.step()] == [[], [], [("none", 0.0)]]


@pytest.mark.parametrize("found", ["Started", None])
def test_a_reboot_after_which_the_event_has_started_or_is_over_is_its_impact(found):
    before = Vm()
    before.step("Scheduled")
    assert Vm(before.state, rebooted=True).step(found) == [("rebooted", 48.0)]


def test_a_restart_of_the_unit_is_no_reboot():
    before = Vm()
    before.step("Started")
    assert Vm(before.state).step("Started") == []


def test_a_unit_that_began_during_the_event_does_not_say_that_there_was_no_impact():
    before = Vm()
    before.step("Started")
    vm = Vm(before.state)  # such as after a pause that was longer than the watchdog waits
    assert [vm.step("Started"), vm.iterate(), vm.step()] == [[], [], []]
    assert Vm(before.state).step() == []


@pytest.mark.parametrize("before", [None, "Scheduled"], ids=["first installed", "ended by the watchdog"])
def test_a_unit_that_finds_a_started_event_when_it_begins_does_not_say_that_there_was_no_impact(before):
    earlier = Vm()
    earlier.step(before)
    vm = Vm(earlier.state)
    vm.step(before, polled=False)
    assert [vm.step("Started"), vm.iterate(), vm.step()] == [[], [], []]


def test_a_unit_that_began_during_the_event_measures_what_follows():
    before = Vm()
    before.step("Started")
    vm = Vm(before.state)
    vm.step("Started")
    vm.iterate()
    assert [vm.iterate(8, 8), vm.step()] == [[("paused", 8.0)], []]


def test_the_time_since_the_boot_is_known_here():
    assert since_boot() > 0
