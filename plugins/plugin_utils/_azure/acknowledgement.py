# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledge events through Azure Resource Manager, outside the VM. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._scheduled_events.announced import PREFIX as DRILL_PREFIX
from .arm import AVAILABILITY_SET, CONFLICT_CODES, INSTANCE, SCALE_SET, VM, Arm, ArmError, AzureId, azure_id

ONE_API, SEVERAL_API = "2023-10-01-preview", "2025-10-01-preview"
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
    return vm_name.lower() == "_".join(names)


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
    drills = [event_id for event_id in event_ids if event_id.lower().startswith(DRILL_PREFIX)]
    if drills:
        raise ArmError(f"{drills[0]} is the id of a drill, which Azure does not know. Give ids of Azure's events only")
    return list({event_id.lower(): event_id for event_id in event_ids}.values())


def acknowledge(arm: Arm, scope: str, event_ids: t.Sequence[str]) -> AcknowledgementResult:
    """Acknowledge events, in one request. To repeat it does no harm.

    :raises ArmError: nothing was acknowledged, or it is not known.
    """
    base = f"{scope}/providers/Microsoft.Maintenance/scheduledevents"
    if len(event_ids) == 1:
        return _acknowledge_one(arm, base, event_ids[0])
    answer = arm.write("POST", base, SEVERAL_API, {"value": list(event_ids)}, harmless=True)
    problems = _problems(answer)
    left = {event_id: problems.get(event_id.lower()) for event_id in event_ids}
    unknown = set(problems) - {event_id.lower() for event_id in event_ids}
    if unknown:
        raise ArmError(
            f"POST {base} was answered with problems of {', '.join(sorted(unknown))}, expected only the "
            "events that were sent. Check the events of the VM, and run this task again"
        )
    return AcknowledgementResult(
        approved=[event_id for event_id, problem in left.items() if problem is None],
        absent=[event_id for event_id, problem in left.items() if problem and problem["code"] == "NotFound"],
        refused=[
            {"event_id": event_id, **problem}
            for event_id, problem in left.items()
            if problem and problem["code"] != "NotFound"
        ],
    )


def _acknowledge_one(arm: Arm, base: str, event_id: str) -> AcknowledgementResult:
    try:
        arm.write("POST", f"{base}/{event_id}/acknowledge", ONE_API, None, harmless=True)
    except ArmError as error:
        if error.code == "NotFound":
            return AcknowledgementResult([], [event_id], [])
        if error.status == 409 and error.code not in CONFLICT_CODES:
            return AcknowledgementResult([], [], [{"event_id": event_id, "code": error.code, "message": error.message}])
        raise
    return AcknowledgementResult([event_id], [], [])


def _problems(answer: t.Any) -> dict[str, dict[str, str]]:
    """The details of a 207 by the id that they are about; empty when all were acknowledged.

    :raises ArmError: it says that there are problems, and not which.
    """
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is None:
        return {}
    details = error.get("details") if isinstance(error, dict) else None
    if not isinstance(details, list) or not details or not all(isinstance(each, dict) for each in details):
        raise ArmError(
            f"Azure acknowledged some events, but its answer does not name them: {answer}. Check the events, and run "
            "this task again"
        )
    return {
        str(each.get("target", "")).lower(): {
            "code": str(each.get("code", "")),
            "message": str(each.get("message", "")),
        }
        for each in details
    }
