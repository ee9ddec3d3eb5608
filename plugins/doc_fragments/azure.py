# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Options of everything that talks to Azure Resource Manager
    DOCUMENTATION = r"""
options:
  credentials:
    description:
      - Options that the modules of C(azure.azcollection) have in common, such as C(auth_source), C(profile),
        C(subscription_id), C(client_id), C(secret), C(tenant) or C(cloud_environment).
      - Without them those modules look at the environment (C(AZURE_CLIENT_ID) and so on), at C(~/.azure/credentials)
        and at the Azure CLI, as they always do. C(auth_source=msi) uses the managed identity of the controller.
    type: dict
    default: {}
  controller:
    description: The host that talks to Azure Resource Manager, as the inventory names it.
    type: str
    default: localhost
  operation_timeout:
    description:
      - Seconds for one change, until Azure has carried it out. A request that Azure refuses because there were too many
        is repeated after the pause that Azure asks for, within the same time.
    type: float
    default: 900
requirements:
  - The collection C(azure.azcollection) and its Python requirements, on O(controller)
notes:
  - It sends its requests with M(azure.azcollection.azure_rm_resource) and M(azure.azcollection.azure_rm_resource_info).
  - It was tried against a stand-in that was written after the documentation of Azure, not against Azure itself.
attributes:
  action:
    support: full
    description: The task runs on the controller.
  diff_mode:
    support: none
    description: Will return details on what has changed, when in diff mode.
"""

    POOLS = r"""
options:
  state:
    description: V(drained) takes the host out of every pool. V(active) restores what was found.
    type: str
    choices: [drained, active]
    required: true
  pools:
    description: Ids of the backend pools. The host must be a member of each.
    type: list
    elements: str
    required: true
  network_interfaces:
    description:
      - Ids of the network interfaces of the host, by which it is found in pools of network interfaces.
      - The inventory plugin P(azure.azcollection.azure_rm#inventory) gives them as C(network_interface_id), for
        instances of scale sets, too.
    type: list
    elements: str
    default: []
  addresses:
    description:
      - Private IP addresses of the host, by which it is found in pools of addresses.
      - The inventory plugin P(azure.azcollection.azure_rm#inventory) gives them as C(private_ipv4_addresses).
    type: list
    elements: str
    default: []
  holder:
    description:
      - For whom the host is drained. V(active) takes back what was drained for the same holder, and the host returns
        when no holder is left.
    type: str
    default: operator
  drain_timeout:
    description:
      - Seconds for the whole drain. Connections that got less time than O(drain_time) for it count as not ended.
    type: float
    default: 300
  drain_time:
    description:
      - Seconds that connections get to end once Azure has taken the host out. From outside nobody can count them.
      - A negative number stands for what Azure gives. See the description of the module.
    type: float
    default: -1
  on_timeout:
    description:
      - What to do when connections got less time than O(drain_time). With V(fail) the task fails. With V(continue) it
        shows how much they got. The host gets no new ones in either case.
    type: str
    choices: [fail, continue]
    default: fail
  wait_at_most:
    description:
      - Seconds to wait at a stretch, so that other hosts get their turn where forks are few. Run it again with
        RV(resume). V(0) waits to the end.
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
  check_mode:
    support: full
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
seealso:
  - module: maintops.scheduled_events.load_balancer_record
  - module: azure.azcollection.azure_rm_resource
"""
