#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_report
short_description: Write a report of past maintenances
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Puts the histories of the hosts of the play together, and writes a report on the control node. It shows for each
    event and VM when the event was announced, when the VM was prepared, who acknowledged, when Azure started and ended
    the maintenance, the margin before NotBefore, and what went wrong.
  - Read the histories with M(maintops.scheduled_events.scheduled_events_history_info) first, and register the result
    under the name in O(variable). Use this module with C(run_once).
  - The playbook C(maintops.scheduled_events.report) does both.
options:
  variable:
    description: Name of the variable in which each host registered its history.
    type: str
    required: true
  html:
    description:
      - Path of a page that refers to no other file and needs no script. It has 256 KiB at most. Events that do not fit
        are counted, the oldest first.
    type: path
  json:
    description: Path of a JSON file with all events.
    type: path
  otlp:
    description:
      - Path of a JSON file with spans of OpenTelemetry, which the receiver C(otlpjsonfile) of a collector reads. All
        VMs of an event have the same trace.
    type: path
  junit:
    description:
      - Path of an XML file in the format of JUnit, for CI. A VM that needs a look is a failure. A VM whose event is not
        finished is skipped.
    type: path
  audit:
    description:
      - Compares the histories with the Scheduled Events and the policies that Azure Resource Graph has. The page and
        the JSON file get a section with the events that a host did not hear, prepare for or acknowledge, and with what
        the policies hide. Resource Graph shows only events of VMs whose policy publishes them.
      - The variable C(scheduled_events_vm_name) of a host names its VM. Without it, the history does, or else the host
        has the name of the VM.
      - Resource Graph is only read. Its table of Scheduled Events is a preview of Azure.
    type: dict
    suboptions:
      subscriptions:
        description: Ids of the subscriptions of the VMs.
        type: list
        elements: str
        required: true
      days:
        description: Days for which events count, by their NotBefore. An event without a NotBefore always counts.
        type: float
        default: 30
      credentials:
        description: As in M(maintops.scheduled_events.scheduled_event_approve_arm).
        type: dict
        default: {}
      control_node:
        description: As in M(maintops.scheduled_events.scheduled_event_approve_arm).
        type: str
        default: localhost
      operation_timeout:
        description: Seconds in which a query that Azure refuses for the moment is repeated.
        type: float
        default: 900
requirements:
  - python >= 3.10 (on the control node)
  - azure.azcollection >= 2.1.0 (only with O(audit))
notes:
  - With O(audit), the module was tested against a simulation that follows the documentation of Azure, not against Azure
    itself.
  - The files are replaced as a whole. Their owner and group can read them, and no other user.
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
attributes:
  action:
    description: The module runs only on the control node.
    support: full
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - The page and the JSON file name the time at which they were made.
  platform:
    description: The module runs only on the control node.
    support: full
    platforms: posix
seealso:
  - module: maintops.scheduled_events.scheduled_events_history_info
"""

EXAMPLES = r"""
- name: Report the maintenances of the last 90 days
  hosts: web
  gather_facts: false
  tasks:
    - name: Read the histories
      maintops.scheduled_events.scheduled_events_history_info:
      become: true
      register: history

    - name: Write the report
      maintops.scheduled_events.scheduled_events_report:
        variable: history
        html: /tmp/maintenance.html
      run_once: true
"""

RETURN = r"""
verdict:
  description: The report in some sentences.
  returned: success
  type: str
  sample: '2 events, no problem. Smallest margin before NotBefore: 748.7 s (Redeploy).'
good:
  description:
    - Whether nothing went wrong and no history is incomplete. RV(verdict) names the events that are not finished; they
      can still go wrong.
  returned: success
  type: bool
  sample: true
files:
  description: Paths of the files that were written.
  returned: success
  type: list
  elements: str
  sample: [/tmp/maintenance.html]
audit:
  description:
    - The result of O(audit), or null without it. C(findings) has a C(problem) for an event and a host. C(coverage) has
      names of hosts. C(policies) has what policies mean, each with its hosts. C(unreadable) says which rows cannot be
      read.
  returned: success
  type: dict
  sample:
    verdict: Azure published 1 event of these hosts. The audit found 1 problem, on web2.
    event_count: 1
    findings:
      - event_id: c7061bac-afdc-4513-b24b-aa5f13a16123
        event_type: Redeploy
        event_status: Completed
        host: web2
        problem: it was not heard
    coverage:
      hosts: [web1, web2]
      found_in_azure: [web1, web2]
      published_by_policy: [web1, web2]
      history_read: [web1, web2]
      named_by_events: [web1, web2]
      heard_all_of_them: [web1]
      vms_without_a_host: []
    policies:
      - policy: 'terminate notification is off: no Terminate event'
        hosts: [web1, web2]
    unreadable: []
"""
