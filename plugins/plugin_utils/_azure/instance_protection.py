# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Protect an instance of a scale set from scale-in. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from .arm import Arm, ArmError
from .pools import COMPUTE_API, provisioning_state

LOOK_AGAIN_AFTER = 5.0  # seconds; Azure takes some for a change
WRITTEN, ENDED_BADLY = "Succeeded", ("Failed", "Canceled")

_INSTANCE = re.compile(
    r"/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/Microsoft\.Compute/virtualMachineScaleSets/[^/\s]+"
    r"/virtualMachines/[^/\s?]+",
    re.IGNORECASE,
)


class Unfinished(ArmError):
    """The protection may have been changed. ``before``: whether the instance was protected from scale-in."""

    def __init__(self, error: ArmError, before: bool) -> None:
        super().__init__(str(error), status=error.status, code=error.code, message=error.message)
        self.before = before


def check_instance(resource_id: str) -> str:
    """The id, if it is that of an instance of a scale set.

    :raises ArmError: it is not.
    """
    if not _INSTANCE.fullmatch(resource_id):
        raise ArmError(
            f"resource_id is {resource_id!r}, expected /subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/"
            "virtualMachineScaleSets/…/virtualMachines/…. Give the id of an instance of a scale set"
        )
    return resource_id


def protect(arm: Arm, instance: str, *, wanted: bool, simulate: bool, timeout: float) -> tuple[bool, bool]:
    """Protect an instance or not, and wait until Azure has done it; whether it was protected before, and whether that
    was changed.

    :raises Unfinished: it could not be done, or not within the time, and may have been sent.
    :raises ArmError: it was refused.
    """
    give_up_at = arm.clock() + timeout
    body = arm.read(instance, COMPUTE_API)
    before, sent = bool(_policy(body).get("protectFromScaleIn")), False
    if simulate:
        return before, before is not wanted
    try:
        while True:
            state, problem = provisioning_state(body), ""
            done = bool(_policy(body).get("protectFromScaleIn")) is wanted
            if done and (state == WRITTEN or not sent):
                return before, sent
            if sent and state in ENDED_BADLY:
                raise ArmError(
                    f"Azure could not change {instance}: its provisioning state is {state}. Check the activity log of "
                    "the scale set, and run it again"
                )
            if not done and state in (WRITTEN, *ENDED_BADLY):
                problem, may_be_done = _write(arm, instance, {**_policy(body), "protectFromScaleIn": wanted})
                sent = sent or may_be_done
            if arm.clock() >= give_up_at:
                raise ArmError(
                    f"{instance} was not changed within {timeout:g} s: "
                    f"{problem or f'its provisioning state is {state}'}. "
                    "Wait until the change has ended, or raise operation_timeout, and run this task again"
                )
            arm.sleep(LOOK_AGAIN_AFTER)
            body = arm.read(instance, COMPUTE_API)
    except ArmError as error:
        if sent or not error.status:  # without a status, Azure may have got the request
            raise Unfinished(error, before) from error
        raise


def _policy(body: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return dict((body.get("properties") or {}).get("protectionPolicy") or {})


def _write(arm: Arm, instance: str, policy: dict[str, t.Any]) -> tuple[str, bool]:
    """Write the policy; why it may have to be written again, or nothing, and whether Azure may have taken it."""
    try:
        # Azure documents this request, which leaves the rest of the instance as it is.
        arm.write("PUT", instance, COMPUTE_API, {"properties": {"protectionPolicy": policy}})
    except ArmError as error:
        if error.conflict or error.fleeting:
            return str(error), error.fleeting
        raise
    return "", True
