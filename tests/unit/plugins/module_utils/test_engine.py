# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine in single steps: what exactly it decides for documents as VMs received them, and in awkward cases."""

import json
import os

import pytest
from _scheduled_events import condition, engine, hook_runs, policies, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse
from _scheduled_events.rules import parse_rules
from _scheduled_events.state import State, dump
from _scheduled_events.state import parse as parse_state
from _scheduled_events.terms import ApprovalResult, Approve, Clear, HookResult, NotAsked, Report, Retry, RunHooks

PAYLOADS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "payloads")
ALL = frozenset(["prepare", "started", "recover", "advised", "failed"])
NOW = 1600000000.0
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
OTHER_ID = "51941B56-8080-45AC-81AE-8BDA818F5958"

# NotBefore, so many seconds after NOW.
IN_5, IN_30, IN_300, IN_1200 = (
    "Sun, 13 Sep 2020 12:26:45 GMT",
    "Sun, 13 Sep 2020 12:27:10 GMT",
    "Sun, 13 Sep 2020 12:31:40 GMT",
    "Sun, 13 Sep 2020 12:46:40 GMT",
)

APPROVED = parse_rules([{"action": "approve"}])
SHORT_FREEZES = parse_rules([{"event_types": ["Freeze"], "min_duration": 0, "max_duration": 8, "action": "approve"}])


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
        self.config = terms.Config(vm_name=vm_name, hooks=hooks, **config)
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

    def configure(self, **changes):
        self.config = self.config._replace(**changes)

    def pass_time(self, seconds):
        self.wall += seconds
        self.monotonic += seconds

    def restart(self):
        self.state = engine.resume(parse_state(dump(self.state)))

    def reboot(self):
        self.restart()
        self.boot_id += "*"
        self.monotonic = 10.0

    def reports(self, kind):
        return [action for action in self.actions if isinstance(action, Report) and action.kind == kind]

    def hooks(self):
        return [action for action in self.actions if isinstance(action, RunHooks)]

    def approval(self):
        (action,) = [action for action in self.actions if isinstance(action, Approve)]
        return action

    def entry(self, event_id=ID):
        return self.state.events[event_id.lower()]


@pytest.fixture
def vm():
    return Engine()


def run(phase, serial, event_id=ID):
    return f"{event_id.lower()}.{phase}.{serial}"


def nothing(request_id):
    return HookResult(request_id, "nothing")


def ok(request_id):
    return HookResult(request_id, "ok")


@pytest.mark.parametrize(
    ("known", "read", "taken"),
    [
        (0, [event(f"a{number}") for number in range(100)], True),
        (0, [event(f"a{number}") for number in range(101)], False),
        (60, [event(f"b{number}") for number in range(40)], True),
        (60, [event(f"b{number}") for number in range(41)], False),
        (100, [event(f"a{number}") for number in range(100)], True),
        (100, [], True),
        (0, [event(f"a{number}", resources=["vm2"]) for number in range(4000)], True),
        (0, [event(resources=["vm1", *(f"pool_{number}" for number in range(5000))])], True),
        (0, [event(resources=["vm1", *(f"pool_{number}" for number in range(19999))])], True),
        (0, [event(resources=["vm1", *(f"pool_{number}" for number in range(20000))])], False),
        (1, [event("a0", resources=["vm1", *(f"pool_{number}" for number in range(20000))])], False),
    ],
)
def test_a_document_that_would_fill_the_state_with_more_events_than_a_vm_has_is_not_taken(known, read, taken, vm):
    vm.step(document(*(event(f"a{number}") for number in range(known))))
    problem = engine.overflow(vm.state, document(*read), "VM1")
    assert (problem == "") == taken
    assert taken or "check the endpoint" in problem


def test_a_recorded_live_migration_is_led_through_all_phases():
    vm = Engine("westno_0", rules=(), acknowledge="leader")
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
        ("live-migration-2-scheduled", "WestNO_0", "2020-07-01", ["c7061bac.prepare"]),  # of others too
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
    vm = Engine(vm_name, acknowledge="any")
    started = vm.step(recorded(name, api_version))
    assert [action[:8] + "." + action.split(".")[1] for action in started] == expected


def test_a_30_second_preempt_is_prepared_and_approved_while_a_drain_runs(vm):
    assert vm.step(document(event())) == [run("prepare", 1)]
    both = document(event(), event(OTHER_ID, "Preempt", NotBefore=IN_30))
    assert vm.step(both) == [run("prepare", 2, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID))) == ["approve " + OTHER_ID]


def test_an_event_of_another_vm_is_left_alone():
    vm = Engine("vm1")
    assert vm.step(document(event(resources=["vm10"]), event(OTHER_ID, resources=[]))) == []
    assert vm.state.events == {}


def test_started_without_scheduled_runs_started_hooks_and_recovers_and_is_never_acknowledged():
    vm = Engine(rules=parse_rules([{"action": "approve"}]))
    assert vm.step(document(event(status="Started"))) == [run("started", 1)]
    assert [report.outcome for report in vm.reports(terms.ReportKind.SEEN)] == ["Started"]
    assert vm.step(document(event(status="Started")), ok(run("started", 1))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_started_hooks_wait_for_the_end_of_the_prepare_hooks_of_the_same_event(vm):
    vm.step(document(event()))
    assert vm.step(document(event(status="Started"))) == []
    assert vm.step(None, ok(run("prepare", 1))) == [run("started", 2)]


def test_a_cancelled_event_is_recovered_after_its_hooks_have_ended(vm):
    vm.step(document(event()))
    assert vm.step(document()) == []
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]


def test_a_recovery_waits_for_the_end_of_the_started_hooks_of_the_same_event(vm):
    vm.step(document(event(status="Started")))
    assert vm.step(document()) == []
    assert vm.step(document(), ok(run("started", 1))) == [run("recover", 2)]


def test_a_recovery_waits_for_a_document_that_still_says_so(vm):
    vm.step(document(event()))
    vm.step(document())
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 2, OTHER_ID)]


def test_two_events_in_a_row_are_both_recovered_once_the_second_is_over(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 2, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document()) == [run("recover", 3), run("recover", 4, OTHER_ID)]


@pytest.mark.parametrize(
    ("not_before", "not_later_than", "deadline"),
    [
        (IN_300, NOW + 290, NOW + 290),
        (IN_1200, NOW + 1190, NOW + 600),
        (IN_5, NOW + 5, NOW + 5),  # a notice shorter than the margin
        ("Sun, 13 Sep 2020 12:26:50 GMT", NOW + 10, NOW + 10),  # as long as the margin
        ("Sun, 13 Sep 2020 12:26:51 GMT", NOW + 10, NOW + 10),  # longer, and hooks have no less of it
        ("Sun, 13 Sep 2020 12:27:01 GMT", NOW + 11, NOW + 11),
        ("soon", None, NOW + 600),
        ("", None, NOW + 600),
        (None, None, NOW + 600),
        ("Sun, 13 Sep 2020 12:26:40 GMT", None, NOW + 600),  # passed before it could begin
    ],
)
def test_the_deadline_is_the_earlier_of_the_timeout_and_not_before_less_the_margin(
    not_before, not_later_than, deadline, vm
):
    vm.step(document(event(NotBefore=not_before)))
    (asked,) = vm.hooks()
    assert (asked.not_later_than, asked.deadline, asked.timeout) == (not_later_than, deadline, 600)


def test_the_recovery_from_a_cancelled_event_has_its_whole_timeout_whatever_its_not_before_was(vm):
    vm.step(document(event(NotBefore=IN_30)))
    vm.step(document(), ok(run("prepare", 1)))
    [recovery] = vm.hooks()
    assert (recovery.phase, recovery.not_later_than, recovery.deadline) == ("recover", None, NOW + 600)


def test_whatever_the_clock_says_hooks_end_within_their_timeout_by_monotonic_time(vm):
    vm.step(document(event(NotBefore=IN_5)))
    (asked,) = vm.hooks()
    assert asked.ends_at == 100.0 + 600.0


def test_an_unreadable_not_before_is_reported_with_its_value(vm):
    vm.step(document(event(NotBefore="soon")))
    (report,) = vm.reports(terms.ReportKind.PROBLEM)
    assert 'NotBefore "soon"' in report.text


@pytest.mark.parametrize(
    ("on_failure", "outcome", "expected"),
    [
        ("hold", "failed", [run("failed", 2)]),
        ("hold", "timeout", [run("failed", 2)]),
        ("approve", "failed", [run("failed", 2), "approve " + ID]),
        ("approve", "timeout", [run("failed", 2), "approve " + ID]),
    ],
)
def test_a_failed_preparation_is_held_or_acknowledged_as_the_owner_says(on_failure, outcome, expected):
    vm = Engine(on_failure=on_failure)
    vm.step(document(event()))
    assert vm.step(None, HookResult(run("prepare", 1), outcome, "10-drain: exit status 1")) == expected


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
def test_the_policy_decides_which_events_are_acknowledged(approve, resources, acknowledged):
    vm = Engine(acknowledge=approve)
    vm.step(document(event(resources=resources)))
    assert vm.step(None, ok(run("prepare", 1))) == (["approve " + ID] if acknowledged else [])


# No preparation, no acknowledgement


NOTHING = [{"hooks": frozenset()}, {"hooks": ALL - {"prepare"}}, {"preparation": ""}]


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("on_failure", ["hold", "approve"])
@pytest.mark.parametrize("outcome", ["nothing", "failed", "timeout"])
def test_an_event_is_left_to_its_not_before_when_nothing_is_configured_that_prepares_for_it(
    nothing, on_failure, outcome
):
    vm = Engine(on_failure=on_failure, acknowledge="any", **nothing)
    vm.step(document(event(NotBefore=IN_300)))
    vm.step(None, *[HookResult(asked.request_id, outcome) for asked in vm.hooks()])
    for _minute in range(10):
        assert [each for each in vm.step(document(event(NotBefore=IN_300))) if each.startswith("approve")] == []
        vm.pass_time(60)


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_rule_acknowledges_without_a_preparation(nothing):
    assert "approve " + ID in Engine(rules=APPROVED, **nothing).step(document(event()))


@pytest.mark.parametrize("on_failure", ["hold", "approve"])
def test_a_preparation_that_prepared_nothing_runs_once_and_is_not_acknowledged(on_failure):
    vm = Engine(on_failure=on_failure)
    assert vm.step(document(event())) == [run("prepare", 1)]
    assert vm.step(document(event()), nothing(run("prepare", 1))) == []
    vm.restart()
    assert vm.step(document(event())) == []


def test_a_preparation_that_prepared_nothing_runs_again_when_an_operator_retries(vm):
    vm.step(document(event()))
    vm.step(None, nothing(run("prepare", 1)))
    assert vm.step(None, Retry(ID.lower())) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


def test_a_vm_is_not_prepared_by_a_repeated_preparation_that_prepared_nothing_again(vm):
    vm.step(document(event()))
    vm.step(None, nothing(run("prepare", 1)))
    vm.step(None, Retry(ID.lower()))
    vm.step(None, nothing(run("prepare", 2)))
    assert policies.unrecovered(vm.state) == []


