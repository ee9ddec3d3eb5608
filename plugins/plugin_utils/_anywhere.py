# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that run on the host or, for a Windows host, on the controller. Private to the collection."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as NormalAction

from ..module_utils._module import COMMON_OPTIONS, ImdsModule, carry_out
from ..module_utils._scheduled_events.exchange import BrokenOff
from ._other_host import bounded
from ._win_uri import WIN_URI, WinUri, WinUriError
from ._windows import is_windows

# Seconds beyond those of the request, for PowerShell to start on a busy host.
STARTS_WITHIN = 120.0


class AnywhereAction(NormalAction):
    """A module that runs on the host or, for a Windows host, here, with win_uri to carry its requests.

    ``options`` and ``work`` are those that the module gives to ``run_module``.
    """

    options: dict[str, dict[str, t.Any]]
    work: t.Callable[[ImdsModule], dict[str, t.Any]]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        if not is_windows(self._connection):
            return super().run(tmp, task_vars)
        if self._task.async_val:
            raise AnsibleActionFail(
                f"{self._task.action} does not support async for a Windows host, "
                "since it runs on the controller there. Remove async and poll from the task"
            )
        result = ActionBase.run(self, tmp, task_vars)
        self._task_vars = task_vars or {}
        self._controller_pid = os.getppid()
        self._answered = False
        self._require_win_uri()
        module = _Module(check_mode=bool(self._task.check_mode))
        try:
            module.take(self._task.args, {**COMMON_OPTIONS, **self.options}, name=self._task.action)
            found = carry_out(module, type(self).work, exchanger=WinUri(self._execute), sleep=self._sleep)
        except _Failed as failure:
            found = failure.result
        except WinUriError as error:
            raise AnsibleActionFail(f"{WIN_URI} failed on this host before it asked the service: {error}") from error
        return {**result, **found, **({"warnings": module.warnings} if module.warnings else {})}

    def _require_win_uri(self) -> None:
        find = self._shared_loader_obj.module_loader.find_plugin_with_context
        kinds = self._connection.module_implementation_preferences
        if not any(find(WIN_URI, mod_type=kind).resolved for kind in kinds):
            raise AnsibleActionFail(
                f"{self._task.action} needs {WIN_URI} for a Windows host, and the collection ansible.windows was not "
                "found on the controller. Install it: ansible-galaxy collection install ansible.windows"
            )

    def _execute(self, arguments: dict[str, t.Any], seconds: float) -> t.Mapping[str, t.Any]:
        within = seconds + STARTS_WITHIN
        try:
            with contextlib.nullcontext() if self._task.timeout else bounded(within):
                result = self._execute_module(module_name=WIN_URI, module_args=arguments, task_vars=self._task_vars)
        except TimeoutError as error:
            self._reset_connection()
            raise BrokenOff(f"the host did not answer the controller within {within:g} seconds") from error
        except AnsibleConnectionFailure as error:
            if not self._answered:
                raise  # as with any other module: the host is unreachable
            # It may be the very event that takes the host away for a moment.
            self._reset_connection()
            raise BrokenOff(f"the controller lost the host: {error}") from error
        self._answered = True
        return t.cast("t.Mapping[str, t.Any]", result)

    def _reset_connection(self) -> None:
        self._connection._shell.tmpdir = None  # a reboot may have emptied it
        with contextlib.suppress(AnsibleError, AttributeError, NotImplementedError):
            self._connection.reset()

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            if os.getppid() != self._controller_pid:
                raise AnsibleError("the process of Ansible that began this task has ended. Run the play again")
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 1.0))


class _Failed(Exception):
    """The module failed; with its result."""

    def __init__(self, result: dict[str, t.Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


class _Module:
    """What stands for AnsibleModule on the controller."""

    def __init__(self, *, check_mode: bool) -> None:
        self.params: dict[str, t.Any] = {}
        self.check_mode = check_mode
        self.warnings: list[str] = []

    def take(self, arguments: dict[str, t.Any], options: dict[str, dict[str, t.Any]], *, name: str) -> None:
        """Check the arguments as a module does."""
        checked = ArgumentSpecValidator(options).validate(arguments)
        if checked.error_messages:
            unsupported = isinstance(checked.errors[0], UnsupportedError)
            where = f"Unsupported parameters for ({name}) module: " if unsupported else ""
            self.fail_json(f"{where}{checked.errors.msg}")
        self.params = checked.validated_parameters
        if self.params["endpoint"] == "auto":  # the library would look on this machine
            self.fail_json("endpoint auto does not work for a Windows host: expected http://HOST or http://HOST:PORT")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn:
        raise _Failed({"failed": True, "msg": msg, **result})
