# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the turns of a host read from the variables of the role and of the play. Private to the collection.

As arguments of a task, each of these would be an expression that every worker of Ansible compiles for every host.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._checked_module import is_absolute, tidy, wrong_option
from ...module_utils._load_balancer import health_probe, record
from ...module_utils._module import COMMON_OPTIONS
from ...module_utils._respond.request import OPTIONS
from ...module_utils._scheduled_events.checks import WrongValue, check_fields
from ...module_utils._scheduled_events.discovery import ENDPOINT_OR_AUTO
from ...module_utils._scheduled_events.exchange import API_VERSION_OR_AUTO
from .._ansible.core import OF_ALL_ROLES, misspelled, options_of, rendered, typed_values
from .._ansible.tasks_files import TasksFileError
from .._azure import arm, pools

Variables = t.Mapping[str, t.Any]
Template = t.Callable[[t.Any], t.Any]
Look = t.Callable[[str, str], t.Any]

SPEC = {**COMMON_OPTIONS, **OPTIONS}
GIVEN_TO_TASKS = ("respond_event", "respond_events")  # an extra variable would replace the event
# The role load_balancer has the same defaults.
OF_THE_BALANCER = {"drain_timeout": "load_balancer_drain_timeout", "drain_on_timeout": "load_balancer_on_timeout"}
PROVIDER = "load_balancer_provider"
BALANCERS = "load_balancer_haproxy_hosts"
# Of the provider tasks
DRAIN_FILE, RETURN_FILE, FIND_FILE = (f"load_balancer_{each}_tasks" for each in ("drain", "return", "find"))
FILES = (DRAIN_FILE, RETURN_FILE, FIND_FILE)
FILES_OF = {"prepare": (FIND_FILE, DRAIN_FILE), "started": (FIND_FILE, DRAIN_FILE), "recover": (RETURN_FILE,)}
POOLS = "load_balancer_azure_pools"
PROBE = {
    "ports": "load_balancer_ports",
    **{name: f"load_balancer_probe_{name}" for name in ("flag", "url", "drained_status")},
}
# What the roles give to it themselves, and credentials: a run without an event does not read them from a vault.
UNCHECKED = [f"load_balancer_{name}" for name in ("state", "holder", "deadline", "azure_credentials")]
SHARED = {name: f"{OF_ALL_ROLES}{name}" for name in ("endpoint", "api_version", "vm_name", "state_directory")}
OF_OTHERS = {**SHARED, **OF_THE_BALANCER}  # the options whose variables do not begin as those of the role
PLACES = {SHARED["endpoint"]: ENDPOINT_OR_AUTO, SHARED["api_version"]: API_VERSION_OR_AUTO}
PLACE_OPTIONS = {variable: {"type": SPEC[name]["type"]} for name, variable in SHARED.items()}
TIMES = {
    "respond": [name for name, option in OPTIONS.items() if option["type"] == "float" and name not in OF_THE_BALANCER],
    "rolling_maintenance": ["gate_timeout", "lease", "reboot_timeout", "resume_within", "settle"],
}
# The gate and the endpoint of nginx also read some.
DESCRIBES_A_BALANCER = re.compile("load_balancer_(?!probe_flag|nginx_)")


def options_of_role(variables: Variables, template: Template) -> dict[str, t.Any]:
    """The options that the variables of the role give to the first turn of a host.

    An empty value of an option without a default counts as not set.
    """
    names = {name: f"respond_{name}" for name in SPEC if f"respond_{name}" in options_of("respond")}
    names.update({**OF_OTHERS, "within_maintenance": "__respond_within_maintenance"})
    given = _given(variables, template, names)
    options = {name: value for name, value in given.items() if value not in (None, "") or "default" in SPEC[name]}
    return {"load_balancer": PROVIDER in variables, **options}


def wrong_type(options: Variables) -> str:
    """What is wrong with the type of an option of the role, by the name of its variable; empty if nothing is.

    For the message alone: the validation of the task names the options.
    """
    variables = {name: OF_OTHERS.get(name, f"respond_{name}") for name in options}
    specs = {variable: SPEC[name] for name, variable in variables.items()}
    try:
        typed_values(specs, {variables[name]: value for name, value in options.items()})
    except WrongValue as error:
        return str(error)
    return ""


def _given(variables: Variables, template: Template, names: t.Mapping[str, str]) -> dict[str, t.Any]:
    """The values of the variables that are set and not omitted. An empty one of all roles counts as not set.

    :param names: of the variables, by that of the option.
    """
    raw = {name: variables[variable] for name, variable in names.items() if variable in variables}
    values = rendered(template, raw, variables.get("omit"))
    return {
        name: value for name, value in values.items() if value not in (None, "") or names[name] not in PLACE_OPTIONS
    }


def refusal_of_role(variables: Variables, template: Template, look: Look, role: str = "respond") -> str:
    """Why the role does not begin: what it would only notice too late. Empty if it does.

    :param look: looks at a tasks file, by the name of its variable and its path; it raises ``TasksFileError``.
    """
    taken = [name for name in GIVEN_TO_TASKS if role == "respond" and name in variables]
    if taken:
        return f"{taken[0]} is set, but the role sets it for your tasks. Rename your variable"
    return (
        _slice_problem(variables, template)
        or misspelled(variables, options_of(role), role)
        or _value_problem(variables, template, role)
        or _balancer_problem(variables, template, look, f"{role}_load_balancer")
    )


