# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/fault-matrix.md has all faults of the emulator and all consumers, and explains what its cells say."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "fault-matrix.md").read_text(encoding="utf-8")


def rows_of(head):
    """The rows of the table whose first column has this head, each without its edges."""
    lines = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def heads_of_matrix():
    (line,) = re.findall(r"^\| fault \|(.*AWX.*)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_each_kind_of_fault_of_the_emulator_has_a_row():
    text = (ROOT / "roles/emulator/files/scheduled_events_emulator/faults.py").read_text(encoding="utf-8")
    kinds = re.findall(r'"(\w+)"', re.search(r"^KINDS = \((.*)\)$", text, re.MULTILINE).group(1))
    faults = [row[0] for row in rows_of("fault")]
    assert len(faults) > len(kinds) > 9
    assert [kind for kind in kinds if not any(fault.startswith(f"`{kind}") for fault in faults)] == []


def test_each_consumer_has_a_column_and_an_explanation():
    text = (ROOT / "tests/faults/consumers.py").read_text(encoding="utf-8")
    consumers = re.findall(r'^    Consumer\("(.+?)", ', text, re.MULTILINE)
    assert len(consumers) == 9
    assert heads_of_matrix() == consumers
    explained = ", ".join(row[0] for row in rows_of("consumer")).split(", ")
    assert sorted(explained) == sorted(consumers)


def test_each_fault_has_an_outcome_for_each_consumer_and_all_outcomes_are_explained():
    outcomes = {row[0] for row in rows_of("cell")}
    assert len(outcomes) == 7
    for row in rows_of("fault"):
        assert len(row) == 10, row
        assert set(row[1:]) <= outcomes, row
