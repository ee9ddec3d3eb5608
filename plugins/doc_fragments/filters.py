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
      - Only events with one of these ids. Case does not matter, here as in the other filters.
      - An empty list is no condition, here as in the other filters.
      - A value that no event has (an id that is not a GUID, or a type, status or source that Azure is not known to use)
        gives a warning, here as in the other filters.
    type: list
    elements: str
  event_types:
    description:
      - Only events of these types, for example V(Freeze), V(Reboot), V(Redeploy), V(Preempt), V(Terminate),
        V(SpotRebalanceRecommendation).
    type: list
    elements: str
  event_statuses:
    description:
      - Only events in these states, V(Scheduled) or V(Started).
    type: list
    elements: str
  event_sources:
    description:
      - Only events from these sources, V(Platform) or V(User). Before O(api_version=2019-08-01) no event has one.
    type: list
    elements: str
  scope:
    description:
      - V(this_vm) selects events that name this VM, whatever their other resources.
      - V(all) selects every event that this VM can see, those of its neighbours too.
    type: str
    choices: [this_vm, all]
    default: this_vm
"""
