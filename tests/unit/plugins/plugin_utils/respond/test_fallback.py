# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledging in the place of a host that no longer answers, through a stand-in of Azure Resource Manager."""

import functools
import tempfile
from pathlib import Path

import pytest
from arm_stand_in import COMPUTE, TOKEN, ArmStandIn, Refused, send
from hypothesis import given
from hypothesis import strategies as st

from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._ansible.other_host import HostLost
from plugins.plugin_utils._azure.acknowledgement import acknowledge, is_of
from plugins.plugin_utils._azure.arm import Arm, ArmError, Token
from plugins.plugin_utils._respond.play_coordinator import ClaimStatus, HostReport, Outcome, PlayCoordinator, SeenEvent
from plugins.plugin_utils._respond.responding import Responding

from . import conftest as respond

pytestmark = pytest.mark.core

NOW = 1_600_000_000.0
VM = f"{COMPUTE}/virtualMachines/vm1"
EVENT = {"event_id": "A1", "event_type": "Redeploy", "seconds_until_not_before": 600.0}
IDENTITY = {"subscriptionId": VM.split("/")[2], "resourceGroupName": "shop", "vmScaleSetName": "", "name": "vm1"}
OPTIONS = {"reconnect_timeout": 60.0, "fallback_resource_id": VM}
LOST = HostLost("no route")
BOTH = SeenEvent("Redeploy", ["vm1", "vm2"])


waiting = functools.partial(respond.waiting, event_type="Redeploy", not_before=NOW + 600)


def shown(following="wait", *, names=("vm1",), event_type="Redeploy", **more):
    """What the module returns of a host that sees one event."""
    handed_out = following == "prepare"
    plain = {
        "prepared": [] if handed_out else ["A1"],
        "waiting": [waiting("hooks run" if handed_out else "to be acknowledged")],
        "sight": [respond.sight(*names, event_type=event_type)],
    }
    return respond.shown(following, EVENT, **{**plain, **more})


PREPARE, PREPARED = shown("prepare"), {"phase": "prepare", "request_ids": ["1"], "events": [EVENT], "ok": True}
FAILED = {**PREPARED, "ok": False, "reason": "no space left"}
OUTAGE = shown(sight=None, waiting=[waiting("acknowledgement not accepted")])
DONE = shown("done", sight=[], waiting=[], prepared=[])


class Host(respond.PlayedHost):
    """The test sets the state of web2 and vm2."""

    def __init__(self, directory):
        super().__init__(directory)
        self.hosts = ["web1"]
        self.arm = ArmStandIn()
        self.sent_at = []
        self.slept = 0.0  # seconds for which the control node was suspended

    @property
    def coordinator(self):
        return PlayCoordinator(self.directory, play_hosts=self.hosts)

    def execute(self, controller, outcome, _within):
        answer = self.answer(controller, outcome)
        self.now += 1.0
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wall(self):
        return NOW + self.now + self.slept - 1000

    def send(self, scope, event_id, patience):
        self.sent_at.append((self.now, scope, patience))
        arm = Arm(
            "https://x",
            lambda _subscription: Token(TOKEN, 1e10),
            functools.partial(send, self.arm),
            patience=patience,
            clock=Clock(lambda: self.now, lambda: self.now, self.sleep),
        )
        return acknowledge(arm, scope, [event_id])

    def responds(self, *script, fresh=True, outcome=None, check_mode=False, fallback=True, **options):
        """The turns until the play has something to do; what they give, or the error that ended them."""
        self.script = list(script)
        responding = Responding(
            self.context(
                {**OPTIONS, **options, "outcome": outcome},
                fresh=fresh,
                active_hosts=self.hosts,
                has_failed=False,
                forks=9,
                lockstep=False,
                check_mode=check_mode,
                send=self.send if fallback else None,
            )
        )
        try:
            return responding.next_step()
        except HostLost as error:
            return error

    def is_lost_after_preparing(self, *, took=60.0, first=None, outcome=None, **options):
        """Prepare for as long, and never answer again."""
        assert self.responds(first or PREPARE, **options)["next"] == "prepare"
        self.now += took
        return self.responds(LOST, fresh=False, outcome=outcome or PREPARED, **options)

    def tell(self, **outcomes):
        told = {event_id: Outcome(kind, "Redeploy") for event_id, kind in outcomes.items()}
        self.coordinator.publish(HostReport(host="web2", vm_name="vm2", sight={"A1": BOTH}, outcomes=told))

    def reason(self):
        """Why it was not acknowledged; asserts that nothing was sent."""
        assert (self.arm.calls, self.coordinator.status("A1")) == ([], ClaimStatus.FREE)
        return "; ".join(text for text in self.warned if "not acknowledged through" in text)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "meeting")


