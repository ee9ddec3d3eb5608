# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No value of an option ``state`` only reads: that is what modules are for whose names end in _info."""

import ast
import pathlib

import yaml

ROOT = pathlib.Path(__file__).parents[3]
# What the host, its record or its events are like after the task. None of them says "only read".
STATES = {
    *("present", "absent", "drained", "active", "held", "noted"),
    *("returning", "interrupted", "released", "done", "failed"),
}


def choices_of_state():
    """The choices of each option ``state``, by the file that documents it: a module or a fragment."""
    found = {}
    for path in (*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/doc_fragments/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                text = node.value.value
                if isinstance(text, str) and "\noptions:\n" in text:
                    state = yaml.safe_load(text)["options"].get("state")
                    found.update({path.stem: set(state["choices"])} if state else {})
    return found


def test_no_module_queries_through_a_value_of_state():
    found = choices_of_state()
    assert {name: choices - STATES for name, choices in found.items() if choices - STATES} == {}
    assert {"haproxy_servers", "load_balancer"} <= set(found)  # they are found wherever they are


def test_no_info_module_has_a_state():
    assert [name for name in choices_of_state() if name.endswith("_info")] == []
