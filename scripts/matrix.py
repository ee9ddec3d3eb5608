# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what the sessions of nox left about each ansible-core and each Python into docs/overview.md.

The page holds the results between the lines <!-- matrix --> and <!-- /matrix -->. The sessions leave their results in
.nox/matrix; a result stays until its session runs again. scripts/stages.py writes them after `make soak`.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import sys

import cores
import pythons

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "overview.md"
RESULTS = ROOT / ".nox" / "matrix"
BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
ON_A_CORE = {
    "sanity": "`ansible-test sanity`",
    "unit": "unit tests of the plugins",
    "playbooks": "playbooks against the emulator",
    "demo": "demo",
}
ON_A_PYTHON = {"library": "newest requests", "library_oldest": "oldest requests"}
NOT_RUN = "not run"


def result_of(name: str) -> dict[str, object]:
    """Return the result of a session; empty without one."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def outcome(result: dict[str, object]) -> str:
    """A result as a cell of a table."""
    if not result:
        return NOT_RUN
    detail = f"{result['tests']} passed" if "tests" in result else "passed"
    return detail if result["passed"] else "**failed**"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def row_of_core(core: str) -> list[str]:
    results = {check: result_of(f"{check}-{core}") for check in ON_A_CORE}
    ran = next(filter(None, results.values()), {"core": core, "python": ""})
    return [str(ran["core"]), str(ran["python"]), *map(outcome, results.values())]


def row_of_python(version: str) -> list[str]:
    results = [result_of(f"{session}-{version}") for session in ON_A_PYTHON]
    ran = next(filter(None, results), {"python": version})
    cells = [f"{result['requests']}: {outcome(result)}" if result else NOT_RUN for result in results]
    return [str(ran["python"]), *cells]


def block() -> str:
    """Return the text of the page between the two lines."""
    versions = [f"{major}.{minor}" for major, minor in pythons.VERSIONS]
    lines = [
        f"Results of `make soak` on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}. A Python that is"
        " missing here, and a check that was left out, are shown as not run.",
        "",
        *table(["ansible-core", "Python", *ON_A_CORE.values()], [row_of_core(core) for core in cores.CORES]),
        "",
        *table(["Python on VMs", *ON_A_PYTHON.values()], [row_of_python(version) for version in versions]),
    ]
    return "\n".join([BEGIN, *lines, END])


def write() -> pathlib.Path:
    """Replace the results on the page."""
    before = PAGE.read_text()
    if BEGIN not in before or END not in before:
        sys.exit(f"{PAGE} must have a line {BEGIN} and a line {END}: add them where the results belong.")
    head, _mark, rest = before.partition(BEGIN)
    PAGE.write_text(head + block() + rest.partition(END)[2])
    return PAGE
