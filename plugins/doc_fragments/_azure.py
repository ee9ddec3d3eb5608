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
      - Common options of the modules of C(azure.azcollection), such as C(auth_source), C(profile), C(subscription_id),
        C(client_id), C(secret), C(tenant) or C(cloud_environment).
      - C(cloud_environment) is C(AzureCloud), C(AzureUSGovernment) or C(AzureChinaCloud). The default is the value of
        the environment variable C(AZURE_CLOUD_ENVIRONMENT) on the control node, or C(AzureCloud).
      - Without this option, these modules use their default sources. They are the environment (C(AZURE_CLIENT_ID) and
        so on), C(~/.azure/credentials), and the Azure CLI. C(auth_source=msi) uses the managed identity of the
        O(control_node).
    type: dict
    default: {}
  control_node:
    description:
      - Inventory name of the host that gets the token for Azure Resource Manager, for example with its managed
        identity. The control node sends the requests.
    type: str
    default: localhost
  operation_timeout:
    description:
      - Seconds in which Azure must carry out one change. If Azure refuses a request because there were too many, the
        module repeats the request within this time, after the pause that Azure requests.
    type: float
    default: 900
requirements:
  - python >= 3.10 (on the control node)
  - azure.azcollection >= 2.1.0 (collection on the control node, its Python requirements on O(control_node))
notes:
  - The module gets a token with M(azure.azcollection.azure_rm_accesstoken_info), and sends its requests itself. It
    follows no redirect.
  - The module was tested against a simulation that follows the documentation of Azure, not against Azure itself.
attributes:
  action:
    support: full
    description: The task runs on the control node.
"""
