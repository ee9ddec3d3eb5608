# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import datetime
import pathlib

import pytest
import yaml
from ansible.errors import AnsibleError

from plugins.module_utils._module import COMMON_OPTIONS
from plugins.module_utils._respond.request import OPTIONS
from plugins.plugin_utils._ansible.tasks_files import TasksFileError
from plugins.plugin_utils._respond import role as role_module
from plugins.plugin_utils._respond.role import (
    TIMES,
    failed_task,
    files_of_balancer,
    options_of_role,
    wrong_type,
)

SPECS = pathlib.Path(__file__).parents[5] / "roles" / "respond" / "meta" / "argument_specs.yml"
OF_THE_PLAYBOOK = {"hosts"}
RESULT = {"msg": "no space left", "failed": True}
POOL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb/backendAddressPools/web"
IN_A_POOL = {"load_balancer_provider": "azure_load_balancer", "load_balancer_azure_pools": [POOL]}


def look(variable, path):
    """Stands for a look at a tasks file, as far as its path."""
    if not pathlib.Path(path).is_file():
        raise TasksFileError(f"{variable} is {path}, expected a file")


def refusal_of_role(variables, template, role="respond"):
    return role_module.refusal_of_role(variables, template, look, role)


def as_it_is(value):
    return value


def templating(values):
    """A template for dictionaries and their values; a value that is an error is raised."""

    def template(raw):
        if isinstance(raw, dict):
            return {name: template(each) for name, each in raw.items()}
        value = values.get(raw, raw) if isinstance(raw, str) else raw
        if isinstance(value, Exception):
            raise value
        return value

    return template


def test_each_variable_of_the_role_is_an_option_of_its_turns():
    documented = yaml.safe_load(SPECS.read_text())["argument_specs"]["main"]["options"]
    names = {name.removeprefix("respond_").removeprefix("scheduled_events_") for name in documented}
    given = options_of_role(dict.fromkeys(documented, "given"), as_it_is)
    assert given.keys() == names - OF_THE_PLAYBOOK
    assert given.keys() <= {*COMMON_OPTIONS, *OPTIONS}


def test_the_options_are_the_values_of_the_templates_of_the_variables():
    variables = {
        "respond_rules": ["rule"],
        "respond_prepare_tasks": "{{ folder }}/drain.yml",
        "respond_result": "of an earlier run",
        "load_balancer_drain_timeout": 7,
        "__respond_within_maintenance": True,
    }
    template = templating({"{{ folder }}/drain.yml": "/srv/drain.yml"})
    assert options_of_role(variables, template) == {
        "rules": ["rule"],
        "prepare_tasks": "/srv/drain.yml",
        "drain_timeout": 7,
        "within_maintenance": True,
        "load_balancer": False,
    }