def test_a_preparation_that_prepared_nothing_is_acknowledged_by_the_word_of_a_rule(vm):
    vm.step(document(event()))
    vm.step(None, nothing(run("prepare", 1)))
    vm.configure(rules=APPROVED)
    assert vm.step(document(event())) == ["approve " + ID]


def test_a_controller_that_hands_over_is_not_taken_over_from_by_a_vm_that_prepared_nothing():
    vm = left_to_a_controller(200.0)
    vm.step(None, nothing(run("prepare", 1)))
    vm.pass_time(150)
    assert vm.step(document(event(resources=["vm1", "vm2"], NotBefore=IN_300))) == []


def test_hooks_that_prepared_nothing_are_undone_by_a_recovery(vm):
    vm.step(document(event()))
    vm.step(None, nothing(run("prepare", 1)))
    assert vm.step(document()) == [run("recover", 2)]


def test_a_vm_has_to_recover_from_a_preparation_that_a_second_one_which_prepared_nothing_followed(vm):
    vm.step(document(event()))
    vm.step(None, nothing(run("prepare", 1)))
    assert policies.unrecovered(vm.state) == []
    assert vm.step(document(event(kind="Redeploy"))) == [run("prepare", 2)]
    vm.step(None, ok(run("prepare", 2)))
    for number in (3, 4):
        assert vm.step(document(event(kind=f"Type{number}"))) == [run("prepare", number)]
        vm.step(None, nothing(run("prepare", number)))
        assert policies.unrecovered(vm.state) == [ID]


@pytest.mark.parametrize("before", [*NOTHING, {"preparation": "report"}])
def test_what_is_configured_later_prepares_for_an_event_that_nothing_prepared_for(before):
    vm = Engine(**before)
    vm.step(document(event()))
    vm.step(None, *[nothing(asked.request_id) for asked in vm.hooks()])
    vm.configure(hooks=ALL, preparation="drain/report")
    (prepare,) = vm.step(document(event()))
    assert vm.step(None, ok(prepare)) == ["approve " + ID]


def test_what_is_configured_while_hooks_run_that_prepare_nothing_prepares_after_them():
    vm = Engine(preparation="report")
    vm.step(document(event()))
    vm.configure(preparation="drain/report")
    assert vm.step(document(event())) == []
    assert vm.step(None, nothing(run("prepare", 1))) == [run("prepare", 2)]
    vm.restart()
    assert vm.step(None) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


@pytest.mark.parametrize("preparation", ["drain/flush", "drain/unknown", "leave"])  # added, or renamed
def test_a_hook_that_is_configured_before_the_acknowledgement_runs_before_it(preparation):
    vm = Engine(preparation="drain", acknowledge="never")
    vm.step(document(event(NotBefore=None)))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(preparation=preparation, acknowledge="alone")
    assert vm.step(document(event(NotBefore=None))) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


def test_hooks_that_failed_do_not_run_again_because_one_is_added():
    vm = Engine(preparation="drain", hooks=frozenset(["prepare"]))
    vm.step(document(event(NotBefore=None)))
    vm.step(None, HookResult(run("prepare", 1), "failed"))
    vm.configure(preparation="drain/unknown")
    assert vm.step(document(event(NotBefore=None))) == []


def test_a_preparation_whose_hooks_could_not_be_listed_counts():
    vm = Engine(preparation=terms.UNKNOWN_HOOKS, acknowledge="never")
    vm.step(document(event(NotBefore=None)))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(preparation="drain", acknowledge="alone")
    assert vm.step(document(event(NotBefore=None))) == ["approve " + ID]


@pytest.mark.parametrize("preparation", ["drain", terms.UNKNOWN_HOOKS])
def test_a_preparation_counts_without_a_hook_that_was_removed_or_while_hooks_cannot_be_listed(preparation):
    vm = Engine(preparation="drain/flush", acknowledge="never")
    vm.step(document(event(NotBefore=None)))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(preparation=preparation, acknowledge="alone")
    assert vm.step(document(event(NotBefore=None))) == ["approve " + ID]


def test_a_hook_that_is_configured_after_the_acknowledgement_waits_for_the_next_event():
    vm = Engine(preparation="drain")
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.configure(preparation="drain/flush")
    assert vm.step(document(event())) == []


def test_a_request_that_no_process_received_is_repeated_as_the_configuration_is_now():
    vm = Engine(preparation="report")
    vm.step(document(event()))
    vm.step(None, NotAsked(run("prepare", 1), "the spool is full"))
    vm.configure(preparation="drain")
    vm.pass_time(1)
    assert vm.step(document(event())) == [run("prepare", 1)]
    assert vm.step(None, nothing(run("prepare", 1))) == []


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_preparation_counts_also_when_nothing_is_configured_any_more(nothing, vm):
    vm.step(document(event()))
    vm.configure(**nothing)
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


def test_a_preparation_for_another_type_does_not_count_when_only_reports_are_configured_since(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(preparation="")
    assert vm.step(document(event(kind="Redeploy"))) == [run("prepare", 2)]
    assert vm.step(document(event(kind="Redeploy")), nothing(run("prepare", 2))) == []


def left_to_a_controller(grace, **config):
    vm = Engine(acknowledge="controller", controller_grace=grace, margin=0.0, **config)
    vm.step(document(event(resources=["vm1", "vm2"], NotBefore=IN_300)))
    return vm


def waited(vm, seconds, not_before=IN_300):
    vm.pass_time(seconds)
    return vm.step(document(event(resources=["vm1", "vm2"], NotBefore=not_before)))


def test_a_vm_takes_over_from_a_controller_one_second_before_not_before_where_its_owner_wants_that():
    vm = left_to_a_controller(1.0)
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert (waited(vm, 298), waited(vm, 1)) == ([], ["approve " + ID])


def test_an_event_for_a_controller_is_not_acknowledged_even_after_not_before():
    vm = left_to_a_controller(0.0)
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert waited(vm, 400) == []


def test_a_vm_takes_over_from_a_controller_that_long_before_not_before():
    vm = left_to_a_controller(60.0)
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert waited(vm, 239) == []
    assert waited(vm, 1) == ["approve " + ID]


@pytest.mark.parametrize("outcome", ["failed", "timeout"])
def test_a_vm_never_takes_over_from_a_controller_after_a_preparation_that_failed(outcome):
    vm = left_to_a_controller(60.0, on_failure="approve")
    vm.step(None, HookResult(run("prepare", 1), outcome, "the job still runs"))
    assert [each for each in waited(vm, 300) if each.startswith("approve")] == []


def test_a_vm_never_takes_over_from_a_controller_while_its_prepare_hooks_run_or_without_any():
    assert waited(left_to_a_controller(60.0), 299) == []
    assert waited(left_to_a_controller(60.0, hooks=frozenset()), 299) == []


def test_a_vm_never_takes_over_from_a_controller_when_not_before_cannot_be_read():
    vm = left_to_a_controller(60.0)
    vm.step(None, ok(run("prepare", 1)))
    assert waited(vm, 300, not_before="soon") == []


def test_a_takeover_is_off_when_a_fresh_document_has_another_not_before():
    vm = left_to_a_controller(60.0)
    vm.step(None, ok(run("prepare", 1)))
    waited(vm, 240)
    same, moved = (document(event(resources=["vm1", "vm2"], NotBefore=each)).events[0] for each in (IN_300, IN_1200))
    assert policies.still_agrees(vm.approval(), same, vm.config)
    assert not policies.still_agrees(vm.approval(), moved, vm.config)


@pytest.mark.parametrize(("resources", "acknowledged"), [(["vm1"], True), (["vm1", "vm2"], False)])
def test_what_a_rule_approves_starts_no_job_of_a_controller_and_is_acknowledged_as_by_alone(resources, acknowledged):
    vm = Engine(acknowledge="controller", rules=parse_rules([{"action": "approve"}]))
    assert vm.step(document(event(resources=resources))) == (["approve " + ID] if acknowledged else [])


@pytest.mark.parametrize(
    ("action", "first", "after_hooks"),
    [
        ("prepare", [run("prepare", 1)], ["approve " + ID]),
        ("approve", ["approve " + ID], ["approve " + ID]),
        ("hold", [run("prepare", 1)], []),
        ("ignore", [], []),
    ],
)
def test_a_rule_decides(action, first, after_hooks):
    vm = Engine(rules=parse_rules([{"action": action}]))
    assert vm.step(document(event())) == first
    assert vm.step(document(event()), ok(run("prepare", 1))) == after_hooks


def test_a_failed_poll_changes_nothing(vm):
    vm.step(document(event()))
    before = vm.state
    assert vm.step(None) == []
    assert vm.state == before


def test_a_restart_asks_for_running_hooks_again_under_the_same_id(vm):
    vm.step(document(event()))
    vm.restart()
    assert vm.step(None) == [run("prepare", 1)]
    assert vm.step(None) == []


def test_a_reboot_runs_unfinished_hooks_again_once_a_document_shows_that_they_are_of_use(vm):
    vm.step(document(event()))
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document(event())) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 1))) == []  # of the boot before
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


def test_a_reboot_does_not_run_finished_hooks_again(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]


def test_a_reboot_by_the_event_itself_while_hooks_ran_leads_on_to_started_and_recovery(vm):
    vm.step(document(event()))
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]
    assert vm.step(document(), ok(run("started", 2))) == [run("recover", 3)]


def test_hooks_that_a_clock_set_forward_has_made_late_may_end_before_others_begin(vm):
    announced = document(event(NotBefore=IN_300))
    assert vm.step(announced) == [run("prepare", 1)]
    vm.restart()
    vm.wall += 3600
    assert vm.step(announced) == []
    vm.pass_time(29)
    assert vm.step(announced) == []
    vm.pass_time(1)
    assert vm.step(announced) == [run("prepare", 2)]


def test_a_recovery_lost_with_the_boot_runs_again(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document()) == [run("recover", 3)]


def test_an_event_announced_again_after_a_lost_recovery_is_prepared_again(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    assert vm.step(document(event())) == [run("prepare", 3)]


def test_a_preparation_lost_with_the_boot_does_not_run_again_once_its_event_was_seen_started(vm):
    vm.step(document(event()))
    vm.step(document(event(status="Started")))
    vm.reboot()
    assert vm.step(document(event())) == [run("started", 2)]


def test_an_event_that_no_longer_names_this_vm_is_recovered(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document(event(resources=["vm2"]))) == [run("recover", 2)]


def test_an_event_that_is_announced_to_another_name_of_this_vm_stays_until_it_is_gone(vm):
    vm.step(document(event()))
    assert vm.step(document(event()), ok(run("prepare", 1))) == ["approve " + ID]
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.configure(vm_name="other")
    assert vm.step(document(event())) == vm.step(None) == []
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == []
    vm.configure(vm_name="vm1")
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]
    vm.configure(vm_name="other")
    assert vm.step(document(event(status="Started")), ok(run("started", 2))) == []
    assert vm.step(document()) == [run("recover", 3)]


