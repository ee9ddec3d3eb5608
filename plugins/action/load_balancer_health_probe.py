# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.health_probe import OPTIONS
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.record import PUT_BACK
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.arguments import arguments_of
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.action import BalancerHosts
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.balancers import (
    Balancers,
    BalancersError,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import OtherHostError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._windows.modules import (
    HostOrHereAction,
    run_for,
)


class ActionModule(HostOrHereAction):
    """Run the module on the host. If HAProxies are given, a host is back when these send it traffic."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        variables = task_vars or {}
        arguments = arguments_of(self, OPTIONS)
        unknown = [name for name in arguments["balancers"] if name not in variables["hostvars"]]
        if unknown:
            raise AnsibleActionFail(
                f"balancers has {', '.join(unknown)}, expected hosts of the inventory. Correct "
                "load_balancer_haproxy_hosts"
            )
        result = super().run(tmp, variables)
        if not result.pop("ask", False):
            return result
        problem, msg = self._ask_balancers(arguments, variables)
        # After a problem, others need not wait any longer, and the next run finishes it.
        state = "interrupted" if problem else "released"
        options = {"state": state, "holder": arguments["holder"], "directory": arguments["directory"]}
        record = run_for(self, "load_balancer_record", options, variables)
        if record.get("failed") or record.get("unreachable"):
            return {**result, **record}
        if problem and record["todo"] == PUT_BACK:
            return {**result, "failed": True, "msg": problem}
        return {**result, "msg": record["msg"] or msg}

    def _ask_balancers(self, arguments: t.Mapping[str, t.Any], variables: dict[str, t.Any]) -> tuple[str, str]:
        """Why the host is not back, and what is to be said if it is."""
        hosts = BalancerHosts(self, variables, arguments)
        balancers = Balancers(arguments["balancers"], ask=hosts.ask, errors=OtherHostError)
        server = arguments["server"] or variables["inventory_hostname"]
        try:
            timeout = max(0.0, arguments["return_timeout"])
            return "", balancers.wait_until_served(server, arguments["backends"], timeout=timeout)
        except BalancersError as error:
            return str(error), ""
        finally:
            hosts.close()
