# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledging through a stand-in of Azure Resource Manager; nothing here ran against Azure."""

import functools

import pytest
from arm_stand_in import COMPUTE, SUBSCRIPTION, TOKEN, ArmStandIn, Refused, send

from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._azure.acknowledgement import (
    AcknowledgementResult,
    acknowledge,
    check_ids,
    resource_id_of,
    scope_of,
)
from plugins.plugin_utils._azure.arm import Arm, ArmError, Token

VM, SET = f"{COMPUTE}/virtualMachines/web1", f"{COMPUTE}/virtualMachineScaleSets/pool"
EVENTS = f"{VM}/providers/Microsoft.Maintenance/scheduledevents"
ONE, TWO = "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "602D9444-D2CD-49C7-8624-8643E7171297"


@pytest.fixture
def stand_in():
    return ArmStandIn()


@pytest.fixture
def arm(stand_in):
    pauses = []
    clock = Clock(lambda: 0, lambda: sum(pauses), pauses.append)
    token = Token(TOKEN, 1e10)
    arm = Arm("https://x", lambda _subscription: token, functools.partial(send, stand_in), patience=600, clock=clock)
    arm.pauses = pauses
    return arm


def answer_with(stand_in, *answers):
    left = iter(answers)

    def answer(*_):
        given = next(left, None)
        if isinstance(given, Refused):
            raise given
        return given

    stand_in.answers.append(answer)


def test_one_event_is_acknowledged_by_its_own_address(arm, stand_in):
    assert acknowledge(arm, VM, [ONE]) == AcknowledgementResult([ONE], [], [])
    assert stand_in.calls == [("POST", f"{EVENTS}/{ONE}/acknowledge")]
    assert stand_in.versions == ["2023-10-01-preview"]
    assert stand_in.acknowledged == [ONE]


def test_each_of_several_events_has_its_own_result(arm, stand_in):
    answer_with(stand_in, None, Refused(404, "NotFound", "gone"), Refused(409, "Conflict", "started"))
    refused = [{"event_id": "3", "code": "Conflict", "message": "started"}]
    assert acknowledge(arm, VM, [ONE, TWO, "3"]) == AcknowledgementResult([ONE], [TWO], refused)
    assert stand_in.calls == [("POST", f"{EVENTS}/{each}/acknowledge") for each in (ONE, TWO, "3")]


def test_an_event_that_is_over_is_absent_and_a_conflict_is_refused(arm, stand_in):
    answer_with(stand_in, Refused(404, "NotFound", "gone"), Refused(409, "Conflict", "started"))
    assert acknowledge(arm, VM, [ONE]) == AcknowledgementResult([], [ONE], [])
    refused = [{"event_id": ONE, "code": "Conflict", "message": "started"}]
    assert acknowledge(arm, VM, [ONE]) == AcknowledgementResult([], [], refused)


@pytest.mark.parametrize("status", [409, 429])
@pytest.mark.parametrize("code", ["AnotherOperationInProgress", "RetryableError"])
def test_a_conflict_that_passes_is_waited_out(arm, stand_in, status, code):
    answer_with(stand_in, Refused(status, code, "busy"))
    assert acknowledge(arm, VM, [ONE]) == AcknowledgementResult([ONE], [], [])


@pytest.mark.parametrize("code", ["ScopeLocked", "MissingSubscriptionRegistration"])
def test_a_refusal_that_is_not_about_the_event_is_an_error(arm, stand_in, code):
    answer_with(stand_in, Refused(409, code, "as the owner wants"))
    with pytest.raises(ArmError, match=f"409: {code} as the owner wants"):
        acknowledge(arm, VM, [ONE])


def test_a_vm_that_does_not_exist_is_not_an_event_that_is_over(arm, stand_in):
    answer_with(stand_in, Refused(404, "ResourceNotFound", "The Resource was not found."))
    with pytest.raises(ArmError, match=r"404: ResourceNotFound .* Correct the id of the resource"):
        acknowledge(arm, VM, [ONE])


def test_a_failure_names_the_events_that_were_acknowledged_before_it(arm, stand_in):
    answer_with(stand_in, None, None, Refused(403, "AuthorizationFailed", "The client may not."))
    with pytest.raises(ArmError, match=rf"403: AuthorizationFailed .* Acknowledged before it: {ONE}, {TWO}$"):
        acknowledge(arm, VM, [ONE, TWO, "3"])


@pytest.mark.parametrize("ids", [[ONE], [ONE, TWO]])
def test_throttling_and_moments_without_service_are_waited_out(arm, stand_in, ids):
    throttled = Refused(429, "TooManyRequests", "Please try again after '17' seconds.")
    answer_with(stand_in, throttled, Refused(503, "ServiceUnavailable", ""))
    assert acknowledge(arm, VM, ids).approved == ids
    assert arm.pauses == [17, 10]


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (401, "ExpiredAuthenticationToken", r"\. Check the identity of the control node, its tenant"),
        (403, "AuthorizationFailed", r"\. Give the identity of the control node the role"),
        (403, "RequestDisallowedByPolicy", r"\. Remove the cause, and run it again$"),
    ],
)
def test_a_client_that_may_not_acknowledge_learns_what_helps(arm, stand_in, status, code, advice):
    answer_with(stand_in, *[Refused(status, code, "The client may not.")] * 2)
    with pytest.raises(ArmError, match=f"{status}: {code} The client may not{advice}"):
        acknowledge(arm, VM, [ONE])


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        (VM, VM),
        (SET, SET),
        (f"{SET}/virtualMachines/13", SET),
        (VM.replace("resourceGroups", "resourcegroups"), VM.replace("resourceGroups", "resourcegroups")),
        (f"{COMPUTE}/availabilitySets/a", f"{COMPUTE}/availabilitySets/a"),
    ],
)
def test_events_are_those_of_the_vm_or_of_its_set(given, scope):
    assert scope_of(given) == scope


@pytest.mark.parametrize(
    "given", ["", "web1", f"{VM}/extensions/x", f"{VM}/virtualMachines/1", f"{VM}?a=b c", f"{VM}/"]
)
def test_an_id_that_is_not_a_vm_is_refused(given):
    with pytest.raises(ArmError, match="expected /subscriptions/"):
        scope_of(given)


def test_the_id_is_made_of_what_the_vm_said_about_itself():
    compute = {"subscriptionId": SUBSCRIPTION.split("/")[2], "resourceGroupName": "shop", "name": "web1"}
    assert resource_id_of({"compute": {**compute, "vmScaleSetName": ""}}) == VM
    assert resource_id_of({"compute": {**compute, "name": "pool_13", "vmScaleSetName": "pool"}}) == SET
    for lacking in ({}, {"compute": "web1"}):
        with pytest.raises(ArmError, match="metadata lacks subscriptionId, resourceGroupName, name"):
            resource_id_of(lacking)


@pytest.mark.parametrize("ids", [[], ["../x"], [ONE, "a/b"], ["a?b"]])
def test_a_text_that_is_not_an_event_id_never_becomes_part_of_a_request(ids):
    with pytest.raises(ArmError, match="expected ids such as"):
        check_ids(ids)


def test_the_id_of_a_drill_is_refused_since_azure_does_not_know_it():
    with pytest.raises(ArmError, match="is the id of a drill"):
        check_ids([ONE, f"drill-{ONE}"])


def test_an_id_is_sent_once_whatever_its_case():
    assert len(check_ids([ONE, ONE.lower()])) == 1
