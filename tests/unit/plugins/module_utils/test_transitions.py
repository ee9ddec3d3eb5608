# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each step of the engine leaves the facts of what it changed, and no others."""

import json
import math

import pytest
from _scheduled_events import engine, rules, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse
from _scheduled_events.state import State, dump
from _scheduled_events.state import parse as parse_state
from _scheduled_events.transitions import AGAIN, Step, Writer, facts_of

pytestmark = pytest.mark.edge

A = "c7061bac-afdc-4513-b24b-aa5f13a16123"
B = "51941b56-8080-45ac-81ae-8bda818f5958"
CONFIG = terms.Config("vm1", frozenset(["prepare", "recover"]))
WRITER = Writer("poller", "scheduled-events-poller of vm1", boot_id="boot-1")


def an_event(event_id=A, **more):
    return dict(
        {
            "EventId": event_id,
            "EventType": "Reboot",
            "EventStatus": "Scheduled",
            "EventSource": "Platform",
            "Resources": ["vm1"],
            "NotBefore": "Sun, 13 Sep 2020 12:41:40 GMT",
            "DurationInSeconds": 5,
        },
        **more,
    )


class Vm:
    """A VM whose engine takes steps, and the facts of all of them."""

    def __init__(self, config=CONFIG):
        self.state, self.config, self.config_before = State(serial=0), config, None
        self.facts, self.monotonic = [], 0.0

    def step(self, *events, **more):
        """Take a step with the events of a document; without any, with an empty one."""
        text = json.dumps({"DocumentIncarnation": 1, "Events": list(events)})
        return self.take(parse(text, api_version="2020-07-01"), **more)

    def take(self, document, results=()):
        self.monotonic += 1
        now = Moment(1600000000.0 + self.monotonic, self.monotonic, "boot-1")
        before = self.state
        self.state, actions = engine.step(before, document, list(results), now, self.config)
        new = facts_of(Step(before, self.state, actions, now, self.config, self.config_before), WRITER)
        self.config_before = self.config
        self.facts += new
        return new

    def ends(self, phase, outcome="ok", reason="", key=A):
        return terms.HookResult(self.state.events[key].runs[phase].request_id, outcome, reason)


@pytest.fixture
def vm():
    return Vm()


def words(facts):
    return [" ".join(filter(None, [fact.kind, fact.phase, fact.outcome])) for fact in facts]


def test_a_maintenance_from_its_announcement_to_the_return_leaves_each_fact_once(vm):
    vm.step(an_event())
    vm.step(an_event(), results=[vm.ends("prepare")])
    vm.take(None, results=[terms.ApprovalResult(A, accepted=True)])
    vm.step(an_event(EventStatus="Started", NotBefore=""))
    vm.step(an_event(EventStatus="Started", NotBefore=""))
    vm.step()
    vm.take(None, results=[vm.ends("recover")])
    vm.step()
    assert words(vm.facts) == [
        "seen",
        "phase_began prepare",
        "phase_ended prepare ok",
        "acknowledged",
        "started",
        "over",
        "phase_began recover",
        "phase_ended recover ok",
        "returned",
    ]
    assert {fact.event_id for fact in vm.facts} == {A}
    assert {fact.boot_id for fact in vm.facts} == {"boot-1"}


def test_the_first_fact_of_an_event_holds_its_announcement(vm):
    [seen, _began] = vm.step(an_event(Resources=["vm1", "vm2"]))
    assert (seen.event_type, seen.event_status, seen.event_source) == ("Reboot", "Scheduled", "Platform")
    assert (seen.resources, seen.resource_count, seen.announced_seconds) == (("vm1", "vm2"), 2, 5.0)
    assert seen.rule == "no rule: prepare"
    assert (seen.vm_name, seen.not_before, seen.time) == ("vm1", 1600000900.0, 1600000001.0)


def test_a_phase_has_the_same_run_where_it_begins_and_where_it_ends(vm):
    [_seen, began] = vm.step(an_event())
    [ended] = [fact for fact in vm.take(None, results=[vm.ends("prepare")]) if fact.kind == "phase_ended"]
    assert began.run == ended.run == f"{A}.prepare.1"


def test_a_run_that_another_one_follows_in_the_same_step_ends_under_its_own_name(vm):
    [_seen, began] = vm.step(an_event())
    vm.step()
    vm.monotonic += 10**6  # the result of the hooks never comes
    new = vm.step(an_event(EventType="Redeploy"))
    assert [(fact.run == began.run) for fact in new if fact.kind == "phase_ended"] == [True]
    assert [(fact.run == began.run) for fact in new if fact.kind == "phase_began"] == [False]


