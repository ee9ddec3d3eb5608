# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the action plugins for HAProxy share: they run modules on all balancers. Private to the collection."""

from __future__ import annotations

import math
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from .._core.arguments import arguments_of
from .._remote.delegate_host import OtherHost, OtherHostError
from .balancers import BalancersError

COLLECTION = "maintops.scheduled_events"
SOCKET_VARIABLE = "load_balancer_haproxy_socket"
ANSWERS_WITHIN = 120.0  # seconds beyond what the module waits
ANSWERS_AT_LEAST_WITHIN = 5.0  # seconds, also if the time of the drain is over
COMMON_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "balancers": {"type": "list", "elements": "str", "required": True},
    "socket": {"type": "str", "default": "/run/haproxy/admin.sock"},
    "become": {"type": "bool", "default": True},
}


class BalancerHosts:
    """The balancers, each reached over its own connection.

    :param arguments: ``socket`` and ``become``; ``finish_within`` if there is such a limit.
    """

    def __init__(self, action: ActionBase, variables: dict[str, t.Any], arguments: t.Mapping[str, t.Any]) -> None:
        self._action = action
        self._variables = variables
        self._arguments = arguments
        self._hosts: dict[str, OtherHost] = {}
        seconds = float(arguments.get("finish_within", -1))
        self._finish_at = time.monotonic() + seconds if seconds >= 0 else math.inf

    def ask(self, name: str, module: str, options: dict[str, t.Any]) -> dict[str, t.Any]:
        """The result of a module of the collection on a balancer.

        :raises OtherHostError: there is none. The message names the balancer.
        """
        if name not in self._hosts:
            self._hosts[name] = OtherHost(self._action, name, self._variables, become=self._arguments["become"])
        socket = self._hosts[name].variables.get(SOCKET_VARIABLE, self._arguments["socket"])
        within = max(float(options.get("timeout", 0)), float(options.get("wait", 0))) + ANSWERS_WITHIN
        within = min(within, max(ANSWERS_AT_LEAST_WITHIN, self._finish_at - time.monotonic()))
        return self._hosts[name].run(f"{COLLECTION}.{module}", {**options, "socket": socket}, within=within)

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()


class HAProxyAction(ActionBase):
    """It runs on the control node, and a module on each balancer."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    ARGUMENTS: dict[str, dict[str, t.Any]] = {}

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        self._arguments = arguments_of(self, {**COMMON_ARGUMENTS, **self.ARGUMENTS})
        if not self._arguments["balancers"]:
            raise AnsibleActionFail(
                "balancers is empty, expected the inventory names of the balancers. Set load_balancer_haproxy_hosts"
            )
        hosts = BalancerHosts(self, self._variables, self._arguments)
        self._ask = hosts.ask
        try:
            return {**result, **self._work()}
        except (BalancersError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error
        finally:
            hosts.close()

    def _work(self) -> dict[str, t.Any]:
        raise NotImplementedError