def test_hooks_that_a_reboot_ended_do_not_run_again_for_an_event_of_another_name(vm):
    vm.step(document(event()))
    vm.configure(vm_name="other")
    vm.reboot()
    assert vm.step(document(event())) == vm.step(document(event(status="Started"))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_no_hook_begins_for_an_event_of_another_name_before_the_next_document():
    vm = Engine(preparation="drain")
    vm.step(document(event()), ok(run("prepare", 1)))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(vm_name="other", preparation="drain/flush")
    assert vm.step(None) == []
    vm.configure(vm_name="vm1")
    assert vm.step(None) == [run("prepare", 2)]


def test_an_event_of_another_name_is_cleared_and_holds_no_recovery_of_the_present_name():
    vm = Engine(vm_name="vm2")
    own = event(OTHER_ID, resources=["vm1"])
    vm.step(document(event(resources=["vm2"])))
    vm.configure(vm_name="vm1")
    assert vm.step(document(event(resources=["vm2"]), own), ok(run("prepare", 1))) == [run("prepare", 2, OTHER_ID)]
    vm.step(None, ok(run("prepare", 2, OTHER_ID)))
    assert vm.step(document(event(resources=["vm2"]))) == [run("recover", 3, OTHER_ID)]
    vm.step(None, ok(run("recover", 3, OTHER_ID)))
    assert list(vm.state.events) == [ID.lower()]
    vm.step(None, Clear(ID.lower()))
    assert vm.state.events == {}


def test_a_recovery_that_a_reboot_interrupted_waits_while_its_event_is_announced_to_a_former_name(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(vm_name="new")
    assert vm.step(document()) == [run("recover", 2)]
    vm.reboot()
    assert vm.step(document(event())) == vm.step(document(event())) == []
    assert vm.step(document()) == [run("recover", 3)]


def test_an_event_of_a_former_name_starts_where_it_is_announced_as_started(vm):
    vm.step(document(event()))
    vm.configure(vm_name="new")
    vm.step(document(event()))
    assert not vm.state.events[ID.lower()].impact
    vm.step(document(event(status="Started")))
    assert vm.state.events[ID.lower()].impact


def test_an_event_that_is_announced_to_another_name_of_this_vm_is_not_prepared():
    vm = Engine(hooks=frozenset())
    vm.step(document(event()))
    vm.configure(vm_name="other", hooks=ALL)
    assert vm.step(document(event())) == vm.step(document(event(status="Started"))) == []
    assert vm.state.events == {}


@pytest.mark.parametrize("commands", [[], [Retry(ID.lower())]], ids=["", "retried"])
@pytest.mark.parametrize("noticed_by", ["unit", "hook"])
def test_what_prepared_nothing_while_its_event_was_gone_runs_again_for_the_event_announced_again(noticed_by, commands):
    unit = Engine()
    other = event(OTHER_ID)  # which keeps this VM from its recovery
    assert unit.step(document(event())) == [run("prepare", 1)]
    if noticed_by == "unit":
        unit.step(document(other))
    unit.step(document(other), nothing(run("prepare", 1)))
    unit.step(None, *commands)
    assert unit.step(document(event(), other)) == [run("prepare", 3)]
    # A new run, since what others did may be undone: a job of a controller notices, too, and recovers the VMs.
    assert (unit.hooks()[0].first_run, unit.hooks()[0].undone) == (run("prepare", 3), True)


@pytest.mark.parametrize("outcome", ["ok", "nothing", "failed"])
def test_a_preparation_whose_event_was_absent_meanwhile_runs_again_whatever_its_hooks_did(outcome):
    unit = Engine()
    assert unit.step(document(event())) == [run("prepare", 1)]
    assert unit.step(document()) == []
    assert unit.step(document(event())) == []
    assert unit.step(document(event()), HookResult(run("prepare", 1), outcome))[0] == run("prepare", 2)
    assert unit.step(document(event()), ok(run("prepare", 2))) == ["approve " + ID]


def test_an_event_announced_again_while_its_recovery_runs_is_a_new_one_once_that_has_ended(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.step(document(event())) == []
    assert vm.step(document(event()), ok(run("recover", 2))) == [run("prepare", 3)]


def test_an_event_without_an_id_holds_the_vm_and_is_reported(vm):
    nameless = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    vm.step(document(event(), nameless))
    assert len(vm.reports(terms.ReportKind.UNNAMED)) == 1
    assert vm.step(document(nameless), ok(run("prepare", 1))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_acknowledging_backs_off_until_it_is_accepted():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    attempts = []
    for _second in range(40):
        if vm.step(document(event())):
            attempts.append(vm.monotonic - 100)
            vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="503"))
        vm.pass_time(1)
    assert attempts == [0, 1, 3, 7, 12, 17, 22, 27, 32, 37]


def test_acknowledging_what_is_refused_backs_off_to_a_minute():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    attempts = []
    for _second in range(300):
        if vm.step(document(event())):
            attempts.append(vm.monotonic - 100)
            vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="400", refused=True))
        vm.pass_time(1)
    assert attempts == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_what_was_accepted_is_not_acknowledged_again():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    vm.step(document(event()))
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.pass_time(1000)
    assert vm.step(document(event())) == []


def test_a_jump_of_the_clock_ends_nothing(vm):
    vm.step(document(event()))
    vm.wall += 86400
    assert vm.step(document(event())) == []
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


def test_hooks_that_give_no_result_count_as_timed_out_a_while_after_their_last_moment(vm):
    vm.step(document(event()))
    vm.pass_time(600 + hook_runs.SILENCE - 1)
    assert vm.step(None) == []
    vm.pass_time(1)
    assert vm.step(None) == [run("failed", 2)]


def test_hooks_get_the_event_as_the_info_module_shows_it(vm):
    vm.step(document(event(Description="x; $(reboot)", DurationInSeconds=-1, New={"a": 1})))
    (asked,) = vm.hooks()
    assert asked.event["description"] == "x; $(reboot)"
    assert asked.event["additional"] == {"New": {"a": 1}}
    assert asked.event["affects_this_vm"] is True


# The acknowledgement is wanted in each step as long as the event is ready.


def test_an_event_that_is_ready_is_to_be_acknowledged_in_each_step_until_the_service_accepted(vm):
    vm.step(document(event()))
    assert vm.step(document(event()), ok(run("prepare", 1))) == ["approve " + ID]
    assert vm.step(None) == ["approve " + ID]
    vm.restart()
    assert vm.step(None) == ["approve " + ID]
    assert vm.step(None, ApprovalResult(ID.lower(), accepted=True)) == []
    assert vm.step(document(event())) == []


def test_all_that_is_ready_is_to_be_acknowledged_in_the_same_step():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    ids = [f"AAAAAAAA-0000-0000-0000-0000000000{number:02}" for number in range(20)]
    assert vm.step(document(*map(event, ids))) == ["approve " + each for each in ids]


def test_an_acknowledgement_that_is_accepted_leaves_no_error_of_earlier_attempts():
    vm = Engine(rules=APPROVED)
    vm.step(document(event()))
    vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="503"))
    assert vm.entry().approval.error == "503"
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    assert vm.entry().approval.error == ""


def test_an_event_of_a_refused_request_is_from_then_on_acknowledged_alone():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    vm.step(document(event()))
    assert not vm.approval().alone
    vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="400", refused=True))
    vm.pass_time(1)
    vm.step(None)
    assert vm.approval().alone
    vm.step(None, ApprovalResult(ID.lower(), accepted=False, error="503"))
    vm.pass_time(60)
    vm.step(None)
    assert vm.approval().alone


def test_the_time_until_the_acknowledgement_is_reported():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    vm.step(document(event()))
    vm.pass_time(2.5)
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    assert [report.seconds for report in vm.reports(terms.ReportKind.ACKNOWLEDGED)] == [2.5]


def test_an_unexpected_result_of_an_acknowledgement_has_no_effect(vm):
    before = vm.state
    assert vm.step(None, ApprovalResult(ID.lower(), accepted=True)) == []
    assert vm.state == before


# Recoveries beside other events


def back_to_back():
    """A's recovery runs; B is announced and its preparation has ended well."""
    vm = Engine()
    vm.step(document(event()))
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 3, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 3, OTHER_ID))) == []
    return vm


def test_nothing_is_acknowledged_while_a_recovery_runs():
    vm = back_to_back()
    assert vm.step(document(event(OTHER_ID))) == []


def test_nothing_is_acknowledged_by_a_rule_while_a_recovery_runs():
    vm = Engine(rules=parse_rules([{"event_types": ["Freeze"], "action": "approve"}]))
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    freeze = event(OTHER_ID, "Freeze")
    assert vm.step(document(freeze)) == []
    assert vm.step(document(freeze), ok(run("recover", 2))) == ["approve " + OTHER_ID]


@pytest.mark.parametrize("outcome", ["ok", "failed", "timeout"])
def test_a_preparation_that_ended_during_a_recovery_runs_again(outcome):
    vm = back_to_back()
    vm.configure(hooks=ALL - {"failed"})
    recovered = HookResult(run("recover", 2), outcome)
    assert vm.step(document(event(OTHER_ID)), recovered) == [run("prepare", 4, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 4, OTHER_ID))) == ["approve " + OTHER_ID]


def test_a_preparation_that_began_during_a_recovery_and_ends_after_it_runs_again(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 3, OTHER_ID)]
    assert vm.step(None, ok(run("recover", 2))) == []
    assert vm.step(None, ok(run("prepare", 3, OTHER_ID))) == [run("prepare", 4, OTHER_ID)]


def test_a_preparation_runs_again_after_a_recovery_that_gave_no_result():
    vm = back_to_back()
    vm.configure(hooks=ALL - {"failed"})
    vm.pass_time(600 + hook_runs.SILENCE)
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 4, OTHER_ID)]


def test_a_preparation_beside_which_a_recovery_was_lost_with_the_boot_runs_again():
    vm = back_to_back()
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 4, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 4, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document()) == [run("recover", 5), run("recover", 6, OTHER_ID)]


def test_started_hooks_that_ran_during_a_recovery_run_again(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    started = document(event(OTHER_ID, status="Started"))
    assert vm.step(started) == [run("started", 3, OTHER_ID)]
    assert vm.step(started, ok(run("started", 3, OTHER_ID))) == []
    assert vm.step(started, ok(run("recover", 2))) == [run("started", 4, OTHER_ID)]


# Hooks that are configured, missing, or no longer configured


def test_missing_prepare_hooks_hold_the_event_until_they_can_be_found():
    vm = Engine(missing={"prepare": ("10-drain",)})
    assert vm.step(document(event())) == []
    vm.configure(missing={})
    assert vm.step(document(event())) == [run("prepare", 1)]


def test_missing_prepare_hooks_hold_the_event_even_if_failures_are_to_be_acknowledged():
    vm = Engine(missing={"prepare": ("10-drain",)}, on_failure="approve")
    assert vm.step(document(event())) == []


def test_prepare_hooks_that_are_no_longer_found_do_not_undo_a_preparation(vm):
    vm.step(document(event()))
    vm.configure(missing={"prepare": ("10-drain",)})
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


@pytest.mark.parametrize("changes", [{"hooks": frozenset()}, {"missing": dict.fromkeys(ALL, ("10-x",))}])
def test_hooks_that_vanish_while_the_vm_is_down_leave_a_recovery_owed(changes, vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)), ApprovalResult(ID.lower(), accepted=True))
    vm.reboot()
    configured = vm.config
    vm.configure(**changes)
    assert vm.step(document(event(status="Started"))) == []
    assert vm.step(document()) == []
    assert vm.entry().owed
    vm.config = configured
    assert vm.step(document()) == [run("recover", 2)]


