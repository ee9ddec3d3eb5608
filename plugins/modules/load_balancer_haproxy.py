#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_haproxy
short_description: "Internal: drain a host on all its HAProxy balancers, and put it back"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The module runs on the control node for the host of the play, and runs M(maintops.scheduled_events.haproxy_servers)
    on each balancer. The runtime sockets must have C(level admin).
  - The state before the change, and the holders for whom the host is drained, are recorded with
    M(maintops.scheduled_events.load_balancer_record).
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module.
options:
  state:
    description:
      - V(drained) takes the host out of every balancer. V(active) restores the state that the module found before.
    type: str
    choices: [drained, active]
    required: true
  server:
    description: Name of the host in C(haproxy.cfg). The default is its name in the inventory.
    type: str
  backends:
    description:
      - Only these backends. Empty means every backend that the host is in. Each must have the host on at least one
        balancer.
    type: list
    elements: str
    default: []
  holder:
    default: operator
  drain_timeout:
    description:
      - Seconds to wait until the sessions have ended, on all balancers together, from the moment when all balancers
        send no new sessions.
    type: float
    default: 300
  on_timeout:
    description:
      - What to do when sessions remain after O(drain_timeout). With V(fail) the task fails and names the sessions. With
        V(continue) the task names the sessions and takes the host out. The host gets no new sessions in either case.
    type: str
    choices: [fail, continue]
    default: fail
  return_timeout:
    description: Seconds to wait until the host is up, on all balancers together.
    type: float
    default: 120
  directory:
    type: str
requirements:
  - python >= 3.6 (on the host, except for Windows hosts)
extends_documentation_fragment:
  - maintops.scheduled_events._balancing
  - maintops.scheduled_events._haproxy.balancers
seealso:
  - module: maintops.scheduled_events.haproxy_servers
  - module: maintops.scheduled_events.load_balancer_haproxy_info
"""

EXAMPLES = r"""
- name: Take the host out of both balancers
  maintops.scheduled_events.load_balancer_haproxy:
    state: drained
    balancers: [lb1, lb2]
    backends: [www]

- name: Put it back
  maintops.scheduled_events.load_balancer_haproxy:
    state: active
    balancers: [lb1, lb2]
    backends: [www]
"""

RETURN = r"""
msg:
  description: Message about the result; empty if there is none.
  returned: success
  type: str
  sample: stays drained for respond
resume:
  description: Value of O(resume) for the next run; empty if the module need not run again.
  returned: success
  type: dict
  sample: {}
"""
