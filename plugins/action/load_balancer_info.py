# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.validation import check_type_list

from ..module_utils._checked_module import tidy
from ..module_utils._load_balancer.call import ARM_OPTIONS, HAPROXY_OPTIONS
from ..module_utils._load_balancer.record import DrainError
from ..plugin_utils._ansible.core import arguments_of
from ..plugin_utils._ansible.other_host import HostVariables, OtherHostError
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError
from ..plugin_utils._azure.pools import Me
from ..plugin_utils._balancers.azure import Traffic, survey
from ..plugin_utils._balancers.membership import Place, refuse_same_servers
from ..plugin_utils._balancers.providers import PRODUCTS, balancers_of, resources_of_run

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "provider": {"type": "str", "choices": ["haproxy", *PRODUCTS], "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    **HAPROXY_OPTIONS,
    **ARM_OPTIONS,
}
# Variables of the role, which may differ from host to host
BALANCERS, SERVER, BACKENDS = (f"load_balancer_haproxy_{each}" for each in ("hosts", "server", "backends"))
POOLS, INTERFACES, ADDRESSES = (f"load_balancer_azure_{each}" for each in ("pools", "network_interfaces", "addresses"))


class ActionModule(ArmAction):
    """Read which hosts get no traffic. It runs on the control node, and on no host."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result, variables = super().run(tmp, task_vars), task_vars or {}
        options = arguments_of(self, ARGUMENTS)
        look = self._on_balancers if options["provider"] == "haproxy" else self._in_pools
        try:
            traffic = look(
                options, {host: HostVariables(self, host, variables) for host in options["hosts"]}, variables
            )
        except (ArmError, DrainError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, "hosts_without_traffic": traffic.out, "unknown": traffic.unknown}

    def _on_balancers(
        self, options: dict[str, t.Any], hosts: dict[str, HostVariables], variables: dict[str, t.Any]
    ) -> Traffic:
        places = {
            host: Place(
                _names(host, own, BALANCERS) or options["balancers"],
                str(own.get(SERVER) or host),
                _names(host, own, BACKENDS),
            )
            for host, own in hosts.items()
        }
        refuse_same_servers({host: [place] for host, place in places.items()}, SERVER)
        behind: dict[tuple[str, ...], list[str]] = {}
        for host, place in places.items():
            behind.setdefault(tuple(place.balancers), []).append(host)
        found: dict[str, bool | None] = {}
        for names, members in behind.items():
            with balancers_of(self, variables, {**options, "balancers": list(names)}) as balancers:
                traffic = balancers.traffic()
            for host in members:
                found[host] = _gets_traffic(traffic.get(places[host].server, {}), places[host].backends)
        out, unknown = ([host for host, gets in found.items() if gets is wanted] for wanted in (False, None))
        return Traffic(out, unknown)

    def _in_pools(
        self, options: dict[str, t.Any], hosts: dict[str, HostVariables], variables: dict[str, t.Any]
    ) -> Traffic:
        places = {host: _places(host, own) for host, own in hosts.items()}
        with self._arm(options, variables) as arm:
            resources = resources_of_run(arm, hosts=1, timeout=options["operation_timeout"])
            return survey(PRODUCTS[options["provider"]](functools.cache(resources.look)), places)


def _gets_traffic(backends: dict[str, bool], only: list[str]) -> bool | None:
    """Whether a host gets traffic in each of its backends, or in each of those that its variable names."""
    counted = [gets for backend, gets in backends.items() if not only or backend in only]
    return all(counted) if counted else None


def _places(host: str, variables: HostVariables) -> tuple[list[str], Me]:
    me = Me(_names(host, variables, INTERFACES), _names(host, variables, ADDRESSES))
    return _names(host, variables, POOLS), me


def _names(host: str, variables: HostVariables, variable: str) -> list[str]:
    try:
        return tidy(check_type_list(variables.get(variable) or []))
    except (AnsibleError, TypeError) as error:
        raise OtherHostError(f"{host}: {variable}: {error}") from error
