# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drill with a real maintenance of Azure, which the owner asks for. Private to the collection."""

from __future__ import annotations

import typing as t

from .._azure.arm import Arm, ArmError
from .course import Announced, DrillRefused, Look
from .sources import DrilledHost
from .verdict import Verdict

API_VERSION = "2025-04-01"


class Operation(t.NamedTuple):
    """What Azure does, and the type of the event that it announces for it.

    :param policy: the part of scheduledEventsPolicy that lets such an event begin without notice.
    """

    event_type: str
    method: str = "POST"
    path: str = ""
    policy: str = ""


OPERATIONS = {
    "restart": Operation("Reboot", path="/restart", policy="userInitiatedReboot"),
    "redeploy": Operation("Redeploy", path="/redeploy", policy="userInitiatedRedeploy"),
    "simulate_eviction": Operation("Preempt", path="/simulateEviction"),
    "reimage": Operation("Reboot", path="/reimage"),
    "delete": Operation("Terminate", method="DELETE"),
}
PROFILES = {"delete": "terminateNotificationProfile", "reimage": "osImageNotificationProfile"}


class Policy:
    """What Azure does with the events of a VM.

    :param parts: the properties of the VM, and of the set that it is in, whose policy counts for all its VMs.
    """

    def __init__(self, parts: t.Sequence[dict[str, t.Any]]) -> None:
        self._parts = parts

    @property
    def priority(self) -> str:
        return str(self._parts[0].get("priority") or "Regular")

    def begins_as_started(self, name: str) -> bool:
        """Whether an event that the owner asks for begins without notice."""
        return self._any("scheduledEventsPolicy", name, "automaticallyApprove")

    def is_announced(self, name: str) -> bool:
        """Whether a deletion or a new OS image is announced."""
        return self._any("scheduledEventsProfile", name, "enable")

    def _any(self, group: str, name: str, key: str) -> bool:
        return any(bool(((part.get(group) or {}).get(name) or {}).get(key)) for part in self._parts)

    def lines(self) -> list[str]:
        """For people."""
        names = [each.policy for each in OPERATIONS.values() if each.policy]
        hasty = [name for name in names if self.begins_as_started(name)]
        lines = [f"Azure's policy: {name} begins as Started, and no preparation can run" for name in hasty]
        silent = [name for name in PROFILES.values() if not self.is_announced(name)]
        lines += [f"Azure's policy: {name} is not enabled, so Azure does not announce it" for name in silent]
        return lines or ["Azure's policy: every maintenance is announced before it begins"]


def read_policy(arm: Arm, resource_id: str) -> Policy:
    """The policy of a VM.

    :raises DrillRefused: it cannot be read.
    """
    try:
        vm = arm.read(resource_id, API_VERSION).get("properties") or {}
        scale_set = resource_id.lower().partition("/virtualmachines/")[0]
        named = [(vm.get(name) or {}).get("id") for name in ("virtualMachineScaleSet", "availabilitySet")]
        if "/virtualmachinescalesets/" in scale_set:
            named.append(resource_id[: len(scale_set)])
        sets = [arm.read(each, API_VERSION).get("properties") or {} for each in named if each]
    except ArmError as error:
        raise DrillRefused(str(error)) from error
    # The model of a scale set has the profile of its VMs one level below.
    return Policy([vm, *sets, *(each["virtualMachineProfile"] for each in sets if each.get("virtualMachineProfile"))])


class AzureSource:
    """A maintenance that Azure carries out. It cannot be cancelled."""

    def __init__(self, host: DrilledHost, arm: Arm, resource_id: str, operation: str, vm_name: str) -> None:
        self._host, self._arm = host, arm
        self._resource_id = resource_id.rstrip("/")
        self._name = operation
        self._operation = OPERATIONS[operation]
        self._vm_name = vm_name

    def preview(self) -> list[str]:
        """What Azure's policy of the VM means for the drill.

        :raises DrillRefused: Azure would give no notice, or the VM cannot be drilled so.
        """
        policy = read_policy(self._arm, self._resource_id)
        if self._operation.policy and policy.begins_as_started(self._operation.policy):
            raise DrillRefused(
                f"{self._operation.policy}.automaticallyApprove is true for {self._vm_name}, so the event begins as "
                "Started, and no preparation can run. Set it to false, or choose another drill_azure_operation"
            )
        profile = PROFILES.get(self._name)
        if profile and not policy.is_announced(profile):
            raise DrillRefused(
                f"{profile}.enable is not true for {self._vm_name}, so Azure announces no event. Enable it, or choose "
                "another drill_azure_operation"
            )
        if self._name == "simulate_eviction" and policy.priority != "Spot":
            raise DrillRefused(
                f"the priority of {self._vm_name} is {policy.priority}, expected Spot. Only a Spot VM can be evicted"
            )
        return [*policy.lines(), f"Azure carries out: {self._name} of {self._resource_id}"]

    def begin(self) -> None:
        """Nothing: the polling unit asks its own service."""

    def announce(self) -> Announced:
        """Ask Azure for the maintenance. Minutes can go by until it announces the event.

        :raises DrillRefused: Azure refused it.
        """
        url = f"{self._resource_id}{self._operation.path}"
        try:
            self._arm.write(self._operation.method, url, API_VERSION, None)
        except ArmError as error:
            raise DrillRefused(str(error)) from error
        return Announced("", self._host.since)

    def look(self) -> Look:
        """What happened.

        :raises HostLost: the host cannot be reached, as during its reboot.
        """
        return self._host.look()

    def cancel(self) -> bool:
        """It cannot be cancelled."""
        return False

    def end(self) -> None:
        """Nothing was changed."""

    def note(self, event_id: str, verdict: Verdict | None) -> None:
        """Write the drill into the history of the host.

        :raises HostLost: it cannot be written.
        """
        self._host.note(event_id, self._operation.event_type, self._vm_name, verdict)
