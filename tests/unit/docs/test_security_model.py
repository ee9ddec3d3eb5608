# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each claim of the page about security names the tests that try it, and each of these tests exists."""

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).parents[3]
FILE = yaml.safe_load((pathlib.Path(__file__).parent / "security_claims.yml").read_text(encoding="utf-8"))


def claims():
    """The sentences of the page; of a table, those of each cell after the title of its row."""
    page = (ROOT / "docs" / "security-model.md").read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    text = re.sub(r"^#.*|^.*\n\| ---.*", "", text, flags=re.MULTILINE)  # titles, also of tables
    found = []
    for block in re.split(r"\n\n+|\n(?=[|-])", text):
        title, *cells = block.strip("| \n").split(" | ") if block.startswith("|") else ["", block.lstrip("- \n")]
        for cell in cells:
            sentences = re.split(r"(?<=[.;])(?:\*\*)? (?=[A-Z*`])", " ".join(cell.split()))
            found += [f"{title}: {sentence}" if title else sentence for sentence in sentences]
    return list(filter(None, found))


def has(test):
    """Whether a test exists: PATH::NAME, of a function of Python or of a task."""
    path, _separator, name = test.partition("::")
    pattern = rf"^ *def {name}\(" if path.endswith(".py") else rf"^ *- name: {re.escape(name)}$"
    return (ROOT / path).is_file() and re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_each_claim_of_the_page_has_an_entry_and_no_entry_is_of_another_page():
    assert sorted(claims()) == sorted([*(each["claim"] for each in FILE["claims"]), *FILE["advice"]])


def test_each_claim_names_tests_that_exist():
    assert [each["claim"] for each in FILE["claims"] if not each["tests"]] == []
    assert [test for each in FILE["claims"] for test in each["tests"] if not has(test)] == []