def test_an_acknowledgement_names_who_sent_it_and_the_rule_that_allowed_it():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("hold", ("Freeze",)), rules.Rule("approve", ("Reboot",)))))
    vm.step(an_event())
    [fact] = vm.take(None, results=[terms.ApprovalResult(A, accepted=True)])
    assert (fact.kind, fact.by, fact.via) == ("acknowledged", "scheduled-events-poller of vm1", "metadata service")
    assert fact.rule == "rule 2: approve"


def test_an_acknowledgement_of_a_drill_went_through_no_service():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("approve"),)))
    vm.step(an_event(EventId="drill-1"))
    [fact] = vm.take(None, results=[terms.ApprovalResult("drill-1", accepted=True)])
    assert (fact.kind, fact.by, fact.via) == ("acknowledged", "scheduled-events-poller of vm1", "")


def test_an_acknowledgement_after_a_failed_preparation_names_the_option_that_allowed_it():
    vm = Vm(CONFIG._replace(on_failure="approve"))
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare", "failed", "10-drain: exit status 1")])
    [fact] = vm.take(None, results=[terms.ApprovalResult(A, accepted=True)])
    assert fact.rule == "no rule: prepare, on_failure: approve"


def test_a_preparation_that_failed_holds_the_event_with_its_reason(vm):
    vm.step(an_event())
    new = vm.take(None, results=[vm.ends("prepare", "failed", "10-drain: exit status 1")])
    assert words(new) == ["phase_ended prepare failed", "held"]
    assert [fact.reason for fact in new] == ["10-drain: exit status 1", "preparation failed: 10-drain: exit status 1"]


def test_an_event_is_held_once_for_one_reason():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("hold", lead_time=math.inf),)))
    vm.step(an_event())
    [held] = [fact for fact in vm.take(None, results=[vm.ends("prepare")]) if fact.kind == "held"]
    assert (held.reason, held.rule) == ("held by a rule", "rule 1: hold")
    assert vm.step(an_event()) == vm.step(an_event()) == []


def test_a_changed_configuration_that_holds_an_event_leaves_a_fact():
    vm = Vm(CONFIG._replace(hooks=frozenset(), acknowledge="any"))
    assert [fact.reason for fact in vm.step(an_event())] == ["", "nothing prepares"]
    vm.config = vm.config._replace(acknowledge="never")
    [held] = vm.step(an_event())
    assert held.reason == "held by the policy: never"


def test_an_event_that_is_over_has_returned_where_no_recovery_is_configured():
    vm = Vm(CONFIG._replace(hooks=frozenset(["prepare"])))
    vm.step(an_event())
    vm.step(an_event(), results=[vm.ends("prepare")])
    over, returned = vm.step()
    assert (over.kind, returned.kind, returned.reason) == ("over", "returned", "no recovery is configured")


def test_a_recovery_that_ends_well_leaves_one_fact_of_the_return(vm):
    vm.step(an_event())
    vm.step(an_event(), results=[vm.ends("prepare")])
    vm.step()
    assert words(vm.take(None, results=[vm.ends("recover")])) == ["phase_ended recover ok", "returned"]


def test_a_refused_acknowledgement_leaves_one_fact_for_one_reason(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    refusals = [vm.take(None, results=[terms.ApprovalResult(A, accepted=False, error="400")]) for _time in range(3)]
    assert [words(new) for new in refusals] == [["refused"], [], []]
    assert refusals[0][0].reason == "400"


def test_a_cancelled_event_is_over_and_the_host_returns_after_its_recovery(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    assert words(vm.step()) == ["over", "phase_began recover"]
    assert words(vm.take(None, results=[vm.ends("recover")])) == ["phase_ended recover ok", "returned"]


def test_a_recovery_that_failed_holds_the_host_until_the_operator_clears_it(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    vm.step()
    new = vm.take(None, results=[vm.ends("recover", "failed", "90-undrain: exit status 1")])
    assert words(new) == ["phase_ended recover failed", "held"]
    assert words(vm.take(None, results=[terms.Clear(A)])) == ["returned"]
    assert vm.facts[-1].by == "operator"


def test_an_event_that_begins_as_started_leaves_no_acknowledgement(vm):
    assert words(vm.step(an_event(EventStatus="Started", NotBefore=""))) == ["seen", "started"]
    assert words(vm.step()) == ["over"]


def test_an_event_that_a_rule_ignores_is_seen_once_under_this_rule_and_over_once():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("ignore"),)))
    [seen] = vm.step(an_event(Resources=["vm1", "vm2"]))
    assert (seen.kind, seen.rule, seen.event_type, seen.resource_count) == ("seen", "rule 1: ignore", "Reboot", 2)
    assert vm.step(an_event()) == vm.take(None) == vm.step(an_event(EventStatus="Started", NotBefore="")) == []
    [over] = vm.step()
    assert (over.kind, over.event_id, over.event_type) == ("over", A, "Reboot")
    assert vm.step() == []


