# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries of Azure Resource Graph. Private to the collection."""

from __future__ import annotations

import typing as t

from .arm import AVAILABILITY_SET, SCALE_SET, VM, Arm, ArmError

URL, API = "/providers/Microsoft.ResourceGraph/resources", "2022-10-01"
ROWS = 1000  # of an answer, which is the most that Azure sends
EVENTS = (
    'maintenanceresources | where type =~ "microsoft.maintenance/scheduledevents" '
    "| project id, name, properties | order by id asc"
)
POLICIES = (
    f'resources | where type in~ ("{VM}", "{SCALE_SET}", "{AVAILABILITY_SET}") | project id, name, type, '
    "policy = properties.scheduledEventsPolicy, profile = coalesce(properties.scheduledEventsProfile, "
    "properties.virtualMachineProfile.scheduledEventsProfile), scaleSet = properties.virtualMachineScaleSet.id, "
    "availabilitySet = properties.availabilitySet.id | order by id asc"
)


def rows_of(arm: Arm, query: str, subscriptions: t.Sequence[str]) -> list[t.Any]:
    """All rows of a query.

    :raises ArmError: it was refused, or Azure did not send all rows.
    """
    rows: list[t.Any] = []
    tokens: set[str] = set()
    options: dict[str, t.Any] = {"resultFormat": "objectArray", "$top": ROWS}
    while True:
        body = {"subscriptions": list(subscriptions), "query": query, "options": options}
        answer = arm.write("POST", URL, API, body, harmless=True)
        page, total = (answer.get("data"), answer.get("totalRecords")) if isinstance(answer, dict) else (None, None)
        if not isinstance(page, list) or not isinstance(total, int):
            raise ArmError(f"POST {URL} was answered without a list data and a number totalRecords. Run it again")
        rows += page
        token = str(answer.get("$skipToken") or "")
        if not token and len(rows) >= total:
            return rows
        if not token or not page or len(rows) > total or token in tokens:  # it would be the same page again
            raise ArmError(f"POST {URL} was answered with {len(rows)} of {total} rows. Run it again")
        tokens.add(token)
        options = {**options, "$skipToken": token}
