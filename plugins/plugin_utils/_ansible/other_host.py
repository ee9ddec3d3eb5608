# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run modules on another host of the inventory than the task's. Private to the collection.

With ``delegate_to``, Ansible renders the variables of the other host with the inventory_hostname of the task's own, so
an address, port, user or key that is made from names leads to the wrong machine; and when the other host cannot be
reached, the task's own host counts as unreachable. Here the variables are those of the other host, and what goes wrong
is an error that names it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import become_loader
from ansible.template import Templar

from .core import copy_beside, is_windows, name_of, refuse_variables_of_host, rendered, shell_of, task_id, variables_of


class HostLost(Exception):
    """The host of the task cannot be reached any more, or does not answer. ``original``: the error of Ansible that says
    so, if there is one."""

    def __init__(self, message: str, original: Exception | None = None) -> None:
        super().__init__(message)
        self.original = original


class OtherHostError(Exception):
    """The module did not run there, or failed. The message names the host."""


class OtherHostUnreachable(OtherHostError):
    """The host cannot be reached, or does not answer in time."""


class _Overdue(BaseException):
    """The time is up. An ``except Exception`` within the block does not catch it."""


@contextlib.contextmanager
def bounded(seconds: float) -> t.Iterator[None]:
    """Limit the time of a block, also if it waits for a connection that stays silent.

    :raises TimeoutError: the block did not end within these seconds.
    """

    def give_up(*_: t.Any) -> None:
        raise _Overdue

    outer, began = signal.getitimer(signal.ITIMER_REAL)[0], time.monotonic()
    if 0 < outer <= seconds:  # a bound around this one comes first
        yield
        return
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Overdue:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, outer - (time.monotonic() - began)))


def limited(task: t.Any, seconds: float) -> t.ContextManager[None]:
    """The limit for a block of a task: its own timeout if it has one, which Ansible applies, else :func:`bounded`."""
    return contextlib.nullcontext() if task.timeout else bounded(seconds)


class HostVariables:
    """The variables of another host, as a task of the play would see them there. ``hostvars`` lacks those of the play
    and of the role.

    :raises OtherHostError: the inventory has no such host, or its variables cannot be read, or may be of the host.
    """

    def __init__(self, action: ActionBase, name: str, task_vars: t.Mapping[str, t.Any]) -> None:
        try:
            found = variables_of(name, task_vars["hostvars"], action._task)
            refuse_variables_of_host(found or {})
        except AnsibleError as error:
            raise OtherHostError(f"{name}: {error}") from error
        if found is None:
            raise OtherHostError(f"{name} is not a host of the inventory. Add it, or correct its name")
        self._raw = found
        # Not a copy, which before ansible-core 2.19 ignores jinja2_native: null would be the text None.
        self._templar = Templar(loader=action._loader, variables=self._raw)
        self.of_own_host = action._templar.available_variables

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._raw)

    def get(self, name: str, default: t.Any = None) -> t.Any:
        return self.of([name]).get(name, default)

    def of(self, names: t.Iterable[str]) -> dict[str, t.Any]:
        raw = {name: self._raw[name] for name in names if name in self._raw}
        return rendered(self._templar.template, raw, self._raw.get("omit"))


