#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_info
short_description: "Internal: read which hosts get no traffic from their load balancers"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module.
  - With O(provider=haproxy), a host is out if at least one of its balancers gives it no traffic. They are those of the
    variable C(load_balancer_haproxy_hosts) of the host, or O(balancers) without it. Its server has the name in the
    variable C(load_balancer_haproxy_server) of the host. If its variable C(load_balancer_haproxy_backends) names
    backends, only these count. Two hosts that are the same server of a balancer are refused. The runtime sockets need
    no C(level admin).
  - With the providers of Azure, a host is out if it is not a member of one of its pools, or if its admin state in a
    pool of Azure Load Balancer is V(Down). Its pools, and its network interfaces and addresses, are the variables
    C(load_balancer_azure_pools), C(load_balancer_azure_network_interfaces) and C(load_balancer_azure_addresses) of the
    host. Two hosts that are the same member of a pool are refused. The module reads each pool once for all hosts. All
    hosts of a run share the results for 15 seconds. Azure does not show there whether the health probe of a balancer
    finds a host healthy.
options:
  provider:
    description: The product that the hosts are behind.
    type: str
    choices: [haproxy, azure_load_balancer, azure_application_gateway]
    required: true
  hosts:
    description: Inventory names of the hosts.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.reads
  - maintops.scheduled_events._azure
  - maintops.scheduled_events._haproxy.balancers
seealso:
  - module: maintops.scheduled_events.haproxy_servers_info
  - module: maintops.scheduled_events.load_balancer
"""

EXAMPLES = r"""
- name: Read which hosts are out of their pools
  maintops.scheduled_events.load_balancer_info:
    provider: azure_load_balancer
    hosts: "{{ groups['web'] }}"
    credentials:
      auth_source: msi
  register: found
  run_once: true

- name: Show them
  ansible.builtin.debug:
    msg: "{{ found.hosts_without_traffic }}"
"""

RETURN = r"""
hosts_without_traffic:
  description: Names of the hosts that get no traffic from at least one balancer or through at least one of their pools.
  returned: success
  type: list
  elements: str
  sample: [web2]
unknown:
  description:
    - Names of the hosts that have no pools, or neither network interfaces nor addresses to find them by. With
      O(provider=haproxy), names of those that are a server of no balancer in these backends.
  returned: success
  type: list
  elements: str
  sample: []
"""
