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
        try:
            parts = self._parts()
        except ArmError as error:
            raise DrillRefused(str(error)) from error
        policy = _found(parts, "scheduledEventsPolicy", self._operation.policy) if self._operation.policy else {}
        if policy.get("automaticallyApprove"):
            raise DrillRefused(
                f"{self._operation.policy}.automaticallyApprove is true for {self._vm_name}, so the event begins as "
                "Started, and no preparation can run. Set it to false, or choose another drill_azure_operation"
            )
        profile = PROFILES.get(self._name)
        if profile and not _found(parts, "scheduledEventsProfile", profile).get("enable"):
            raise DrillRefused(
                f"{profile}.enable is not true for {self._vm_name}, so Azure announces no event. Enable it, or choose "
                "another drill_azure_operation"
            )
        if self._name == "simulate_eviction" and parts[0].get("priority") != "Spot":
            raise DrillRefused(
                f"the priority of {self._vm_name} is {parts[0].get('priority') or 'Regular'}, expected Spot. Only a "
                "Spot VM can be evicted"
            )
        lines = [f"{self._operation.policy}.automaticallyApprove: false"] if self._operation.policy else []
        return [*lines, f"Azure carries out: {self._name} of {self._resource_id}"]

    def _parts(self) -> list[dict[str, t.Any]]:
        """The properties of the VM, and of the set that it is in, whose policy counts for all its VMs."""
        vm = self._arm.read(self._resource_id, API_VERSION).get("properties") or {}
        scale_set = self._resource_id.lower().partition("/virtualmachines/")[0]
        named = [vm.get(name, {}).get("id") for name in ("virtualMachineScaleSet", "availabilitySet")]
        if "/virtualmachinescalesets/" in scale_set:
            named.append(self._resource_id[: len(scale_set)])
        sets = [self._arm.read(each, API_VERSION).get("properties") or {} for each in named if each]
        # The model of a scale set has the profile of its VMs one level below.
        return [vm, *sets, *(each["virtualMachineProfile"] for each in sets if each.get("virtualMachineProfile"))]

    def begin(self) -> None:
        """Nothing: the polling unit asks its own service."""

    def announce(self) -> Announced:
        """Ask Azure for the maintenance. Minutes can go by until it announces the event.

        :raises DrillRefused: Azure refused it.
        """
        url = f"{self._resource_id}{self._operation.path}"
        try:
            self._arm.write(self._operation.method, url, API_VERSION, None, statuses=(200, 202, 204))
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


def _found(parts: t.Sequence[dict[str, t.Any]], group: str, name: str) -> dict[str, t.Any]:
    """The part of a policy or profile, of the VM or of its set."""
    found = (part.get(group, {}).get(name) for part in parts)
    return next((dict(each) for each in found if isinstance(each, dict)), {})
