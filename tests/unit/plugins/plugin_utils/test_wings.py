# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wings of the code for the control node, as CONTRIBUTING.md shows them."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[4]
WINGS = ROOT / "plugins" / "plugin_utils"
ROW = re.compile(r"^\| `(_[a-z]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def documented():
    """The wings that each wing uses, by the table in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {wing: set(re.findall(r"`(_[a-z]+)`", uses)) for wing, uses in ROW.findall(text)}


def used_by(wing):
    """The other wings that the modules of a wing import."""
    imports = [
        node
        for path in (WINGS / wing).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == 2
    ]
    return {(node.module or "").partition(".")[0] for node in imports}


@pytest.mark.parametrize("wing", sorted(path.name for path in WINGS.iterdir() if path.name.startswith("_")))
def test_a_wing_uses_the_wings_that_contributing_names(wing):
    if wing != "__pycache__":
        assert used_by(wing) == documented().get(wing)


def test_no_wing_uses_itself_through_others():
    uses = documented()
    assert uses
    while uses:
        lowest = [wing for wing in uses if not uses[wing] & uses.keys()]
        assert lowest, f"a circle: {uses}"
        for wing in lowest:
            del uses[wing]


def test_every_module_is_in_a_wing():
    assert [path.name for path in WINGS.glob("*.py")] == []