class OtherHost:
    """A host of the inventory, reached over its own connection.

    :param action: the plugin on whose behalf.
    :param become: unless the host has ``ansible_become``.
    :param is_secret: whether no log of Ansible may show what the modules take and return.
    """

    TAKES_WINDOWS = False

    def __init__(
        self,
        action: ActionBase,
        name: str,
        task_vars: t.Mapping[str, t.Any],
        *,
        become: bool,
        is_secret: bool = False,
    ) -> None:
        self.name = name
        self._own = action
        self._become = become
        self._is_secret = is_secret
        self.variables = HostVariables(action, name, task_vars)
        self._action: ActionBase | None = None
        self._task_vars: dict[str, t.Any] = {}

    def run(self, module: str, arguments: t.Mapping[str, t.Any], *, within: float) -> dict[str, t.Any]:
        """The result of a module.

        :param within: seconds for all of it, unless the task has its own timeout.
        :raises OtherHostError: the host cannot be reached or does not answer, or the module failed.
        """
        try:
            with limited(self._own._task, within):
                self._action = self._action or self._connect()
                result = self._execute(self._action, module, dict(arguments))
        except (AnsibleConnectionFailure, TimeoutError) as error:
            raise OtherHostUnreachable(f"{self.name} cannot be reached: {_text(error)}") from error
        except AnsibleError as error:
            raise OtherHostError(f"{self.name}: {_text(error)}") from error
        if result.get("unreachable"):
            raise OtherHostUnreachable(f"{self.name} cannot be reached: {result.get('msg', 'no reason given')}")
        if result.get("failed"):
            said = {**result, "module_stdout": ""} if self._is_secret else result  # an answer that was cut, for example
            raise OtherHostError(f"{self.name}: {failure_in(said)}")
        return result

    def _execute(self, action: ActionBase, module: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        return t.cast(
            "dict[str, t.Any]",
            action._execute_module(
                module_name=module, module_args=arguments, task_vars=self._task_vars, wrap_async=False
            ),
        )

    def close(self) -> None:
        if self._action is not None:
            self._action._connection.close()

    def _connect(self) -> ActionBase:
        own, loaders = self._own, self._own._shared_loader_obj
        play = own._task.get_play()
        task = copy_beside(own._task)
        task.delegate_to = None
        task.no_log = task.no_log or self._is_secret
        task.become = boolean(self.variables.get("ansible_become", self._become), strict=False)
        kind = self.variables.get("ansible_connection") or own._templar.template(play.connection) or "ssh"
        context = self._play_context(task)
        connection = loaders.connection_loader.get(
            "ssh" if kind == "smart" else kind,
            context,
            new_stdin=None,  # ansible-core before 2.19 has no default for it in some plugins
            task_uuid=task_id(task),
            ansible_playbook_pid=str(os.getppid()),
        )
        if connection is None:
            raise AnsibleError(f"the connection plugin {kind} was not found")
        if is_windows(connection) and not self.TAKES_WINDOWS:
            raise AnsibleError("it is a Windows host, which this module does not support. Leave it out")
        keys = dict(task.dump_attrs(), timeout=context.timeout)
        keys.pop("retries", None)  # of the task, not of the connection
        for name in ("password", "become_pass"):
            if getattr(context, name, None):
                keys[name] = getattr(context, name)
        if task.become:
            method = self.variables.get("ansible_become_method") or task.become_method
            become = become_loader.get(method)
            if become is None:
                raise AnsibleError(f"the become plugin {method} was not found")
            connection.set_become_plugin(become)
            self._set_options(become, "become", keys)
        else:
            connection.set_become_plugin(None)
        self._set_options(connection, "connection", keys)
        self._set_options(shell_of(connection), "shell", keys)
        self._task_vars["inventory_hostname"] = self.name
        self._task_vars["ansible_facts"] = dict(self.variables.get("ansible_facts") or {})
        self._task_vars.update(self.variables.of(name for name in self.variables if name.endswith("_interpreter")))
        return loaders.action_loader.get(
            "ansible.builtin.normal",
            task=task,
            connection=connection,
            play_context=context,
            loader=own._loader,
            templar=own._templar,
            shared_loader_obj=loaders,
        )

    def _play_context(self, task: t.Any) -> t.Any:
        """Values for older plugins that do not read options. They contain nothing of the host of the task."""
        own = self._own._play_context
        known = {
            secret: getattr(own, attribute)
            for secret, attribute in (("conn_pass", "password"), ("become_pass", "become_pass"))
            # What a variable of the own host has overwritten may be a secret of that host
            if not any(name in self.variables.of_own_host for name in constants.MAGIC_VARIABLE_MAPPING[attribute])
        }
        context = type(own)(
            play=task.get_play(), passwords=known, connection_lockfd=getattr(own, "connection_lockfd", None)
        )
        context.remote_addr, context.remote_user, context.no_log = self.name, task.remote_user, task.no_log
        context.become, context.become_method, context.become_user = task.become, task.become_method, task.become_user
        for attribute, names in constants.MAGIC_VARIABLE_MAPPING.items():
            for value in self.variables.of(names).values():
                setattr(context, attribute, value)
        return context

    def _set_options(self, plugin: t.Any, kind: str, keys: dict[str, t.Any]) -> None:
        options = self.variables.of(constants.config.get_plugin_vars(kind, name_of(plugin)))
        if kind == "connection":
            options["_extras"] = {}
            if getattr(plugin, "allow_extras", False):
                prefix = f"ansible_{plugin.extras_prefix}_"
                options["_extras"] = self.variables.of(
                    name for name in self.variables if name.startswith(prefix) and name not in options
                )
        self._task_vars.update(options)
        plugin.set_options(task_keys=keys, var_options=options)


def _text(error: Exception) -> str:
    return str(getattr(error, "message", "") or error).strip()


def failure_in(result: t.Mapping[str, t.Any]) -> str:
    """Why a module failed."""
    # Since ansible-core 2.19 a module that ended with an exception has no msg.
    exception = getattr(getattr(result.get("exception"), "event", None), "msg", "")
    message = str(result.get("msg") or exception or "the module failed and gave no reason").strip()
    outputs = [str(result.get(name) or "").strip() for name in ("module_stdout", "module_stderr", "stderr")]
    details = "; ".join(filter(None, outputs))
    return f"{message} ({details})" if details and details not in message else message
