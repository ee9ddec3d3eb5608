# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the modules that the roles respond and load_balancer use, and their documentation."""

import ast
import importlib
import pathlib

import pytest
import yaml

from plugins.module_utils._load_balancer.call import OPTIONS as OF_LOAD_BALANCER
from plugins.module_utils._respond.request import OPTIONS as OF_TURN
from plugins.module_utils._respond.request import TurnRequest

MODULES = pathlib.Path(__file__).parents[4] / "plugins" / "modules"


def documented(module):
    nodes = ast.parse((MODULES / f"{module}.py").read_text()).body
    [text] = [
        each.value.value for each in nodes if isinstance(each, ast.Assign) and each.targets[0].id == "DOCUMENTATION"
    ]
    page = yaml.safe_load(text)
    options = dict(page["options"])
    for fragment in page["extends_documentation_fragment"]:
        name, _dot, part = fragment[len("maintops.scheduled_events.") :].partition(".")
        fragments = importlib.import_module(f"plugins.doc_fragments.{name}").ModuleDocFragment
        options.update(yaml.safe_load(getattr(fragments, (part or "documentation").upper())).get("options", {}))
    return options


def simplified(options):
    """Type, default, choices and the like of each option, in the words of an argument spec."""
    kept = ("type", "elements", "required", "default", "choices")
    return {
        name: (
            {key: option[key] for key in kept if key in option},
            simplified(option.get("options") or option.get("suboptions") or {}),
        )
        for name, option in options.items()
    }


@pytest.mark.parametrize(
    ("module", "options"), [("scheduled_events_turn", OF_TURN), ("load_balancer", OF_LOAD_BALANCER)]
)
def test_a_module_takes_the_values_that_its_documentation_names(module, options):
    page = documented(module)
    assert simplified(options) == simplified({name: page[name] for name in options})


def test_a_turn_of_which_nothing_else_is_asked_is_the_first_one_of_the_host_and_may_prepare_it():
    asked = {name: value for name, value in TurnRequest("run")._asdict().items() if value}
    assert asked == {"run": "run", "first": True, "prepares": True}
