# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine in single steps: what exactly it decides for documents as VMs received them, and in awkward cases."""

import json
import os

import pytest
from _scheduled_events.document import parse
from _scheduled_events.rules import parse_rules
from scheduled_events_poller import engine
from scheduled_events_poller.engine import ApprovalResult, Approve, HookResult, Moment, Report, RunHooks
from scheduled_events_poller.state import State, StateError, dump
from scheduled_events_poller.state import parse as parse_state

PAYLOADS = os.path.join(os.path.dirname(__file__), "..", "..", "payloads")
ALL = frozenset(["prepare", "started", "recover", "failed"])
NOW = 1600000000.0
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
OTHER_ID = "51941B56-8080-45AC-81AE-8BDA818F5958"


def event(event_id=ID, kind="Reboot", status="Scheduled", resources=("vm1",), **more):
    return dict(EventId=event_id, EventType=kind, EventStatus=status, Resources=list(resources), **more)


def document(*events):
    return parse(json.dumps({"DocumentIncarnation": 1, "Events": list(events)}), api_version="2020-07-01")


def recorded(name, api_version="2020-07-01"):
    with open(os.path.join(PAYLOADS, name + ".json"), "rb") as file:
        return parse(file.read(), api_version=api_version)


class Engine:
    """One engine through several steps: ``step`` gives what it would do, in short."""

    def __init__(self, vm_name="vm1", hooks=ALL, **config):
        self.config = engine.Config(vm_name=vm_name, hooks=hooks, **config)
        self.state = State(serial=0)
        self.wall, self.monotonic, self.boot_id = NOW, 100.0, "boot"
        self.actions = []

    def step(self, read=None, *results):
        now = Moment(self.wall, self.monotonic, self.boot_id)
        self.state, self.actions = engine.step(self.state, read, results, now, self.config)
        return [self._short(action) for action in self.actions if not isinstance(action, Report)]

    @staticmethod
    def _short(action):
        return "approve " + action.event_id if isinstance(action, Approve) else action.request_id

    def pass_time(self, seconds):
        self.wall += seconds
        self.monotonic += seconds

    def reboot(self):
        self.state = engine.resume(parse_state(dump(self.state)))
        self.boot_id += "*"
        self.monotonic = 10.0

    def reports(self):
        return [action.message for action in self.actions if isinstance(action, Report)]

    def hooks(self):
        return [action for action in self.actions if isinstance(action, RunHooks)]


def run(phase, serial, event_id=ID):
    return f"{event_id.lower()}.{phase}.{serial}"


def ok(request_id):
    return HookResult(request_id, "ok")


def test_a_recorded_live_migration_is_led_through_all_phases():
    vm = Engine("westno_0", rules=(), approve="leader")
    assert vm.step(recorded("live-migration-1-empty")) == []
    assert vm.step(recorded("live-migration-2-scheduled")) == [run("prepare", 1)]
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]
    assert vm.step(None, ApprovalResult(ID.lower(), accepted=True)) == []
    assert vm.step(recorded("live-migration-3-started")) == [run("started", 2)]
    assert vm.step(None, ok(run("started", 2))) == []
    assert vm.step(recorded("live-migration-4-removed")) == [run("recover", 3)]
    assert vm.step(None, ok(run("recover", 3))) == []
    assert vm.state.events == {}


@pytest.mark.parametrize(
    ("name", "vm_name", "api_version", "expected"),
    [
        ("live-migration-2-scheduled", "WestNO_0", "2020-07-01", []),  # a short freeze, and of others too
        ("freeze-started-empty-notbefore", "aks-nodepool1-21922338-vmss_47", "2020-07-01", ["d3d9dfec.started"]),
        ("odd-no-resources-no-notbefore", "vm1", "2020-07-01", []),
        ("odd-string-incarnation", "FrontEnd_IN_0", "2020-07-01", ["602d9444.prepare"]),
        ("odd-wrong-weekday-iso-and-unknown", "vm1", "2020-07-01", ["602d9444.prepare", "602d9444.prepare"]),
        ("odd-wrong-weekday-iso-and-unknown", "vm10", "2020-07-01", ["602d9444.prepare"]),
        ("preview-underscore-redeploy-2017", "mysrv", "2017-03-01", ["762d06a2.prepare"]),
        ("preview-underscore-redeploy-2017", "mysrv", "2017-08-01", []),
        ("spot-preempt-2024", "aks-workloads1-15413341-vmss_3", "2020-07-01", ["51941b56.prepare"]),
        ("two-reboots-2018", "sample_1", "2020-07-01", ["a626e37f.prepare"]),
        ("user-reboot-2021", "flatcar-vm1", "2020-07-01", ["4caea225.prepare"]),
    ],
)
def test_a_recorded_document_leads_to(name, vm_name, api_version, expected):
    vm = Engine(vm_name)
    started = vm.step(recorded(name, api_version))
    assert [action[:8] + "." + action.split(".")[1] for action in started] == expected