@pytest.mark.parametrize("changes", [{"hooks": frozenset()}, {"missing": dict.fromkeys(ALL, ("10-x",))}])
def test_a_recovery_lost_with_the_boot_stays_owed_when_its_hooks_have_vanished(changes, vm):
    vm.step(document(event()))
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]
    vm.reboot()
    configured = vm.config
    vm.configure(**changes)
    assert vm.step(document()) == []
    assert vm.entry().owed
    vm.config = configured
    assert vm.step(document()) == [run("recover", 3)]


def test_a_recovery_that_is_owed_is_a_pending_maintenance_while_its_hooks_are_missing(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    vm.configure(missing={"recover": ("10-x",)})
    vm.step(document())
    assert policies.is_pending(vm.state, ID.lower(), vm.config)


@pytest.mark.parametrize("changes", [{"hooks": frozenset()}, {"missing": dict.fromkeys(ALL, ("10-x",))}])
def test_a_preparation_lost_with_the_boot_holds_the_event_when_its_hooks_have_vanished(changes, vm):
    vm.step(document(event()))
    vm.reboot()
    vm.configure(**changes)
    assert vm.step(document(event())) == []
    assert vm.entry().runs["prepare"].outcome == "interrupted"
    vm.configure(hooks=ALL, missing={})
    assert vm.step(document(event())) == [run("prepare", 2)]


def test_hooks_for_which_no_recovery_was_ever_configured_leave_nothing_behind():
    vm = Engine(hooks=ALL - {"recover"})
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.state.events == {}


def test_a_recovery_that_ended_well_leaves_none_owed_to_the_same_event_announced_again(vm):
    vm.step(document(event()))
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]
    vm.configure(hooks=ALL - {"recover"})
    assert vm.step(document(event()), ok(run("recover", 2))) == [run("prepare", 3)]
    vm.step(document(), ok(run("prepare", 3)))
    assert vm.state.events == {}


def test_recover_hooks_that_are_configured_later_run_for_what_ran_without_them():
    vm = Engine(hooks=ALL - {"recover"})
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(hooks=ALL)
    assert vm.step(document()) == [run("recover", 2)]


def test_prepare_hooks_that_are_configured_after_the_acknowledgement_run():
    vm = Engine(hooks=ALL - {"prepare"}, rules=APPROVED)
    assert vm.step(document(event())) == ["approve " + ID]
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.configure(hooks=ALL, rules=())
    assert vm.step(document(event())) == [run("prepare", 1)]


def test_an_event_that_a_rule_ignores_from_now_on_keeps_the_vm_prepared_for_it_until_it_is_over(vm):
    vm.step(document(event(), event(OTHER_ID)))
    vm.step(None, ok(run("prepare", 1)), ok(run("prepare", 2, OTHER_ID)))
    vm.configure(rules=parse_rules([{"action": "ignore"}]))
    assert vm.step(document(event(OTHER_ID))) == []
    assert vm.step(document()) == [run("recover", 3), run("recover", 4, OTHER_ID)]


def test_an_event_that_a_rule_ignores_from_now_on_is_recovered_when_it_is_over(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    vm.configure(rules=parse_rules([{"action": "ignore"}]))
    assert vm.step(document(event())) == []
    assert vm.step(document()) == [run("recover", 2)]


# What a fresh document has to agree with


def decided(**fields):
    vm = Engine(rules=SHORT_FREEZES)
    vm.step(document(event(**fields)))
    vm.step(document(event(**fields)), ok(run("prepare", 1)))
    return vm, vm.approval()


def agrees(vm, action, fresh):
    return policies.still_agrees(action, document(fresh).events[0], vm.config)


def test_a_fresh_document_that_says_the_same_agrees():
    vm, action = decided()
    assert agrees(vm, action, event(NotBefore=IN_300, event_id=ID.lower()))


def test_a_short_freeze_that_a_fresh_document_calls_a_reboot_is_not_acknowledged():
    vm, action = decided(kind="Freeze", DurationInSeconds=5)
    assert action.decision == "approve"
    assert not agrees(vm, action, event(kind="Reboot", DurationInSeconds=5))


@pytest.mark.parametrize(
    "fresh",
    [
        event(kind="Redeploy"),
        event(kind="Freeze", DurationInSeconds=5),
        event(status="Started"),
        event(status=None),
        event(resources=["vm2"]),
        event(resources=["vm1", "vm2"]),
    ],
)
def test_a_fresh_document_that_says_something_else_does_not_agree(fresh):
    vm, action = decided()
    assert not agrees(vm, action, fresh)


def test_an_event_that_a_fresh_document_shows_for_other_vms_alone_is_acknowledged_under_no_policy():
    vm = Engine(acknowledge="any", rules=SHORT_FREEZES)
    both = event(resources=["vm1", "vm2"])
    vm.step(document(both))
    vm.step(document(both), ok(run("prepare", 1)))
    assert agrees(vm, vm.approval(), both)
    assert not agrees(vm, vm.approval(), event(resources=["vm2"]))


@pytest.mark.parametrize(
    "changes",
    [
        {"acknowledge": "never"},
        {"rules": parse_rules([{"action": "approve"}])},
        {"rules": parse_rules([{"action": "hold"}])},
        {"rules": parse_rules([{"action": "ignore"}])},
    ],
)
def test_another_configuration_does_not_agree(changes):
    vm, action = decided()
    vm.configure(**changes)
    assert not agrees(vm, action, event())


def test_an_event_that_changes_its_type_is_prepared_again(vm):
    vm.step(document(event()))
    vm.step(document(event()), ok(run("prepare", 1)))
    assert vm.step(document(event(kind="Redeploy"))) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


# Runs that could not be asked for


def test_hooks_that_could_not_be_asked_for_are_asked_for_again_with_growing_pauses(vm):
    vm.step(document(event()))
    asked = []
    for _second in range(130):
        results = [NotAsked(each.request_id, "the spool is full") for each in vm.hooks()]
        vm.pass_time(1)
        vm.step(document(event()), *results)
        if vm.hooks():
            asked.append(vm.monotonic - 100)
    assert asked == [2, 5, 10, 19, 36, 67, 98, 129]


def test_a_hint_whose_hooks_could_not_be_asked_for_is_asked_for_later_and_not_again_at_once(vm):
    vm.step(document(hint()))
    assert vm.step(document(hint()), NotAsked(run("advised", 1), "the spool is full")) == []
    vm.pass_time(60)
    assert vm.step(document(hint())) == [run("advised", 1)]


def test_hooks_that_could_not_be_asked_for_get_no_outcome_and_their_whole_time(vm):
    vm.step(document(event()))
    vm.step(document(event()), NotAsked(run("prepare", 1), "the spool is full"))
    vm.pass_time(3600)
    assert vm.step(document(event())) == [run("prepare", 1)]
    (asked,) = vm.hooks()
    assert (asked.deadline, asked.ends_at) == (vm.wall + 600, vm.monotonic + 600)
    assert vm.entry().failures == ()


def test_a_recovery_that_could_not_be_asked_for_is_not_forgotten(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.step(document(), NotAsked(run("recover", 2), "the spool is full")) == []
    vm.pass_time(1)
    assert vm.step(document()) == [run("recover", 2)]


# Failures that stay until something is done about them


def failed_recovery(outcome="failed"):
    vm = Engine()
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert vm.step(document(), HookResult(run("recover", 2), outcome, "10-undrain: exit status 1")) == [
        run("failed", 3)
    ]
    assert vm.step(document(), ok(run("failed", 3))) == []
    return vm


@pytest.mark.parametrize("outcome", ["failed", "timeout"])
def test_a_failed_recovery_stays_in_the_state(outcome):
    vm = failed_recovery(outcome)
    vm.pass_time(86400)
    assert vm.step(document()) == []
    vm.reboot()
    assert vm.step(document()) == []
    assert vm.entry().owed


def test_a_failed_recovery_runs_again_when_the_operator_wants_and_is_over_when_it_succeeds():
    vm = failed_recovery()
    assert vm.step(document(), Retry(ID.lower())) == [run("recover", 4)]
    assert vm.step(document(), HookResult(run("recover", 4), "failed")) == [run("failed", 5)]
    assert vm.step(document(), ok(run("failed", 5)), Retry(ID.lower())) == [run("recover", 6)]
    assert vm.step(document(), ok(run("recover", 6))) == []
    assert vm.state.events == {}


def test_a_retried_recovery_waits_for_a_document_without_other_events():
    vm = failed_recovery()
    assert vm.step(None, Retry(ID.lower())) == []
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 4, OTHER_ID)]


def test_a_failed_recovery_is_forgotten_when_the_operator_clears_it():
    vm = failed_recovery()
    vm.step(None, Clear(ID.lower()))
    assert vm.state.events == {}
    assert len(vm.reports(terms.ReportKind.CLEARED)) == 1


def test_a_failed_preparation_runs_again_when_the_operator_wants():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event()))
    vm.step(document(event()), HookResult(run("prepare", 1), "failed"))
    assert vm.step(None, Retry(ID.lower())) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]


TOO_LATE = "its preparation does not run again, since it has started or is over"
NOT_WANTED = "neither its preparation nor its recovery failed, and it does not wait for a moment"


@pytest.mark.parametrize(
    ("prepare", "then", "retry", "clear"),
    [
        (None, None, NOT_WANTED, "it is still announced"),
        ("failed", None, "", "it is still announced"),
        ("nothing", None, "", "it is still announced"),
        ("failed", "started", TOO_LATE, "it is still announced"),
        ("nothing", "started", TOO_LATE, "it is still announced"),
        ("ok", None, NOT_WANTED, "its recover hooks are running"),
        ("ok", "failed", "", ""),
    ],
)
def test_the_operator_learns_why_a_command_cannot_be_carried_out(prepare, then, retry, clear):
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event()))
    if prepare:
        vm.step(document() if prepare == "ok" else document(event()), HookResult(run("prepare", 1), prepare))
    if then == "started":
        vm.step(document(event(status="Started")))
    elif then:
        vm.step(document(), HookResult(run("recover", 2), then))
    assert engine.objection(vm.state, Retry(ID.lower())) == retry
    assert engine.objection(vm.state, Clear(ID.lower())) == clear


