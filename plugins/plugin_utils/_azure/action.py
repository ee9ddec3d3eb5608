# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common code of the action plugins for Azure. Private to the collection."""

from __future__ import annotations

import contextlib
import math
import os
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from .._core.arguments import arguments_of
from .._provider.holding import RecordFailed, record_on_host
from .._remote.delegate_host import OtherHost, OtherHostError, bounded
from . import pools
from .arm import CLOUDS, Answer, Arm, ArmError, Token, send
from .balancing import Balancing, PoolSettings
from .orders import Orders
from .resources import ApplicationGateway, BalancingError, LoadBalancer, Resources

LOGIN = "azure.azcollection.azure_rm_accesstoken_info"
ANSWERS_WITHIN = 300.0  # seconds for one request
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
    """An action that talks to Azure Resource Manager."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def _require_azcollection(self) -> None:
        """Refuse to go on without azure.azcollection.

        :raises AnsibleActionFail: it says how to install it.
        """
        if not self._shared_loader_obj.module_loader.find_plugin(LOGIN):
            raise AnsibleActionFail(
                "the collection azure.azcollection is not installed on the control node. Install it with "
                '"ansible-galaxy collection install azure.azcollection", and the Python packages that it needs'
            )

    @contextlib.contextmanager
    def _arm(
        self,
        arguments: t.Mapping[str, t.Any],
        variables: dict[str, t.Any],
        left: t.Callable[[], float] = lambda: ANSWERS_WITHIN,
    ) -> t.Iterator[Arm]:
        """Azure Resource Manager, with a token that ``control_node`` gets.

        :param left: the seconds after which nothing may be sent any more.
        :raises ArmError: also without a token, and if the options are wrong.
        """
        self._require_azcollection()
        credentials = arguments["credentials"]
        cloud = credentials.get("cloud_environment") or os.environ.get("AZURE_CLOUD_ENVIRONMENT") or "AzureCloud"
        if cloud not in CLOUDS:
            raise ArmError(f"cloud_environment is {cloud}, expected {', '.join(CLOUDS)}. Give one of these")

        def token(subscription: str) -> Token:
            options = {"subscription_id": subscription, **credentials, "scopes": [f"{CLOUDS[cloud]}/.default"]}
            try:
                answer = control_node.run(LOGIN, options, within=max(1.0, min(ANSWERS_WITHIN, left())))
            except OtherHostError as error:
                raise ArmError(str(error)) from error
            return Token(answer["access_token"], float(answer["expires_on"]))

        def send_in_time(*request: t.Any) -> Answer:
            seconds = min(ANSWERS_WITHIN, left())
            if seconds <= 0:
                raise TimeoutError("no time is left to send it")
            with contextlib.nullcontext() if self._task.timeout else bounded(seconds):
                return send(*request, timeout=seconds)

        try:
            control_node = OtherHost(self, arguments["control_node"], variables, become=False, is_secret=True)
        except OtherHostError as error:
            raise ArmError(str(error)) from error
        try:
            yield Arm(CLOUDS[cloud], token, send_in_time, patience=max(0.0, arguments["operation_timeout"]))
        finally:
            control_node.close()


class AzureBalancerAction(ArmAction):
    """Take a host out of its pools of Azure, and put it back. It runs on the control node."""

    PRODUCT: type[LoadBalancer | ApplicationGateway]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        arguments = arguments_of(self, BALANCER_ARGUMENTS)
        if not each_of(arguments["pools"]):
            raise AnsibleActionFail("pools is empty, expected the ids of the pools. Set load_balancer_azure_pools")
        try:
            with self._arm(arguments, self._variables) as arm:
                balancing = self._balancing(arm, arguments)
                drain = arguments["state"] == "drained"
                work = balancing.drain if drain else balancing.restore
                return {**result, **work(arguments["resume"])}
        except (ArmError, BalancingError) as error:
            raise AnsibleActionFail(str(error)) from error
        except RecordFailed as failure:
            return {**result, **failure.args[0]}

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