def test_an_ignored_event_is_not_seen_again_after_a_restart():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("ignore"),)))
    vm.step(an_event())
    vm.state = parse_state(dump(vm.state))
    assert vm.step(an_event()) == []


def test_an_event_is_not_over_when_a_new_rule_ignores_it():
    vm = Vm(CONFIG._replace(hooks=frozenset()))
    vm.step(an_event())
    vm.config = vm.config._replace(rules=(rules.Rule("ignore"),))
    [ignored] = vm.step(an_event()) + vm.step(an_event())
    assert (ignored.kind, ignored.rule) == ("seen", "rule 1: ignore")
    assert words(vm.step()) == ["over"]


def test_an_ignored_event_is_not_over_when_no_rule_ignores_it_any_more():
    vm = Vm(CONFIG._replace(rules=(rules.Rule("ignore"),)))
    vm.step(an_event())
    vm.config = CONFIG
    assert words(vm.step(an_event())) == ["seen", "phase_began prepare"]
    assert words(vm.step()) == ["over"]


def test_an_event_that_comes_back_during_its_recovery_is_seen_after_the_end_of_the_recovery(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    vm.step()
    assert vm.step(an_event()) == []
    new = vm.step(an_event(), results=[vm.ends("recover")])
    assert words(new) == ["phase_ended recover ok", "returned", "seen", "phase_began prepare"]


def test_an_event_that_comes_back_before_its_recovery_is_seen_again_before_it_is_over_again(vm):
    vm.step(an_event(), an_event(B))
    vm.take(None, results=[vm.ends("prepare"), vm.ends("prepare", key=B)])
    vm.step(an_event(B))  # which holds the VM, so that the recovery waits
    [again] = vm.step(an_event(B), an_event())
    assert (again.kind, again.event_id, again.reason) == ("seen", A, AGAIN)
    assert words(vm.step(an_event(B))) == ["over", "held"]


def test_a_recovery_that_was_never_asked_for_ends_where_its_event_comes_back(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    vm.step()
    vm.take(None, results=[terms.NotAsked(vm.state.events[A].runs["recover"].request_id, "no space")])
    assert words(vm.step(an_event())) == ["phase_ended recover interrupted", "seen"]


def test_an_event_is_not_over_while_it_is_announced_to_a_former_name_also_if_no_recovery_is_configured():
    vm = Vm(terms.Config("vm1", frozenset(["prepare"])))
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    vm.config = vm.config._replace(vm_name="new")
    assert words(vm.step(an_event())) == ["held"]
    assert words(vm.step()) == ["over", "returned"]


def test_an_event_that_comes_back_for_a_former_name_is_seen_before_it_is_over_again(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    assert words(vm.step()) == ["over", "phase_began recover"]
    vm.config = vm.config._replace(vm_name="new")
    [seen] = vm.step(an_event())
    assert (seen.kind, seen.reason) == ("seen", AGAIN)
    assert words(vm.step()) == ["over"]


def test_an_event_of_a_former_name_is_over_once_and_when_it_is_announced_to_no_name(vm):
    vm.step(an_event())
    vm.take(None, results=[vm.ends("prepare")])
    for name in ("new", "vm1", "new"):
        vm.config = vm.config._replace(vm_name=name)
        assert {fact.kind for fact in vm.step(an_event())} <= {"held"}
    assert words(vm.step()) == ["over", "phase_began recover"]


def test_an_event_of_another_vm_leaves_no_fact():
    assert Vm().step(an_event(Resources=["vm2"])) == []


def test_an_event_without_an_id_is_held_once(vm):
    assert [fact.reason for fact in vm.step(an_event(event_id=""))] == ["the event has no EventId"]
    assert vm.step(an_event(event_id="")) == []


def test_two_events_leave_facts_of_their_own(vm):
    new = vm.step(an_event(), an_event(B))
    assert [(fact.kind, fact.event_id) for fact in new] == [
        ("seen", A),
        ("phase_began", A),
        ("seen", B),
        ("phase_began", B),
    ]


def test_a_failed_poll_leaves_no_fact(vm):
    vm.step(an_event())
    assert vm.take(None) == []