def test_a_30_second_preempt_is_prepared_and_approved_while_a_drain_runs():
    vm = Engine()
    assert vm.step(document(event())) == [run("prepare", 1)]
    both = document(event(), event(OTHER_ID, "Preempt", NotBefore="Sun, 13 Sep 2020 12:27:10 GMT"))
    assert vm.step(both) == [run("prepare", 2, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID))) == ["approve " + OTHER_ID]


def test_an_event_of_another_vm_is_left_alone():
    vm = Engine("vm1")
    assert vm.step(document(event(resources=["vm10"]), event(OTHER_ID, resources=[]))) == []
    assert vm.state.events == {}


def test_started_without_scheduled_runs_started_hooks_and_recovers_and_is_never_acknowledged():
    vm = Engine(rules=parse_rules([{"action": "approve"}]))
    assert vm.step(document(event(status="Started"))) == [run("started", 1)]
    assert "it has started without a time to prepare" in vm.reports()
    assert vm.step(document(event(status="Started")), ok(run("started", 1))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_started_hooks_wait_for_the_end_of_the_prepare_hooks_of_the_same_event():
    vm = Engine()
    vm.step(document(event()))
    assert vm.step(document(event(status="Started"))) == []
    assert vm.step(None, ok(run("prepare", 1))) == [run("started", 2)]


def test_a_cancelled_event_is_recovered_after_its_hooks_have_ended():
    vm = Engine()
    vm.step(document(event()))
    assert vm.step(document()) == []
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]


def test_a_recovery_waits_for_a_document_that_still_says_so():
    vm = Engine()
    vm.step(document(event()))
    vm.step(document())
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 2, OTHER_ID)]


def test_two_events_in_a_row_are_both_recovered_once_the_second_is_gone():
    vm = Engine()
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 2, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document()) == [run("recover", 3), run("recover", 4, OTHER_ID)]


@pytest.mark.parametrize(
    ("not_before", "not_later_than", "deadline"),
    [
        ("Sun, 13 Sep 2020 12:31:40 GMT", NOW + 290, NOW + 290),
        ("Sun, 13 Sep 2020 12:46:40 GMT", NOW + 1190, NOW + 600),
        ("soon", None, NOW + 600),
        ("", None, NOW + 600),
        (None, None, NOW + 600),
        ("Sun, 13 Sep 2020 12:26:45 GMT", None, NOW + 600),  # passed before it could begin
    ],
)
def test_the_deadline_is_the_earlier_of_the_time_out_and_not_before_less_the_margin(
    not_before, not_later_than, deadline
):
    vm = Engine()
    vm.step(document(event(NotBefore=not_before)))
    (asked,) = vm.hooks()
    assert (asked.not_later_than, asked.deadline, asked.timeout) == (not_later_than, deadline, 600)


def test_an_unreadable_not_before_is_told_with_its_value():
    vm = Engine()
    vm.step(document(event(NotBefore="soon")))
    assert f'NotBefore "soon" of event {ID} cannot be read and counts as absent' in vm.reports()


@pytest.mark.parametrize(
    ("on_failure", "outcome", "expected"),
    [
        ("hold", "failed", [run("failed", 2)]),
        ("hold", "timeout", [run("failed", 2)]),
        ("approve", "failed", ["approve " + ID, run("failed", 2)]),
        ("approve", "timeout", ["approve " + ID, run("failed", 2)]),
    ],
)
def test_a_failed_preparation_is_held_or_acknowledged_as_the_owner_says(on_failure, outcome, expected):
    vm = Engine(on_failure=on_failure)
    vm.step(document(event()))
    assert vm.step(None, HookResult(run("prepare", 1), outcome, "10-drain: exit status 1")) == expected


def test_a_held_event_is_told_with_the_reason():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event()))
    vm.step(None, HookResult(run("prepare", 1), "failed", "10-drain: exit status 1"))
    expected = "not acknowledged, because its prepare hooks did not succeed: 10-drain: exit status 1"
    assert vm.reports()[-1] == expected


@pytest.mark.parametrize(
    ("approve", "resources", "acknowledged"),
    [
        ("alone", ["VM1"], True),
        ("alone", ["vm1", "vm2"], False),
        ("leader", ["vm1", "vm2"], True),
        ("leader", ["vm2", "vm1"], False),
        ("any", ["vm2", "vm1"], True),
        ("never", ["vm1"], False),
    ],
)
def test_an_event_that_no_hook_handles_is_acknowledged_at_once_if_the_policy_allows(approve, resources, acknowledged):
    vm = Engine(hooks=frozenset(), approve=approve)
    assert vm.step(document(event(resources=resources))) == (["approve " + ID] if acknowledged else [])


