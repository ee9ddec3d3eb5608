#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_azure_load_balancer
short_description: "Internal: take a host out of backend pools of Azure Load Balancer, and put it back"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - V(drained) sets the admin state of the host in each pool to V(Down). The host then gets no new connections, and
    established TCP connections continue. V(active) restores the admin state that the module found before. The module
    never changes the membership of a pool, so it works in the same way for pools of network interfaces, of IP
    addresses, and of scale sets.
  - The module waits until Azure has carried out the change, and then for O(drain_time), so that connections can end.
    Without O(drain_time), it waits for the drain period of the pool, or for 60 seconds if the pool has none.
  - Azure honours the admin state only in rules with a health probe. The module fails for a pool with a rule that has
    no health probe. Inbound NAT rules do not honour the admin state.
  - Changes of several hosts of a batch to the same resource are made in one write. The hosts of a run share the
    resources that were read.
  - The state before the change, and the holders for whom the host is drained, are recorded with
    M(maintops.scheduled_events.load_balancer_record).
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module.
extends_documentation_fragment:
  - maintops.scheduled_events._azure
  - maintops.scheduled_events._azure.pools
  - maintops.scheduled_events._balancing
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