def test_nothing_speaks_against_clearing_all_that_can_be_cleared():
    assert engine.objection(Engine().state, Clear("")) == ""
    assert engine.objection(failed_recovery().state, Clear("")) == ""


@pytest.mark.parametrize("command", [Retry("unknown"), Clear("unknown")])
def test_a_command_about_an_unknown_event_is_refused_and_has_no_effect(command):
    vm = failed_recovery()
    before = vm.state
    assert engine.objection(vm.state, command) == "the polling unit does not know this event"
    assert vm.step(None, command) == []
    assert vm.state == before


def test_an_event_that_is_announced_cannot_be_cleared(vm):
    vm.step(document(event()))
    vm.step(None, Clear(ID.lower()))
    assert ID.lower() in vm.state.events


# NotBefore that moves


def test_a_not_before_moved_later_after_a_timeout_leads_to_another_preparation():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event(NotBefore=IN_300)))
    vm.pass_time(290)
    assert vm.step(document(event(NotBefore=IN_300)), HookResult(run("prepare", 1), "timeout")) == []
    assert vm.step(document(event(NotBefore=IN_1200))) == [run("prepare", 2)]
    assert vm.hooks()[0].deadline == NOW + 290 + 600


def test_a_not_before_that_goes_after_a_timeout_leads_to_no_other_preparation():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event(NotBefore=IN_300)))
    vm.pass_time(290)
    vm.step(document(event(NotBefore=IN_300)), HookResult(run("prepare", 1), "timeout"))
    assert vm.step(document(event())) == []


def test_a_preparation_that_used_up_its_own_timeout_does_not_run_again_when_not_before_moves():
    vm = Engine(hooks=ALL - {"failed"}, hook_timeout=100.0)
    vm.step(document(event(NotBefore=IN_300)))
    vm.pass_time(100)
    vm.step(document(event(NotBefore=IN_300)), HookResult(run("prepare", 1), "timeout"))
    assert vm.step(document(event(NotBefore=IN_1200))) == []


@pytest.mark.parametrize(
    ("moved_to", "not_later_than", "deadline"),
    [
        (IN_1200, NOW + 1190, NOW + 600),
        (IN_30, NOW + 20, NOW + 20),
        ("soon", None, NOW + 600),
    ],
)
def test_a_not_before_that_moves_reaches_hooks_that_run_under_the_same_id(moved_to, not_later_than, deadline, vm):
    vm.step(document(event(NotBefore=IN_300)))
    (first,) = vm.hooks()
    assert vm.step(document(event(NotBefore=moved_to))) == [first.request_id]
    (again,) = vm.hooks()
    assert (again.not_later_than, again.deadline, again.ends_at) == (not_later_than, deadline, first.ends_at)
    assert vm.step(document(event(NotBefore=moved_to))) == []


# Clocks that jump


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_whether_hooks_may_still_run_depends_on_monotonic_time_alone(jump):
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event(NotBefore=IN_300)))
    vm.wall += jump
    vm.pass_time(600 + hook_runs.SILENCE - 1)
    assert vm.step(document()) == []
    vm.pass_time(1)
    assert vm.step(document()) == [run("recover", 2)]


# What failed hooks learn


def test_failed_hooks_learn_which_phase_failed_and_why(vm):
    vm.step(document(event()))
    vm.step(None, HookResult(run("prepare", 1), "failed", "10-drain: exit status 1"))
    (asked,) = vm.hooks()
    assert (asked.phase, asked.failed_phase, asked.failure) == ("failed", "prepare", "10-drain: exit status 1")


def test_failed_hooks_run_for_each_failure_one_after_the_other(vm):
    vm.step(document(event()))
    assert vm.step(None, HookResult(run("prepare", 1), "failed", "one")) == [run("failed", 2)]
    assert vm.step(document(event(status="Started"))) == [run("started", 3)]
    assert vm.step(None, HookResult(run("started", 3), "timeout", "two")) == []
    assert vm.step(None, ok(run("failed", 2))) == [run("failed", 4)]
    (asked,) = vm.hooks()
    assert (asked.failed_phase, asked.failure) == ("started", "two")


def test_failed_hooks_learn_of_the_same_failure_after_a_reboot(vm):
    vm.step(document(event()))
    vm.step(None, HookResult(run("prepare", 1), "failed", "10-drain: exit status 1"))
    vm.reboot()
    assert vm.step(document(event())) == [run("failed", 3)]
    (asked,) = vm.hooks()
    assert (asked.failed_phase, asked.failure) == ("prepare", "10-drain: exit status 1")


def test_failed_hooks_lost_with_the_boot_stay_due_while_their_files_are_missing(vm):
    vm.step(document(event()))
    vm.step(None, HookResult(run("prepare", 1), "failed", "10-drain: exit status 1"))
    vm.reboot()
    vm.configure(missing={"failed": ("10-page",)})
    assert vm.step(document(event())) == []
    vm.configure(missing={})
    assert vm.step(document(event())) == [run("failed", 3)]


def test_missing_failed_hooks_run_once_they_can_be_found():
    vm = Engine(missing={"failed": ("10-page",)})
    vm.step(document(event()))
    assert vm.step(None, HookResult(run("prepare", 1), "failed")) == []
    vm.configure(missing={})
    assert vm.step(None) == [run("failed", 2)]


# Requests for hooks that an earlier request may have reached, and those that none reached


def test_a_failure_that_was_not_passed_on_is_not_forgotten_with_its_event():
    vm = Engine(hooks=frozenset(["prepare", "failed"]), missing={"failed": ("10-x",)})
    vm.step(document(event()))
    assert vm.step(document(), HookResult(run("prepare", 1), "failed")) == []
    vm.configure(missing={})
    assert vm.step(document()) == [run("failed", 2)]


def test_hooks_that_run_are_not_taken_for_never_asked_when_a_moved_not_before_cannot_be_written(vm):
    vm.step(document(event(NotBefore=IN_1200)))
    ends_at = vm.hooks()[0].ends_at
    vm.pass_time(5)
    vm.step(document(event(NotBefore=IN_300)))
    vm.step(document(event(NotBefore=IN_300)), NotAsked(run("prepare", 1), "the spool is full"))
    vm.pass_time(1)
    assert vm.step(document()) == [run("prepare", 1)]  # and no recovery beside hooks that run
    assert vm.hooks()[0].ends_at == ends_at


def test_hooks_that_the_process_before_may_have_asked_for_are_not_taken_for_never_asked(vm):
    vm.step(document(event()))
    ends_at = vm.hooks()[0].ends_at
    vm.restart()
    vm.step(document(event()))
    vm.step(document(event()), NotAsked(run("prepare", 1), "the spool is full"))
    vm.pass_time(1)
    assert vm.step(document()) == [run("prepare", 1)]
    assert vm.hooks()[0].ends_at == ends_at


def test_hooks_that_any_earlier_process_may_have_asked_for_are_not_taken_for_never_asked(vm):
    vm.step(document(event()))
    vm.restart()
    assert vm.step(None) == [run("prepare", 1)]
    vm.step(None, NotAsked(run("prepare", 1), "the spool is full"))
    vm.restart()
    vm.configure(missing={"prepare": ("10-x",)})
    assert vm.step(None) == [run("prepare", 1)]


def test_hooks_whose_request_was_lost_run_again_after_a_deadline_that_not_before_set(vm):
    vm.step(document(event(NotBefore=IN_300)))
    vm.restart()
    vm.pass_time(300)
    assert vm.step(document(event(NotBefore=IN_300))) == []  # it waits for other VMs
    vm.pass_time(hook_runs.SILENCE)
    assert vm.step(document(event(NotBefore=IN_300))) == [run("prepare", 2)]
    assert vm.hooks()[0].not_later_than is None


def test_hooks_run_again_if_no_process_knows_whether_they_were_ever_asked_for(vm):
    vm.step(document(event()))
    vm.restart()
    vm.pass_time(600)
    assert vm.step(document(event())) == []  # too late for the first request, too early for another one
    vm.pass_time(hook_runs.SILENCE)
    assert vm.step(document(event())) == [run("prepare", 2)]


def test_a_recovery_with_an_unknown_request_runs_again(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.restart()
    vm.pass_time(600 + hook_runs.SILENCE)
    assert vm.step(document()) == [run("recover", 3)]


def test_hooks_that_were_never_asked_for_are_not_asked_for_once_they_are_missing(vm):
    vm.step(document(event()))
    vm.configure(missing={"prepare": ("10-drain",)})
    vm.pass_time(1)
    assert vm.step(document(event()), NotAsked(run("prepare", 1), "the spool is full")) == []
    vm.configure(missing={})
    assert vm.step(document(event())) == [run("prepare", 2)]


def never_asked_recovery():
    vm = Engine()
    vm.step(document(event()))
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]
    assert vm.step(None, NotAsked(run("recover", 2), "the spool is full")) == []
    vm.pass_time(1)
    return vm


@pytest.mark.parametrize(("phase", "outcome"), [("recover", "ok"), ("failed", "failed")])
def test_what_is_owed_and_was_never_asked_for_runs_once_its_missing_hooks_are_found(phase, outcome, vm):
    vm.step(document(event()))
    read = document() if phase == "recover" else document(event())
    assert vm.step(read, HookResult(run("prepare", 1), outcome)) == [run(phase, 2)]
    vm.configure(missing={phase: ("10-x",)})
    assert vm.step(None, NotAsked(run(phase, 2), "the spool is full")) == []
    vm.pass_time(1)
    vm.step(None)
    vm.configure(missing={})
    assert vm.step(read) == [run(phase, 3)]


def test_an_event_that_a_rule_ignores_does_not_delay_the_recovery_from_another():
    vm = Engine(rules=parse_rules([{"event_types": ["Freeze"], "action": "ignore"}]))
    vm.step(document(event()))
    vm.step(document(event()), ok(run("prepare", 1)))
    assert vm.step(document(event(OTHER_ID, kind="Freeze"))) == [run("recover", 2)]


