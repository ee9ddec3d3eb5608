# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules in two groups: those for playbooks of users, in the overview, and those that belong to a role."""

import ast
import pathlib
import re
import runpy

import yaml

ROOT = pathlib.Path(__file__).parents[3]


def short_description(path):
    nodes = ast.parse(path.read_text()).body
    [text] = [
        ast.literal_eval(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION"
    ]
    return yaml.safe_load(text)["short_description"]


def test_the_overview_names_the_modules_that_are_not_internal():
    modules = {path.stem: short_description(path) for path in ROOT.glob("plugins/modules/*.py")}
    rows = re.findall(r"^\| modules? (`[^|]+) \|", (ROOT / "docs" / "overview.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {name for name, text in modules.items() if not text.startswith("Internal: ")}


def test_no_page_for_users_names_an_internal_module():
    internal = [
        path.stem for path in ROOT.glob("plugins/modules/*.py") if short_description(path).startswith("Internal: ")
    ]
    pages = [
        ROOT / "README.md",
        ROOT / "meta" / "runtime.yml",
        *ROOT.glob("docs/*.md"),
    ]
    roles = [path.name for path in ROOT.glob("roles/*")]  # one can have the name of its module
    names = [f"/modules/{name}.py" for name in internal] + [f".{name}" for name in internal if name not in roles]
    found = {page.name: name for page in pages for name in names if name in page.read_text()}
    assert found == {}


WRITTEN = """\
Modules
~~~~~~~

* :ansplugin:`a module <x.y.a#module>` -- Internal: do it
* :ansplugin:`b module <x.y.b#module>` -- Read it

.. toctree::

    a_module
    b_module

Filter Plugins
"""
SHOWN = """\
Modules
~~~~~~~

* :ansplugin:`b module <x.y.b#module>` -- Read it

These modules are internal. They belong to a role, and may change with it in any release:

* :ansplugin:`a module <x.y.a#module>` -- Do it

.. toctree::

    b_module
    a_module

Filter Plugins
"""


def test_the_site_lists_internal_modules_after_the_others():
    site = runpy.run_path(str(ROOT / "docs" / "site" / "internal_modules.py"))
    assert site["set_apart"](WRITTEN) == SHOWN
