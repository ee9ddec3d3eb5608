# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Protecting instances of a scale set in a stand-in of Azure Resource Manager; nothing here ran against Azure."""

import pytest
from arm_stand_in import COMPUTE, TOKEN, ArmStandIn, Refused, send

from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._azure.arm import Arm, ArmError, Token
from plugins.plugin_utils._azure.pools import COMPUTE_API
from plugins.plugin_utils._azure.resources import bring, check_instance, is_protected, protect

INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/pool/virtualMachines/13"


class Instance:
    """An instance of a scale set; ``pauses``: those that were made."""

    def __init__(self):
        self.arm = ArmStandIn()
        self.pauses = []

    def has(self, **policy):
        self.arm.put(INSTANCE, properties={"protectionPolicy": policy} if policy else {})

    def client(self):
        clock = Clock(lambda: 0, lambda: sum(self.pauses), self.pauses.append)
        return Arm("https://x", lambda _subscription: Token(TOKEN, 1e10), self.send, patience=60, clock=clock)

    def protect(self, wanted, *, timeout=60.0):
        arm = self.client()
        body = arm.read(INSTANCE, COMPUTE_API)
        return is_protected(body), protect(arm, INSTANCE, body, wanted=wanted, timeout=timeout)

    def send(self, *request):
        return send(self.arm, *request)

    @property
    def policy(self):
        return self.arm.resources[INSTANCE.lower()]["properties"].get("protectionPolicy")


@pytest.fixture
def instance():
    return Instance()


def test_an_instance_is_protected_and_azure_is_waited_for(instance):
    instance.has()
    assert instance.protect(True) == (False, True)
    assert instance.policy == {"protectFromScaleIn": True}
    assert [method for method, _path in instance.arm.calls] == ["GET", "PUT", "GET", "GET"]


def test_the_protection_from_scale_set_actions_stays_as_it_is(instance):
    instance.has(protectFromScaleIn=True, protectFromScaleSetActions=True)
    assert instance.protect(False) == (True, True)
    assert instance.policy == {"protectFromScaleIn": False, "protectFromScaleSetActions": True}


@pytest.mark.parametrize(("policy", "wanted"), [({}, False), ({"protectFromScaleIn": True}, True)])
def test_an_instance_that_is_as_desired_is_not_written(instance, policy, wanted):
    instance.has(**policy)
    assert instance.protect(wanted) == (wanted, False)
    assert instance.arm.count("PUT") == 0


def test_the_change_waits_for_the_change_of_another_client(instance):
    instance.has()
    refusals = [Refused(409, "Conflict", "Another operation is in progress."), Refused(503, "ServiceUnavailable", "")]

    def answer(method, *_):
        if method == "PUT" and refusals:
            raise refusals.pop()

    instance.arm.answers.append(answer)
    assert instance.protect(True) == (False, True)
    assert instance.policy == {"protectFromScaleIn": True}


def test_a_change_that_was_made_although_the_answer_got_lost_counts_as_made(instance):
    instance.has()

    def answer(method, path, body):
        if method == "PUT":
            instance.arm._put(path, body)
            raise Refused(504, "GatewayTimeout", "")

    instance.arm.answers.append(answer)
    assert instance.protect(True) == (False, True)
    assert instance.arm.count("PUT") == 1


def test_a_change_that_azure_cannot_carry_out_is_an_error(instance):
    instance.has()
    broken = {"properties": {"provisioningState": "Failed"}}
    instance.arm.answers.append(lambda method, *_: (200, broken) if method == "GET" and instance.pauses else None)
    with pytest.raises(ArmError, match=r"could not change .*provisioning state is Failed"):
        instance.protect(True)


def test_a_change_that_takes_too_long_is_an_error_that_says_what_is_waited_for(instance):
    instance.has()
    instance.arm.updating_for = 100
    with pytest.raises(ArmError, match="was not changed within 60 s: its provisioning state is Updating"):
        instance.protect(True)


@pytest.mark.parametrize("protected", [True, False])
def test_a_change_that_may_come_later_is_an_error_that_says_so(instance, protected):
    instance.has(**({"protectFromScaleIn": True} if protected else {}))
    instance.arm.updating_for = 100
    with pytest.raises(ArmError) as caught:
        instance.protect(not protected)
    assert caught.value.sent


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_write_without_an_answer_may_have_been_carried_out(instance, is_carried_out):
    instance.has()

    def answer(method, path, body):
        if method == "PUT":
            if is_carried_out:
                instance.arm._put(path, body)
            raise OSError("no answer within 300 s")

    instance.arm.answers.append(answer)
    if is_carried_out:
        assert instance.protect(True) == (False, True)
        return
    with pytest.raises(ArmError, match="no answer within 300 s") as caught:
        instance.protect(True)
    assert caught.value.sent


def test_a_change_that_azure_accepts_and_does_not_show_is_sent_again_every_five_seconds(instance):
    instance.has()
    instance.arm.answers.append(lambda method, *_: (200, {}) if method == "PUT" else None)
    with pytest.raises(ArmError, match="not changed within 60 s: Azure accepted the change, which does not show"):
        instance.protect(True)
    assert instance.arm.count("PUT") == 12
    assert instance.pauses[:3] == [0.0, 5.0, 5.0]


def test_the_change_of_another_client_to_an_instance_between_read_and_write_is_kept(instance):
    instance.has()
    arm = instance.client()
    before = arm.read(INSTANCE, COMPUTE_API)
    instance.has(protectFromScaleIn=True)

    def change(body):
        properties = body["properties"]
        return None if properties.get("new") else {**body, "properties": {**properties, "new": True}}

    def read():
        return arm.read(INSTANCE, COMPUTE_API)

    assert bring(arm, INSTANCE, before, change, read=read, timeout=60.0, setting="")
    assert instance.policy == {"protectFromScaleIn": True}


def test_a_protection_that_another_client_sets_between_read_and_write_is_kept(instance):
    instance.has()
    arm = instance.client()
    before = arm.read(INSTANCE, COMPUTE_API)
    instance.has(protectFromScaleSetActions=True)
    assert protect(arm, INSTANCE, before, wanted=True, timeout=60.0)
    assert instance.policy == {"protectFromScaleIn": True, "protectFromScaleSetActions": True}


@pytest.mark.parametrize(
    "refusal",
    [Refused(403, "AuthorizationFailed", "The client may not."), Refused(409, "ScopeLocked", "It is locked.")],
)
def test_what_does_not_pass_is_an_error_at_once(instance, refusal):
    instance.has()

    def answer(method, *_):
        if method == "PUT":
            raise refusal

    instance.arm.answers.append(answer)
    with pytest.raises(ArmError, match=f"{refusal.status}: {refusal.body['error']['code']}") as caught:
        instance.protect(True)
    assert (caught.value.sent, instance.pauses) == (False, [])


@pytest.mark.parametrize(
    "wrong", ["", f"{COMPUTE}/virtualMachines/web1", f"{COMPUTE}/virtualMachineScaleSets/pool", f"{INSTANCE}?x=1"]
)
def test_what_is_not_an_instance_of_a_scale_set_is_refused(wrong):
    with pytest.raises(ArmError, match="Give the id of an instance of a scale set"):
        check_instance(wrong)