def test_a_recovery_that_was_never_asked_for_waits_for_another_event_that_is_announced_meanwhile():
    vm = never_asked_recovery()
    assert vm.step(document(event(OTHER_ID))) == [run("prepare", 3, OTHER_ID)]
    assert vm.step(document(event(OTHER_ID)), ok(run("prepare", 3, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document()) == [run("recover", 4), run("recover", 5, OTHER_ID)]


def test_a_recovery_that_was_never_asked_for_waits_for_an_event_whose_moment_has_come():
    vm = never_asked_recovery()
    vm.configure(rules=late(lead_time=200))
    assert vm.step(document(event(OTHER_ID, NotBefore=IN_300))) == [run("recover", 3)]
    assert vm.step(None, NotAsked(run("recover", 3), "the spool is full")) == []
    vm.pass_time(10)
    vm.configure(rules=())
    assert vm.step(document(event(OTHER_ID, NotBefore=IN_300))) == [run("prepare", 4, OTHER_ID)]


def test_a_recovery_that_was_never_asked_for_is_not_needed_when_its_event_is_announced_again():
    vm = never_asked_recovery()
    assert vm.step(document(event())) == ["approve " + ID]


def test_a_recovery_that_was_never_asked_for_is_asked_for_only_with_a_document():
    vm = never_asked_recovery()
    vm.restart()
    assert vm.step(None) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_an_event_whose_hooks_run_cannot_be_cleared(vm):
    vm.step(document(event()))
    vm.step(document())
    assert engine.objection(vm.state, Clear(ID.lower())) == "its prepare hooks are running"
    vm.step(None, Clear(ID.lower()))
    assert vm.step(document(), ok(run("prepare", 1))) == [run("recover", 2)]


def test_a_preparation_runs_again_after_the_operator_recovered_the_vm_by_hand():
    vm = failed_recovery()
    vm.step(document(event(OTHER_ID)))
    assert vm.step(document(event(OTHER_ID)), ok(run("prepare", 4, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document(event(OTHER_ID)), Clear(ID.lower())) == [run("prepare", 5, OTHER_ID)]


def test_an_event_that_was_gone_for_a_moment_is_acknowledged_again():
    vm = Engine(rules=parse_rules([{"event_types": ["Freeze"], "action": "approve"}]))
    vm.step(document(event()))
    vm.step(document(event(kind="Freeze")), ApprovalResult(ID.lower(), accepted=True))
    vm.step(document())
    assert vm.step(document(event(kind="Freeze"))) == ["approve " + ID]


def test_a_preparation_does_not_begin_just_before_a_silent_recovery_ends_in_the_same_step():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event(OTHER_ID)))
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 2)))
    vm.step(document(event(OTHER_ID, kind="Redeploy")))
    vm.pass_time(600 + hook_runs.SILENCE)
    read = document(event(OTHER_ID, kind="Redeploy"))
    assert vm.step(read) == [run("prepare", 4, OTHER_ID)]
    assert vm.step(read, ok(run("prepare", 4, OTHER_ID))) == ["approve " + OTHER_ID]


@pytest.mark.parametrize("lost_with_the_boot", [True, False])
def test_an_event_that_had_started_is_a_new_one_after_a_recovery_without_an_outcome(lost_with_the_boot, vm):
    vm.step(document(event(status="Started")))
    assert vm.step(document(), ok(run("started", 1))) == [run("recover", 2)]
    if lost_with_the_boot:
        vm.reboot()
        assert vm.step(document(event(OTHER_ID))) == [run("prepare", 3, OTHER_ID)]
    else:
        vm.restart()
        vm.pass_time(600 + hook_runs.SILENCE)
        assert vm.step(document(event(OTHER_ID))) == [run("prepare", 3, OTHER_ID)]
    assert vm.step(document(event(), event(OTHER_ID))) == [run("prepare", 4)]


def test_a_request_that_is_repeated_names_the_type_of_event_for_which_its_run_counts(vm):
    vm.step(document(event()))
    vm.restart()
    assert vm.step(document(event(kind="Redeploy"))) == [run("prepare", 1)]
    assert vm.hooks()[0].event["event_type"] == "Reboot"
    assert vm.step(None, ok(run("prepare", 1))) == [run("prepare", 2)]
    assert vm.hooks()[0].event["event_type"] == "Redeploy"


def test_an_event_that_was_seen_started_is_not_acknowledged_when_a_document_calls_it_scheduled_again():
    vm = Engine(hooks=frozenset(), rules=APPROVED)
    vm.step(document(event(status="Started")))
    assert vm.step(document(event())) == []


# One phase at a time, and preparations that are deferred


def test_without_parallel_runs_the_earliest_not_before_goes_first_and_unknown_ones_last():
    vm = Engine(rules=(), acknowledge="any", parallel=False)
    third = "0E5E1A7A-0000-0000-0000-000000000000"
    announced = document(event(NotBefore=""), event(OTHER_ID, NotBefore=IN_1200), event(third, NotBefore=IN_300))
    assert vm.step(announced) == [run("prepare", 1, third)]
    assert vm.step(announced) == []
    assert vm.step(None, ok(run("prepare", 1, third))) == [run("prepare", 2, OTHER_ID), "approve " + third]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID)))[0] == run("prepare", 3)


def test_without_parallel_runs_an_event_that_has_started_goes_before_all_others():
    vm = Engine(rules=(), parallel=False)
    announced = document(event(NotBefore=IN_300), event(OTHER_ID, status="Started", NotBefore=""))
    assert vm.step(announced) == [run("started", 1, OTHER_ID)]


def test_without_parallel_runs_events_that_are_over_are_recovered_from_together():
    vm = Engine(rules=(), parallel=False)
    announced = document(event(NotBefore=IN_300), event(OTHER_ID, NotBefore=IN_1200))
    vm.step(announced)
    vm.step(announced, ok(run("prepare", 1)))
    vm.step(announced, ok(run("prepare", 2, OTHER_ID)))
    assert vm.step(document()) == [run("recover", 3), run("recover", 4, OTHER_ID)]


def test_a_preparation_that_is_deferred_begins_that_long_before_not_before():
    vm = Engine(rules=(), defer=60.0)
    announced = document(event(NotBefore=IN_300))
    assert vm.step(announced) == []
    assert condition.condition(vm.state, ID.lower(), vm.config).kind == condition.DEFERRED
    vm.pass_time(239)
    assert vm.step(announced) == []
    vm.pass_time(1)
    assert vm.step(announced) == [run("prepare", 1)]


def test_a_preparation_that_is_no_longer_deferred_begins_at_once():
    vm = Engine(rules=(), defer=60.0)
    announced = document(event(NotBefore=""))
    assert vm.step(announced) == []
    vm.configure(defer=None)
    assert vm.step(announced) == [run("prepare", 1)]


@pytest.mark.parametrize(("wanted", "expected"), [(True, [run("started", 2)]), (False, [])])
@pytest.mark.parametrize("outcome", ["ok", "failed"])
def test_started_hooks_run_after_a_preparation_that_has_ended_only_where_they_are_wanted(wanted, expected, outcome):
    vm = Engine(hooks=frozenset(["prepare", "started", "recover"]), rules=(), started_after_prepare=wanted)
    vm.step(document(event()))
    vm.step(None, HookResult(run("prepare", 1), outcome))
    assert vm.step(document(event(status="Started"))) == expected


def test_started_hooks_run_after_a_preparation_that_a_reboot_interrupted_wherever_they_are_wanted():
    vm = Engine(started_after_prepare=False)
    vm.step(document(event()))
    vm.reboot()
    assert vm.step(document(event(status="Started"))) == [run("started", 2)]


def firsts(vm):
    """By phase, the first runs of the runs that the last step asked for."""
    return {action.phase: action.first_run for action in vm.actions if isinstance(action, RunHooks)}


def test_a_run_that_a_reboot_interrupted_is_repeated_under_a_new_id_and_names_the_first_one(vm):
    for phase, read in (("prepare", document(event())), ("recover", document())):
        vm.step(read)
        [first] = firsts(vm).values()
        for _time in range(2):
            vm.reboot()
            [again] = vm.step(read)
            assert (again != first, firsts(vm)) == (True, {phase: first})
        vm.step(None, ok(again))


def test_a_failure_names_its_own_first_run_also_after_a_reboot(vm):
    vm.step(document(event()))
    vm.step(document(event()), HookResult(run("prepare", 1), "failed"))
    assert firsts(vm) == {"failed": run("failed", 2)}
    vm.reboot()
    vm.step(document(event()))
    assert firsts(vm) == {"failed": run("failed", 2)}
    vm.step(document(event()), ok(run("failed", 3)), Retry(ID.lower()))
    assert firsts(vm) == {"prepare": run("prepare", 1)}
    vm.step(document(event()), HookResult(run("prepare", 4), "failed"))
    assert firsts(vm) == {"failed": run("failed", 5)}


def test_what_an_operator_has_repeated_names_the_first_run():
    vm = Engine(hooks=frozenset(["prepare", "recover"]))
    for phase, read in (("prepare", document(event())), ("recover", document())):
        vm.step(read)
        [first] = firsts(vm).values()
        for _time in range(2):
            vm.step(read, HookResult(vm.hooks()[0].request_id, "failed"))
            vm.step(read, Retry(ID.lower()))
            assert firsts(vm) == {phase: first}
        vm.step(read, ok(vm.hooks()[0].request_id))


def test_a_preparation_after_which_the_type_changed_is_no_repetition(vm):
    vm.step(document(event(kind="Freeze")))
    vm.step(document(event(kind="Redeploy")), ok(run("prepare", 1)))
    assert firsts(vm) == {"prepare": run("prepare", 2)}


def test_a_preparation_that_a_recovery_may_have_undone_is_no_repetition_of_it(vm):
    vm.step(document(event(OTHER_ID)))
    vm.step(document(), ok(run("prepare", 1, OTHER_ID)))  # its recovery begins
    [prepare] = vm.step(document(event()))
    [first] = vm.actions[-1:]
    vm.step(document(event()), ok(run("recover", 2, OTHER_ID)))
    vm.step(document(event()), ok(prepare))
    [again] = [action for action in vm.actions if isinstance(action, RunHooks)]
    assert (again.first_run, again.request_id) == (run("prepare", 4), run("prepare", 4))
    assert again.recovered != first.recovered


