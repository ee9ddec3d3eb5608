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
  - Asks all hosts of the fleet at the same time, as far as the number of forks allows, each with one run of
    M(maintops.scheduled_events.maintenance_survey). Each host is reached over a connection of its own, with its own
    variables.
  - The hosts of the batch are marked as under maintenance before the look. While the gate stays shut, they are not.
  - The role P(maintops.scheduled_events.rolling_maintenance#role) is built on it.
  - Where the endpoint, the state directory, and the tasks files are, it takes from the variables of the role on each
    host.
options:
  fleet:
    description: The hosts that share the budget. Empty means all hosts of the play.
    type: list
    elements: str
    default: []
  max_unavailable:
    description: Number or percentage of hosts that may be unavailable at the same time.
    type: str
    default: '1'
  on_event:
    description: What to do with a host of the batch that has an event itself.
    type: str
    choices: [wait, skip, respond, fail]
    default: wait
  timeout:
    description: Seconds to wait until the gate opens.
    type: float
    default: 3600
  settle:
    description: Seconds that the gate stays shut after an event has left.
    type: float
    default: 60
  name:
    description: Name of the maintenance. Empty means a digest of its tasks files.
    type: str
    default: ''
  resume_within:
    description: Seconds for which a host that was done, in a run that stopped, is not done again.
    type: float
    default: 86400
  out:
    description:
      - Hosts that a load balancer gives no traffic. When it is set, the gate returns now and then with RV(open=false),
        so that the caller can read it again.
    type: list
    elements: str
  state:
    description:
      - V(passed) waits at the gate. It is for a task with C(run_once), so that it decides for the whole batch.
      - V(decided) does not wait, and returns what the gate decided for this host. It is for the task that follows,
        without C(run_once). With C(run_once) Ansible registers each result for all hosts, so under a strategy that
        runs the gate for each host, such as C(free), the registered result may be that of another host.
    type: str
    choices: [passed, decided]
    default: passed
extends_documentation_fragment:
  - maintops.scheduled_events.imds.attributes
  - maintops.scheduled_events.imds.posix
attributes:
  check_mode:
    support: full
    details:
      - It looks once and does not wait.
  diff_mode:
    support: N/A
    details:
      - It changes nothing that lasts.
  idempotent:
    support: full
    details:
      - It changes nothing that lasts.
seealso:
  - module: maintops.scheduled_events.maintenance_survey
  - module: maintops.scheduled_events.maintenance_mark
"""

EXAMPLES = r"""
- name: Wait until the batch may begin
  maintops.scheduled_events.maintenance_gate:
    fleet: "{{ groups['web'] }}"
    max_unavailable: 25%
  run_once: true

- name: Read what it decided for this host
  maintops.scheduled_events.maintenance_gate:
    state: decided
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
  description: The hosts of the batch that were done before, in a run that stopped.
  returned: success
  type: list
  elements: str
  sample: []
left_out:
  description: The hosts of the batch that are left out for an event.
  returned: success
  type: list
  elements: str
  sample: []
respond:
  description: The hosts of the batch that are to respond to events first.
  returned: success
  type: list
  elements: str
  sample: []
waits_for:
  description: What keeps the gate shut.
  returned: success
  type: list
  elements: str
  sample: ['web2 (Reboot Scheduled, NotBefore 2026-11-21T09:00:00Z)']
msg:
  description: The same as a sentence.
  returned: success
  type: str
  sample: 'web1: goes ahead'
"""
