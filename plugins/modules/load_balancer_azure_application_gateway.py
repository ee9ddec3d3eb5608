#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_azure_application_gateway
short_description: "Internal: take a host out of backend pools of Application Gateway, and put it back"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - V(drained) removes the host from each pool. V(active) restores the membership that the module found before.
  - IP addresses and names are removed from the gateway, in one write for all hosts of a batch. If the member is a
    network interface or an instance of a scale set, the module writes that resource, once for each member.
  - The module waits until Azure has carried out the change, and then for O(drain_time), so that requests can end.
    Without O(drain_time), it waits for the longest drain timeout of the backend settings that are used with the pool.
    If connection draining is not enabled there, Azure uses 30 seconds.
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
  maintops.scheduled_events.load_balancer_azure_application_gateway:
    state: drained
    pools:
      - "/subscriptions/{{ subscription }}/resourceGroups/shop/providers/Microsoft.Network/\
        applicationGateways/gw/backendAddressPools/www"
    network_interfaces: '{{ network_interface_id }}'
    addresses: '{{ private_ipv4_addresses }}'
    credentials:
      auth_source: msi

- name: Put it back
  maintops.scheduled_events.load_balancer_azure_application_gateway:
    state: active
    pools:
      - "/subscriptions/{{ subscription }}/resourceGroups/shop/providers/Microsoft.Network/\
        applicationGateways/gw/backendAddressPools/www"
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