def _slice_problem(variables: Variables, template: Template) -> str:
    # AWX runs the slices of a job as a workflow that has the name of the template, and says nothing else about them.
    workflow, job = (template(variables.get(f"awx_{name}_name")) for name in ("workflow_job", "job_template"))
    if not workflow or workflow != job:
        return ""
    return (
        f"Job {template(variables.get('awx_job_id', ''))} is a slice of {job}, and sees only some of the hosts. "
        "An event that names hosts of several slices could not be acknowledged, and each slice would maintain hosts as "
        "if it were alone. Set Job Slicing of the template to 1. If this job is not a slice, give the workflow another "
        "name than its template"
    )


def _value_problem(variables: Variables, template: Template, role: str) -> str:
    """What is wrong with the times of the role, or with where it asks and writes: the gate would wait for a host that
    cannot be read.
    """
    times = {f"{role}_{name}": {"type": "float"} for name in TIMES[role]}
    given = _given(variables, template, {name: name for name in (*PLACE_OPTIONS, *times)})
    try:  # with the types of the module, for which a date is a text, and ~ a directory
        given.update(typed_values(PLACE_OPTIONS, given))
        check_fields(given, PLACES, others=True)
        return wrong_option({**PLACE_OPTIONS, **times}, given)
    except ValueError as error:
        return str(error)


def _balancer_problem(variables: Variables, template: Template, look: Look, choice: str) -> str:
    chosen = _given(variables, template, {choice: choice}).get(choice)
    is_chosen = chosen not in (None, "")
    if PROVIDER in variables or is_chosen:
        if is_chosen and not boolean(chosen, strict=False):
            return ""
        try:
            wrong = _wrong_value(variables, template, look)
        except (arm.ArmError, record.DrainError, TasksFileError) as error:  # which says what to do
            return f"{error}, or set {choice} to false"
        if wrong:
            return f"{wrong}. Correct it, or set {choice} to false"
        return misspelled(variables, options_of("load_balancer"), "load_balancer")
    unused = sorted(filter(DESCRIBES_A_BALANCER.match, map(str, variables)))
    if not unused:
        return ""
    return (
        f"{', '.join(unused)} describes a load balancer, but {PROVIDER} is not set, so the hosts would stay in it. Set "
        f"{PROVIDER}, for example to health_probe, or set {choice} to false"
    )


def _wrong_value(variables: Variables, template: Template, look: Look) -> str:
    """What the role load_balancer would refuse when an event comes.

    :raises ArmError: a pool cannot be meant; ``DrainError``: a probe cannot; ``TasksFileError``: a tasks file cannot.
    """
    specs = {name: spec for name, spec in options_of("load_balancer").items() if name not in UNCHECKED}
    given, later = {}, set()
    for name in specs:
        try:
            given.update(_given(variables, template, {name: name}))
        except AnsibleError as error:
            if name == BALANCERS:
                return f"{name}: {error}"
            later.add(name)  # A template of another one may need what is not known yet.
    try:
        typed = typed_values({name: specs[name] for name in given}, given)
    except WrongValue as error:
        return str(error)
    provider, balancers = typed.get(PROVIDER), tidy(typed.get(BALANCERS) or [])
    unknown = [name for name in balancers if name not in variables["hostvars"]]
    if (provider == "haproxy" and not balancers) or (provider in ("haproxy", "health_probe") and unknown):
        return f"{BALANCERS} is {balancers}, expected hosts of the inventory"
    files = FILES if provider == "tasks" else ()
    wrong = _wrong_file({name: typed.get(name) or "" for name in files if name not in later}, look)
    if str(provider).startswith("azure_") and POOLS not in later:
        _check_pools(str(provider), tidy(typed.get(POOLS) or []))
    if provider == "health_probe":
        probe = {option: typed.get(name, specs[name]["default"]) or "" for option, name in PROBE.items()}
        health_probe.check_settings(probe, is_absolute)
    return wrong or wrong_option(specs, typed)


def files_of_balancer(variables: Variables, template: Template, phase: str) -> list[str]:
    """The tasks files of a load balancer that run in a phase, as far as they are known."""
    found: list[str] = []
    for name in FILES_OF.get(phase, ()):
        with contextlib.suppress(AnsibleError):
            found += map(str, filter(None, _given(variables, template, {name: name}).values()))
    return found


def _wrong_file(paths: t.Mapping[str, str], look: Look) -> str:
    for name, path in paths.items():
        if Path(path).is_absolute():
            look(name, path)
        elif name != FIND_FILE:  # which is not required
            return f"{name} is '{path}', expected the absolute path of a tasks file"
    return ""


def _check_pools(provider: str, ids: list[str]) -> None:
    for pool in ids or [""]:
        pools.owner_of(pool, pools.GATEWAYS if provider.endswith("gateway") else pools.BALANCERS)


class FailedTask(t.NamedTuple):
    """The task of this host that failed last, with what it has shown."""

    name: str
    action: str
    args: Variables
    result: Variables
    no_log: bool

    @property
    def reason(self) -> str:
        """Why it failed. Ansible shows the output of a task with no_log nowhere else either."""
        return "its output is hidden by no_log" if self.no_log else str(self.result.get("msg", "no reason was given"))


def failed_task(variables: Variables) -> FailedTask | None:
    """The task that failed last in the play, and that a rescue section handles or has handled; None if none has."""
    result = variables.get("ansible_failed_result")
    if not result:
        return None
    task = variables["ansible_failed_task"]
    no_log = result.get("_ansible_no_log", task.get("no_log")) not in (False, None)
    return FailedTask(str(task["name"] or ""), str(task["action"]), task.get("args") or {}, result, no_log)
