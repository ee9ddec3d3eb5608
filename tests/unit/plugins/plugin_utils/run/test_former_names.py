# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pathlib
import re

import pytest
import yaml
from ansible.errors import AnsibleActionFail

from plugins.module_utils._poller.options import FORMER_VARIABLES
from plugins.plugin_utils._run.former_names import FORMER_NAMES, refuse_former_names

ROOT = pathlib.Path(__file__).parents[5]
ALL = {**FORMER_NAMES, "poller": FORMER_VARIABLES}
CASES = [(role, former) for role, names in ALL.items() for former in names]


def declared():
    """The variables of all roles, and those that the tasks of a user may set."""
    specs = [yaml.safe_load(path.read_text()) for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
    entries = [entry for spec in specs for entry in spec["argument_specs"].values()]
    return {name for entry in entries for name in entry.get("options", {})}


@pytest.mark.parametrize(("role", "former"), [case for case in CASES if case[0] in FORMER_NAMES])
def test_a_former_name_is_refused_with_the_new_one(role, former):
    new = FORMER_NAMES[role][former]
    with pytest.raises(
        AnsibleActionFail, match=rf"{former}: the role {role} .*instead of {former} use {re.escape(new)}"
    ):
        refuse_former_names(role, {former: "", new: ""})


def test_each_of_several_former_names_gets_its_new_one():
    with pytest.raises(AnsibleActionFail, match="instead of maintenance_name use rolling_maintenance_name; instead of"):
        refuse_former_names("rolling_maintenance", {"maintenance_name": "", "maintenance_tasks": ""})


@pytest.mark.parametrize("role", FORMER_NAMES)
def test_the_names_of_another_role_are_not_refused(role):
    others = {former: "" for other, names in FORMER_NAMES.items() if other != role for former in names}
    refuse_former_names(role, others)


@pytest.mark.parametrize("former", [former for _role, former in CASES])
def test_a_former_name_is_in_no_use(former):
    assert former not in declared()


def test_the_role_poller_gives_all_its_former_names_to_the_check():
    text = (ROOT / "roles" / "poller" / "tasks" / "check.yml").read_text()
    [pattern] = re.findall(r"'ansible.builtin.varnames', '([^']+)'", text)
    assert [name for name in FORMER_VARIABLES if not re.search(pattern, name)] == []
