# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The content of ``/metadata/instance`` for one VM: a tree of objects and lists with strings as leaves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from scheduled_events_emulator.fleet import Machine

# The fleet file does not say where in Azure it is; the same names give the same ids every time.
LOCATION = "westeurope"
RESOURCE_GROUP = "emulated"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/maintops/scheduled_events")
SUBSCRIPTION = str(uuid.uuid5(_NAMES, "subscription"))


class NoSuchElement(LookupError):
    """The tree has nothing at this path."""


def instance(machine: Machine) -> dict[str, Any]:
    """Return the tree of ``machine``."""
    scale_set = machine.set_name if machine.kind.startswith("scale_set") else None
    compute = {
        "location": LOCATION,
        "name": machine.name,
        "osProfile": {"computerName": machine.hostname},
        "osType": "Linux",
        "placementGroupId": machine.placement_group or "",
        "platformFaultDomain": str(machine.fault_domain),
        "priority": "Spot" if machine.spot else "Regular",
        "resourceGroupName": RESOURCE_GROUP,
        "subscriptionId": SUBSCRIPTION,
        "tags": "",
        "tagsList": [],
        "vmId": str(uuid.uuid5(_NAMES, machine.name.lower())),
        "vmScaleSetName": scale_set or "",
        "zone": machine.zone or "",
    }
    return {"compute": compute}


def find(tree: Any, path: Sequence[str]) -> Any:
    """Return what ``tree`` holds at ``path``, whose case does not matter. Raises NoSuchElement."""
    node = tree
    for part in path:
        children = {key.lower(): value for key, value in node.items()} if isinstance(node, dict) else {}
        node = children.get(part.lower())
        if node is None:
            raise NoSuchElement("/".join(path))
    return node


def as_json(node: Any) -> bytes | None:
    """Return ``node`` as compact JSON; None for a leaf, which the service gives as text alone."""
    if isinstance(node, str):
        return None
    return json.dumps(node, separators=(",", ":")).encode("ascii")


def as_text(node: Any) -> bytes:
    """Return a leaf as it is; of anything else, the names below it, one a line, with a slash where more is below."""
    if isinstance(node, str):
        return node.encode()
    named = node.items() if isinstance(node, dict) else enumerate(node)
    return "\n".join(f"{name}" if isinstance(value, str) else f"{name}/" for name, value in named).encode()
