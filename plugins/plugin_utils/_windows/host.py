# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Actions on a Windows host for code on the control node, through ansible.windows. Private to the collection."""

from __future__ import annotations

import base64
import contextlib
import ntpath
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase

from ...module_utils._checked_module import tidy_lists, wrong_option
from ...module_utils._module import ImdsModule, carry_out
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.exchange import BrokenOff
from .._ansible.core import copy_beside, forget_temporary_directory
from .._ansible.other_host import HostLost, failure_in, limited
from .._ansible.run import digest, refuse_ended_run
from .folder import WindowsFolder
from .uri import WIN_URI, WinUri, WinUriError

# Seconds beyond those of the request, for PowerShell to start on a busy host.
STARTS_WITHIN = 120.0

COMMANDS = "ansible.windows."
# What options have on other hosts, and what they mean on a Windows host: only administrators write there.
PLACE = "C:\\Program Files\\maintops"
PLACES = {"/var/lib/maintops": PLACE, "/var/lib/maintops/drained": f"{PLACE}\\drained"}


class Failed(Exception):
    """A module failed; with its result."""

    def __init__(self, result: dict[str, t.Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


class Module:
    """The substitute for AnsibleModule on the control node."""

    def __init__(self, *, check_mode: bool) -> None:
        self.params: dict[str, t.Any] = {}
        self.check_mode = check_mode
        self.warnings: list[str] = []

    def take(self, arguments: dict[str, t.Any], options: dict[str, dict[str, t.Any]], *, name: str) -> None:
        """Check the arguments as a module does."""
        try:
            checked = ArgumentSpecValidator(options).validate(arguments)
        except OverflowError:  # ansible-core cannot convert a number
            self.fail_json(wrong_option(options, arguments))
        if checked.error_messages:
            unsupported = isinstance(checked.errors[0], UnsupportedError)
            where = f"Unsupported parameters for ({name}) module: " if unsupported else ""
            self.fail_json(f"{where}{checked.errors.msg}")
        self.params = checked.validated_parameters
        wrong = wrong_option(options, self.params)
        if wrong:
            self.fail_json(wrong)
        tidy_lists(options, self.params)
        if self.params.get("endpoint") == "auto":  # the library would look on this machine
            self.fail_json("endpoint auto does not work for a Windows host: expected http://HOST or http://HOST:PORT")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn:
        raise Failed({"failed": True, "msg": msg, **result})


class WindowsHost:
    """The host that an action is connected to.

    :param name: of the action, for messages.
    :raises AnsibleActionFail: ansible.windows is missing, and how to install it.
    """

    def __init__(self, action: ActionBase, task_vars: dict[str, t.Any], *, name: str = "") -> None:
        self._action = action
        self._task_vars = task_vars
        self._name = name or action._task.action
        self.check_mode = bool(action._task.check_mode)
        self._answered = False
        find = action._shared_loader_obj.module_loader.find_plugin_with_context
        kinds = action._connection.module_implementation_preferences
        if not any(find(WIN_URI, mod_type=kind).resolved for kind in kinds):
            raise AnsibleActionFail(
                f"{self._name} needs {WIN_URI} for a Windows host, and the collection ansible.windows was not "
                "found on the control node. Install it: ansible-galaxy collection install ansible.windows"
            )

    def run_module(
        self,
        options: dict[str, dict[str, t.Any]],
        arguments: dict[str, t.Any],
        work: t.Callable[[ImdsModule], dict[str, t.Any]],
        *,
        losable: bool = False,
    ) -> dict[str, t.Any]:
        """Run a module of this collection here, for this host.

        :param losable: whether a lost host is a separate error, instead of an error of the request.
        :raises HostLost: the host is lost.
        """
        module = Module(check_mode=self.check_mode)
        try:
            module.take(arguments, options, name=self._name)
            found = carry_out(module, work, exchanger=self.exchanger(losable=losable), clock=Clock(sleep=self.sleep))
        except Failed as failure:
            found = failure.result
        except WinUriError as error:
            raise AnsibleActionFail(f"{WIN_URI} failed on this host before it asked the service: {error}") from None
        return {**found, **({"warnings": module.warnings} if module.warnings else {})}

    def exchanger(self, *, losable: bool) -> WinUri:
        """Return the transport for requests of the host; for ``losable`` see :meth:`run_module`."""

        def ask(arguments: dict[str, t.Any], seconds: float) -> t.Mapping[str, t.Any]:
            try:
                return self.run(WIN_URI, arguments, within=seconds + STARTS_WITHIN)
            except HostLost as error:
                if losable:
                    raise
                if error.original is not None and not self._answered:
                    raise error.original from None  # as with any other module: the host is unreachable
                # It may be the very event that takes the host away for a moment.
                raise BrokenOff(str(error)) from error

        return WinUri(ask)

    def run(self, module: str, arguments: dict[str, t.Any], *, within: float = STARTS_WITHIN) -> dict[str, t.Any]:
        """The result of a module on the host, also of one that failed.

        :raises HostLost: the host is lost.
        """
        action = self._action
        return self._bounded(
            within,
            lambda: action._execute_module(module_name=module, module_args=arguments, task_vars=self._task_vars),
        )

    def copy(self, content: bytes, path: str) -> dict[str, t.Any]:
        """The result of the action win_copy, which does not replace a file as a whole.

        :raises HostLost: the host is lost.
        """
        own = self._action
        task = copy_beside(own._task)
        task.args = {"content": content.decode(), "dest": path}
        task.diff = False
        action = own._shared_loader_obj.action_loader.get(
            f"{COMMANDS}win_copy",
            task=task,
            connection=own._connection,
            play_context=own._play_context,
            loader=own._loader,
            templar=own._templar,
            shared_loader_obj=own._shared_loader_obj,
        )
        return self._bounded(STARTS_WITHIN * 2, lambda: action.run(task_vars=self._task_vars))

    def _bounded(self, within: float, run: t.Callable[[], t.Any]) -> dict[str, t.Any]:
        try:
            with limited(self._action._task, within):
                result = run()
        except TimeoutError as error:
            self._reset_connection()
            raise HostLost(f"the host did not answer the control node within {within:g} seconds") from error
        except AnsibleConnectionFailure as error:
            self._reset_connection()
            raise HostLost(f"the control node lost the host: {error}", error) from error
        self._answered = True
        return t.cast("dict[str, t.Any]", result)

    def _reset_connection(self) -> None:
        forget_temporary_directory(self._action._connection)
        with contextlib.suppress(AnsibleError, AttributeError, NotImplementedError):
            self._action._connection.reset()

    def folder(self, directory: str) -> WindowsFolder:
        """The state directory.

        :raises AnsibleActionFail: it is not a directory of Windows.
        """
        path = place_of("the state directory", directory).rstrip("\\/")
        host = self._task_vars.get("inventory_hostname", "")
        # Ansible makes the directory for each run, and removes it at the end.
        kept = Path(constants.DEFAULT_LOCAL_TMP) / "scheduled-events-windows" / digest(f"{host}\0{path.lower()}")
        return WindowsFolder(path, RemoteFiles(self, path), kept=kept, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        """Wait as long as the run goes on.

        :raises AnsibleError: it has ended.
        """
        CLOCK.until(refuse_ended_run, within=seconds)


def place_of(what: str, path: str) -> str:
    """A path on a Windows host, for what an option has. Its default on other hosts means another place here.

    :raises AnsibleActionFail: it is not a path of Windows.
    """
    place = PLACES.get(path, path)
    if not ntpath.splitdrive(place)[0]:
        raise AnsibleActionFail(
            f"{what} is {path}, and this host is a Windows host: expected an absolute path there, such as {PLACE}. "
            "Set it for the Windows hosts"
        )
    return place


class RemoteFiles:
    """The files of one directory of the host. Each method raises OSError if the host answers and cannot do it."""

    def __init__(self, host: WindowsHost, directory: str) -> None:
        self._host = host
        self._directory = directory

    def is_there(self) -> bool:
        options = {"path": self._directory, "get_checksum": False}
        return bool(self._run("win_stat", options, self._directory, "cannot be looked at")["stat"]["exists"])

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, by name; the directory must exist."""
        options = {"paths": [self._directory], "checksum_algorithm": "sha256"}
        result = self._run("win_find", options, self._directory, "cannot be listed")
        return {file["filename"]: str(file["checksum"]) for file in result["files"]}

    def make(self) -> None:
        self._run("win_file", {"path": self._directory, "state": "directory"}, self._directory, "cannot be made")

    def read(self, name: str) -> bytes:
        result = self._host.run(f"{COMMANDS}slurp", {"src": self._path_of(name)})
        if result.get("failed") and "not found" in str(result.get("msg")):
            raise FileNotFoundError(self._path_of(name))
        return base64.b64decode(_good(result, self._path_of(name), "cannot be read")["content"])

    def write(self, name: str, content: bytes) -> None:
        _good(self._host.copy(content, self._path_of(name)), self._path_of(name), "cannot be written")

    def rename(self, old: str, new: str) -> bool:
        """False if that failed, as it does if there is a file of the new name."""
        # cmd.exe gets nothing but these names, which are ours. ren does not replace a file.
        command = {"_raw_params": f"cmd.exe /d /c ren {old} {new}", "chdir": self._directory}
        return self._host.run(f"{COMMANDS}win_command", command).get("rc") == 0

    def remove(self, name: str) -> None:
        path = self._path_of(name)
        self._run("win_file", {"path": path, "state": "absent"}, path, "cannot be removed")

    def _path_of(self, name: str) -> str:
        return f"{self._directory}\\{name}"

    def _run(self, command: str, options: dict[str, t.Any], path: str, problem: str) -> dict[str, t.Any]:
        return _good(self._host.run(COMMANDS + command, options), path, problem)


def _good(result: dict[str, t.Any], path: str, problem: str) -> dict[str, t.Any]:
    if result.get("failed"):
        raise OSError(f"{path} {problem}: {failure_in(result)}. Connect as an administrator, or free the disk")
    return result
