# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the roles and their defaults, against the tasks that read them."""

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def found_in(paths, pattern):
    """What these files have of a pattern."""
    return [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in paths
        for match in re.finditer(pattern, path.read_text())
    ]


def files_of(role):
    return [
        path
        for place in ("tasks", "handlers", "vars", "templates")
        for path in (ROOT / "roles" / role / place).glob("*")
    ]


@pytest.mark.parametrize("role", ROLES)
def test_no_task_takes_a_variable_that_is_null_by_default_for_a_text(role):
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()) or {}
    unset = [name for name, value in defaults.items() if value is None]
    assert found_in(files_of(role), rf"\b({'|'.join(unset) or 'none at all'}) ?((==|!=|\| ?length)[^|}}\n]*)") == []


def test_the_number_0_is_never_taken_for_a_variable_that_is_not_set():
    entries = [
        entry
        for role in ROLES
        for entry in yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text()).values()
    ]
    options = [each for entry in entries for spec in entry.values() for each in spec["options"].items()]
    numbers = "|".join(name for name, option in options if option["type"] in ("float", "int"))
    paths = [*(ROOT / "playbooks").rglob("*.yml"), *(path for role in ROLES for path in files_of(role))]
    assert found_in(paths, rf"\b({numbers}) ?\| ?default\((?!0)[^)]*, true\)") == []


OF_PLAYBOOKS = ("hosts", "serial")  # read by a playbook alone
OF_PROVIDERS = ("state", "holder", "drain_timeout", "on_timeout")
# Of a role and a file of its tasks, what the options begin with that a module is given there.
GIVEN = {
    ("drill", "main"): ("",),
    ("load_balancer", "health_probe"): (*OF_PROVIDERS, "return_timeout", "haproxy_", "probe_", "ports"),
    ("load_balancer", "haproxy"): (*OF_PROVIDERS, "return_timeout", "haproxy_"),
    ("load_balancer", "azure"): (*OF_PROVIDERS, "provider", "azure_"),
    ("rolling_maintenance", "gate"): (
        *("allow_", "checked_", "gate_", "max_", "name", "on_", "resume_", "settle", "windows"),
    ),
}


@pytest.mark.parametrize(("role", "file"), GIVEN)
def test_each_option_of_a_role_is_given_to_its_module_under_its_name(role, file):
    specs = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    names = [name[len(role) + 1 :] for name in specs["main"]["options"] if name.startswith(f"{role}_")]
    expected = [name for name in names if name.startswith(GIVEN[role, file]) and name not in OF_PLAYBOOKS]
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / f"{file}.yml").read_text())
    calls = [each[key] for each in tasks for key in each if key.startswith("maintops.scheduled_events.")]
    arguments = calls[0]
    found = [(key, *each) for key in arguments for each in re.findall(rf"\b(__)?{role}_(\w+)", str(arguments[key]))]
    # A private variable of the same name has the value that another role gives, or the option.
    given = {name: key for key, private, name in found if not private or name in OF_PROVIDERS}
    assert sorted(given) == sorted(expected)
    assert {name for name, key in given.items() if not name.endswith(key)} <= {"haproxy_hosts", "windows"}
