# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the roles: which are in front, and that each is declared with the default that it has."""

import pathlib
import re
import sys

import pytest
import yaml
from loading import loaded

ROOT = pathlib.Path(__file__).parents[3]


def load():
    return loaded(ROOT / "scripts" / "role_readmes.py")


role_readmes = load()
ROLES = sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
OF_A_PLAYBOOK = re.compile(r"_(hosts|become|serial)$")
READ = re.compile(
    r"(?<!__)\b((?:poller|report|audit|forecast|drill|respond|rolling_maintenance|controller_setup)_[a-z_]+)\b(?=[^:\w]|$)"
)


def entry_points(role):
    return yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]


def options_of(role):
    return {name: option for entry in entry_points(role).values() for name, option in entry.get("options", {}).items()}


def test_the_front_is_small_and_of_variables_that_exist():
    last = {role: role_readmes.BLOCK.search((role / "README.md").read_text())[2] for role in ROLES}
    options = {role: list(entry_points(role)["main"]["options"]) for role in ROLES}
    assert sum(options[role].index(name) + 1 for role, name in last.items() if name) <= 36


def test_a_readme_that_differs_from_the_argument_specs_fails_the_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "a" / "meta").mkdir(parents=True)
    specs = {"main": {"options": {name: {"description": f"The {name}."} for name in ("first", "second")}}}
    (tmp_path / "a" / "meta" / "argument_specs.yml").write_text(yaml.safe_dump({"argument_specs": specs}))
    readme = tmp_path / "a" / "README.md"
    readme.write_text("Before.\n<!-- variables to first -->\n<!-- /variables -->\nAfter.\n")
    monkeypatch.setattr(role_readmes, "ROLES", tmp_path)

    monkeypatch.setattr(sys, "argv", ["role_readmes.py", "--check"])
    assert role_readmes.main() == 1
    assert "a: README.md differs from argument_specs.yml" in capsys.readouterr().out

    monkeypatch.setattr(sys, "argv", ["role_readmes.py"])
    assert role_readmes.main() == 0
    assert re.findall("^[^|\\n].*|`first`|`second`", readme.read_text(), re.MULTILINE) == [
        "Before.",
        "<!-- variables to first -->",
        "`first`",
        "### More variables",
        "`second`",
        "<!-- /variables -->",
        "After.",
    ]


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
    read = set(READ.findall(text))
    declared = {name for role in ROLES for name in options_of(role)}
    assert read - declared <= {"rolling_maintenance_result"}  # a fact of the role
    assert {name for name in read if OF_A_PLAYBOOK.search(name)} or playbook.stem == "controller_setup"
