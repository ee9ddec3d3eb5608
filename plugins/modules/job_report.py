#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_report
short_description: "Internal: add the result of a host to the artifacts of the job"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Adds the result of a host to the artifacts of a job, like M(ansible.builtin.set_stats). AWX and Automation Platform
    show the artifacts on the page of the job, and pass them to the next jobs of a workflow as the variable
    C(scheduled_events_report).
  - The module shows a summary when all hosts of the play have reported. Unreachable hosts report nothing. Without
    O(kind), the module shows the summary if it has not been shown yet.
  - Put the task under C(always), so that hosts that failed are reported, too. The roles and playbooks of this
    collection use this module.
  - The module also returns the keys of O(result), so that the registered result can replace the original one.
options:
  kind:
    description:
      - Kind of O(result). Leave the option out to show the summary of the previous plays.
      - V(events) is the result of M(maintops.scheduled_events.scheduled_events_info).
      - V(maintenance) is the fact C(rolling_maintenance_result) of the role
        P(maintops.scheduled_events.rolling_maintenance#role).
      - V(respond) is the fact C(respond_result) of the role P(maintops.scheduled_events.respond#role).
    type: str
    choices:
      - events
      - maintenance
      - respond
  result:
    description: The result of the host. Leave the option out for a host that failed before it had a result.
    type: dict
  more_follows:
    description: Whether a later task of the play reports on this host again.
    type: bool
    default: false
requirements:
  - python >= 3.10 (on the control node)
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
attributes:
  action:
    description: The module runs only on the control node.
    support: full
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - The module changes nothing.
  idempotent:
    support: full
    details:
      - The module changes nothing.
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

- name: Show the summary
  hosts: web
  gather_facts: false
  tasks:
    - name: Show the summary if hosts became unreachable
      maintops.scheduled_events.job_report:
      run_once: true
"""

RETURN = r"""
summary:
  description: The lines of the summary; empty unless this task shows the summary.
  returned: success
  type: list
  elements: str
  sample:
    - 'Summary of 1 host:'
    - '  Reboot C7061BAC-AFDC-4513-B24B-AA5F13A16123: acknowledged by web1 at 2026-11-21T09:00:00Z'
    - '    web1: seen as Scheduled, prepared, acknowledged 590 s before NotBefore, over, recovered'
"""