def test_a_recovery_that_repeats_no_lost_one_is_the_first_of_its_event(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    assert firsts(vm) == {"recover": run("recover", 2)}


def test_an_event_that_is_announced_again_after_a_lost_recovery_begins_a_new_life(vm):
    vm.step(document(event()))
    vm.step(document(), ok(run("prepare", 1)))
    vm.reboot()
    vm.step(document(event()))
    assert firsts(vm) == {"prepare": run("prepare", 3)}
    vm.step(document(), ok(run("prepare", 3)))
    assert firsts(vm) == {"recover": run("recover", 4)}


# Hints of Azure, and events with a status that is not known


def hint(event_id=ID, **more):
    return event(event_id, "SpotRebalanceRecommendation", "Advisory", **more)


def test_a_hint_reaches_the_phase_advised_once_and_nothing_else_follows():
    vm = Engine(rules=APPROVED)
    assert vm.step(document(hint())) == [run("advised", 1)]
    assert vm.hooks()[0].event["event_status"] == "Advisory"
    assert vm.step(document(hint()), ok(run("advised", 1))) == []
    vm.restart()
    assert vm.step(document(hint())) == []
    vm.reboot()
    assert vm.step(document(hint())) == []
    assert vm.step(document()) == []
    assert vm.state.events == {}


@pytest.mark.parametrize("outcome", ["failed", "timeout"])
def test_a_hint_whose_hooks_failed_is_reported_and_not_passed_on_again(outcome, vm):
    vm.step(document(hint()))
    assert vm.step(document(hint()), HookResult(run("advised", 1), outcome, "no disk")) == [run("failed", 2)]
    assert (vm.hooks()[0].failed_phase, vm.hooks()[0].failure) == ("advised", "no disk")
    assert not policies.is_pending(vm.state, ID.lower(), vm.config)
    assert vm.step(document(hint()), ok(run("failed", 2))) == []
    assert vm.step(document()) == []
    assert vm.state.events == {}


def test_a_hint_that_was_lost_with_the_boot_is_passed_on_again_while_it_stands(vm):
    vm.step(document(hint()))
    vm.reboot()
    assert vm.step(None) == []
    assert vm.step(document(hint())) == [run("advised", 2)]
    vm.reboot()
    assert vm.step(document()) == []
    assert vm.state.events == {}


@pytest.mark.parametrize(
    "config",
    [
        {"hooks": ALL - {"advised"}},
        {"missing": {"advised": ("10-x",)}},
        {"rules": parse_rules([{"event_statuses": ["Advisory"], "action": "ignore"}])},
    ],
)
def test_a_hint_without_hooks_or_that_a_rule_ignores_leads_to_nothing(config):
    vm = Engine(**config)
    assert vm.step(document(hint())) == []
    assert vm.step(document()) == []
    assert vm.state.events == {}


def test_a_hint_delays_no_phase_of_any_event_and_no_recovery(vm):
    assert vm.step(document(hint(), event(OTHER_ID))) == [run("advised", 1), run("prepare", 2, OTHER_ID)]
    assert vm.step(None, ok(run("prepare", 2, OTHER_ID))) == ["approve " + OTHER_ID]
    assert vm.step(document(hint())) == [run("recover", 3, OTHER_ID)]
    assert not policies.is_pending(vm.state, ID.lower(), vm.config)
    assert policies.is_pending(vm.state, OTHER_ID.lower(), vm.config)


def test_a_hint_that_becomes_an_event_is_prepared_for_beside_its_advised_hooks_and_recovered(vm):
    vm.step(document(hint()))
    assert vm.step(document(event(kind="Preempt"))) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == ["approve " + ID]
    assert vm.step(document()) == [run("recover", 3)]
    assert vm.step(document(), ok(run("recover", 3))) == []
    assert vm.step(document(), ok(run("advised", 1))) == []
    assert vm.state.events == {}


def test_without_parallel_runs_a_hint_comes_after_the_events():
    vm = Engine(parallel=False)
    announced = document(hint(NotBefore=IN_5), event(OTHER_ID, NotBefore=IN_300))
    assert vm.step(announced) == [run("prepare", 1, OTHER_ID)]
    assert vm.step(announced, ok(run("prepare", 1, OTHER_ID))) == [run("advised", 2), "approve " + OTHER_ID]


def test_an_event_that_is_over_is_no_pending_maintenance_while_only_its_advised_hooks_run():
    vm = Engine(hooks=frozenset(["advised"]))
    assert vm.step(document(event(status="Advisory"))) == [run("advised", 1)]
    vm.step(document(event()))
    vm.step(document())
    assert policies.is_running(vm.entry(), "advised")
    assert not policies.is_pending(vm.state, ID.lower(), vm.config)


def test_a_hint_that_is_announced_again_after_a_recovery_is_passed_on_again():
    vm = Engine(hooks=ALL - {"failed"})
    vm.step(document(event(status="Advisory")))
    assert vm.step(document(event()), ok(run("advised", 1))) == [run("prepare", 2)]
    assert vm.step(document(), ok(run("prepare", 2))) == [run("recover", 3)]
    vm.step(None, HookResult(run("recover", 3), "failed"))
    assert vm.step(document(event(status="Advisory"))) == [run("advised", 4)]


@pytest.mark.parametrize("status", ["Paused", None, ""])
def test_an_event_with_an_unknown_status_holds_the_vm_and_is_neither_prepared_for_nor_acknowledged(status):
    for vm in (Engine(), Engine(rules=APPROVED), Engine(hooks=frozenset(), acknowledge="any")):
        assert vm.step(document(event(status=status))) == []
        assert policies.is_pending(vm.state, ID.lower(), vm.config)
    vm = Engine()
    vm.step(document(event(OTHER_ID)))
    vm.step(None, ok(run("prepare", 1, OTHER_ID)))
    assert vm.step(document(event(status=status))) == []
    assert vm.step(document()) == [run("recover", 2, OTHER_ID)]


@pytest.mark.parametrize("status", ["Paused", None, "Advisory"])
def test_a_preparation_is_not_acknowledged_when_its_event_is_no_longer_scheduled(status):
    vm = Engine(hooks=ALL - {"advised"})
    vm.step(document(event()))
    assert vm.step(document(event(status=status)), ok(run("prepare", 1))) == []
    assert vm.step(document()) == [run("recover", 2)]


def test_an_event_without_a_type_is_prepared_for_once_and_acknowledged(vm):
    vm.step(document(event(kind=None)))
    assert vm.step(document(event(kind=None)), ok(run("prepare", 1))) == ["approve " + ID]


def test_an_event_without_a_status_is_reported_as_a_new_one_with_an_empty_status(vm):
    vm.step(document(event(status=None)))
    assert [report.outcome for report in vm.reports(terms.ReportKind.SEEN)] == [""]


def test_an_event_that_was_seen_started_holds_the_vm_also_when_a_document_calls_it_a_hint():
    vm = Engine(hooks=frozenset(["prepare", "recover"]))
    assert vm.step(document(event(status="Started"), event(OTHER_ID))) == [run("prepare", 1, OTHER_ID)]
    assert vm.step(document(event(status="Advisory")), ok(run("prepare", 1, OTHER_ID))) == []
    assert vm.step(document()) == [run("recover", 2, OTHER_ID)]


def test_a_hint_without_an_id_holds_nothing(vm):
    vm.step(document(event()))
    vm.step(None, ok(run("prepare", 1)))
    nameless = {"EventType": "SpotRebalanceRecommendation", "EventStatus": "Advisory", "Resources": ["vm1"]}
    assert vm.step(document(nameless)) == [run("recover", 2)]


# What others did for an event before this VM recovered from another one


def prepared_and_over(vm, event_id=OTHER_ID):
    """An event of this VM was prepared and is over: its recovery runs."""
    vm.step(document(event(event_id)))
    vm.step(None, *[ok(hooks.request_id) for hooks in vm.hooks()])
    vm.step(document())
    return [ok(hooks.request_id) for hooks in vm.hooks()]


def undone(vm, read, *results):
    """Whether what others did for the event that is prepared for now may be undone."""
    vm.step(read, *results)
    (hooks,) = [hooks for hooks in vm.hooks() if hooks.phase == "prepare"]
    return hooks.undone


def test_the_first_event_of_a_vm_has_nothing_that_a_recovery_may_have_undone():
    assert not undone(Engine(), document(event()))


def test_a_recovery_that_ended_before_a_document_without_the_event_has_undone_nothing_of_it(vm):
    vm.step(None, *prepared_and_over(vm))
    vm.step(document())
    assert not undone(vm, document(event()))


@pytest.mark.parametrize("outcome", ["ok", "failed", "timeout"])
def test_a_recovery_that_ended_since_the_last_document_may_have_undone_what_was_done_for_an_event(outcome, vm):
    vm.step(None, *[result._replace(outcome=outcome) for result in prepared_and_over(vm)])
    vm.step(None)  # the polls fail
    vm.restart()
    assert undone(vm, document(event()))


def test_a_document_may_have_been_read_before_a_recovery_ended_that_becomes_known_with_it(vm):
    vm.step(document(), *prepared_and_over(vm))
    assert undone(vm, document(event()))


def test_a_recovery_that_ended_between_the_announcement_and_the_preparation_may_have_undone_what_was_done():
    vm = Engine(parallel=False)
    recovered = prepared_and_over(vm)
    assert vm.step(document(event())) == []
    assert undone(vm, None, *recovered)


def test_the_second_of_two_recoveries_that_ran_together_counts_as_well():
    vm = Engine(parallel=False)
    for announced in ("a", "ab"):
        vm.step(document(*map(event, announced)))
        vm.step(None, *[ok(hooks.request_id) for hooks in vm.hooks()])
    vm.step(document())
    first, second = [ok(hooks.request_id) for hooks in vm.hooks()]
    vm.step(None, first)
    vm.step(document())
    vm.step(document(event()))
    assert undone(vm, None, second)


def test_a_recovery_by_hand_may_have_undone_what_was_done_for_an_event(vm):
    vm.step(None, *[result._replace(outcome="failed") for result in prepared_and_over(vm)])
    vm.step(document())
    vm.step(None, Clear(OTHER_ID.lower()))
    assert undone(vm, document(event()))


def test_an_event_that_a_rule_ignored_was_announced_before_the_rule_changed(vm):
    recovered = prepared_and_over(vm)
    vm.configure(rules=parse_rules([{"event_types": ["Freeze"], "action": "ignore"}]))
    vm.step(document(event(kind="Freeze")))
    vm.step(None, *recovered)
    vm.step(document(event(kind="Freeze")))
    vm.configure(rules=())
    assert undone(vm, document(event(kind="Freeze")))


# The moment that a rule chooses


def late(lead_time=None, windows=(), action="prepare"):
    return parse_rules([{"action": action, "lead_time": lead_time, "windows": list(windows) or None}])


def at(vm):
    """The moment until which the event waits, in seconds after NOW."""
    moment = vm.entry().waits_until
    return None if moment is None else moment - NOW


# NOW is 12:26:40 on a Sunday.
FROM_1230 = {"days": ["Sun"], "from": "12:30", "to": "12:40"}


def test_a_preparation_begins_the_lead_time_before_not_before():
    vm = Engine(rules=late(200))
    assert vm.step(document(event(NotBefore=IN_300))) == []
    assert at(vm) == 100
    vm.pass_time(99)
    assert vm.step() == []
    vm.pass_time(1)
    assert vm.step() == [run("prepare", 1)]
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


@pytest.mark.parametrize(
    ("rules", "announced"),
    [
        (late("announced"), {"NotBefore": IN_1200}),
        (late(), {"NotBefore": IN_1200}),
        (late(200), {"NotBefore": ""}),
        (late(400), {"NotBefore": IN_300}),
        (late(windows=[{"from": "12:00", "to": "13:00"}]), {"NotBefore": IN_1200}),
        (late(windows=[FROM_1230], action="hold"), {"NotBefore": ""}),
        (late("announced", action="hold"), {"NotBefore": IN_1200}),
    ],
)
def test_a_preparation_begins_at_once_for(rules, announced):
    assert Engine(rules=rules).step(document(event(**announced))) == [run("prepare", 1)]


def test_a_drill_waits_for_no_moment():
    announced = document(event("drill-1", NotBefore=IN_1200))
    assert len(Engine(rules=late(10)).step(announced)) == 1


@pytest.mark.parametrize(("usual", "expected"), [(0.0, 285), (40.0, 245)])
def test_no_lead_time_is_less_than_a_preparation_needs_with_the_margin(usual, expected):
    vm = Engine(rules=late(15), usual=usual)
    vm.step(document(event(NotBefore=IN_300)))
    assert at(vm) == expected
    assert condition.condition(vm.state, ID.lower(), vm.config).kind.trouble == (usual > 0)


@pytest.mark.parametrize("config", [{"rules": late(15)}, {"acknowledge": "never", "patience": 80.0}])
def test_hooks_that_begin_seconds_after_their_moment_have_the_time_of_the_longest_preparation(config):
    vm = Engine(usual=40.0, **config)
    vm.step(document(event(NotBefore=IN_1200)))
    vm.pass_time(at(vm) + 4.9)
    vm.step(document(event(NotBefore=IN_1200)))
    (asked,) = vm.hooks()
    assert asked.deadline - vm.wall >= 40.0


def test_an_acknowledged_event_waits_for_no_window_that_opens_after_it():
    vm = Engine(rules=late(60, windows=[{"from": "12:20", "to": "12:30"}]))
    vm.step(document(event(NotBefore=IN_1200)))
    vm.step(None, ok(run("prepare", 1)))
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.pass_time(600)
    vm.step(document(event(NotBefore=IN_1200)))
    assert (vm.entry().approval.accepted, vm.entry().waits_until) == (True, None)


def test_an_event_that_a_rule_acknowledged_waits_for_no_moment_of_another_rule():
    vm = Engine(rules=late(action="approve"))
    vm.step(document(event(NotBefore=IN_1200)))
    vm.step(None, ApprovalResult(ID.lower(), accepted=True))
    vm.configure(rules=late(60))
    assert vm.step(document(event(NotBefore=IN_1200))) == [run("prepare", 1)]


@pytest.mark.parametrize(
    ("config", "resources", "expected"),
    [
        ({"rules": late(action="hold")}, ["vm1"], 1200 - 615),
        ({"rules": late(action="hold"), "acknowledge": "leader"}, ["vm2", "vm1"], 1200 - 615),
        ({"acknowledge": "never"}, ["vm1"], 1200 - 615),
        ({"acknowledge": "alone"}, ["vm1", "vm2"], 1200 - 615),
        ({"acknowledge": "never", "patience": 90.0}, ["vm1"], 1200 - 105),
        ({"acknowledge": "never", "patience": 0.8}, ["vm1"], 1200 - 75),
        ({"acknowledge": "never", "patience": 0.8, "hook_timeout": 20.0}, ["vm1"], 1200 - 75),
        ({"acknowledge": "never", "patience": 800.0}, ["vm1"], 1200 - 615),  # hooks cannot use more
        ({"rules": late(100), "usual": 7 * 3600.0}, ["vm1"], 1200 - 615),
        ({"acknowledge": "never", "rules": late(100)}, ["vm1"], 1200 - 100),
        ({"acknowledge": "controller", "controller_grace": 300.0, "rules": late(100)}, ["vm1"], 1200 - 305),
        ({"acknowledge": "any"}, ["vm1", "vm2"], None),
        ({"acknowledge": "controller"}, ["vm1", "vm2"], None),
        ({"acknowledge": "leader"}, ["vm2", "vm1"], None),  # vm2 acknowledges at any moment
    ],
)
def test_an_event_that_this_vm_will_not_acknowledge_is_prepared_for_late(config, resources, expected):
    vm = Engine(**config)
    vm.step(document(event(resources=resources, NotBefore=IN_1200)))
    assert at(vm) == expected


@pytest.mark.parametrize("lead_time", [60, 1000])  # 1,000 s before NotBefore the window opens
def test_a_vm_is_prepared_and_acknowledged_when_a_window_opens(lead_time):
    vm = Engine(rules=late(lead_time, windows=[FROM_1230]))
    assert vm.step(document(event(NotBefore=IN_1200))) == []
    assert (at(vm), vm.entry().window) == (200, "Sun 12:30 to 12:40 UTC")
    vm.pass_time(200)
    assert vm.step() == [run("prepare", 1)]
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


def test_a_preparation_that_ends_after_its_window_waits_for_the_lead_time_with_the_acknowledgement():
    vm = Engine(rules=late(60, windows=[FROM_1230]))
    vm.pass_time(790)
    assert vm.step(document(event(NotBefore=IN_1200))) == [run("prepare", 1)]
    vm.pass_time(20)
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert at(vm) == 1140
    assert condition.condition(vm.state, ID.lower(), vm.config).kind == condition.WAITS_PREPARED
    vm.pass_time(330)
    assert vm.step() == ["approve " + ID]


def test_a_preparation_that_is_repeated_after_its_window_waits_for_the_lead_time_with_the_acknowledgement():
    vm = Engine(rules=late(60, windows=[FROM_1230]), hooks=ALL - {"failed"})
    vm.pass_time(790)
    assert vm.step(document(event(NotBefore=IN_1200))) == [run("prepare", 1)]
    vm.pass_time(20)
    vm.step(None, HookResult(run("prepare", 1), "failed"))
    assert vm.step(None, Retry(ID.lower())) == [run("prepare", 2)]
    assert vm.step(None, ok(run("prepare", 2))) == []
    assert at(vm) == 1140
    assert vm.step(None, Retry(ID.lower())) == ["approve " + ID]  # the operator wants it now


def test_a_failed_preparation_that_counts_and_waits_for_its_moment_is_acknowledged_after_a_retry():
    vm = Engine(rules=late(60, windows=[FROM_1230]), hooks=ALL - {"failed"}, on_failure="approve")
    vm.pass_time(790)
    vm.step(document(event(NotBefore=IN_1200)))
    vm.pass_time(20)
    assert vm.step(None, HookResult(run("prepare", 1), "failed")) == []
    assert condition.condition(vm.state, ID.lower(), vm.config).kind == condition.WAITS_PREPARED
    assert vm.step(None, Retry(ID.lower())) == [run("prepare", 2)]
    assert vm.step(None, HookResult(run("prepare", 2), "failed")) == ["approve " + ID]


def test_an_event_that_is_over_waits_for_no_moment():
    vm = Engine(rules=late(60, windows=[FROM_1230]))
    vm.pass_time(790)
    vm.step(document(event(NotBefore=IN_1200)))
    vm.pass_time(20)
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document()) == [run("recover", 2)]
    assert at(vm) is None


