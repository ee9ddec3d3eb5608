#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_azure_load_balancer
short_description: Take a host out of backend pools of Azure Load Balancer, and put it back
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - V(drained) sets the admin state of the host in each pool to V(Down). It gets no new connections, and established TCP
    connections go on. V(active) restores the admin state that was found. Membership is never changed, so it is the same
    for pools of network interfaces, of IP addresses, and of scale sets.
  - It waits until Azure has carried out the change, and then as long as O(drain_time) gives connections to end. A
    negative number stands for the drain period of the pool, or 60 seconds where it has none.
  - Azure honours the admin state only in rules with a health probe, so a pool with another rule is refused. Inbound NAT
    rules do not honour it either.
  - All hosts of a batch that want something of the same resource are carried out in one write. What is read is shared
    by the hosts of a run.
  - What was found and for whom the host is drained is remembered as M(maintops.scheduled_events.load_balancer_record)
    does it.
  - The role P(maintops.scheduled_events.load_balancer#role) is built on it.
extends_documentation_fragment:
  - maintops.scheduled_events.azure
  - maintops.scheduled_events.azure.pools
"""

EXAMPLES = r"""
- name: Take the host out
  maintops.scheduled_events.load_balancer_azure_load_balancer:
    state: drained
    pools:
      - "/subscriptions/{{ subscription }}/resourceGroups/shop/providers/Microsoft.Network/\
        loadBalancers/lb/backendAddressPools/www"
    network_interfaces: '{{ network_interface_id }}'
    addresses: '{{ private_ipv4_addresses }}'
    credentials:
      auth_source: msi

- name: Put it back
  maintops.scheduled_events.load_balancer_azure_load_balancer:
    state: active
    pools:
      - "/subscriptions/{{ subscription }}/resourceGroups/shop/providers/Microsoft.Network/\
        loadBalancers/lb/backendAddressPools/www"
    credentials:
      auth_source: msi
"""

RETURN = r"""
msg:
  description: What there is to say; empty if there is nothing.
  returned: success
  type: str
  sample: stays drained for respond
resume:
  description: Empty if there is nothing left to wait for; otherwise what the next run needs as O(resume).
  returned: success
  type: dict
  sample: {}
"""
