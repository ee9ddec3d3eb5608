# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledge events through Azure Resource Manager, outside the VM. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._scheduled_events.announced import is_drill
from .arm import AVAILABILITY_SET, CONFLICT_CODES, INSTANCE, REFUSALS, SCALE_SET, VM, Arm, ArmError, AzureId, azure_id

API = "2023-10-01-preview"
_EVENT = re.compile(r"[0-9A-Za-z-]+")


class AcknowledgementResult(t.NamedTuple):
    """Ids by what became of them; ``refused`` holds ``event_id``, ``code`` and ``message``."""

    approved: list[str]
    absent: list[str]
    refused: list[dict[str, str]]


def scope_of(resource_id: str) -> str:
    """Return the scope of an acknowledgement: a VM, an availability set, or a scale set, also for an instance.

    :raises ArmError: it is not the id of one.
    """
    found = azure_id(resource_id)
    if found and found.kind == INSTANCE:
        found = found.parent
    if not found or found.kind not in (VM, SCALE_SET, AVAILABILITY_SET):
        raise ArmError(
            f"resource_id is {resource_id!r}, expected /subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/ "
            "and one of virtualMachines, virtualMachineScaleSets, availabilitySets, with its name. Give the id as the "
            "inventory or the portal shows it"
        )
    return found.text


def resource_id_of(metadata: t.Mapping[str, t.Any]) -> str:
    """The id of the VM whose ``/metadata/instance`` this is, or of its scale set.

    :raises ArmError: it lacks what is needed.
    """
    compute = metadata.get("compute", metadata)
    compute = compute if isinstance(compute, dict) else {}
    known = {name: str(compute.get(name) or "") for name in ("subscriptionId", "resourceGroupName", "name")}
    missing = [name for name, value in known.items() if not value]
    if missing:
        raise ArmError(
            f"metadata lacks {', '.join(missing)}, expected the answer of /metadata/instance. Read it from the VM, or "
            "give resource_id"
        )
    scale_set = str(compute.get("vmScaleSetName") or "")
    kind, name = ("virtualMachineScaleSets", scale_set) if scale_set else ("virtualMachines", known["name"])
    group = f"/subscriptions/{known['subscriptionId']}/resourceGroups/{known['resourceGroupName']}"
    return scope_of(f"{group}/providers/Microsoft.Compute/{kind}/{name}")


def is_of(resource_id: str, vm_name: str) -> bool:
    """Whether a resource id can be that of the VM with this name, or of its set, as far as names show it.

    :raises ArmError: it is not an id that :func:`scope_of` takes.
    """
    scope_of(resource_id)
    kind, names = t.cast(AzureId, azure_id(resource_id.lower()))[1:]
    if kind == AVAILABILITY_SET:
        return True
    if kind == SCALE_SET:
        return vm_name.lower().startswith(f"{names[0]}_")
    # A flexible scale set names its instances as VMs; a uniform one numbers them.
    return vm_name.lower() == (names[-1] if names[-1].startswith(f"{names[0]}_") else "_".join(names))


def check_ids(event_ids: t.Sequence[str]) -> list[str]:
    """The ids, each once.

    :raises ArmError: one cannot be an id; it would be another request.
    """
    wrong = [event_id for event_id in event_ids if not _EVENT.fullmatch(event_id)]
    if wrong or not event_ids:
        raise ArmError(
            f"event_id is {list(event_ids)!r}, expected ids such as C7061BAC-AFDC-4513-B24B-AA5F13A16123. Give those "
            "that scheduled_events_info returned"
        )
    drills = [event_id for event_id in event_ids if is_drill(event_id)]
    if drills:
        raise ArmError(f"{drills[0]} is the id of a drill, which Azure does not know. Give ids of Azure's events only")
    return list({event_id.lower(): event_id for event_id in event_ids}.values())


def acknowledge(arm: Arm, scope: str, event_ids: t.Sequence[str]) -> AcknowledgementResult:
    """Acknowledge events, one after the other. To repeat it does no harm.

    :raises ArmError: an event was not acknowledged, or it is not known. The error names those before it that were.
    """
    result = AcknowledgementResult([], [], [])
    for event_id in event_ids:
        url = f"{scope}/providers/Microsoft.Maintenance/scheduledevents/{event_id}/acknowledge"
        try:
            arm.write("POST", url, API, None, harmless=True)
            result.approved.append(event_id)
        except ArmError as error:
            if error.code == "NotFound":
                result.absent.append(event_id)
            elif error.status == 409 and error.code not in (*CONFLICT_CODES, *REFUSALS):
                result.refused.append({"event_id": event_id, "code": error.code, "message": error.message})
            elif result.approved:
                raise ArmError(f"{error}. Acknowledged before it: {', '.join(result.approved)}") from error
            else:
                raise
    return result