def test_a_host_that_is_lost_after_its_tasks_succeeded_is_acknowledged_once_for(host):
    assert host.is_lost_after_preparing() is LOST  # in the end it is unreachable all the same
    assert host.arm.acknowledged == ["A1"]
    assert host.coordinator.status("A1") is ClaimStatus.ACCEPTED
    assert host.said == ["web1: Redeploy A1 acknowledged through Azure Resource Manager 508 s before NotBefore"]


def test_nothing_is_sent_before_the_host_has_been_silent_for_30_seconds(host):
    host.responds(PREPARE)
    host.responds(*[LOST] * 10, DONE, fresh=False, outcome=PREPARED)
    assert host.arm.calls == []
    host.responds(PREPARE)
    host.responds(*[LOST] * 12, DONE, fresh=False, outcome=PREPARED)
    assert host.arm.acknowledged == ["A1"]


def test_a_host_is_silent_from_the_moment_at_which_its_answer_was_due(host):
    """A VM that hangs keeps its connection open, and is given up long after that."""
    execute = host.execute
    host.responds(PREPARE)

    def hang(controller, outcome, within):
        host.now += 39.0
        return execute(controller, outcome, within)

    host.execute = hang
    host.responds(LOST, DONE, fresh=False, outcome=PREPARED)
    assert host.arm.acknowledged == ["A1"]


def test_a_host_that_is_lost_while_it_waits_is_acknowledged_for(host):
    host.responds(shown(), LOST)
    assert host.arm.acknowledged == ["A1"]


def test_a_host_whose_service_gives_no_document_is_acknowledged_for(host):
    end = host.responds(shown(ready=["A1"]), *[OUTAGE] * 40, DONE)
    assert host.arm.acknowledged == ["A1"]
    assert (end["respond_result"]["acknowledged"], end["respond_result"]["held"]) == (["A1"], [])
    [fact] = end["respond_result"]["history"]
    assert (fact["kind"], fact["event_id"], fact["via"]) == ("acknowledged", "A1", "Azure Resource Manager")


def test_an_outcome_that_the_host_took_during_an_outage_counts(host):
    host.responds(PREPARE)
    host.responds(*[OUTAGE] * 40, DONE, fresh=False, outcome=PREPARED)
    assert host.arm.acknowledged == ["A1"]


def test_an_outage_that_ends_in_time_leaves_the_acknowledgement_to_the_host(host):
    outages = [OUTAGE] * 20
    host.responds(shown(), *outages, shown(), *outages, DONE)
    assert host.arm.calls == []


@pytest.mark.parametrize("changes", [{"fallback": False}, {"acknowledge": "never"}, {"check_mode": True}])
def test_without_the_owner_s_word_nothing_is_sent(host, changes):
    host.is_lost_after_preparing(**changes)
    assert host.reason() == ""


def test_the_event_of_a_drill_is_never_sent(host):
    drill = dict(shown()["sight"][0], drill=True)
    end = host.responds(shown(sight=[drill], drill=True), *[dict(OUTAGE, drill=True)] * 40, DONE)
    assert host.arm.calls == []
    assert end["respond_result"]["drill"] is True


def test_failed_tasks_do_not_count_as_a_preparation(host):
    host.is_lost_after_preparing(outcome=FAILED)
    assert host.reason() == ""


