# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events and policies as Azure Resource Graph shows them. They follow Microsoft's pages; none of them was recorded."""

from __future__ import annotations

import functools
import re
from typing import Any

from scheduled_events_emulator.checks import Fields, InputError, shown
from scheduled_events_emulator.event_grid import TARGETS, TOPIC, Outbox
from scheduled_events_emulator.fleet import Fleet
from scheduled_events_emulator.instance import RESOURCE_GROUP

PATH = "/providers/Microsoft.ResourceGraph/resources"
COMPUTE = f"{TOPIC}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute"
SETS = {"availability_set": "availabilitySet", "scale_set_flexible": "virtualMachineScaleSet"}  # that a VM names
COLUMN = re.compile(r"(\w+)(?: = (?:coalesce\()?([\w.]+)(?:, ([\w.]+)\))?)?")
MOST_ROWS = 1000


def _resources(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the VMs and their sets. A VM of a uniform scale set is not in the table."""
    rows: dict[str, dict[str, Any]] = {}
    for machine in fleet.machines:
        if machine.kind not in TARGETS:
            continue
        target = f"{TARGETS[machine.kind]}/{machine.set_name or machine.name}"
        policy, profile = {"scheduledEventsPolicy": machine.policy}, {"scheduledEventsProfile": machine.profile}
        rows[target] = {**policy, "virtualMachineProfile": profile} if machine.set_name else {**policy, **profile}
        if machine.kind in SETS:
            rows[f"virtualMachines/{machine.name}"] = {**profile, SETS[machine.kind]: {"id": f"{COMPUTE}/{target}"}}
    found = []
    for path, own in rows.items():
        kind, name = path.split("/")
        row = {"id": f"{COMPUTE}/{path}", "type": f"microsoft.compute/{kind.lower()}", "name": name}
        found.append({**row, "properties": own})
    return found


def answer(body: Any, fleet: Fleet, outbox: Outbox) -> dict[str, Any]:
    """Answer a query: a table, ``where type``, ``project`` and ``order by id``. Raises InputError."""
    given = Fields(body, "", ("subscriptions", "query", "options"))
    table, *operators = [part.strip() for part in given.text("query").split("|")]
    tables = {
        "maintenanceresources": {message.resource["id"]: message.resource for message in outbox.messages}.values(),
        "resources": _resources(fleet),
    }
    if table not in tables or not all(each.startswith(("where type", "project ", "order by id")) for each in operators):
        raise InputError(f"query: {shown(given.text('query'))} is not one of those that the emulator knows")
    rows = sorted(tables[table], key=lambda row: str(row["id"]))
    for each in operators:
        if each.startswith("project "):
            columns = COLUMN.findall(each[len("project ") :])
            rows = [
                {name: _value(row, path or name) or _value(row, other) for name, path, other in columns} for row in rows
            ]
    options = Fields(given.mapping("options"), "options", ("resultFormat", "$top", "$skipToken"))
    token = options.text("$skipToken", "0")
    if not re.fullmatch("[0-9]{1,9}", token):
        raise options.fail("$skipToken", "that of an answer")
    first = int(token)
    last = first + min(options.integer("$top", MOST_ROWS, least=1), MOST_ROWS)
    more = {"$skipToken": str(last)} if last < len(rows) else {}
    return {"totalRecords": len(rows), "count": len(rows[first:last]), "data": rows[first:last], **more}


def _value(row: Any, path: str) -> Any:
    return functools.reduce(
        lambda found, name: found.get(name) if isinstance(found, dict) else None, path.split("."), row
    )
