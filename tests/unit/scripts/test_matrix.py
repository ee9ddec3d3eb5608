# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/matrix.py and scripts/cores.py: the table of results holds what the sessions left, and nothing else."""

import importlib
import json
import pathlib

import pytest

SCRIPTS = pathlib.Path(__file__).parents[3] / "scripts"
README = "Before.\n\n<!-- matrix -->\nof the run before\n<!-- /matrix -->\n\nAfter.\n"


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("matrix")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "PAGE", tmp_path / "overview.md")
    module.PAGE.write_text(README)
    return module


def leave(matrix, name, **result):
    (matrix.RESULTS / f"{name}.json").write_text(json.dumps(result))


def row(matrix, start):
    return next(line for line in matrix.block().splitlines() if line.startswith(f"| {start}"))


def test_a_core_shows_what_passed_failed_and_was_not_run(matrix):
    leave(matrix, "sanity-2.16", core="2.16.19", python="3.12.1", passed=True)
    leave(matrix, "unit-2.16", core="2.16.19", python="3.12.1", passed=True, tests=12)
    leave(matrix, "playbooks-2.16", core="2.16.19", python="3.12.1", passed=False, tests=3)
    assert row(matrix, "2.16") == "| 2.16.19 | 3.12.1 | passed | 12 passed | **failed** | not run |"


def test_a_core_without_results_is_not_run(matrix):
    assert row(matrix, "2.21") == "| 2.21 |  | not run | not run | not run | not run |"


def test_a_python_shows_its_requests_and_a_missing_one_is_not_run(matrix):
    leave(matrix, "library-3.6", python="3.6.15", requests="2.27.1", passed=True, tests=7)
    assert row(matrix, "3.6") == "| 3.6.15 | 2.27.1: 7 passed | not run |"
    assert row(matrix, "3.14") == "| 3.14 | not run | not run |"


def test_only_the_block_in_the_readme_is_replaced(matrix):
    matrix.write()
    text = matrix.PAGE.read_text()
    assert text.startswith("Before.\n\n<!-- matrix -->\n")
    assert text.endswith("\n<!-- /matrix -->\n\nAfter.\n")
    assert "of the run before" not in text


def test_a_readme_without_a_place_for_the_table_is_refused(matrix):
    matrix.PAGE.write_text("Nothing.\n")
    with pytest.raises(SystemExit, match="<!-- matrix -->"):
        matrix.write()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"3.10": "a", "3.12": "b", "3.13": "c"}, "3.12"),
        ({"3.10": "a", "3.12": ""}, "3.10"),
        ({"3.13": "c"}, "3.12"),  # which nox reports as missing
    ],
)
def test_a_core_runs_on_the_newest_python_that_it_supports(matrix, found, expected):
    assert matrix.cores.python_for("2.16", found) == expected
