#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_rendezvous
short_description: Let the hosts of a play meet before a Scheduled Event is acknowledged
version_added: 0.1.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - An acknowledgement counts for every VM that an event names. So it may be sent only when all of them are prepared,
    and should be sent once.
  - Each host tells with this module which VM it is, which events it sees and which of them it is prepared for. Each
    event whose VMs are all prepared is then given to exactly one host, which is to acknowledge it. That is the host
    that told last what was missing, so that nobody waits, whatever the strategy of the play and the number of forks.
  - The role P(maintops.scheduled_events.respond#role) is built on it.
  - A VM that an event names and that is no host of the play does not hold the event up. As long as some host of the
    play has not told its name, any VM that nobody knows could be that host, so the event is held.
options:
  vm_name:
    description: Name of this VM in Azure, RV(maintops.scheduled_events.scheduled_events_info#module:vm_name).
    type: str
    required: true
  endpoint:
    description: Base URL of the metadata service of this VM, for the host that is to acknowledge through it.
    type: str
    required: true
  api_version:
    description: Version in which O(events) were read.
    type: str
    required: true
  events:
    description:
      - All events that this host sees, RV(maintops.scheduled_events.scheduled_events_info#module:events) with
        O(maintops.scheduled_events.scheduled_events_info#module:scope=all).
    type: list
    elements: dict
    default: []
  prepared:
    description: Ids of the events that this host is prepared for.
    type: list
    elements: str
    default: []
  failed:
    description: Ids of the events that this host failed to prepare for.
    type: list
    elements: str
    default: []
  claim:
    description: Whether this host is ready to acknowledge. Otherwise it only tells, and learns what is held.
    type: bool
    default: true
  release:
    description:
      - Ids of the events that this host was to acknowledge and could not. The host that asks next gets them.
    type: list
    elements: str
    default: []
attributes:
  action:
    support: full
    description: The module runs on the controller.
  check_mode:
    support: full
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    details:
      - The module changes nothing on the host.
  diff_mode:
    support: N/A
    description: Will return details on what has changed, when in diff mode.
    details:
      - The module changes nothing on the host.
notes:
  - What the hosts told lasts until the end of the run of C(ansible-playbook).
seealso:
  - module: maintops.scheduled_events.scheduled_event_approve
"""

EXAMPLES = r"""
- name: Read all events in sight
  maintops.scheduled_events.scheduled_events_info:
    scope: all
  register: maintenance

- name: Prepare for those that name this VM
  ansible.builtin.include_tasks: drain.yml
  when: mine | length > 0
  vars:
    mine: "{{ maintenance.events | selectattr('affects_this_vm') }}"

- name: Tell the others, and learn what this host is to acknowledge
  maintops.scheduled_events.scheduled_events_rendezvous:
    vm_name: "{{ maintenance.vm_name }}"
    endpoint: http://169.254.169.254
    api_version: "{{ maintenance.api_version }}"
    events: "{{ maintenance.events }}"
    prepared: "{{ maintenance.events | selectattr('affects_this_vm') | map(attribute='event_id') }}"
  register: met

- name: Acknowledge
  maintops.scheduled_events.scheduled_event_approve:
    event_id: "{{ met.acknowledge | map(attribute='event_id') }}"
  when: met.acknowledge | length > 0
"""

RETURN = r"""
acknowledge:
  description: The events that this host is to acknowledge, and no other host of the run.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: Identity of the event.
      returned: success
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    senders:
      description:
        - The hosts of the play that see the event, each with its RV(acknowledge[].senders[].endpoint). The leader
          comes first if it is among them, then this host, then the others that the event names.
      returned: success
      type: list
      elements: dict
      contains:
        host:
          description: Name of the host in the inventory.
          returned: success
          type: str
          sample: web1
        endpoint:
          description: Base URL of its metadata service.
          returned: success
          type: str
          sample: http://169.254.169.254
held:
  description: The events that name this VM and that nobody is to acknowledge yet.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: Identity of the event.
      returned: success
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    reason:
      description: What the event waits for.
      returned: success
      type: str
      sample: web_1 has not prepared
"""
