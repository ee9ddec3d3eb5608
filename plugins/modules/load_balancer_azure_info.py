#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_azure_info
short_description: "Internal: read which hosts get no traffic through their pools of Azure"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - A host is out if it is not a member of one of its pools, or if its admin state in a pool of Azure Load Balancer is
    V(Down).
  - The module reads each pool once for all hosts. All hosts of a run share the results for 15 seconds.
  - The pools of each host, and its network interfaces and addresses, are the variables C(load_balancer_azure_pools),
    C(load_balancer_azure_network_interfaces) and C(load_balancer_azure_addresses) of the role
    P(maintops.scheduled_events.load_balancer#role) on that host.
  - Azure does not show there whether the health probe of a balancer finds a host healthy.
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module.
options:
  provider:
    description: The product that the pools belong to.
    type: str
    choices: [azure_load_balancer, azure_application_gateway]
    required: true
  hosts:
    description: Inventory names of the hosts.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - maintops.scheduled_events._imds.reads
  - maintops.scheduled_events._azure
seealso:
  - module: maintops.scheduled_events.load_balancer_azure_load_balancer
  - module: maintops.scheduled_events.load_balancer_azure_application_gateway
"""

EXAMPLES = r"""
- name: Read which hosts are out of their pools
  maintops.scheduled_events.load_balancer_azure_info:
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
  description: Names of the hosts that get no traffic through at least one of their pools.
  returned: success
  type: list
  elements: str
  sample: [web2]
unknown:
  description: Names of the hosts that have no pools, or neither network interfaces nor addresses to find them by.
  returned: success
  type: list
  elements: str
  sample: []
"""