@pytest.mark.parametrize(
    "last",
    [
        shown(sight=[], waiting=[waiting("recovery next", present=False)]),
        shown(waiting=[waiting("under way", impact=True)]),
        shown(waiting=[waiting("acknowledged", accepted=True)]),
        shown(names=["vm2"]),
        shown(waiting=[waiting("preparation failed")], prepared=[]),
        shown(waiting=[waiting("waits for the recovery of another event")]),
        shown(waiting=[waiting("held by a rule")]),
    ],
    ids=["gone", "started", "already acknowledged", "of another VM", "not prepared", "in a recovery", "held"],
)
def test_an_event_that_the_last_document_does_not_leave_open_is_not_acknowledged(host, last):
    host.responds(shown(), last, LOST)
    assert host.reason() == ""


@pytest.mark.parametrize("sign", [{"present": False}, {"impact": True}, {"accepted": True}])
def test_an_event_that_was_not_open_when_the_tasks_began_is_not_acknowledged(host, sign):
    host.is_lost_after_preparing(first=shown("prepare", waiting=[waiting("hooks run", **sign)]))
    assert host.reason() == ""


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({}, "vm2 has not prepared"),
        ({"A1": "failed"}, "vm2 failed to prepare"),
        (None, "vm2 may be one of the hosts that have not answered: web2"),
    ],
)
def test_an_event_that_names_a_vm_that_is_not_prepared_is_not_acknowledged(host, other, reason):
    host.hosts = ["web1", "web2"]
    if other is not None:
        host.tell(**other)
    host.is_lost_after_preparing(first=shown("prepare", names=["vm1", "vm2"]))
    assert reason in host.reason()


CHANGED = "names other VMs, or another type, than was prepared for"


@pytest.mark.parametrize("names", [["vm1", "vm3"], ["vm1", "vm2"]])
def test_an_event_to_which_a_vm_was_added_is_not_acknowledged(host, names):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(PREPARE)
    host.responds(shown(names=names), LOST, fresh=False, outcome=PREPARED)
    assert CHANGED in host.reason()


