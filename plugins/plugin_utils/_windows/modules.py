# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules of this collection that run on the control node for a Windows host. Private to the collection."""

from __future__ import annotations

import ntpath
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction

from ...module_utils import _calls as calls
from ...module_utils import _maintenance_calls as maintenance
from ...module_utils._load_balancer import call as load_balancer
from ...module_utils._load_balancer.health_probe import Flag, ProbeAnswer
from ...module_utils._load_balancer.record import DrainError
from ...module_utils._maintenance import MaintenanceError
from ...module_utils._module import COMMON_OPTIONS, FILTER_OPTIONS, ImdsModule
from ...module_utils._scheduled_events.clock import Clock
from ...module_utils._scheduled_events.exchange import ExchangeFailed, HttpRequest
from ...module_utils._scheduled_events.files import Changed
from .._ansible.core import is_windows
from .._ansible.other_host import HostLost
from .host import COMMANDS, Failed, Module, WindowsHost, place_of
from .uri import WinUriError

COLLECTION = "maintops.scheduled_events"
ATTEMPTS = 5  # while other runs write at the same time
PROBE_TIMEOUT = 5.0  # seconds

Result = t.Dict[str, t.Any]


class HostOrHereAction(NormalAction):
    """Run the module on the host or, for a Windows host, here."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        if not is_windows(self._connection):
            return t.cast(Result, super().run(tmp, task_vars))
        result = ActionBase.run(self, tmp, task_vars)
        return {**result, **run_for(self, self._task.action.rpartition(".")[2], self._task.args, task_vars or {})}


def refuse_async(action: ActionBase) -> None:
    """Refuse what cannot be done on the control node.

    :raises AnsibleActionFail: the task is to run in the background.
    """
    if action._task.async_val:
        raise AnsibleActionFail(
            f"{action._task.action} does not support async for a Windows host, "
            "since it runs on the control node there. Remove async and poll from the task"
        )


def run_for(action: ActionBase, name: str, arguments: t.Mapping[str, t.Any], task_vars: dict[str, t.Any]) -> Result:
    """Run a module on the host of an action or, for a Windows host, here."""
    if not is_windows(action._connection):
        return t.cast(
            Result,
            action._execute_module(
                module_name=f"{COLLECTION}.{name}", module_args=dict(arguments), task_vars=task_vars
            ),
        )
    refuse_async(action)
    return run_here(WindowsHost(action, task_vars, name=f"{COLLECTION}.{name}"), name, arguments)


def run_here(host: WindowsHost, name: str, arguments: t.Mapping[str, t.Any]) -> Result:
    """The result of a module.

    :param name: of the module, without its collection.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    if name in REQUESTS:
        request_options, request = REQUESTS[name]
        return host.run_module({**COMMON_OPTIONS, **request_options}, dict(arguments), request)
    options, work = MODULES[name]
    module = Module(check_mode=host.check_mode)
    try:
        module.take(dict(arguments), options, name=f"{COLLECTION}.{name}")
        result = _repeated(lambda: work(host, module))
    except Failed as failure:
        result = failure.result
    except (MaintenanceError, DrainError, WinUriError, OSError) as error:
        result = {"failed": True, "msg": str(error)}
    except HostLost as error:
        raise error.original or AnsibleConnectionFailure(str(error)) from None
    return {**result, **({"warnings": module.warnings} if module.warnings else {})}


def _repeated(work: t.Callable[[], Result]) -> Result:
    """Do work that can be repeated, again if others wrote what it read."""
    for _attempt in range(ATTEMPTS - 1):
        try:
            return work()
        except Changed:
            continue
    return work()


def _maintain(host: WindowsHost, module: Module) -> Result:
    folder = host.folder(module.params["directory"])
    exchanger = host.exchanger(losable=True)

    def read() -> Result:
        clock = Clock(sleep=host.sleep)
        events = maintenance.read_events(lambda warn: ImdsModule(module, exchanger, clock, warn))
        return {**events, "boot_id": folder.identity}

    return maintenance.take_step(module, folder, flag_is_up=_WindowsFlag(host, module.params["flag"]).is_up, read=read)


def _load_balancer(host: WindowsHost, module: Module) -> Result:
    """The balancer stops sending. No module lists the connections on Windows, so there is no wait for them."""
    params = module.params
    if params["provider"] == "health_probe":
        params["flag"] = place_of("flag", params["flag"])
    return load_balancer.carry_out(
        params,
        host.folder(params["directory"]),
        simulate=module.check_mode,
        probe=lambda url: _probe(host, url),
        peers=list,
        clock=Clock(sleep=host.sleep),
        flag=_WindowsFlag(host, params["flag"]),
        is_absolute=ntpath.isabs,
    )


def _probe(host: WindowsHost, url: str) -> ProbeAnswer:
    exchanger = host.exchanger(losable=True)
    try:
        answer = exchanger.exchange(HttpRequest("GET", url), PROBE_TIMEOUT)
    except ExchangeFailed as error:
        return ProbeAnswer(0, str(error))
    return ProbeAnswer(answer.status)


class _WindowsFlag(Flag):
    """A file of the host."""

    def __init__(self, host: WindowsHost, path: str) -> None:
        self._path = place_of("flag", path)
        self._host = host

    def is_up(self) -> bool:
        return bool(self._do("win_stat", get_checksum=False)["stat"]["exists"])

    def raise_(self) -> None:
        folder = ntpath.dirname(self._path)
        self._do("win_file", path=folder, state="directory")
        self._do("win_file", state="touch")

    def lower(self) -> None:
        self._do("win_file", state="absent")

    def _do(self, command: str, **options: t.Any) -> Result:
        result = self._host.run(COMMANDS + command, {"path": self._path, **options})
        if result.get("failed"):
            raise OSError(f"{self._path}: {result.get('msg')}. Connect as an administrator")
        return result


# Modules that only ask the metadata service.
REQUESTS: dict[str, tuple[dict[str, t.Any], t.Callable[[ImdsModule], Result]]] = {
    "scheduled_events_info": (FILTER_OPTIONS, calls.read),
    "scheduled_events_wait": (calls.WAIT_OPTIONS, calls.wait_for_state),
    "scheduled_event_approve": (calls.APPROVE_OPTIONS, calls.acknowledge),
}
MODULES: dict[str, tuple[dict[str, t.Any], t.Callable[[WindowsHost, Module], Result]]] = {
    "maintenance_gate": ({**COMMON_OPTIONS, **maintenance.OPTIONS}, _maintain),
    "load_balancer": (load_balancer.OPTIONS, _load_balancer),
}
