# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the roles: which are in front, and that each is declared with the default that it has."""

import importlib.util
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]


def load():
    spec = importlib.util.spec_from_file_location("role_readmes", ROOT / "scripts" / "role_readmes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


role_readmes = load()
ROLES = sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
OF_A_PLAYBOOK = re.compile(r"_(hosts|become|serial)$")
READ = re.compile(
    r"(?<!__)\b((?:poller|report|forecast|drill|respond|rolling_maintenance|controller_setup)_[a-z_]+)\b(?=[^:\w]|$)"
)


def entry_points(role):
    return yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]


def options_of(role):
    return {name: option for entry in entry_points(role).values() for name, option in entry.get("options", {}).items()}


def test_the_front_is_small_and_of_variables_that_exist():
    front = [name for names in role_readmes.FRONT.values() for name in names]
    known = {name for role in ROLES for name in options_of(role)}
    assert len(front) == len(set(front)) <= 36
    assert set(front) <= known


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_front_is_first_in_the_argument_specs(role):
    assert role_readmes.order_complaint(role) == ""


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_variable_has_the_default_that_its_argument_spec_names(role):
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text())
    declared = {name: option.get("default") for name, option in options_of(role).items()}
    assert defaults.keys() <= declared.keys()
    # Older cores refuse null for an option with a default, so the argument specs name none for it.
    assert {name: value for name, value in defaults.items() if value != declared[name]} == {
        name: value for name, value in defaults.items() if str(value).endswith("default(none) }}")
    }


@pytest.mark.parametrize("playbook", sorted(ROOT.glob("playbooks/*.yml")), ids=lambda path: path.stem)
def test_every_variable_that_a_playbook_reads_is_declared(playbook):
    text = re.sub(r"(?m)^ *#.*|maintops\.scheduled_events\.\w+", "", playbook.read_text())
    read = set(READ.findall(" ".join(re.findall(r"{{.*?}}", text, re.DOTALL))))
    declared = {name for role in ROLES for name in options_of(role)}
    assert read - declared <= {"rolling_maintenance_result"}  # a fact of the role
    assert {name for name in read if OF_A_PLAYBOOK.search(name)} or playbook.stem == "controller_setup"
