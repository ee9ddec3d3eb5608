#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_haproxy
short_description: Take a host out of all its HAProxies until its sessions have ended, and put it back
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - It runs on the controller for the host of the play, and runs M(maintops.scheduled_events.haproxy_servers) on each
    balancer. The connections to the balancers are made of the balancers' own variables, so addresses, ports, users and
    keys may be made from names.
  - A balancer that cannot be reached fails the task and is named. The host of the play never counts as unreachable for
    it.
  - What was found and for whom the host is drained is remembered as M(maintops.scheduled_events.load_balancer_record)
    does it.
  - The role P(maintops.scheduled_events.load_balancer#role) is built on it.
options:
  state:
    description:
      - V(drained) takes the host out of every balancer. V(active) restores what was found.
      - V(survey) tells which servers some balancer gives no traffic.
    type: str
    choices: [drained, active, survey]
    required: true
  balancers:
    description: The balancers, as the inventory names them.
    type: list
    elements: str
    required: true
  server:
    description: Name of the host in C(haproxy.cfg). Without it, its name in the inventory.
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
      - Runtime socket of HAProxy, an absolute path or C(HOST:PORT), with C(level admin). A balancer that has the
        variable C(load_balancer_haproxy_socket) uses that one.
    type: str
    default: /run/haproxy/admin.sock
  become:
    description: Whether to become root on the balancers. A balancer that has C(ansible_become) uses that.
    type: bool
    default: true
  holder:
    description:
      - For whom the host is drained. V(active) takes back what was drained for the same holder, and the host returns
        when no holder is left.
    type: str
    default: operator
  drain_timeout:
    description: Seconds to wait until the sessions have ended, on all balancers together.
    type: float
    default: 300
  on_timeout:
    description:
      - What to do when sessions are left after O(drain_timeout). With V(fail) the task fails and names them. With
        V(continue) it names them and takes the host out. The host gets no new ones in either case.
    type: str
    choices: [fail, continue]
    default: fail
  return_timeout:
    description: Seconds to wait until the host is up, on all balancers together.
    type: float
    default: 120
  wait_at_most:
    description:
      - Seconds after which the task ends although sessions are left and O(drain_timeout) is not over, so that other
        hosts get their turn where forks are few. Run it again with RV(resume). V(0) waits to the end.
    type: float
    default: 0
  resume:
    description: The RV(resume) of the run before, of which this one is to be the continuation.
    type: dict
    default: {}
  directory:
    description: Directory on the host for C(load-balancer.json). It must survive a reboot, and is made if need be.
    type: str
    default: /var/lib/maintops
attributes:
  action:
    support: full
    description: The task runs on the controller.
  platform:
    support: full
    description: The operating systems of hosts that it can be run on. On a Windows host it fails and says so.
    platforms: posix
  check_mode:
    support: full
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    support: none
    description: Will return details on what has changed, when in diff mode.
seealso:
  - module: maintops.scheduled_events.haproxy_servers
  - module: maintops.scheduled_events.load_balancer_record
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
  description: What there is to say; empty if there is nothing.
  returned: O(state=drained) or O(state=active)
  type: str
  sample: stays drained for respond
resume:
  description: Empty if there is nothing left to wait for; otherwise what the next run needs as O(resume).
  returned: O(state=drained) or O(state=active)
  type: dict
  sample: {}
out:
  description: The names of the servers that some balancer gives no traffic.
  returned: O(state=survey)
  type: list
  elements: str
  sample: [web2]
"""
