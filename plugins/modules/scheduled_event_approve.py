#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_event_approve
short_description: Acknowledge Scheduled Events of an Azure VM
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Informs Azure that the VMs that an event names are prepared, so that Azure need not wait until NotBefore.
  - An acknowledgement counts for B(every) VM that the event names, from whichever VM it is sent. Acknowledge only when
    all of them are prepared.
  - The module first reads the events, and then sends one request for all events that are still V(Scheduled). It reads
    the events again before it repeats a request that failed temporarily.
  - The module acknowledges only the events in O(event_id). They need not name this VM, since any VM that sees an event
    may acknowledge it for a VM that cannot. O(leader_only=true) restricts the module to events that this VM leads.
  - The module runs in the VM and needs no credentials of Azure. For a VM that no longer answers, use
    M(maintops.scheduled_events.scheduled_event_approve_arm). The two modules have only the ids of the events in common.
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.group
  - maintops.scheduled_events._imds.anywhere
options:
  event_id:
    description:
      - Ids of the events to acknowledge, in upper or lower case.
      - An id that is neither a GUID nor that of a drill causes a warning, since no event has such an id.
    type: list
    elements: str
    required: true
    aliases: [event_ids]
  leader_only:
    description:
      - Acknowledge an event only if this VM is the first VM that the event names, so that only one of many hosts
        acknowledges it.
    type: bool
    default: false
  history_directories:
    description:
      - Directories of histories on the VM. The acknowledgement is added to the first history that exists and that the
        user of the task may write. The module does not fail if there is none. For a Windows host it adds nothing.
    type: list
    elements: path
    default:
      - /var/lib/scheduled-events-history
      - /var/lib/maintops
attributes:
  check_mode:
    support: full
    details:
      - The module reads the events and returns those that it would acknowledge. It sends nothing.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - Azure does not report whether an event is already acknowledged. While an event stays V(Scheduled), because Azure
        waits for other events or VMs, the module acknowledges it again and reports a change. This does no harm.
seealso:
  - module: maintops.scheduled_events.scheduled_event_approve_arm
    description: Acknowledge from the control node, with credentials of Azure.
  - module: maintops.scheduled_events.scheduled_events_info
  - module: maintops.scheduled_events.scheduled_events_wait
"""

EXAMPLES = r"""
# An acknowledgement counts for all VMs of an event.
# A host that fails to prepare must therefore end the play for all hosts.
- name: Drain, acknowledge, and come back
  hosts: web
  any_errors_fatal: true
  tasks:
    - name: Read the events that name this VM
      maintops.scheduled_events.scheduled_events_info:
      register: announced

    # Another VM may have read an event that was announced after this one had read.
    - name: Read them again, after all other VMs
      maintops.scheduled_events.scheduled_events_info:
      register: maintenance

    - name: Prepare this VM
      ansible.builtin.include_tasks: "{{ playbook_dir }}/drain.yml"
      when: maintenance.events | length > 0

    - name: Acknowledge the events that this VM leads
      maintops.scheduled_events.scheduled_event_approve:
        event_id: "{{ announced.events | selectattr('event_status', 'eq', 'Scheduled') | map(attribute='event_id') }}"
        leader_only: true

    - name: Wait until the events are over
      maintops.scheduled_events.scheduled_events_wait:
        timeout: 3600
      when: maintenance.events | length > 0

    - name: Recover this VM, also after a run that was interrupted
      ansible.builtin.include_tasks: "{{ playbook_dir }}/recover.yml" # changes nothing on a VM that is not drained
"""

RETURN = r"""
approved:
  description: Ids of the events that were acknowledged, or would be in check mode.
  returned: success and on a refused request
  type: list
  elements: str
  sample: [C7061BAC-AFDC-4513-B24B-AA5F13A16123]
already_started:
  description: Ids of the events that have started and need no acknowledgement any more.
  returned: success and on a refused request
  type: list
  elements: str
  sample: []
absent:
  description: Ids in O(event_id) that the document does not contain, as they were given.
  returned: success and on a refused request
  type: list
  elements: str
  sample: []
skipped_ids:
  description:
    - Ids of the events that this VM does not lead, with O(leader_only=true), and of events in a state that is neither
      V(Scheduled) nor V(Started).
  returned: success and on a refused request
  type: list
  elements: str
  sample: []
drill:
  description: Whether a drill adds an event to those of the service. Its acknowledgement counts, and is not sent.
  returned: success and on a refused request
  type: bool
  sample: false
not_approved:
  description: Ids of the events that would have been acknowledged if the service had not refused.
  returned: on a refused request
  type: list
  elements: str
  sample: [C7061BAC-AFDC-4513-B24B-AA5F13A16123]
status:
  description:
    - HTTP status of the answer; V(null) if there was no answer.
    - V(200) if the answer did not come from the metadata service, for example if it was an HTML page.
  returned: on a refused request
  type: int
  sample: 500
endpoint:
  description: Base URL of the service that was asked.
  returned: success and on a refused request
  type: str
  sample: http://169.254.169.254
endpoint_source:
  description:
    - How the endpoint was found. V(given) if O(endpoint) names it.
    - With O(endpoint=auto), V(default address), or C(DHCP option 245 in PATH) with the path of the lease and the DHCP
      client that wrote it.
  returned: success and on a refused request
  type: str
  sample: given
"""

from ..module_utils._calls import APPROVE_OPTIONS, acknowledge
from ..module_utils._module import run_module


def main() -> None:
    run_module(APPROVE_OPTIONS, acknowledge)


if __name__ == "__main__":
    main()
