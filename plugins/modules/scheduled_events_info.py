#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_info
short_description: Read the Scheduled Events of an Azure VM
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Reads the maintenance that Azure has announced to this VM (freeze, reboot, redeploy, Spot eviction, deletion)
    from the Scheduled Events endpoint inside the VM.
  - All VMs of an availability set or of a placement group read the same document, so most of its events can name other
    VMs. By default the module returns only events that name this VM.
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.filters
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.reads
  - maintops.scheduled_events._imds.group
  - maintops.scheduled_events._imds.anywhere
seealso:
  - module: maintops.scheduled_events.scheduled_events_wait
  - module: maintops.scheduled_events.scheduled_event_approve
  - name: Scheduled Events for Linux VMs
    description: Microsoft's documentation of the service.
    link: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

EXAMPLES = r"""
- name: Read the events that name this VM
  maintops.scheduled_events.scheduled_events_info:
  register: maintenance

- name: Show the announced events
  ansible.builtin.debug:
    msg: "{{ item.event_type }} not before {{ item.not_before }}"
  loop: "{{ maintenance.events }}"

- name: Read the reboots and redeployments of the whole availability set that have not started
  maintops.scheduled_events.scheduled_events_info:
    scope: all
    event_types: [Reboot, Redeploy]
    event_statuses: [Scheduled]

- name: Read from the emulator on the control node
  maintops.scheduled_events.scheduled_events_info:
    endpoint: http://127.0.10.1:8169
  delegate_to: localhost
"""

RETURN = r"""
events:
  description:
    - The events that the filters select, in the order of the document.
    - A field that the event lacks is V(null). A field whose value cannot be read is V(null) as well, and causes a
      warning.
    - In texts, control characters are replaced. Texts that are much longer than those of Azure are cut.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description:
        - Identity of the event in Azure. It is the same in all states of the event.
        - V(null) also for an id that cannot be sent back unchanged. Such an event cannot be acknowledged.
      returned: success
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    event_type:
      description:
        - V(Freeze), V(Reboot), V(Redeploy), V(Preempt), V(Terminate), V(SpotRebalanceRecommendation) (a hint), or a
          type that Azure added later.
      returned: success
      type: str
      sample: Redeploy
    event_status:
      description:
        - V(Scheduled), V(Started) or V(Advisory), a hint that never starts. An event that is over is no longer in the
          document.
      returned: success
      type: str
      sample: Scheduled
    event_source:
      description:
        - V(Platform), or V(User) for an event that a user of Azure caused.
      returned: success
      type: str
      sample: Platform
    resource_type:
      description: Kind of the resources.
      returned: success
      type: str
      sample: VirtualMachine
    resources:
      description: Names of the VMs that the event is about.
      returned: success
      type: list
      elements: str
      sample: [web_0, web_1]
    not_before:
      description:
        - Time before which the event does not start unless it is acknowledged, in UTC with whole seconds.
        - V(null) once the event has started, and for a date that cannot be read.
      returned: success
      type: str
      sample: '2022-04-11T22:26:58Z'
    seconds_until_not_before:
      description: Seconds from the clock of this host until RV(events[].not_before), negative if it has passed.
      returned: success
      type: float
      sample: 871.25
    description:
      description: Free text of Azure, often empty.
      returned: success
      type: str
      sample: Host server is undergoing maintenance.
    duration_in_seconds:
      description:
        - Expected duration of the interruption in seconds. V(0) means no interruption, V(-1) means that the duration is
          unknown or does not apply.
      returned: success
      type: int
      sample: 9
    affects_this_vm:
      description: Whether the event names this VM.
      returned: success
      type: bool
      sample: true
    is_leader:
      description: Whether this VM is the first VM that the event names.
      returned: success
      type: bool
      sample: true
    additional:
      description:
        - Fields that Azure added later, under Azure's names.
        - They have 16 KiB together. A field for which they leave no room, or that is nested deeper than 32 levels, is
          replaced with a text that says so.
      returned: success
      type: dict
      sample: {}
drill:
  description: Whether a drill adds an event to those of the service.
  returned: success
  type: bool
  sample: false
incarnation:
  description:
    - Incarnation of the document. It changes whenever the events change, and can go back.
    - A number. A string only if the service sent a value that is not a number. V(null) if it sent none.
  returned: success
  type: raw
  sample: 7
vm_name:
  description: Name of this VM in Azure, as events name it.
  returned: success
  type: str
  sample: web_0
api_version:
  description: Version of the service that was asked.
  returned: success
  type: str
  sample: '2020-07-01'
endpoint:
  description: Base URL of the service that was asked.
  returned: success
  type: str
  sample: http://169.254.169.254
endpoint_source:
  description:
    - How the endpoint was found. V(given) if O(endpoint) names it.
    - With O(endpoint=auto), V(default address), or C(DHCP option 245 in PATH) with the path of the lease and the DHCP
      client that wrote it.
  returned: success
  type: str
  sample: given
"""

from ..module_utils._calls import read
from ..module_utils._module import FILTER_OPTIONS, run_module


def main() -> None:
    run_module(FILTER_OPTIONS, read)


if __name__ == "__main__":
    main()
