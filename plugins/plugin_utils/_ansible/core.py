# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that the plugins use of ansible-core and that it does not publish, and the arguments of action plugins.

Each private name is a function, with the reason. A test calls each of them on every supported ansible-core. What
``ActionBase`` gives to action plugins (``_task``, ``_connection``, ``_templar``, ``_execute_module`` …) is not here.
Private to the collection.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import re
import typing as t
from pathlib import Path

from ansible import constants, template
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.errors import UnsupportedError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import filter_loader, test_loader

from ...module_utils._checked_module import tidy_lists, wrong_option
from ...module_utils._scheduled_events.checks import WrongValue
from ...module_utils._scheduled_events.text import shown

# The variables of this collection that choose files, credentials and addresses of the control node. Facts of others can
# begin with audit_ and report_, too.
OF_CONTROL_NODE = re.compile(
    "_*(drill|load_balancer|poller|respond|rolling_maintenance)_|__(audit|report)_"
    r"|(audit_(control_node|credentials|subscriptions)|report_(days|history_directories|html|json|junit|otlp|scope))\Z"
)

FLUSHES = "flushes"
ROLES = Path(__file__).parents[3] / "roles"
OF_ALL_ROLES = "scheduled_events_"  # begins the names of the variables that all roles read
NEAR = 0.88  # of difflib: "hook" is near "hooks", "hooks_web" is not


def load_filters() -> None:
    """Load the filters and tests of ansible-core, and what templates need, which it does at the first use of one.

    An action plugin is imported in the process that starts all workers: what it does not load, each worker loads.
    """
    filter_loader.get("ansible.builtin.mandatory")
    test_loader.get("ansible.builtin.failed")
    as_template = getattr(template, "trust_as_template", str)  # since ansible-core 2.19
    template.Templar(loader=DataLoader()).template(as_template("{{ [] | default(1) }}"))


def play_id(task: t.Any) -> str:
    """The play of a task: its UUID, since two plays can have the same name, and each task runs in its own process."""
    return str(task.get_play()._uuid)


def role_of(task: t.Any) -> t.Any:
    """The role of a task; None if it is in none."""
    return task._role


def task_id(task: t.Any) -> str:
    """The UUID of a task, which ansible-core gives to each connection that it makes."""
    return str(task._uuid)


def copy_beside(task: t.Any) -> t.Any:
    """A copy with the same parents, which a copy of ansible-core has not or copies, too."""
    copy = task.copy(exclude_parent=True)
    copy._parent = task._parent
    return copy


def runs_nothing(task: t.Any) -> bool:
    """Whether a task is ``meta``, under each of its names."""
    return task.action in constants._ACTION_META


def includes_tasks(task: t.Any) -> bool:
    """Whether a task is ``include_tasks``, under each of its names."""
    return task.action in constants._ACTION_INCLUDE_TASKS


def includes_role(task: t.Any) -> bool:
    """Whether a task is ``include_role``, under each of its names."""
    return task.action in constants._ACTION_INCLUDE_ROLE


def flushed(task: t.Any, host: str, before: int) -> dict[str, t.Any]:
    """How many times the handlers of a host were flushed, if they have to be once more; 0 if none is notified.

    Ansible runs them once, in the order of the play: one that a later one notifies would run after the next tasks.

    :param before: the flushes before the one that has just ended.
    :returns: a result, which is failed if they notify each other without an end.
    """
    handlers = [each for block in task.get_play().handlers for each in block.block]
    left = [each.get_name() for each in handlers if host in map(str, each.notified_hosts)]
    if left and before >= len(handlers):
        problem = f"handlers notify each other without an end: {', '.join(left)} is notified again. Remove a notify"
        return {"failed": True, "msg": problem, FLUSHES: 0}
    return {FLUSHES: before + 1 if left else 0}


def name_of(plugin: t.Any) -> str:
    """The name under which the configuration knows the options of a plugin."""
    return str(plugin._load_name)


def shell_of(connection: t.Any) -> t.Any:
    """The shell plugin of a connection, whose options have to be set when a plugin makes the connection itself."""
    return connection._shell


def is_windows(connection: t.Any) -> bool:
    """Whether modules in Python cannot run there: the shell is PowerShell or cmd, or a plugin of a user like them."""
    return bool(getattr(connection._shell, "_IS_WINDOWS", False))


def temporary_directory(connection: t.Any) -> str | None:
    """The directory on the host for the files of this task."""
    return t.cast("str | None", connection._shell.tmpdir)


def forget_temporary_directory(connection: t.Any) -> None:
    """Let the next module make a directory: it was removed, or a reboot may have emptied it."""
    connection._shell.tmpdir = None


def variables_of(name: str, hostvars: t.Any, task: t.Any) -> dict[str, t.Any] | None:
    """The variables of another host for a task, before templating; None if the inventory has no such host.

    ``hostvars`` lacks those of the play and of the role.
    """
    manager = hostvars._variable_manager
    host = manager._inventory.get_host(name)
    if host is None:
        return None
    # Before ansible-core 2.19 it also computes those of the hosts that the task delegates to.
    more = (
        {"include_delegate_to": False}
        if "include_delegate_to" in inspect.signature(manager.get_vars).parameters
        else {}
    )
    return t.cast("dict[str, t.Any]", manager.get_vars(play=task.get_play(), host=host, task=task, **more))


