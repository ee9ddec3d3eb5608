#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_report
short_description: Leave what became of a host in the artifacts of the job
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Adds what became of a host to the artifacts of a job, as M(ansible.builtin.set_stats) does. AWX and Automation
    Platform show them on the page of the job, and give them to the next jobs of a workflow as the variable
    C(scheduled_events_report).
  - When all hosts of the play have done so, the summary is shown. Without O(kind) it is shown if it has not been, since
    hosts that are unreachable report nothing.
  - The roles and playbooks of this collection use it. Put it under C(always), so that hosts that failed are reported,
    too.
  - It returns the keys of O(result) besides its own, so that the registered result can stand for it.
options:
  kind:
    description: What O(result) is. Leave it out to show the summary of the plays before.
    type: str
    choices:
      events: The result of M(maintops.scheduled_events.scheduled_events_info).
      maintenance: The fact C(maintenance_result) of the role P(maintops.scheduled_events.rolling_maintenance#role).
      respond: The fact C(respond_result) of the role P(maintops.scheduled_events.respond#role).
  result:
    description: What became of the host. Leave it out for a host that failed before it had a result.
    type: dict
  more_follows:
    description: Whether another task of the play reports more of this host.
    type: bool
    default: false
extends_documentation_fragment:
  - maintops.scheduled_events.imds.attributes
attributes:
  action:
    description: It runs on the controller alone.
    support: full
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
seealso:
  - module: ansible.builtin.set_stats
"""

EXAMPLES = r"""
- name: Read and report
  hosts: web
  gather_facts: false
  tasks:
    - name: Read the events
      block:
        - name: Read
          maintops.scheduled_events.scheduled_events_info:
          register: read
      always:
        - name: Report
          maintops.scheduled_events.job_report:
            kind: events
            result: "{{ read }}"
          become: false

- name: Sum up
  hosts: web
  gather_facts: false
  tasks:
    - name: Show the summary if hosts were lost
      maintops.scheduled_events.job_report:
      run_once: true
"""

RETURN = r"""
summary:
  description: The lines of the summary; empty unless it is shown now.
  returned: success
  type: list
  elements: str
  sample:
    - 'Summary of 1 host:'
    - '  Reboot C7061BAC-AFDC-4513-B24B-AA5F13A16123: acknowledged by web1 at 2026-11-21T09:00:00Z'
    - '    web1: seen as Scheduled, prepared, acknowledged 590 s before NotBefore, gone, recovered'
"""
