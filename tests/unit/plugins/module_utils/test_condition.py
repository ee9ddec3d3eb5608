# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The condition of an event: what happens to it, and what it waits for."""

import json

import pytest
from _scheduled_events import condition, engine, policies, terms
from _scheduled_events.clock import Moment
from _scheduled_events.condition import Condition
from _scheduled_events.document import parse
from _scheduled_events.rules import parse_rules
from _scheduled_events.state import EventState, Run, State
from _scheduled_events.terms import ApprovalResult, HookResult, NotAsked

A, B = "aaaaaaaa-0000-0000-0000-00000000000a", "bbbbbbbb-0000-0000-0000-00000000000b"
ALL = frozenset(["prepare", "started", "recover", "failed"])


def event(event_id=A, status="Scheduled", resources=("vm1",)):
    return {"EventId": event_id, "EventType": "Reboot", "EventStatus": status, "Resources": list(resources)}


NAMELESS = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}


class Vm:
    def __init__(self, hooks=ALL - {"failed"}, **config):
        self.config = terms.Config("vm1", hooks, **config)
        self.state = State(serial=0)

    def read(self, *events):
        return self.step(parse(json.dumps({"Events": list(events)}), api_version="2020-07-01"))

    def take(self, *results):
        return self.step(None, *results)

    def step(self, document, *results):
        now = Moment(1600000000.0, 100.0, "boot")
        self.state, _actions = engine.step(self.state, document, results, now, self.config)
        return self

    def end(self, phase, outcome="ok", reason=""):
        run = self.state.events[A].runs[phase]
        return self.take(HookResult(run.request_id, outcome, reason))

    def configure(self, **changes):
        self.config = self.config._replace(**changes)
        return self

    def condition(self, key=A):
        return condition.condition(self.state, key, self.config)


def prepared(**config):
    return Vm(**config).read(event()).end("prepare")


def gone(**config):
    return prepared(**config).read()


def test_hooks_run_with_their_deadline():
    assert Vm().read(event()).condition() == Condition(condition.RUNS, ("prepare",), until=1600000600.0)


def test_a_takeover_comes_with_its_moment_and_then_with_why():
    vm = Vm(acknowledge="controller", controller_grace=60.0, margin=0.0)
    vm.read({**event(), "NotBefore": "Sun, 13 Sep 2020 12:27:10 GMT"}).end("prepare", reason="no answer")
    assert vm.condition() == Condition(condition.TAKES_OVER, detail="no answer", until=1599999970.0)
    vm.take(ApprovalResult(A, accepted=False, error="throttled"))
    assert vm.condition() == Condition(condition.NOT_ACCEPTED, detail="throttled")
    vm.take(ApprovalResult(A, accepted=True))
    assert vm.condition() == Condition(condition.TOOK_OVER, detail="no answer")


def test_hooks_that_cannot_be_asked_for_come_with_the_reason():
    vm = Vm().read(event())
    vm.take(NotAsked(vm.state.events[A].runs["prepare"].request_id, "the spool is full"))
    assert vm.condition() == Condition(condition.CANNOT_ASK, ("prepare",), "the spool is full")


