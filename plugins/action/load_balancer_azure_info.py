# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.validation import check_type_list
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.action import (
    ARM_ARGUMENTS,
    ArmAction,
    resources_of_run,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.arm import ArmError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.pools import Me
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.resources import (
    ApplicationGateway,
    BalancingError,
    LoadBalancer,
    Places,
    Snapshot,
    survey,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.arguments import arguments_of
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.fleet_host import HostVariables
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import OtherHostError

PRODUCTS: dict[str, type[LoadBalancer | ApplicationGateway]] = {
    "azure_load_balancer": LoadBalancer,
    "azure_application_gateway": ApplicationGateway,
}
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    **ARM_ARGUMENTS,
    "provider": {"type": "str", "choices": [*PRODUCTS], "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
}
# Variables of the role, which may differ from host to host
POOLS, INTERFACES, ADDRESSES = (f"load_balancer_azure_{each}" for each in ("pools", "network_interfaces", "addresses"))


class ActionModule(ArmAction):
    """Read which hosts get no traffic through their pools. It runs on the control node, and on no host."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result, variables = super().run(tmp, task_vars), task_vars or {}
        arguments = arguments_of(self, ARGUMENTS)
        try:
            places = {host: self._places(host, variables) for host in dict.fromkeys(arguments["hosts"])}
            with self._arm(arguments, variables) as arm:
                resources = resources_of_run(arm, hosts=1, timeout=max(0.0, arguments["operation_timeout"]))
                traffic = survey(PRODUCTS[arguments["provider"]](Snapshot(resources)), places)
        except (ArmError, BalancingError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": False, "hosts_without_traffic": traffic.out, "unknown": traffic.unknown}

    def _places(self, host: str, task_vars: dict[str, t.Any]) -> Places:
        variables = HostVariables(self, host, task_vars)

        def names(variable: str) -> list[str]:
            try:
                return [str(each) for each in check_type_list(variables.get(variable) or []) if each]
            except (AnsibleError, TypeError) as error:
                raise OtherHostError(f"{host}: {variable}: {error}") from error

        return Places(names(POOLS), Me(names(INTERFACES), names(ADDRESSES)))