def test_a_held_event_is_prepared_in_its_window_and_then_waits_for_no_moment():
    vm = Engine(rules=late(60, windows=[FROM_1230], action="hold"))
    vm.pass_time(790)
    assert vm.step(document(event(NotBefore=IN_1200))) == [run("prepare", 1)]
    vm.pass_time(20)
    assert vm.step(None, ok(run("prepare", 1))) == []
    assert at(vm) is None


def test_a_preparation_without_a_window_before_not_before_begins_the_lead_time_before_it():
    vm = Engine(rules=late(60, windows=[{"days": ["Mon"]}]))
    vm.step(document(event(NotBefore=IN_1200)))
    assert (at(vm), vm.entry().window) == (1140, "")


def test_a_not_before_that_becomes_unreadable_is_reported_once(vm):
    vm.step(document(event(NotBefore=IN_1200)))
    vm.step(document(event(NotBefore="soon")))
    [problem] = vm.reports(terms.ReportKind.PROBLEM)
    assert "soon" in problem.text
    vm.step(document(event(NotBefore="soon")))
    assert vm.reports(terms.ReportKind.PROBLEM) == []


@pytest.mark.parametrize(("moved", "expected"), [(IN_300, 100), (IN_1200, 1000), ("", None)])
def test_a_not_before_that_is_moved_moves_the_moment(moved, expected):
    vm = Engine(rules=late(200))
    vm.step(document(event(NotBefore="Sun, 13 Sep 2020 12:36:40 GMT")))
    assert at(vm) == 400
    assert vm.step(document(event(NotBefore=moved))) == ([] if expected else [run("prepare", 1)])
    assert at(vm) == expected


def test_a_preparation_that_began_goes_on_when_not_before_is_moved_away():
    vm = Engine(rules=late(400))
    vm.step(document(event(NotBefore=IN_300)))
    assert vm.step(document(event(NotBefore=IN_1200)), ok(run("prepare", 1))) == ["approve " + ID]


def test_an_acknowledgement_within_a_window_counts_for_its_not_before_only():
    vm = Engine(rules=late(windows=[{}]))
    vm.step(document(event(NotBefore=IN_300)))
    vm.step(None, ok(run("prepare", 1)))
    moved = document(event(NotBefore=IN_1200)).events[0]
    assert not policies.still_agrees(vm.approval(), moved, vm.config)


def test_an_event_that_starts_before_its_moment_runs_started_hooks():
    vm = Engine(rules=late(10))
    assert vm.step(document(event(NotBefore=IN_1200))) == []
    assert vm.step(document(event(status="Started"))) == [run("started", 1)]
    assert at(vm) is None


def test_an_event_that_is_cancelled_before_its_moment_leaves_nothing_to_recover():
    vm = Engine(rules=late(10))
    vm.step(document(event(NotBefore=IN_1200)))
    assert vm.step(document()) == []
    assert vm.state.events == {}


def test_a_restart_and_a_clock_that_is_set_keep_the_moment():
    vm = Engine(rules=late(200))
    vm.step(document(event(NotBefore=IN_300)))
    vm.restart()
    vm.wall -= 3600
    assert vm.step() == []
    assert at(vm) == 100
    vm.wall += 2 * 3600
    assert vm.step() == [run("prepare", 1)]


@pytest.mark.parametrize("restarts", [False, True])
def test_the_operator_starts_an_event_before_its_moment(restarts):
    vm = Engine(rules=late(10, windows=[{"days": ["Mon"]}]))
    vm.step(document(event(NotBefore=IN_1200)))
    assert engine.objection(vm.state, Retry(ID.lower())) == ""
    assert vm.step(None, Retry(ID.lower())) == [run("prepare", 1)]
    assert len(vm.reports(terms.ReportKind.RETRIED)) == 1
    if restarts:
        vm.restart()
        vm.step(document(event(NotBefore=IN_1200)))
    assert vm.step(None, ok(run("prepare", 1))) == ["approve " + ID]


def test_an_event_that_waits_keeps_the_vm_from_no_recovery_and_is_a_pending_maintenance():
    vm = Engine(rules=late(10))
    waiting = event(OTHER_ID, NotBefore=IN_1200)
    vm.step(document(event(NotBefore=IN_5), waiting))
    vm.step(None, ok(run("prepare", 1)))
    assert vm.step(document(waiting)) == [run("recover", 2)]
    assert policies.is_pending(vm.state, OTHER_ID.lower(), vm.config)


def test_the_condition_of_an_event_that_waits_names_the_moment_and_the_reason():
    vm = Engine(rules=late(60, windows=[FROM_1230]))
    vm.step(document(event(NotBefore=IN_1200)))
    found = condition.condition(vm.state, ID.lower(), vm.config)
    assert found.sentence(ID) == (
        "in service: waits until 2020-09-13T12:30:00Z (window Sun 12:30 to 12:40 UTC). To start it now, run "
        f"'scheduled-events retry {ID}'"
    )
