# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The events that Azure has published outside the VMs. Private to the collection.

They say for which events a host waits, and for which it no longer does. Whether an event is prepared for, acknowledged
and recovered from, the document of the VM alone says.
"""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.checks import WrongValue, show

AHEAD, OVER = ("scheduled", "started"), ("completed", "canceled")


class Published:
    """The events by id, as the event filter C(azure_events) shows them.

    :raises WrongValue: one is not such an event.
    """

    def __init__(self, events: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        self._names: dict[str, set[str]] = {}
        self._over: set[str] = set()
        for number, event in enumerate(events):
            event_id, status, names = (event.get(key) for key in ("event_id", "event_status", "resources"))
            if not (isinstance(event_id, str) and event_id and isinstance(status, str) and isinstance(names, list)):
                raise WrongValue(
                    f"respond_published_events[{number}] is {show(event)}, expected event_id, event_status and "
                    "resources. Pass the event of the filter azure_events, such as ansible_eda.event"
                )
            if status.lower() in OVER:
                self._over.add(event_id.lower())
            elif status.lower() in AHEAD:
                self._names.setdefault(event_id.lower(), set()).update(str(name).lower() for name in names)

    def missing(self, vm_name: str, shown: t.Collection[str]) -> list[str]:
        """The ids of the events of a VM that are not over, except for those that its document has shown."""
        ahead = (event_id for event_id, names in self._names.items() if vm_name.lower() in names)
        return sorted({*ahead} - self._over - {event_id.lower() for event_id in shown})

    def is_over(self, event_id: str) -> bool:
        """Whether Azure has published the end of the event."""
        return event_id.lower() in self._over