@pytest.mark.parametrize(
    ("vm", "expected"),
    [
        (prepared(), Condition(condition.TO_BE_ACKNOWLEDGED)),
        (prepared(acknowledge="never"), Condition(condition.HELD_BY_POLICY, detail="never")),
        (
            Vm(acknowledge="leader").read(event(resources=["vm2", "vm1"])).end("prepare"),
            Condition(condition.HELD_FOR_LEADER, detail="vm2"),
        ),
        (
            Vm().read(event(resources=["VM1", "vm2", "vm3"])).end("prepare"),
            Condition(condition.HELD_FOR_OTHERS, detail="vm2, vm3"),
        ),
        (
            Vm().read(event(resources=["vm1", *["vm2"] * 21])).end("prepare"),
            Condition(condition.HELD_FOR_OTHERS, detail=", ".join(["vm2"] * 20) + " and 1 more"),
        ),
        (
            prepared(acknowledge="controller"),
            Condition(condition.LEFT_TO_CONTROLLER, detail="this VM has no information about its job"),
        ),
        (
            Vm(acknowledge="controller").read(event()).end("prepare", reason="job 7 has ended: successful"),
            Condition(condition.LEFT_TO_CONTROLLER, detail="job 7 has ended: successful"),
        ),
        (
            Vm(acknowledge="controller").read(event()).end("prepare", "failed", "job 7 has ended: failed"),
            Condition(condition.PREPARE_FAILED, detail="job 7 has ended: failed"),
        ),
        (prepared(rules=parse_rules([{"action": "hold"}])), Condition(condition.HELD_BY_RULE)),
        (prepared().configure(rules=parse_rules([{"action": "ignore"}])), Condition(condition.HELD_BY_RULE)),
        (prepared().take(ApprovalResult(A, accepted=True)), Condition(condition.ACKNOWLEDGED)),
        (prepared().take(ApprovalResult(A, False, "503")), Condition(condition.NOT_ACCEPTED, detail="503")),
        (Vm(hooks=frozenset()).read(event(status="New")), Condition(condition.STATUS_UNKNOWN, detail="New")),
        (Vm(hooks=frozenset()).read(event(status=None)), Condition(condition.STATUS_UNKNOWN, detail="missing")),
        (Vm(hooks=frozenset()).read(event(status="Started")), Condition(condition.UNDER_WAY)),
        (Vm().read(event(status="Advisory")), Condition(condition.ADVISORY)),
        (Vm(hooks=frozenset()).read(event()), Condition(condition.NOTHING_PREPARES)),
        (Vm(preparation="").read(event()).end("prepare", "nothing"), Condition(condition.NOTHING_PREPARES)),
        (prepared().configure(preparation=""), Condition(condition.TO_BE_ACKNOWLEDGED)),
        (
            Vm().read(event()).end("prepare", "nothing", "10-notify: sent"),
            Condition(condition.NOTHING_PREPARED, detail="10-notify: sent"),
        ),
        (
            Vm(on_failure="approve").read(event()).end("prepare", "nothing"),
            Condition(condition.NOTHING_PREPARED),
        ),
        (
            Vm(acknowledge="never").read(event()).end("prepare", "nothing", "77"),
            Condition(condition.NOTHING_PREPARED, detail="77"),
        ),
        (
            Vm().read(event(resources=["vm1", "vm2"])).end("prepare", "nothing", "77"),
            Condition(condition.NOTHING_PREPARED, detail="77"),
        ),
        (
            Vm(acknowledge="leader").read(event(resources=["vm2", "vm1"])).end("prepare", "nothing", "77"),
            Condition(condition.HELD_FOR_LEADER, detail="vm2"),  # which acknowledges it for this VM, too
        ),
        (
            Vm(acknowledge="leader").read(event(resources=["vm1", "vm2"])).end("prepare", "nothing", "77"),
            Condition(condition.NOTHING_PREPARED, detail="77"),
        ),
        (
            Vm(rules=parse_rules([{"action": "hold"}])).read(event()).end("prepare", "nothing", "77"),
            Condition(condition.NOTHING_PREPARED, detail="77"),
        ),
        (
            Vm(rules=parse_rules([{"action": "hold"}]), preparation="").read(event()).end("prepare", "nothing"),
            Condition(condition.HELD_BY_RULE),
        ),
        (
            Vm(acknowledge="controller").read(event()).end("prepare", "nothing", "job 12 failed"),
            Condition(condition.LEFT_TO_CONTROLLER, detail="job 12 failed"),
        ),
        (
            Vm(acknowledge="controller", controller_grace=60.0)
            .read({**event(), "NotBefore": "Sun, 13 Sep 2020 12:27:10 GMT"})
            .end("prepare", "nothing", "job 12 failed"),
            Condition(condition.NOTHING_PREPARED, detail="job 12 failed"),
        ),
        (Vm(hooks=frozenset(), acknowledge="never").read(event()), Condition(condition.HELD_BY_POLICY, detail="never")),
        (
            Vm(hooks=frozenset(), acknowledge="controller").read(event()),
            Condition(condition.LEFT_TO_CONTROLLER, detail="this VM has no information about its job"),
        ),
        (
            Vm(hooks=frozenset(), rules=parse_rules([{"action": "hold"}])).read(event()),
            Condition(condition.HELD_BY_RULE),
        ),
        (
            Vm(hooks=frozenset(), rules=parse_rules([{"action": "approve"}])).read(event()),
            Condition(condition.TO_BE_ACKNOWLEDGED),
        ),
        (
            Vm(missing={"prepare": ("10-a", "20-b")}).read(event()),
            Condition(condition.PREPARE_MISSING, detail="10-a, 20-b"),
        ),
        (
            Vm().read(event()).end("prepare", "failed", "10-a: exit status 1"),
            Condition(condition.PREPARE_FAILED, detail="10-a: exit status 1"),
        ),
    ],
)
def test_the_condition_of_an_event_that_is_announced(vm, expected):
    assert vm.condition() == expected


