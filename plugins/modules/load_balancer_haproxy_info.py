#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_haproxy_info
short_description: "Internal: read which hosts get no traffic from their HAProxy balancers"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Runs M(maintops.scheduled_events.haproxy_servers_info) on each balancer. The runtime sockets need no C(level admin).
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module.
extends_documentation_fragment:
  - maintops.scheduled_events._imds.reads
  - maintops.scheduled_events._haproxy.balancers
seealso:
  - module: maintops.scheduled_events.haproxy_servers_info
  - module: maintops.scheduled_events.load_balancer_haproxy
"""

EXAMPLES = r"""
- name: Read which servers get no traffic from one of the balancers
  maintops.scheduled_events.load_balancer_haproxy_info:
    balancers: [lb1, lb2]
  register: found
  run_once: true

- name: Show them
  ansible.builtin.debug:
    msg: "{{ found.servers_without_traffic }}"
"""

RETURN = r"""
servers_without_traffic:
  description: Names of the servers, as in C(haproxy.cfg), that get no traffic from at least one balancer.
  returned: success
  type: list
  elements: str
  sample: [web2]
"""
