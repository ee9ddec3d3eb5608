# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._balancers import (
    Balancers,
    BalancersError,
    Settings,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._other_host import OtherHost, OtherHostError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._windows_modules import run_for

COLLECTION = "maintops.scheduled_events"
SOCKET_VARIABLE = "load_balancer_haproxy_socket"
ANSWERS_WITHIN = 120.0  # seconds beyond what the module waits
ARGUMENTS = {
    "state": {"type": "str", "choices": ["drained", "active", "survey"], "required": True},
    "balancers": {"type": "list", "elements": "str", "required": True},
    "server": {"type": "str"},
    "backends": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "str", "default": "/run/haproxy/admin.sock"},
    "become": {"type": "bool", "default": True},
    "holder": {"type": "str", "default": "operator"},
    "drain_timeout": {"type": "float", "default": 300},
    "on_timeout": {"type": "str", "choices": ["fail", "continue"], "default": "fail"},
    "return_timeout": {"type": "float", "default": 120},
    "wait_at_most": {"type": "float", "default": 0},
    "resume": {"type": "dict", "default": {}},
    "directory": {"type": "str", "default": "/var/lib/maintops"},
}


class _RecordFailed(Exception):
    """The record on the host could not be read or written; the result of its module is the only argument."""


class ActionModule(ActionBase):
    """Take a host out of its HAProxies, and put it back. It runs on the controller, and a module on each balancer."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if not arguments["balancers"]:
            raise AnsibleActionFail(
                "balancers is empty, expected the inventory names of the balancers. Set load_balancer_haproxy_hosts"
            )
        self._hosts: dict[str, OtherHost] = {}
        try:
            return {**result, **self._work(self._balancers(arguments, variables), arguments)}
        except (BalancersError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error
        except _RecordFailed as failure:
            return {**result, **failure.args[0]}
        finally:
            for host in self._hosts.values():
                host.close()

    @staticmethod
    def _work(balancers: Balancers, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if arguments["state"] == "survey":
            return balancers.survey()
        return balancers.drain(arguments["resume"]) if arguments["state"] == "drained" else balancers.restore()

    def _balancers(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> Balancers:
        def ask(name: str, options: dict[str, t.Any]) -> dict[str, t.Any]:
            if name not in self._hosts:
                self._hosts[name] = OtherHost(self, name, variables, become=arguments["become"])
            socket = self._hosts[name].variables.get(SOCKET_VARIABLE, arguments["socket"])
            within = float(options.get("timeout", 0)) + ANSWERS_WITHIN
            return self._hosts[name].run(f"{COLLECTION}.haproxy_servers", {**options, "socket": socket}, within=within)

        def record(options: dict[str, t.Any]) -> dict[str, t.Any]:
            answer = run_for(self, "load_balancer_record", {**options, "directory": arguments["directory"]}, variables)
            if answer.get("failed") or answer.get("unreachable"):
                raise _RecordFailed(answer)
            return answer

        settings = Settings(
            server=arguments["server"] or variables["inventory_hostname"],
            backends=arguments["backends"],
            holder=arguments["holder"],
            drain_timeout=max(0.0, arguments["drain_timeout"]),
            on_timeout=arguments["on_timeout"],
            return_timeout=max(0.0, arguments["return_timeout"]),
            wait_at_most=max(0.0, arguments["wait_at_most"]),
            simulate=self._task.check_mode,
        )
        return Balancers(arguments["balancers"], settings, ask=ask, record=record, errors=OtherHostError)
