# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ids of resources of Azure. Private to the collection."""

from __future__ import annotations

import re
import typing as t

VM = "microsoft.compute/virtualmachines"
SCALE_SET = "microsoft.compute/virtualmachinescalesets"
INSTANCE = f"{SCALE_SET}/virtualmachines"
AVAILABILITY_SET = "microsoft.compute/availabilitysets"
INTERFACE = "microsoft.network/networkinterfaces"
INSTANCE_INTERFACE = f"{INSTANCE}/networkinterfaces"

_ID = re.compile(
    r"(?P<group>/subscriptions/[^/\s?]+/resourceGroups/[^/\s?]+)/providers/(?P<namespace>[^/\s?]+)"
    r"(?P<path>(/[^/\s?]+/[^/\s?]+)+)",
    re.IGNORECASE,
)


class AzureId(t.NamedTuple):
    """An id of a resource.

    ``kind``: its type in lower case, such as :data:`INSTANCE`; ``names``: one for each part of the type.
    """

    text: str
    kind: str
    names: tuple[str, ...]

    @property
    def parent(self) -> AzureId:
        """The resource that this one is a part of. A resource of its own has none."""
        return AzureId(self.text.rsplit("/", 2)[0], self.kind.rpartition("/")[0], self.names[:-1])


def azure_id(text: str) -> AzureId | None:
    """The id, or None if the text is not the id of a resource in a resource group."""
    found = _ID.fullmatch(text)
    if not found:
        return None
    parts = found["path"].split("/")[1:]
    kind = "/".join([found["namespace"], *parts[::2]]).lower()
    return AzureId(text, kind, tuple(parts[1::2]))


def kind_of(text: str) -> str:
    """The type of a resource in lower case; empty if the text is not the id of one."""
    found = azure_id(text)
    return found.kind if found else ""