def test_an_empty_value_counts_as_not_set_only_for_an_option_without_a_default():
    variables = {"respond_prepare_tasks": "", "respond_wait_timeout": ""}
    assert options_of_role(variables, as_it_is) == {"wait_timeout": "", "load_balancer": False}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "acknowledge",
            "all",
            "respond_acknowledge: value of respond_acknowledge must be one of: prepared, any, never",
        ),
        ("wait_timeout", "long", "respond_wait_timeout: argument 'respond_wait_timeout' is of type "),
        ("load_balancer", "perhaps", "respond_load_balancer: argument 'respond_load_balancer' is of type "),
        ("drain_timeout", "long", "load_balancer_drain_timeout: argument 'load_balancer_drain_timeout' is of type "),
        ("rules", [{"event_types": ["Freeze"]}], "respond_rules: missing required arguments: action"),
        (
            "rules",
            [{"action": "wait"}],
            "respond_rules: value of action must be one of: prepare, approve, ignore, hold",
        ),
        (
            "rules",
            [{"action": "hold", "type": "Freeze"}],
            "respond_rules: Unsupported parameters: respond_rules.type. Supp",
        ),
        ("published_events", ["Freeze"], "respond_published_events: Elements value for option 'respond_published_ev"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_variable(name, value, message):
    assert wrong_type({"phase_timeout": "90", "speak_for": ["vm1"], name: value}).startswith(message)


def test_values_of_the_types_of_the_role_are_taken():
    given = {"rules": [{"action": "hold"}], "wait_timeout": "9", "load_balancer": "no", "prepare_tasks": "/x.yml"}
    assert wrong_type({**given, "within_maintenance": True, "speak_for": "vm1"}) == ""


@pytest.mark.parametrize("value", [None, "", "__omit__"])
def test_a_variable_that_names_nothing_is_no_option(value):
    of_all_roles = {f"scheduled_events_{name}" for name in ("endpoint", "api_version", "vm_name", "state_directory")}
    variables = {**dict.fromkeys([*of_all_roles, "respond_recover_tasks"], value), "omit": "__omit__"}
    assert options_of_role(variables, as_it_is) == {"load_balancer": False}


@pytest.mark.parametrize(("given", "wanted"), [(None, True), ("", True), (False, False)])
def test_a_provider_implies_the_load_balancer_unless_the_role_is_told_otherwise(given, wanted):
    variables = {"load_balancer_provider": "haproxy", "respond_load_balancer": given}
    assert options_of_role(variables, as_it_is)["load_balancer"] is wanted


def test_half_a_load_balancer_is_refused_by_the_names_of_its_variables():
    half = {"load_balancer_haproxy_ports": [], "load_balancer_probe_flag": "/x", "my_load_balancer_x": 1}
    text = "load_balancer_haproxy_ports describes a load balancer, but load_balancer_provider is not set, so"
    assert refusal_of_role(half, as_it_is).startswith(text)
    assert refusal_of_role({**half, "respond_load_balancer": False}, as_it_is) == ""
    assert refusal_of_role({**half, "load_balancer_provider": "health_probe"}, as_it_is) == ""


@pytest.mark.parametrize("name", ["respond_event", "respond_events"])
def test_a_variable_that_would_replace_the_event_of_the_tasks_is_refused(name):
    assert (
        refusal_of_role({name: {}}, as_it_is)
        == f"{name} is set, but the role sets it for your tasks. Rename your variable"
    )
    assert refusal_of_role({name: {}}, as_it_is, "rolling_maintenance") == ""


@pytest.mark.parametrize(
    ("role", "name", "near"),
    [
        ("respond", "respond_prepare_task", "respond_prepare_tasks"),
        ("respond", "respond_rule", "respond_rules"),
        ("respond", "load_balancer_drain_timout", "load_balancer_drain_timeout"),
        ("rolling_maintenance", "rolling_maintenance_health_task", "rolling_maintenance_health_tasks"),
        ("rolling_maintenance", "respond_rule", ""),
        ("respond", "respond_result", ""),
        ("respond", "respond_prepare_tasks_of_web", ""),
        ("respond", "respond_prepare_tasks_db", ""),
        ("respond", "respond_db_prepare_tasks", ""),
        ("respond", "my_respond_rule", ""),
        ("respond", "load_balancer_credentials_of_web", ""),
    ],
)
def test_a_variable_that_is_nearly_an_option_is_refused_since_it_would_have_no_effect(role, name, near):
    variables = {"load_balancer_provider": "health_probe", "load_balancer_ports": [80], name: None}
    refusal = refusal_of_role(variables, as_it_is, role)
    assert refusal.startswith(f"{name} has no effect, expected {near}. Correct the name. ") if near else refusal == ""


@pytest.mark.parametrize("provider", [{}, {"load_balancer_provider": "health_probe", "load_balancer_ports": [80]}])
def test_a_variable_whose_name_is_not_a_text_is_of_the_users_own(provider):
    assert refusal_of_role({8443: "https", True: "what YAML makes of the name on", **provider}, as_it_is) == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("haproxy_hosts", {"lb1": None}, "argument 'load_balancer_haproxy_hosts' is of type "),
        ("provider", "haproxi", "value of load_balancer_provider must be one of: health_probe, haproxy, azure_load_ba"),
        ("provider", None, ""),  # the message depends on ansible-core
        ("provider", "", "value of load_balancer_provider must be one of: health_probe, haproxy, azure_load_balancer,"),
        ("on_timeout", "fial", "value of load_balancer_on_timeout must be one of: fail, continue, got: fial. Correct"),
        ("probe_interval", "5 s", "argument 'load_balancer_probe_interval' is of type "),
        ("ports", ["https"], "Elements value for option 'load_balancer_ports' is of type "),
        ("ports", None, "argument 'load_balancer_ports' is of type "),
        ("probe_count", None, "argument 'load_balancer_probe_count' is of type "),
        ("ports", [0], " is 0, expected a number from 1 to 65535"),
        ("probe_interval", "0", " is 0, expected a number above 0, at most 1e+08"),
        pytest.param("probe_interval", 10**400, "the number is too large", id="digits"),
        ("probe_count", float("inf"), ""),  # the message depends on ansible-core
    ],
)
@pytest.mark.parametrize("role", ["respond", "rolling_maintenance"])
def test_what_the_role_load_balancer_would_refuse_is_refused_at_the_start(name, value, message, role):
    variable, choice = f"load_balancer_{name}", f"{role}_load_balancer"
    variables = {"load_balancer_provider": "health_probe", variable: "{{ which }}"}
    template = templating({"{{ which }}": value})
    refusal = refusal_of_role(variables, template, role)
    assert refusal.startswith(f"{variable}{message}" if message.startswith(" ") else f"{variable}: {message}")
    assert refusal.endswith(f". Correct it, or set {choice} to false")
    assert refusal_of_role({**variables, choice: "no"}, template, role) == ""
    assert refusal_of_role({**variables, choice: "maybe"}, template, role) == ""  # its option refuses that
    assert refusal_of_role({**variables, choice: True}, template, role) == refusal


