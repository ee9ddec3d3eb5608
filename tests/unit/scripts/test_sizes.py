# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files and classes of plugins and roles, and the map of the repository, stay short enough to read."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parents[3]
FILES = [
    path
    for place in ("plugins", "roles")
    for path in sorted((ROOT / place).rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]
LONGEST_FILE, LONGEST_CLASS, LONGEST_MAP = 500, 300, 50  # lines


def test_no_file_of_plugins_and_roles_has_more_than_500_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_bytes().splitlines()) for path in FILES}
    assert len(lengths) > 200
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_class_of_plugins_and_roles_has_more_than_300_lines():
    lengths = {
        f"{path.relative_to(ROOT)}: {node.name}": node.end_lineno - node.lineno + 1
        for path in FILES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert len(lengths) > 200
    assert {name: length for name, length in lengths.items() if length > LONGEST_CLASS} == {}


def test_the_map_of_the_repository_fits_a_screen():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Repository structure\n")[2].partition("\n## ")[0]
    assert 0 < len(section.splitlines()) <= LONGEST_MAP
