#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_azure_application_gateway
short_description: Take a host out of backend pools of Application Gateway, and put it back
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - V(drained) removes the host from each pool, V(active) adds again what was found.
  - IP addresses and names are removed from the gateway, in one write for all hosts of a batch. Where the member is a
    network interface or an instance of a scale set, that one is written, so there is one write for each.
  - It waits until Azure has carried out the change, and then as long as O(drain_time) gives requests to end. A negative
    number stands for the longest drain timeout of the backend settings that are used with the pool; Azure gives 30
    seconds where connection draining is not enabled.
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
