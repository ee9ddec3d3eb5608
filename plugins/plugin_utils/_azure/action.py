# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common code of the action plugins for Azure: the connection to Azure Resource Manager. Private to the collection."""

from __future__ import annotations

import math
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from .._provider.holding import RecordFailed, record_on_host
from .._remote.delegate_host import OtherHost, OtherHostError
from . import pools
from .arm import Arm, ArmError
from .balancing import ApplicationGateway, Balancing, BalancingError, LoadBalancer, PoolSettings, Resources
from .orders import Orders

COLLECTION = "maintops.scheduled_events"
ANSWERS_WITHIN = 300.0  # seconds for one module, which repeats nothing by itself
ARM_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "credentials": {"type": "dict", "default": {}},
    "control_node": {"type": "str", "default": "localhost"},
    "operation_timeout": {"type": "float", "default": 900},
}
BALANCER_ARGUMENTS = {
    **ARM_ARGUMENTS,
    "state": {"type": "str", "choices": ["drained", "active"], "required": True},
    "pools": {"type": "list", "elements": "str", "required": True},
    "network_interfaces": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "holder": {"type": "str", "default": "operator"},
    "drain_timeout": {"type": "float", "default": 300},
    "finish_within": {"type": "float", "default": -1},
    "drain_time": {"type": "float"},
    "on_timeout": {"type": "str", "choices": ["fail", "continue"], "default": "fail"},
    "wait_at_most": {"type": "float", "default": 0},
    "resume": {"type": "dict", "default": {}},
    "directory": {"type": "str", "default": "/var/lib/maintops"},
}


def each_of(values: t.Iterable[str]) -> list[str]:
    """The values of a list option. Ansible makes a list with one empty value of an empty text."""
    return [value for value in values if value]


def _drain_time(given: float | None) -> float | None:
    """The time for connections to end, or none for the time that Azure gives.

    :raises AnsibleActionFail: it is not a time.
    """
    if given is None or (math.isfinite(given) and given >= 0):
        return given
    raise AnsibleActionFail(
        f"drain_time is {given:g}, expected seconds, 0 or more. Correct load_balancer_azure_drain_time, or leave it "
        "out to use the time that Azure gives"
    )


def resources_of_run(arm: Arm, *, hosts: int, timeout: float) -> Resources:
    """The resources as all processes of this run share them.

    :param hosts: how many may change one at the same time.
    """
    # Ansible makes the directory for each run, and removes it at the end.
    directory = Path(constants.DEFAULT_LOCAL_TMP) / "scheduled-events-arm"
    return Resources(arm, lambda target: Orders(directory, target, hosts=hosts), timeout=timeout)


class ArmAction(ActionBase):
    """An action that talks to Azure Resource Manager on the control node."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def _arm(
        self,
        control_node: OtherHost,
        arguments: t.Mapping[str, t.Any],
        left: t.Callable[[], float] = lambda: ANSWERS_WITHIN,
    ) -> Arm:
        """The way to Azure Resource Manager.

        :param left: the seconds after which nothing may be sent any more.
        """

        def run(module: str, options: dict[str, t.Any]) -> dict[str, t.Any]:
            return control_node.run(module, options, within=max(1.0, min(ANSWERS_WITHIN, left())))

        return Arm(
            run,
            errors=OtherHostError,
            credentials=arguments["credentials"],
            patience=max(0.0, arguments["operation_timeout"]),
        )


class AzureBalancerAction(ArmAction):
    """Take a host out of its pools of Azure, and put it back. It runs on the control node."""

    PRODUCT: type[LoadBalancer | ApplicationGateway]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        _validation, arguments = self.validate_argument_spec(argument_spec=BALANCER_ARGUMENTS)
        if not each_of(arguments["pools"]):
            raise AnsibleActionFail("pools is empty, expected the ids of the pools. Set load_balancer_azure_pools")
        control_node = None
        try:
            control_node = OtherHost(self, arguments["control_node"], self._variables, become=False)
            balancing = self._balancing(self._arm(control_node, arguments), arguments)
            drain = arguments["state"] == "drained"
            work = balancing.drain if drain else balancing.restore
            return {**result, **work(arguments["resume"])}
        except (ArmError, BalancingError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error
        except RecordFailed as failure:
            return {**result, **failure.args[0]}
        finally:
            if control_node is not None:
                control_node.close()

    def _balancing(self, arm: Arm, arguments: t.Mapping[str, t.Any]) -> Balancing:
        record = record_on_host(self, arguments["directory"], self._variables)
        hosts = len(self._variables.get("ansible_play_batch") or [1])
        timeout = max(0.0, arguments["operation_timeout"])
        finish_within = arguments["finish_within"] if arguments["finish_within"] >= 0 else math.inf
        resources = resources_of_run(arm, hosts=hosts, timeout=min(timeout, finish_within))
        settings = PoolSettings(
            host=self._variables["inventory_hostname"],
            pools=list(dict.fromkeys(each_of(arguments["pools"]))),
            me=pools.Me(*(each_of(arguments[name]) for name in ("network_interfaces", "addresses"))),
            holder=arguments["holder"],
            drain_timeout=max(0.0, arguments["drain_timeout"]),
            drain_time=_drain_time(arguments["drain_time"]),
            on_timeout=arguments["on_timeout"],
            operation_timeout=timeout,
            wait_at_most=max(0.0, arguments["wait_at_most"]),
            simulate=bool(self._task.check_mode),
            finish_within=finish_within,
        )
        return Balancing(self.PRODUCT(resources), resources, settings, record=record)
