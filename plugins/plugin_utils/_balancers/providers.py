# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The providers of load balancers that run on the control node. Private to the collection."""

from __future__ import annotations

import contextlib
import math
import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ...module_utils._load_balancer.drain import Answer, Drain, finish_within
from .._ansible.other_host import OtherHost
from .._ansible.run import refuse_ended_run
from .._azure.arm import Arm
from .._azure.orders import Orders
from .._azure.resources import ApplicationGateway, LoadBalancer, Resources
from .._windows.modules import COLLECTION, run_for
from .azure import Pooled
from .membership import Balancers, Membership

SOCKET_VARIABLE = "load_balancer_haproxy_socket"
ANSWERS_WITHIN = 120.0  # seconds beyond what the module waits
ANSWERS_AT_LEAST_WITHIN = 5.0  # seconds, also if the time of the drain is over
PRODUCTS: dict[str, type[LoadBalancer | ApplicationGateway]] = {
    "azure_load_balancer": LoadBalancer,
    "azure_application_gateway": ApplicationGateway,
}

Options = t.Mapping[str, t.Any]


class RecordFailed(Exception):
    """The module on the host failed. Its first argument is the result for the play."""


def record_on_host(action: ActionBase, variables: dict[str, t.Any]) -> t.Callable[[dict[str, t.Any]], Answer]:
    """Return what carries out options of the provider ``record`` on the host of a task.

    It raises :class:`RecordFailed`, and AnsibleError if the run has ended.
    """
    own = {"directory": action._task.args["directory"]} if "directory" in action._task.args else {}

    def run(options: dict[str, t.Any]) -> Answer:
        refuse_ended_run()  # the next run may hold the host for the same holder
        answer = run_for(action, "load_balancer", {"provider": "record", **own, **options}, variables)
        if answer.get("failed") or answer.get("unreachable"):
            raise RecordFailed(answer)
        return answer

    return run


def time_left(options: Options) -> t.Callable[[], float]:
    """The seconds in which the drain must end, counted from now on."""
    finish_at = time.monotonic() + finish_within(options)
    return lambda: finish_at - time.monotonic()


def seconds_of(left: t.Callable[[], float]) -> float:
    """The remaining time as the option ``finish_within``."""
    seconds = left()
    return -1.0 if math.isinf(seconds) else max(0.0, seconds)


@contextlib.contextmanager
def balancers_of(action: ActionBase, variables: dict[str, t.Any], options: Options) -> t.Iterator[Balancers]:
    """The balancers, each reached over its own connection.

    :raises OtherHostError: a balancer cannot be asked. The message names it.
    :raises AnsibleError: the run has ended.
    """
    hosts: dict[str, OtherHost] = {}
    left = time_left(options)

    def ask(name: str, module: str, more: dict[str, t.Any]) -> dict[str, t.Any]:
        refuse_ended_run()  # the next run may have put the host back
        if name not in hosts:
            hosts[name] = OtherHost(action, name, variables, become=options["become"])
        socket = variables["hostvars"][name].get(SOCKET_VARIABLE, options["socket"])  # without the default of the role
        within = float(more.get("timeout", 0)) + ANSWERS_WITHIN
        within = min(within, max(ANSWERS_AT_LEAST_WITHIN, left()))
        return hosts[name].run(f"{COLLECTION}.{module}", {**more, "socket": socket}, within=within)

    if not options["balancers"]:
        raise AnsibleActionFail(
            "balancers is empty, expected the inventory names of the balancers. Set load_balancer_haproxy_hosts"
        )
    try:
        yield Balancers(options["balancers"], ask=ask)
    finally:
        for host in hosts.values():
            host.close()


def behind_haproxy(action: ActionBase, variables: dict[str, t.Any], options: Options, balancers: Balancers) -> Drain:
    record, server = record_on_host(action, variables), server_of(variables, options)
    return Membership({**options, "server": server}, record, balancers, simulate=bool(action._task.check_mode))


def server_of(variables: t.Mapping[str, t.Any], options: Options) -> str:
    """The name of the host on its balancers."""
    return str(options["server"] or variables["inventory_hostname"])


def in_pools(action: ActionBase, variables: dict[str, t.Any], options: Options, arm: Arm) -> Drain:
    if not options["pools"]:
        raise AnsibleActionFail("pools is empty, expected the ids of the pools. Set load_balancer_azure_pools")
    hosts = len(variables.get("ansible_play_batch") or [variables["inventory_hostname"]])
    resources = resources_of_run(arm, hosts=hosts, timeout=options["operation_timeout"])
    return Pooled(
        options,
        record_on_host(action, variables),
        variables["inventory_hostname"],
        PRODUCTS[options["provider"]](resources.look),
        resources,
        simulate=bool(action._task.check_mode),
    )


def resources_of_run(arm: Arm, *, hosts: int, timeout: float) -> Resources:
    """The resources as all processes of this run share them.

    :param hosts: how many may change one at the same time.
    """
    # Ansible makes the directory for each run, and removes it at the end.
    directory = Path(constants.DEFAULT_LOCAL_TMP) / "scheduled-events-arm"
    return Resources(arm, lambda target: Orders(directory, target, hosts=hosts, left=arm.left), timeout=timeout)