def test_a_hint_whose_hooks_failed_is_one_that_an_operator_looks_at():
    vm = Vm(hooks=frozenset(["advised"])).read(event(status="Advisory")).end("advised", "failed", "10-a: exit 1")
    assert vm.condition() == Condition(condition.ADVISED_FAILED, detail="10-a: exit 1")
    assert vm.condition().kind.trouble


def test_a_preparation_that_has_to_run_again_without_configured_hooks_is_one_that_an_operator_looks_at():
    vm = prepared().configure(hooks=frozenset())
    changed = dict(event(), EventType="Redeploy")
    assert vm.read(changed).condition() == Condition(condition.PREPARE_UNCONFIGURED)
    assert vm.condition().kind.trouble


def test_an_event_that_waits_for_its_turn_does_not_look_as_if_no_hooks_were_configured():
    vm = Vm(parallel=False).read(event(), event(B))
    assert vm.condition(B) == Condition(condition.PREPARE_NEXT)


@pytest.mark.parametrize("change", [{"rules": parse_rules([{"action": "hold"}])}, {"acknowledge": "never"}])
def test_an_event_that_is_held_says_how_to_acknowledge_it_also_for_other_vms(change):
    assert "--force if it names other VMs" in prepared(**change).condition().sentence(A)


def test_an_event_waits_for_the_recovery_of_another():
    vm = gone()
    vm.configure(rules=parse_rules([{"action": "approve"}]))
    assert vm.read(event(B)).condition(B) == Condition(condition.WAITS_FOR_RECOVERY)


@pytest.mark.parametrize(
    ("vm", "expected"),
    [
        (gone().end("recover", "failed", "10-a: exit 1"), Condition(condition.RECOVERY_FAILED, detail="10-a: exit 1")),
        (gone(missing={"recover": ("10-a",)}), Condition(condition.RECOVERY_MISSING, detail="10-a")),
        (prepared().configure(hooks=frozenset()).read(), Condition(condition.RECOVERY_UNCONFIGURED)),
        (prepared().read(event(B)), Condition(condition.RECOVERY_WAITS)),
        (prepared().configure(vm_name="new").read(event()), Condition(condition.OTHER_NAME, detail="vm1")),
        (
            prepared()
            .configure(vm_name="new")
            .read(event(), event(B, resources=["new"]))
            .read(event(B, resources=["new"])),
            Condition(condition.RECOVERY_WAITS),
        ),
        (prepared().read(NAMELESS), Condition(condition.RECOVERY_WAITS)),
        (Vm().read(event()).read().end("prepare"), Condition(condition.RECOVERY_NEXT)),
    ],
)
def test_the_condition_of_an_event_that_has_left_the_document(vm, expected):
    assert vm.condition() == expected


def test_a_lead_time_that_is_too_late_for_this_vm_is_named_with_the_one_that_counts():
    rules = parse_rules([{"action": "prepare", "lead_time": 5}])
    vm = Vm(rules=rules).read({**event(), "NotBefore": "Sun, 13 Sep 2020 12:46:40 GMT"})
    detail = "15 s before NotBefore, and not 5 s as its rule says, since that is too late for this VM"
    assert vm.condition() == Condition(condition.WAITS_RAISED, detail=detail, until=1600001200.0 - 15)