def test_the_credentials_of_a_balancer_are_not_read_at_the_start():
    variables = {**IN_A_POOL, "load_balancer_azure_credentials": "{{ of_a_vault }}"}
    assert refusal_of_role(variables, templating({"{{ of_a_vault }}": AssertionError()})) == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("azure_pools", [], "'' is not the id of a backend pool, expected "),
        ("azure_pools", "web", "'web' is not the id of a backend pool, expected "),
        ("azure_pools", POOL.replace("loadBalancers", "applicationGateways"), "'/subscriptions/"),
        ("azure_pools", f"{POOL}, {POOL}2", ""),
        ("azure_pools", "{{ later }}", ""),
        ("provider", "azure_application_gateway", f"{POOL!r} is not the id of a backend pool, expected "),
        ("probe_url", "web:8080/healthz", 'url is "web:8080/healthz", expected http://HOST/PATH or https://HOST/PATH'),
        ("probe_url", "{{ later }}", ""),
        ("probe_flag", "drained", "flag is drained, expected an absolute path. Correct load_balancer_probe_flag"),
        ("probe_flag", "C:\\drained", ""),
        ("ports", [], "ports is empty, expected at least one port of the service. Set load_balancer_ports"),
        ("probe_drained_status", "200", "drained_status is 200, which a host in service gives"),
        ("probe_drained_status", "{{ later }}", ""),
    ],
)
def test_a_pool_or_a_probe_that_cannot_be_meant_is_refused_at_the_start(name, value, message):
    provider = {} if "azure" in f"{name} {value}" else {"load_balancer_provider": "health_probe"}
    template = templating({"{{ later }}": AnsibleError()})
    refusal = refusal_of_role({**IN_A_POOL, **provider, f"load_balancer_{name}": value}, template)
    assert refusal.startswith(message) if message else refusal == ""
    assert refusal.count("Correct") + refusal.count("Set") == bool(message)  # one advice, which names the variable
    advised = "azure_pools" if name == "provider" else name
    assert refusal.endswith(f" load_balancer_{advised}, or set respond_load_balancer to false" if message else "")


