# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drill with a maintenance of Azure, against a fake of Azure Resource Manager."""

import pytest

from plugins.plugin_utils._azure.arm import ArmError
from plugins.plugin_utils._drill.azure import OPERATIONS, AzureSource, read_policy
from plugins.plugin_utils._drill.course import DrillRefused

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
VM, INSTANCE = f"{GROUP}/virtualMachines/web1", f"{GROUP}/virtualMachineScaleSets/web/virtualMachines/3"
SET = f"{GROUP}/virtualMachineScaleSets/web"


class FakeArm:
    def __init__(self, resources):
        self.resources, self.written = resources, []

    def read(self, url, _api_version):
        if url not in self.resources:
            raise ArmError(f"GET {url} was answered 404", status=404)
        return {"properties": self.resources[url]}

    def write(self, method, url, _api_version, body):
        self.written.append((method, url, body))


class Host:
    since = 1000.0


def source(operation, resource_id=VM, resources=None):
    arm = FakeArm({VM: {}} if resources is None else resources)
    return AzureSource(Host(), arm, resource_id, operation, "web1"), arm


def policy(value, name="userInitiatedReboot"):
    return {"scheduledEventsPolicy": {name: {"automaticallyApprove": value}}}


def notifies(name):
    return {"scheduledEventsProfile": {name: {"enable": True}}}


@pytest.mark.parametrize(
    ("operation", "request_", "event_type"),
    [
        ("restart", ("POST", f"{VM}/restart"), "Reboot"),
        ("redeploy", ("POST", f"{VM}/redeploy"), "Redeploy"),
        ("simulate_eviction", ("POST", f"{VM}/simulateEviction"), "Preempt"),
        ("reimage", ("POST", f"{VM}/reimage"), "Reboot"),
        ("delete", ("DELETE", VM), "Terminate"),
    ],
)
def test_each_operation_is_one_request(operation, request_, event_type):
    made, arm = source(operation)
    announced = made.announce()
    assert [(method, url) for method, url, _body in arm.written] == [request_]
    assert (announced.event_id, announced.at, OPERATIONS[operation].event_type) == ("", 1000.0, event_type)


@pytest.mark.parametrize(
    ("operation", "name"), [("restart", "userInitiatedReboot"), ("redeploy", "userInitiatedRedeploy")]
)
def test_a_policy_that_gives_no_notice_is_refused_and_the_other_policy_does_not_count(operation, name):
    made, arm = source(operation, resources={VM: policy(True, name)})
    with pytest.raises(DrillRefused, match=f"{name}.automaticallyApprove is true for web1"):
        made.preview()
    other = {"userInitiatedReboot": "userInitiatedRedeploy", "userInitiatedRedeploy": "userInitiatedReboot"}[name]
    assert f"{other} begins as Started" in source(operation, resources={VM: policy(True, other)})[0].preview()[0]
    assert arm.written == []


@pytest.mark.parametrize(
    ("resource_id", "resources"),
    [
        (INSTANCE, {INSTANCE: {}, SET: policy(True)}),
        (VM, {VM: {"virtualMachineScaleSet": {"id": SET}}, SET: policy(True)}),
        (VM, {VM: {"availabilitySet": {"id": SET}}, SET: policy(True)}),
        (VM, {VM: {"availabilitySet": {"id": SET}, **policy(False)}, SET: policy(True)}),
    ],
    ids=["instance of a uniform scale set", "flexible scale set", "availability set", "the VM says otherwise"],
)
def test_the_policy_of_the_set_counts_for_its_vms(resource_id, resources):
    with pytest.raises(DrillRefused, match="automaticallyApprove is true"):
        source("restart", resource_id, resources)[0].preview()


@pytest.mark.parametrize(
    ("operation", "name"), [("delete", "terminateNotificationProfile"), ("reimage", "osImageNotificationProfile")]
)
def test_what_azure_does_not_announce_is_refused(operation, name):
    with pytest.raises(DrillRefused, match=f"{name}.enable is not true for web1"):
        source(operation)[0].preview()
    assert source(operation, resources={VM: notifies(name)})[0].preview()
    in_set = {INSTANCE: {}, SET: {"virtualMachineProfile": notifies(name)}}
    assert source(operation, INSTANCE, in_set)[0].preview()


def test_only_a_spot_vm_is_evicted():
    for properties in ({}, {"priority": "Regular"}):
        with pytest.raises(DrillRefused, match="the priority of web1 is Regular, expected Spot"):
            source("simulate_eviction", resources={VM: properties})[0].preview()
    assert source("simulate_eviction", resources={VM: {"priority": "Spot"}})[0].preview()


def test_a_vm_that_cannot_be_read_is_refused():
    with pytest.raises(DrillRefused, match="404"):
        source("restart", resources={})[0].preview()


def test_an_operation_of_azure_cannot_be_cancelled():
    assert not source("restart")[0].cancel()


def test_a_preview_shows_what_azure_does_not_announce():
    assert read_policy(FakeArm({VM: policy(True)}), VM).lines() == [
        "Azure's policy: userInitiatedReboot begins as Started, and no preparation can run",
        "Azure's policy: terminateNotificationProfile is not enabled, so Azure does not announce it",
        "Azure's policy: osImageNotificationProfile is not enabled, so Azure does not announce it",
    ]
    everything = {
        "scheduledEventsProfile": {
            **notifies("terminateNotificationProfile")["scheduledEventsProfile"],
            **notifies("osImageNotificationProfile")["scheduledEventsProfile"],
        }
    }
    assert read_policy(FakeArm({VM: everything}), VM).lines() == [
        "Azure's policy: every maintenance is announced before it begins"
    ]