def rendered(template: t.Callable[[t.Any], t.Any], raw: t.Mapping[str, t.Any], omit: t.Any) -> dict[str, t.Any]:
    """The values of templates, without those that are omitted.

    :param omit: the variable of this name, which is the value of an omitted one before ansible-core 2.19. Since then,
        its template fails, unless it is a value of a dictionary.
    """
    return {name: value for name, value in template(raw).items() if omit is None or value != omit}


def arguments_of(action: ActionBase, spec: dict[str, dict[str, t.Any]], **rules: t.Any) -> dict[str, t.Any]:
    """The checked arguments of the task.

    :param rules: such as ``required_if``; see ``validate_argument_spec`` of ansible-core.

    :raises AnsibleActionFail: one of them is wrong, or may be of the host: see :func:`refuse_variables_of_host`.
    """
    refuse_variables_of_host(action._templar.available_variables)
    try:
        _validation, arguments = action.validate_argument_spec(argument_spec=spec, **rules)
    except OverflowError:  # ansible-core cannot convert a number
        arguments = action._task.args
    wrong = wrong_option(spec, arguments)
    if wrong:
        raise AnsibleActionFail(wrong)
    tidy_lists(spec, arguments)
    return t.cast("dict[str, t.Any]", arguments)


def typed_values(specs: t.Mapping[str, t.Any], values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The values with the types and the defaults of the specification.

    :raises WrongValue: a value is not of its type.
    """
    typed = {}
    for name, spec in specs.items():  # one by one, since not every message of the validator has the name
        try:
            given = {name: _decrypted(values[name])} if name in values else {}
            result = ArgumentSpecValidator({name: spec}).validate(given)
        except OverflowError:  # ansible-core cannot convert a number
            raise WrongValue(f"{name}: the number is too large") from None
        for error in result.errors.errors:
            unsupported = "Unsupported parameters: " if isinstance(error, UnsupportedError) else ""
            raise WrongValue(f"{name}: {unsupported}{error.msg}")
        typed.update(result.validated_parameters)
    return typed


def _decrypted(value: t.Any) -> t.Any:
    """The value with a text in place of each encrypted one, which is an object before ansible-core 2.19."""
    if isinstance(value, dict):
        return {key: _decrypted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_decrypted(each) for each in value]
    return str(value) if getattr(value, "__ENCRYPTED__", False) else value


@functools.cache
def options_of(role: str) -> dict[str, t.Any]:
    """The options of a role, as its argument specification has them."""
    specs = yaml_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    return t.cast("dict[str, t.Any]", specs["argument_specs"]["main"]["options"])


def short_names(options: t.Iterable[str], role: str) -> dict[str, str]:
    """The names of variables, by their names without what shows whose they are."""
    return {name.removeprefix(f"{role}_").removeprefix(OF_ALL_ROLES): name for name in options}


def misspelled(variables: t.Mapping[str, t.Any], options: t.Collection[str], role: str) -> str:
    """What is wrong with a variable whose name is nearly that of an option, since Ansible ignores it; or empty.

    One with all words of the option and more, such as those of a group, is of the user's own.
    """
    names = short_names(options, role)
    # Ansible also takes names that are not a text from a file of variables.
    own = sorted(name for name in map(str, variables) if name.startswith(f"{role}_") and name not in options)
    for words, name in short_names(own, role).items():
        # Such as acknowledgement, for acknowledge.
        longer = [each for each in names if words.startswith(each) and words[len(each) :].isalpha()]
        swapped = [each for each in names if sorted(words) == sorted(each)]
        for near in difflib.get_close_matches(words, names, 1, NEAR) or swapped or longer:
            if not {*near.split("_")} < {*words.split("_")} - {""}:
                return (
                    f"{name} has no effect, expected {names[near]}. Correct the name. If it is of your own, give it "
                    "a name that is less like that of the option"
                )
    return ""


def refuse_empty_options(given: t.Any, place: str) -> None:
    """Refuse rules with an option that has no value, as the user gave them: such a rule would count for more events.

    :raises WrongValue: it names the first one.
    """
    with contextlib.suppress(TypeError):  # Ansible takes a text for a rule, or for a window
        given = check_type_dict(given) if isinstance(given, str) else given
    if given is None:
        raise WrongValue(f"{place}: expected a value, not null: give one, or remove the option")
    named = {f"{place}.{name}": value for name, value in given.items()} if isinstance(given, dict) else {}
    indexed = {f"{place}[{index}]": value for index, value in enumerate(given)} if isinstance(given, list) else {}
    for own_place, value in (named or indexed).items():
        refuse_empty_options(value, own_place)


def refuse_variables_of_host(variables: t.Mapping[str, t.Any]) -> None:
    """Refuse facts that are variables of this collection.

    Any module can return facts of any name. Each is a variable of the host, and one of the inventory does not come
    before it. So a host could choose what is read or written on the control node.

    :raises AnsibleActionFail: the host has returned one.
    """
    names = sorted(filter(OF_CONTROL_NODE.match, variables.get("ansible_facts") or {}))
    if names:
        raise AnsibleActionFail(
            f"{variables.get('inventory_hostname')} has returned the facts {shown(', '.join(names))}, which are "
            "variables of this collection: expected them from the inventory or the play only. Check whether a user of "
            "the host has changed its programs, and clear its facts"
        )