def test_a_lead_time_of_weeks_is_named_with_all_its_digits():
    rules = parse_rules([{"action": "prepare", "lead_time": 15 * 86400}])
    vm = Vm(rules=rules).read({**event(), "NotBefore": "Fri, 02 Oct 2020 12:46:40 GMT"})
    assert vm.condition().detail == "1296000 s before NotBefore"


def test_started_hooks_that_failed_are_named_while_the_event_is_under_way():
    vm = Vm().read(event(status="Started")).end("started", "failed", "10-pause: exit status 3")
    assert vm.condition() == Condition(condition.STARTED_FAILED, detail="10-pause: exit status 3")


def test_missing_failed_hooks_are_named_once_the_vm_has_recovered():
    vm = Vm(hooks=ALL, missing={"failed": ("20-page",)}).read(event()).end("prepare", "failed").read().end("recover")
    assert vm.condition() == Condition(condition.FAILED_MISSING, detail="20-page")


def test_a_recovery_that_failed_is_named_also_while_failed_hooks_run():
    vm = gone(hooks=ALL).end("recover", "failed", "10-a: exit 1")
    assert vm.state.events[A].runs["failed"].outcome == "running"
    assert vm.condition().kind == condition.RECOVERY_FAILED


KINDS = {each for each in vars(condition).values() if isinstance(each, condition.ConditionKind)}


def test_an_operator_has_to_look_at_what_failed_is_missing_or_is_not_known():
    assert {each for each in KINDS if each.trouble} == {
        condition.CANNOT_ASK,
        condition.NOTHING_PREPARES,
        condition.RECOVERY_FAILED,
        condition.RECOVERY_MISSING,
        condition.RECOVERY_UNCONFIGURED,
        condition.OTHER_NAME,
        condition.NOT_ACCEPTED,
        condition.PREPARE_FAILED,
        condition.PREPARE_MISSING,
        condition.PREPARE_UNCONFIGURED,
        condition.ADVISED_FAILED,
        condition.STATUS_UNKNOWN,
        condition.STATE_LOST,
        condition.WAITS_RAISED,
        condition.NOTHING_PREPARED,
        condition.STARTED_FAILED,
        condition.FAILED_MISSING,
    }


def test_an_event_is_held_unless_it_goes_on_by_itself_or_nothing_is_to_come():
    assert {each for each in KINDS if not each.held} == {
        condition.RUNS,
        condition.RECOVERY_NEXT,
        condition.UNDER_WAY,
        condition.ACKNOWLEDGED,
        condition.NOT_ACCEPTED,
        condition.ADVISORY,
        condition.ADVISED_FAILED,
        condition.TOOK_OVER,
        condition.WAITS_FOR_RECOVERY,
        condition.TO_BE_ACKNOWLEDGED,
        condition.STARTED_FAILED,
        condition.FAILED_MISSING,
    }


@pytest.mark.parametrize(
    ("ran", "runs", "has_to_recover"),
    [
        (True, {"prepare": "ok", "recover": "failed"}, True),
        (True, {"prepare": "failed"}, True),
        (True, {"started": "running"}, True),
        (True, {"recover": "failed"}, True),  # known from the history alone
        (True, {"prepare": "nothing", "advised": "ok"}, False),
        (True, {"prepare": "nothing", "started": "ok"}, True),
        (False, {"prepare": "ok", "recover": "ok"}, False),
        (False, {}, False),
    ],
)
def test_a_vm_has_to_recover_from_what_its_hooks_did(ran, runs, has_to_recover):
    [announced] = parse(json.dumps({"Events": [event()]}), api_version="2020-07-01").events
    entry = EventState(
        announced, 0.0, ran=ran, runs={phase: Run("", 0, 0, outcome=outcome) for phase, outcome in runs.items()}
    )
    assert policies.unrecovered(State(serial=0, events={A: entry})) == [A] * has_to_recover


def test_a_vm_may_have_to_recover_from_what_was_lost():
    assert policies.unrecovered(State(serial=0, lost="cut")) == ["an event that is not known (cut)"]
