#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_gate
short_description: Wait until a batch of a rolling maintenance may begin
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Runs M(maintops.scheduled_events.maintenance_survey) once on each host of the fleet, on as many hosts at the same
    time as the number of forks allows. Each host is reached over its own connection, with its own variables.
  - The hosts of the batch are marked as under maintenance before the fleet is examined. While the gate stays shut, the
    marks are removed.
  - The endpoint, the state directory, and the tasks files are taken from the variables of the role on each host.
  - Use the module in a task with C(run_once), so that the decision covers the whole batch. Read the decision for each
    host with M(maintops.scheduled_events.maintenance_gate_info) in the next task.
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module.
options:
  fleet:
    description: The hosts that share O(max_unavailable). Empty means all hosts of the play.
    type: list
    elements: str
    default: []
  max_unavailable:
    description: Number or percentage of hosts that may be unavailable at the same time.
    type: str
    default: '1'
  on_event:
    description: Handling of a host of the batch that an event names.
    type: str
    choices: [wait, skip, respond, fail]
    default: wait
  timeout:
    description: Seconds to wait until the gate opens.
    type: float
    default: 3600
  settle:
    description: Seconds for which the gate stays shut after an event has ended.
    type: float
    default: 60
  name:
    description: Name of the maintenance. Without this option, it is a digest of its tasks files.
    type: str
  resume_within:
    description:
      - If a run stops before all hosts are maintained, the next run leaves out the hosts that had finished. This option
        is the number of seconds for which it does so.
    type: float
    default: 86400
  hosts_without_traffic:
    description:
      - Hosts that receive no traffic from a load balancer.
      - When this option is set, the gate returns at intervals with RV(open=false), so that the caller can read the list
        again.
    type: list
    elements: str
  checked_hosts:
    description:
      - Hosts whose maintenance was interrupted, and at which an operator has looked. They no longer count as
        unavailable for this reason.
    type: list
    elements: str
    default: []
  allow_skip_tags:
    description:
      - Whether a run whose tags may leave out tasks counts as the maintenance. Otherwise it is a separate maintenance,
        and a later run without these tags maintains the hosts again.
    type: bool
    default: false
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
    details:
      - The module examines the fleet once and does not wait.
  diff_mode:
    support: N/A
    details:
      - The module makes no lasting change.
  idempotent:
    support: full
    details:
      - The module makes no lasting change.
seealso:
  - module: maintops.scheduled_events.maintenance_gate_info
  - module: maintops.scheduled_events.maintenance_survey
  - module: maintops.scheduled_events.maintenance_mark
"""

EXAMPLES = r"""
- name: Wait until the batch may begin
  maintops.scheduled_events.maintenance_gate:
    fleet: "{{ groups['web'] }}"
    max_unavailable: 25%
  run_once: true

- name: Read the decision for this host
  maintops.scheduled_events.maintenance_gate_info:
  register: gate
"""

RETURN = r"""
open:
  description: Whether the batch may begin.
  returned: success
  type: bool
  sample: true
batch:
  description: The hosts of the batch that are to be maintained.
  returned: success
  type: list
  elements: str
  sample: [web1]
done:
  description: The hosts of the batch that an earlier, interrupted run has maintained.
  returned: success
  type: list
  elements: str
  sample: []
left_out:
  description: The hosts of the batch that are left out because of an event.
  returned: success
  type: list
  elements: str
  sample: []
respond:
  description: The hosts of the batch that must respond to events before they are maintained.
  returned: success
  type: list
  elements: str
  sample: []
waits_for:
  description: The reasons that keep the gate shut.
  returned: success
  type: list
  elements: str
  sample: ['web2 (Reboot Scheduled, NotBefore 2026-11-21T09:00:00Z)']
msg:
  description: The decision as a sentence.
  returned: success
  type: str
  sample: 'web1: goes ahead'
"""