@pytest.mark.parametrize(
    ("action", "first", "after_hooks"),
    [
        ("prepare", [run("prepare", 1)], ["approve " + ID]),
        ("approve", ["approve " + ID], []),
        ("hold", [run("prepare", 1)], []),
        ("ignore", [], []),
    ],
)
def test_a_rule_decides(action, first, after_hooks):
    vm = Engine(rules=parse_rules([{"action": action}]))
    assert vm.step(document(event())) == first
    assert vm.step(document(event()), ok(run("prepare", 1))) == after_hooks


def test_a_failed_poll_changes_nothing():
    vm = Engine()
    vm.step(document(event()))
    before = vm.state
    assert vm.step(None) == []
    assert vm.state == before


def test_a_restart_asks_for_running_hooks_again_under_the_same_id():
    vm = Engine()
    vm.step(document(event()))
    vm.state = engine.resume(parse_state(dump(vm.state)))
    assert vm.step(None) == [run("prepare", 1)]
    assert vm.step(None) == []


def test_a_reboot_runs_unfinished_hooks_again_once_a_document_tells_that_they_are_of_use():
    vm = Engine()
    vm.step(document(event()))
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document(event())) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 1))) == []  # of the boot before
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


def test_a_reboot_does_not_run_finished_hooks_again():
    vm = Engine()
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]


def test_a_reboot_by_the_event_itself_while_hooks_ran_leads_on_to_started_and_recovery():
    vm = Engine()
    vm.step(document(event()))
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]
    assert vm.step(document(), ok(run("started", 2))) == [run("recover", 3)]


def test_a_recovery_lost_with_the_boot_runs_again():
    vm = Engine()
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document()) == [run("recover", 3)]


def test_an_event_back_after_a_lost_recovery_is_prepared_anew():
    vm = Engine()
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(document(event())) == [run("prepare", 3)]


def test_an_event_that_no_longer_names_this_vm_is_recovered():
    vm = Engine()
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document(event(resources=["vm2"]))) == [run("recover", 2)]


def test_an_event_that_reappears_after_its_recovery_is_a_new_one():
    vm = Engine()
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.step(document(event()), ok(run("recover", 2))) == []
    assert vm.step(document(event())) == [run("prepare", 3)]


def test_an_event_without_an_id_holds_the_vm_and_is_told():
    vm = Engine()
    nameless = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    vm.step(document(event(), nameless))
    assert "an event of this VM has no EventId: it can be neither prepared nor acknowledged" in vm.reports()
    assert vm.step(document(nameless), ok(run("prepare", 1))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_acknowledging_backs_off_until_it_is_accepted():
    vm = Engine(hooks=frozenset())
    attempts = []
    for _second in range(40):
        if vm.step(document(event())):
            attempts.append(vm.monotonic - 100)
            vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="503"))
        vm.pass_time(1)
    assert attempts == [0, 1, 3, 7, 12, 17, 22, 27, 32, 37]


def test_acknowledging_what_is_refused_backs_off_to_a_minute():
    vm = Engine(hooks=frozenset())
    attempts = []
    for _second in range(300):
        if vm.step(document(event())):
            attempts.append(vm.monotonic - 100)
            vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="400", refused=True))
        vm.pass_time(1)
    assert attempts == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_what_was_accepted_is_not_acknowledged_again():
    vm = Engine(hooks=frozenset())
    vm.step(document(event()))
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.pass_time(1000)
    assert vm.step(document(event())) == []


def test_a_jump_of_the_clock_ends_nothing():
    vm = Engine()
    vm.step(document(event()))
    vm.wall += 86400
    assert vm.step(document(event())) == []
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


def test_hooks_of_which_nothing_is_heard_count_as_timed_out():
    vm = Engine()
    vm.step(document(event()))
    vm.pass_time(600 + engine.SILENCE)
    assert vm.step(None) == [run("failed", 2)]


def test_hooks_get_the_event_as_the_info_module_shows_it():
    vm = Engine()
    vm.step(document(event(Description="x; $(reboot)", DurationInSeconds=-1, New={"a": 1})))
    (asked,) = vm.hooks()
    assert asked.event["description"] == "x; $(reboot)"
    assert asked.event["additional"] == {"New": {"a": 1}}
    assert asked.event["affects_this_vm"] is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("[]", "the state: an object was expected"),
        ('{"version": 2}', "version 2 is not 1"),
        ('{"version": 1, "serial": "x", "unnamed": 0, "events": {}}', "serial: int was expected"),
        ('{"version": 1, "serial": 1, "unnamed": 0, "events": {"a": {}}}', "events.a.runs"),
    ],
)
def test_a_state_that_is_none_is_refused_with_its_place(text, reason):
    with pytest.raises(StateError, match=reason):
        parse_state(text)


@pytest.mark.parametrize("field", ["outcome", "issued", "give_up_at", "not_later_than"])
def test_a_state_with_a_wrong_value_is_refused(field):
    vm = Engine()
    vm.step(document(event()))
    raw = json.loads(dump(vm.state))
    raw["events"][ID.lower()]["runs"]["prepare"][field] = "x"
    with pytest.raises(StateError, match=field):
        parse_state(json.dumps(raw))
