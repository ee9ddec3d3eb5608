#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_gate_info
short_description: Read what the gate of a rolling maintenance decided for a host
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Returns what M(maintops.scheduled_events.maintenance_gate) last decided for this host in this play. Run the gate
    first; without a decision the module fails.
  - Use the module without C(run_once). With C(run_once) Ansible registers each result for all hosts. Under a strategy
    that runs the gate for each host, such as C(free), the registered result of the gate may belong to another host.
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module.
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.reads
attributes:
  action:
    description: The task runs on the control node.
    support: full
  platform:
    description: Operating systems of the hosts that the module can run for.
    support: full
    platforms: posix, windows
seealso:
  - module: maintops.scheduled_events.maintenance_gate
"""

EXAMPLES = r"""
- name: Read the decision for this host
  maintops.scheduled_events.maintenance_gate_info:
  register: gate

- name: Update the packages
  ansible.builtin.package:
    name: '*'
    state: latest
  when: inventory_hostname in gate.decision.batch
"""

RETURN = r"""
decision:
  description:
    - The values that M(maintops.scheduled_events.maintenance_gate) returned for the batch of this host, such as
      RV(maintops.scheduled_events.maintenance_gate#module:open) and
      RV(maintops.scheduled_events.maintenance_gate#module:batch).
  returned: success
  type: dict
  sample: {open: true, batch: [web1], done: [], left_out: [], respond: [], waits_for: [], msg: 'web1: goes ahead'}
"""
