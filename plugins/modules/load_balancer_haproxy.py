#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_haproxy
short_description: Drain a host on all its HAProxy balancers, and put it back
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The module runs on the controller for the host of the play, and runs M(maintops.scheduled_events.haproxy_servers) on
    each balancer. The connection to a balancer uses the variables of that balancer, so these may contain templates for
    addresses, ports, users and keys.
  - The task fails if a balancer cannot be reached, and its message names the balancer. The host of the play does not
    count as unreachable then.
  - The state before the change, and the holders for whom the host is drained, are recorded with
    M(maintops.scheduled_events.load_balancer_record).
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module.
options:
  state:
    description:
      - V(drained) takes the host out of every balancer. V(active) restores the state that the module found before.
      - V(survey) returns the servers that get no traffic from at least one balancer.
    type: str
    choices: [drained, active, survey]
    required: true
  balancers:
    description: Inventory names of the balancers.
    type: list
    elements: str
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
  socket:
    description:
      - Runtime socket of HAProxy, an absolute path or C(HOST:PORT), with C(level admin).
      - If a balancer has the variable C(load_balancer_haproxy_socket), its value is used for that balancer.
    type: str
    default: /run/haproxy/admin.sock
  become:
    description:
      - Whether to become root on the balancers.
      - If a balancer has the variable C(ansible_become), its value is used for that balancer.
    type: bool
    default: true
  holder:
    default: operator
  drain_timeout:
    description: Seconds to wait until the sessions have ended, on all balancers together.
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
  - python >= 3.10 (on the controller)
  - python >= 3.6 (on the balancers and on the host)
extends_documentation_fragment:
  - maintops.scheduled_events._balancing
attributes:
  action:
    support: full
    description: The task runs on the controller.
  platform:
    support: full
    description: Operating systems of the hosts that the module can run for. Its balancers must not be Windows hosts.
    platforms: posix, windows
  check_mode:
    support: full
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    support: none
    description: Will return details on what has changed, when in diff mode.
seealso:
  - module: maintops.scheduled_events.haproxy_servers
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
  returned: O(state=drained) or O(state=active)
  type: str
  sample: stays drained for respond
resume:
  description: Value of O(resume) for the next run; empty if the module need not run again.
  returned: O(state=drained) or O(state=active)
  type: dict
  sample: {}
out:
  description: Names of the servers that get no traffic from at least one balancer.
  returned: O(state=survey)
  type: list
  elements: str
  sample: [web2]
"""