def test_an_event_from_which_a_vm_was_removed_is_not_acknowledged(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(shown("prepare", names=["vm1", "vm2"]))
    host.responds(shown(names=["vm1"]), LOST, fresh=False, outcome=PREPARED)
    assert CHANGED in host.reason()


def test_an_event_whose_type_changed_while_the_tasks_ran_is_not_acknowledged(host):
    host.responds(PREPARE)
    changed = shown(event_type="Reboot", waiting=[waiting("to be acknowledged", event_type="Reboot")])
    host.responds(changed, LOST, fresh=False, outcome=PREPARED)
    assert CHANGED in host.reason()


def test_an_event_that_names_the_same_vm_in_another_case_is_acknowledged(host):
    host.responds(PREPARE)
    host.responds(shown(names=["vm1", "vm1"]), LOST, fresh=False, outcome=PREPARED)
    assert host.arm.acknowledged == ["A1"]


def test_an_event_that_names_several_lost_hosts_is_acknowledged_by_one_of_them(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.is_lost_after_preparing(first=shown("prepare", names=["vm1", "vm2"]))
    assert host.arm.acknowledged == ["A1"]


def test_another_host_learns_of_the_preparation_before_anything_is_sent(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(shown("prepare", names=["vm1", "vm2"]))
    host.responds(*[LOST] * 6, DONE, fresh=False, outcome=PREPARED)
    assert (host.coordinator.obstacle("A1", BOTH), host.arm.calls) == (None, [])


@pytest.mark.parametrize(("took", "learns"), [(288.0, True), (289.0, False)])
def test_another_host_learns_of_it_after_10_seconds_while_the_last_document_is_at_most_300_seconds_old(
    host, took, learns
):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(shown("prepare", names=["vm1", "vm2"]))
    host.now += took
    host.sleep = lambda _seconds: setattr(host, "now", host.now + 4.0)
    host.responds(*[LOST] * 3, DONE, fresh=False, outcome=PREPARED)
    assert (host.coordinator.obstacle("A1", BOTH) is None) is learns


def test_another_host_does_not_learn_of_the_preparation_of_a_host_that_is_silent_for_a_moment(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(shown("prepare", names=["vm1", "vm2"]))
    host.responds(*[LOST] * 3, DONE, fresh=False, outcome=PREPARED)
    assert host.coordinator.obstacle("A1", BOTH).startswith("vm1 has not prepared")


def test_another_host_does_not_learn_of_a_preparation_that_another_run_may_have_undone(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.is_lost_after_preparing(first=shown("prepare", names=["vm1", "vm2"]), took=400.0)
    assert host.coordinator.obstacle("A1", BOTH).startswith("vm1 has not prepared")


def test_an_event_that_another_host_acknowledges_is_left_to_it(host):
    host.hosts = ["web1", "web2"]
    host.tell(A1="prepared")
    host.responds(shown(names=["vm1", "vm2"]), shown("done", names=["vm1", "vm2"]))
    assert host.coordinator.claim("A1", BOTH)
    host.responds(LOST, fresh=False)
    assert (host.arm.calls, host.coordinator.status("A1")) == ([], ClaimStatus.CLAIMED)


@pytest.mark.parametrize("limit", [{"fallback_max_age": 100.0}, {"phase_timeout": 100.0}])
def test_a_document_that_is_too_old_does_not_count(host, limit):
    host.is_lost_after_preparing(took=80.0, **limit)
    assert "the last document that was read on the host is older than 100 s" in host.reason()


def test_a_document_grows_old_while_the_controller_is_suspended(host):
    host.responds(PREPARE)
    host.slept = 400.0  # NotBefore is still ahead
    host.responds(LOST, fresh=False, outcome=PREPARED)
    assert "the last document that was read on the host is older than 300 s" in host.reason()


def test_a_clock_that_is_set_back_makes_no_document_younger(host):
    host.responds(PREPARE)
    host.slept = -3600.0
    host.now += 280.0
    host.responds(LOST, fresh=False, outcome=PREPARED)
    assert "the last document that was read on the host is older than 300 s" in host.reason()


@pytest.mark.parametrize(("took", "acknowledged"), [(268.0, ["A1"]), (269.0, [])])
def test_a_document_counts_from_the_moment_at_which_it_was_asked_for(host, took, acknowledged):
    host.is_lost_after_preparing(took=took)  # asked for at 0 s, answered at 1 s; the loss is noted a second after
    assert host.arm.acknowledged == acknowledged


@pytest.mark.parametrize("seconds", [80, 92])  # 92 s after the first turn began, the host was silent for 30 s
def test_an_event_whose_not_before_has_come_is_not_acknowledged(host, seconds):
    soon = [waiting("hooks run", not_before=NOW + seconds)]
    host.is_lost_after_preparing(first=shown("prepare", waiting=soon))
    assert "its NotBefore has passed" in host.reason()


@pytest.mark.parametrize("seconds", [110.0, 92.5])
def test_azure_is_asked_no_longer_than_until_not_before(host, seconds):
    host.is_lost_after_preparing(first=shown("prepare", waiting=[waiting("hooks run", not_before=NOW + seconds)]))
    moment, _scope, patience = host.sent_at[0]
    assert moment - 1000.0 + patience == seconds


def test_an_attempt_that_ends_with_an_unknown_error_leaves_the_event_to_others(host):
    host.send = raises(ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        host.is_lost_after_preparing()
    assert host.coordinator.status("A1") is ClaimStatus.FREE


def test_azure_is_asked_no_longer_than_the_last_document_counts(host):
    host.is_lost_after_preparing(took=250.0)
    moment, _scope, patience = host.sent_at[0]
    assert moment - 1000.0 + patience == 300.0


def test_a_not_before_that_cannot_be_read_does_not_count_as_passed(host):
    host.is_lost_after_preparing(first=shown("prepare", waiting=[waiting("hooks run", not_before=None)]))
    assert host.arm.acknowledged == ["A1"]
    assert host.said[-1].endswith("acknowledged through Azure Resource Manager")


def test_what_was_read_before_another_run_took_the_host_does_not_count(host):
    lease = {"run": "run2", "host": "web1", "owner": {}, "left": 900.0, "seconds": 900.0}
    locked = {"next": "locked", "lease": lease, "vm_name": "vm1", "story": [], "problems": []}
    host.responds(shown(), locked, LOST)
    assert host.reason() == ""


# The resource


def test_the_resource_is_made_of_what_the_host_said_when_it_announced_the_event(host):
    host.is_lost_after_preparing(first={**PREPARE, "compute": IDENTITY}, fallback_resource_id="")
    assert [scope for _at, scope, _patience in host.sent_at] == [VM]
    assert [controller["compute"] for controller, _outcome in host.asked[:2]] == [True, False]


@pytest.mark.parametrize("compute", [{}, {**IDENTITY, "resourceGroupName": ""}, {**IDENTITY, "name": "vm10"}])
def test_a_host_that_did_not_say_which_resource_it_is_is_not_acknowledged_for(host, compute):
    host.is_lost_after_preparing(first={**PREPARE, "compute": compute}, fallback_resource_id="")
    assert "the metadata service did not return the resource of vm1." in host.reason()


def test_a_resource_that_cannot_be_made_of_what_the_host_said_is_named_when_the_event_is_announced(host):
    host.responds({**PREPARE, "compute": {**IDENTITY, "resourceGroupName": ""}}, fallback_resource_id="")
    assert any("respond_fallback cannot acknowledge for this host" in text for text in host.warned)


def test_the_resource_of_another_vm_is_refused(host):
    host.is_lost_after_preparing(fallback_resource_id=f"{COMPUTE}/virtualMachines/vm10")
    assert "virtualMachines/vm10 is not the resource of vm1" in host.reason()


@pytest.mark.parametrize(
    ("resource", "vm_name", "expected"),
    [
        ("virtualMachines/VM1", "vm1", True),
        ("virtualMachines/vm10", "vm1", False),
        ("virtualMachineScaleSets/Pool", "pool_13", True),
        ("virtualMachineScaleSets/pool", "pool2_13", False),
        ("virtualMachineScaleSets/pool/virtualMachines/13", "pool_13", True),
        ("virtualMachineScaleSets/pool/virtualMachines/1", "pool_13", False),
        ("virtualMachineScaleSets/Pool/virtualMachines/Pool_1a2b3c4d", "pool_1a2b3c4d", True),
        ("virtualMachineScaleSets/pool/virtualMachines/pool_1a2b3c4d", "pool_13", False),
        ("availabilitySets/any", "vm1", True),
    ],
)
def test_a_resource_is_that_of_the_vm_by_its_name(resource, vm_name, expected):
    assert is_of(f"{COMPUTE}/{resource}", vm_name) is expected


# What Azure answers


@pytest.mark.parametrize("refusal", [Refused(404, "NotFound", "gone"), Refused(409, "Conflict", "It has started")])
def test_an_event_that_azure_does_not_acknowledge_any_more_is_asked_for_once(host, refusal):
    host.arm.answers.append(raises(refusal))
    host.is_lost_after_preparing()
    assert (len(host.arm.calls), host.coordinator.status("A1")) == (1, ClaimStatus.FREE)
    assert [text for text in host.warned if "does not acknowledge it any more" in text]


@pytest.mark.parametrize(("status", "repeated"), [(400, False), (401, True), (499, False), (500, True)])
def test_a_request_that_azure_calls_wrong_is_not_repeated_and_one_that_azure_cannot_answer_is(host, status, repeated):
    host.arm.answers.append(raises(Refused(status, "Odd", "The body is odd.")))
    host.is_lost_after_preparing(reconnect_timeout=200.0)
    assert (len(host.sent_at) > 1) is repeated
    assert repeated or len(host.arm.calls) == 1


def test_an_acknowledgement_that_meets_another_change_of_azure_is_repeated(host):
    refusals = [Refused(429, "RetryableError", "Another operation is in progress.")]

    def answer(*_):
        if refusals:
            raise refusals.pop()

    host.arm.answers.append(answer)
    host.is_lost_after_preparing(reconnect_timeout=200.0)
    assert host.arm.acknowledged == ["A1"]


def test_missing_permissions_are_reported_once(host):
    host.arm.answers.append(raises(Refused(403, "AuthorizationFailed", "The client may not.")))
    host.is_lost_after_preparing()
    assert (len(host.arm.calls), host.coordinator.status("A1")) == (1, ClaimStatus.FREE)
    assert len([text for text in host.warned if "The client may not" in text]) == 1


@pytest.mark.parametrize("pause", [20, 100])
def test_throttling_is_waited_out_as_long_as_azure_asks(host, pause):
    times = []

    def answer(*_):
        times.append(host.now)
        if len(times) == 1:
            raise Refused(429, "TooManyRequests", f"Please try again after '{pause}' seconds.")

    host.arm.answers.append(answer)
    host.is_lost_after_preparing(reconnect_timeout=200.0)
    assert host.arm.acknowledged == ["A1"]
    assert pause <= times[1] - times[0] < pause + 5


def test_a_request_that_got_no_answer_is_repeated_every_30_seconds(host):
    def send(_scope, _event_id, _patience):
        host.sent_at.append(host.now)
        raise ArmError("no answer")

    host.send = send
    host.is_lost_after_preparing(reconnect_timeout=100.0)
    assert host.sent_at == [1092.0, 1122.0, 1152.0]


def test_a_request_that_got_no_answer_is_repeated_until_the_document_is_too_old(host):
    host.arm.answers.append(raises(OSError("timed out")))
    host.is_lost_after_preparing(reconnect_timeout=400.0)
    assert 2 < len(host.arm.calls) < 20
    assert host.sent_at[0][2] == 60
    assert host.sent_at[-1][0] <= 1000.0 + respond.OPTIONS["fallback_max_age"]


def raises(error):
    def answer(*_):
        raise error

    return answer


# Whatever happens in whatever order


NAMES = [["vm1"], ["vm1", "vm2"], ["vm1", "vm3"], ["vm2"]]
SIGNS = [{}, {}, {}, {"present": False}, {"impact": True}, {"accepted": True}]
OPEN_DOCUMENT = st.builds(
    lambda names, sign, done: shown(
        names=names,
        waiting=[waiting("to be acknowledged" if done else "preparation failed", **sign)],
        prepared=["A1"] if done else [],
    ),
    st.sampled_from(NAMES),
    st.sampled_from(SIGNS),
    st.sampled_from([True, True, False]),
)
NO_DOCUMENT = st.sampled_from([OUTAGE, LOST, LOST, shown(sight=[], waiting=[], prepared=[])])


@given(
    outcome=st.sampled_from([PREPARED, FAILED]),
    turns=st.lists(st.one_of(OPEN_DOCUMENT, NO_DOCUMENT), max_size=12),
    neighbour=st.sampled_from([None, {}, {"A1": "failed"}, {"A1": "prepared"}]),
    pauses=st.lists(st.integers(0, 200), min_size=5, max_size=5),
)
def test_what_is_sent_was_open_and_prepared_in_a_document_that_is_young_enough(outcome, turns, neighbour, pauses):
    with tempfile.TemporaryDirectory() as directory:
        host = Host(Path(directory))
        host.hosts = ["web1", "web2"]
        if neighbour is not None:
            host.tell(**neighbour)
        answers = []  # (when it was asked for, answer)
        run_module = host.execute

        def execute(controller, outcome, within):
            asked_at = host.now
            answer = run_module(controller, outcome, within)
            answers.append((asked_at, answer))
            host.now += pauses[len(answers)] if len(answers) < len(pauses) else 0
            return answer

        host.execute = execute
        host.responds(PREPARE)
        host.responds(*turns, *[LOST] * 20, DONE, fresh=False, outcome=outcome)
        for sent_at, scope, _patience in host.sent_at:
            known = [(asked_at, answer) for asked_at, answer in answers if asked_at < sent_at]
            asked_at, document = [each for each in known if each[1]["sight"] is not None][-1]
            last = known[-1][1]
            [names] = [event["names"] for event in document["sight"]]
            [state] = last["waiting"]
            assert scope == VM
            assert sent_at - asked_at <= respond.OPTIONS["fallback_max_age"]
            assert (state["present"], state["impact"], state["accepted"]) == (True, False, False)
            assert last["prepared"] == ["A1"] or (len(known) == 1 and outcome["ok"])
            assert names == ["vm1"]  # as when the tasks began
