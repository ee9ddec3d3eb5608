# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A sample event, for hooks and rules where none is announced."""

import datetime
import json

from _scheduled_events.document import ScheduledEvent, format_time, parse

NOTICE = 900.0  # seconds


def sample_event(vm_name: str, event_type: str, *, api_version: str, now: float) -> ScheduledEvent:
    """An event of this VM, as the platform announces it.

    :param now: seconds since the epoch.
    """
    not_before = datetime.datetime.fromtimestamp(now + NOTICE, datetime.timezone.utc)
    raw = {
        "EventId": "00000000-0000-0000-0000-000000000000",
        "EventType": event_type,
        "EventStatus": "Scheduled",
        "EventSource": "Platform",
        "ResourceType": "VirtualMachine",
        "Resources": [vm_name],
        "NotBefore": format_time(not_before),
        "Description": "A sample event for hooks",
        "DurationInSeconds": -1,
    }
    return parse(json.dumps({"Events": [raw]}), api_version=api_version).events[0]
