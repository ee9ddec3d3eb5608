#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_event_approve_arm
short_description: Acknowledge Scheduled Events through Azure Resource Manager, outside the VM
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Use this module for a VM that no longer answers, such as a drained VM on degraded hardware. The module runs on the
    control node, and nothing runs on the host of the play. For all other VMs use
    M(maintops.scheduled_events.scheduled_event_approve), which needs no credentials of Azure, reads the events first,
    and acknowledges only those that have not started.
  - An acknowledgement counts for B(every) VM that the event names, from wherever it is sent. Acknowledge only when all
    of them are prepared.
  - The events cannot be read from outside the VM, so the module acknowledges exactly the events in O(event_id).
  - The module sends a request for each id. If one fails, the message names those that were acknowledged before it.
extends_documentation_fragment:
  - maintops.scheduled_events._azure
  - maintops.scheduled_events._imds.attributes
options:
  event_id:
    description: Ids of the events to acknowledge.
    type: list
    elements: str
    required: true
    aliases: [event_ids]
  resource_id:
    description:
      - Id of the VM, of its availability set, or of its scale set. For an instance of a uniform scale set, the module
        uses the scale set. The inventory plugin P(azure.azcollection.azure_rm#inventory) provides the id as C(id).
      - Either O(resource_id) or O(metadata) is required.
    type: str
  metadata:
    description: The answer of C(/metadata/instance), read while the VM still answered.
    type: dict
attributes:
  check_mode:
    support: partial
    details:
      - Nothing is sent, and every id is reported as if it were acknowledged.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run sends the request again, since the events cannot be read first. Azure decides what the request changes.
seealso:
  - module: maintops.scheduled_events.scheduled_event_approve
    description: Acknowledge in the VM, without credentials.
"""

EXAMPLES = r"""
- name: Acknowledge for a VM of an azure_rm inventory that no longer answers
  maintops.scheduled_events.scheduled_event_approve_arm:
    event_id: "{{ known_events }}"
    resource_id: "{{ id }}"
    credentials:
      auth_source: msi

- name: Acknowledge with instance metadata that was read earlier
  maintops.scheduled_events.scheduled_event_approve_arm:
    event_id: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    metadata: "{{ instance.json }}"
"""

RETURN = r"""
approved:
  description: Ids of the events that were acknowledged, or would be in check mode.
  returned: success, and when some were refused
  type: list
  elements: str
  sample: [C7061BAC-AFDC-4513-B24B-AA5F13A16123]
absent:
  description: Ids of events that Azure does not know, for example because they are over.
  returned: success, and when some were refused
  type: list
  elements: str
  sample: []
refused:
  description: Other events that were not acknowledged, with the reason. The task fails if the list is not empty.
  returned: success, and when some were refused
  type: list
  elements: dict
  contains:
    event_id:
      description: Id of the event.
      type: str
    code:
      description: Azure's code for the reason.
      type: str
      sample: Conflict
    message:
      description: Azure's message.
      type: str
  sample: []
resource_id:
  description: The VM, availability set or scale set whose events were acknowledged.
  returned: success, and when some were refused
  type: str
  sample: /subscriptions/…/resourceGroups/shop/providers/Microsoft.Compute/virtualMachines/web1
"""