@pytest.mark.parametrize("value", [["lb1", "lb3"], [], ""])
def test_a_haproxy_that_is_no_host_of_the_inventory_is_refused_at_the_start(value):
    variables = {"load_balancer_provider": "haproxy", "load_balancer_haproxy_hosts": value, "hostvars": {"lb1": {}}}
    shown = value or []
    assert refusal_of_role(variables, as_it_is) == (
        f"load_balancer_haproxy_hosts is {shown}, expected hosts of the inventory. Correct it, or set "
        "respond_load_balancer to false"
    )
    assert refusal_of_role({**variables, "load_balancer_haproxy_hosts": "lb1, "}, as_it_is) == ""
    # Which may have none, but asks those that it has.
    refusal = refusal_of_role({**variables, "load_balancer_provider": "health_probe"}, as_it_is)
    assert refusal.startswith(f"load_balancer_haproxy_hosts is {shown}, expected hosts of") is bool(shown)
    assert refusal_of_role({**variables, **IN_A_POOL}, as_it_is) == ""


def test_a_group_of_balancers_that_does_not_exist_is_refused_at_the_start():
    template = templating({"{{ groups['balancer'] }}": AnsibleError("no attribute 'balancer'")})
    variables = {"load_balancer_provider": "haproxy", "load_balancer_haproxy_hosts": "{{ groups['balancer'] }}"}
    assert refusal_of_role(variables, template) == (
        "load_balancer_haproxy_hosts: no attribute 'balancer'. Correct it, or set respond_load_balancer to false"
    )


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("drain", "/missing.yml", False),
        ("return", None, False),
        ("return", "return.yml", False),
        ("drain", "{{ later }}", True),
        ("find", "/missing.yml", False),
        ("find", "of_the_role.yml", True),
        ("out", None, True),
        ("out", "/missing.yml", True),  # which respond never reads, and the gate at once
    ],
)
def test_a_tasks_file_of_a_load_balancer_that_is_missing_is_refused_at_the_start(name, value, right):
    variable = f"load_balancer_{name}_tasks"
    files = {f"load_balancer_{each}_tasks": str(SPECS) for each in ("drain", "return")}
    template = templating({"{{ later }}": AnsibleError()})
    refusal = refusal_of_role({"load_balancer_provider": "tasks", **files, variable: value}, template)
    expected = f"{variable} is '{value or ''}', expected the absolute path of a tasks file. Correct it, or set respond_"
    missing = f"{variable} is /missing.yml, expected a file, or set respond_load_balancer to false"
    assert refusal == "" if right else refusal == missing or refusal.startswith(expected)


def test_the_tasks_files_of_a_load_balancer_are_those_of_the_phase_that_are_known():
    template = templating({"{{ later }}": AnsibleError(), "{{ here }}/out.yml": "/srv/out.yml"})
    names = {
        "drain": "{{ here }}/out.yml",
        "return": "/srv/in.yml",
        "find": "{{ later }}",
        "out": "/srv/of_the_gate.yml",
    }
    variables = {f"load_balancer_{name}_tasks": value for name, value in names.items()}
    expected = {"prepare": ["/srv/out.yml"], "started": ["/srv/out.yml"], "recover": ["/srv/in.yml"], "advised": []}
    assert {phase: files_of_balancer(variables, template, phase) for phase in expected} == expected


