# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Options that select events
    DOCUMENTATION = r"""
options:
  event_id:
    description:
      - Select only events with one of these ids.
      - All filters ignore case. An empty list does not filter.
      - A value that no event can have causes a warning. Examples are an id that is not a GUID, and a type, status or
        source that Azure is not known to use.
    type: list
    elements: str
    aliases: [event_ids]
  event_types:
    description:
      - Select only events of these types, for example V(Freeze) or V(Reboot).
        The return values of M(maintops.scheduled_events.scheduled_events_info) list the types.
    type: list
    elements: str
  event_statuses:
    description:
      - Select only events in these states, V(Scheduled), V(Started) or V(Advisory).
    type: list
    elements: str
  event_sources:
    description:
      - Select only events from these sources, V(Platform) or V(User). Before O(api_version=2019-08-01) events have no
        source.
    type: list
    elements: str
  scope:
    description:
      - V(this_vm) selects events that name this VM, even if they name other VMs as well.
      - V(all) selects every event that this VM can see, including events that name only other VMs.
    type: str
    choices: [this_vm, all]
    default: this_vm
"""