def test_right_values_of_the_load_balancer_are_accepted_and_one_that_is_not_known_yet():
    template = templating({"{{ later }}": AnsibleError()})
    variables = {
        "load_balancer_provider": "health_probe",
        "load_balancer_drain_timeout": "60",
        "load_balancer_azure_drain_time": None,
        "load_balancer_ports": "80,443",
        "load_balancer_probe_interval": "{{ later }}",
    }
    assert refusal_of_role(variables, template) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", "present"), ("state", None), ("deadline", "soon"), ("drain_timeout", "__omit__")],
)
def test_what_the_roles_give_to_the_role_load_balancer_themselves_is_not_checked(name, value):
    variables = {"load_balancer_provider": "health_probe", f"load_balancer_{name}": value, "omit": "__omit__"}
    assert refusal_of_role(variables, as_it_is) == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("endpoint", "htp://vm", 'endpoint: expected http://HOST or http://HOST:PORT, or auto, not "htp://vm"'),
        ("api_version", "latest", 'api_version: expected a date, such as 2020-07-01, or auto, not "latest"'),
        ("state_directory", "state", "state_directory is state, expected an absolute path"),
        ("endpoint", "auto", ""),
        ("state_directory", "C:\\state", ""),
        ("state_directory", "~/state", ""),
        ("state_directory", "$HOME/state", ""),
        *((name, value, "") for name in ("endpoint", "api_version", "state_directory") for value in (None, "")),
        ("api_version", datetime.date(2020, 7, 1), ""),  # 2020-07-01 in YAML
        *((name, "__omit__", "") for name in ("endpoint", "api_version", "state_directory")),
    ],
)
@pytest.mark.parametrize("role", ["respond", "rolling_maintenance"])
def test_what_no_look_at_a_host_can_mend_is_refused_by_the_name_of_its_variable(name, value, message, role):
    refusal = refusal_of_role({f"scheduled_events_{name}": value, "omit": "__omit__"}, as_it_is, role)
    assert refusal == (f"scheduled_events_{message}" if message else "")


TIMES_OF_ROLES = [(role, name) for role, names in TIMES.items() for name in names]


@pytest.mark.parametrize(("role", "name"), TIMES_OF_ROLES)
def test_a_time_that_never_ends_is_refused_by_the_name_of_its_variable(role, name):
    for value in ("nan", "1e400", -1):
        refusal = refusal_of_role({f"{role}_{name}": value}, as_it_is, role)
        assert refusal.startswith(f"{role}_{name} is {value}, expected a number ")
    assert refusal_of_role({f"{role}_{name}": "9"}, as_it_is, role) == ""


@pytest.mark.parametrize("role", TIMES)
def test_each_time_of_a_role_is_checked(role):
    specs = SPECS.parents[2] / role / "meta" / "argument_specs.yml"
    options = yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
    assert {f"{role}_{name}" for name in TIMES[role]} == {
        name for name, spec in options.items() if spec["type"] == "float"
    }


def test_a_slice_of_a_job_is_refused_and_a_job_of_a_workflow_is_not():
    job = {"awx_job_id": 7, "awx_job_template_name": "respond"}
    assert refusal_of_role({**job, "awx_workflow_job_name": "respond"}, as_it_is).startswith(
        "Job 7 is a slice of respond,"
    )
    assert refusal_of_role({**job, "awx_workflow_job_name": "night"}, as_it_is) == ""
    assert refusal_of_role(job, as_it_is) == ""


@pytest.mark.parametrize(
    ("result", "no_log", "reason"),
    [
        (RESULT, False, "no space left"),
        (RESULT, None, "no space left"),
        ({"failed": True}, False, "no reason was given"),
        (RESULT, True, "its output is hidden by no_log"),
        (RESULT, "{{ secret }}", "its output is hidden by no_log"),
        ({**RESULT, "_ansible_no_log": True}, False, "its output is hidden by no_log"),
        ({**RESULT, "_ansible_no_log": False}, "{{ secret }}", "no space left"),
    ],
)
def test_the_reason_of_a_failed_task_is_its_message_unless_it_is_hidden(result, no_log, reason):
    task = {"name": None, "action": "ansible.builtin.command", "no_log": no_log}
    found = failed_task({"ansible_failed_result": result, "ansible_failed_task": task})
    assert (found.name, found.action, found.reason) == ("", "ansible.builtin.command", reason)


@pytest.mark.parametrize("variables", [{}, {"ansible_failed_result": {}}])
def test_without_a_result_no_task_has_failed(variables):
    assert failed_task(variables) is None
