# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write one page about a run of the stages, from what they left in .nox/reports; scripts/stages.py does.

It shows the stages with CPU and wall time and memory, the tests that used most CPU time, what failed, what was skipped,
and what is flaky: what failed now, and passed in an earlier run on the same files. After a whole `make soak`,
docs/overview.md gets the results of the stages too.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPORTS = ROOT / ".nox" / "reports"
PAGE = ROOT / ".nox" / "report" / "report.md"
PASSED = ROOT / ".nox" / "report" / "passed.json"  # what passed so far, and on which files
OVERVIEW = ROOT / "docs" / "overview.md"
BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
SLOWEST = 50


class Test(NamedTuple):
    """A test that ran or was skipped."""

    stage: str
    name: str
    detail: str
    outcome: str  # passed, failed, skipped
    cpu: float
    fixtures: str  # those that it set up and that used CPU time


def test_of(stage: str, case: ET.Element) -> Test:
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    fixtures = [f"{name[len('cpu of ') :]} {value}" for name, value in properties.items() if name.startswith("cpu of ")]
    outcome, detail = "passed", ""
    for kind, word in (("skipped", "skipped"), ("failure", "failed"), ("error", "failed")):
        for found in case.findall(kind):
            outcome, detail = word, found.get("message") or ""
    name = f"{case.get('classname')}::{case.get('name')}"
    return Test(stage, name, detail, outcome, float(properties.get("cpu", 0)), ", ".join(fixtures))


def tests() -> list[Test]:
    """All tests of the run."""
    files = {path.stem: ET.parse(path) for path in sorted(REPORTS.glob("*.xml"))}
    return [
        test_of(stage.split()[0], case) for stage, file in files.items() for case in file.getroot().iter("testcase")
    ]


def stages() -> list[dict[str, object]]:
    """What scripts/measured.py wrote about each stage, the one that used most CPU time first."""
    found = [{"name": path.stem, **json.loads(path.read_text())} for path in REPORTS.glob("*.json")]
    for stage in found:
        stage["result"] = "passed" if stage["status"] == 0 else "**failed**"
    return sorted(found, key=lambda stage: -stage["cpu"])


def files() -> str:
    """A hash of all files that git tracks, or would."""
    index = {**os.environ, "GIT_INDEX_FILE": str(PASSED.with_name("index"))}
    subprocess.run(["git", "add", "--all"], cwd=ROOT, env=index, check=True)
    return subprocess.check_output(["git", "write-tree"], cwd=ROOT, env=index, text=True).strip()


def passed_before(ran: list[Test]) -> set[str]:
    """The tests that passed in earlier runs on the same files; what passed now is added for the next run."""
    now = files()
    known = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    before = set(known["passed"]) if known.get("files") == now else set()
    passed = before | {f"{test.stage} {test.name}" for test in ran if test.outcome == "passed"}
    PASSED.write_text(json.dumps({"files": now, "passed": sorted(passed)}))
    return before


def table(heads: list[str], rows: list[list[object]]) -> str:
    """A table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(str(cell).split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def write() -> pathlib.Path:
    """Write the page, and return its path."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    ran = tests()
    before = passed_before(ran)
    failed = [test for test in ran if test.outcome == "failed"]
    flaky = [test for test in failed if f"{test.stage} {test.name}" in before]
    rows = [
        [each["name"], each["result"], round(each["cpu"]), round(each["seconds"]), each["memory"] // 2**20]
        for each in stages()
    ]
    total = ["all", "", sum(row[2] for row in rows), sum(row[3] for row in rows), ""]
    slowest = [[test.cpu, *test[:2], test.fixtures] for test in sorted(ran, key=lambda test: -test.cpu)[:SLOWEST]]
    skipped = [test[:3] for test in ran if test.outcome == "skipped"]
    sections = {
        "Stages": (["stage", "result", "CPU seconds", "seconds", "largest process, MiB"], [*rows, total]),
        "Failed": (["stage", "test", "message"], [test[:3] for test in failed]),
        "Flaky: failed now, passed earlier on the same files": (["stage", "test"], [test[:2] for test in flaky]),
        f"The {SLOWEST} tests with most CPU time": (["CPU seconds", "stage", "test", "of these, fixtures"], slowest),
        "Skipped": (["stage", "test", "reason"], skipped),
    }
    PAGE.write_text("".join(f"## {title}\n\n{table(*content)}\n\n" for title, content in sections.items()))
    return PAGE


def write_overview(order: list[str]) -> pathlib.Path:
    """Replace the results between the two marks of docs/overview.md."""
    before = OVERVIEW.read_text()
    if BEGIN not in before or END not in before:
        sys.exit(f"{OVERVIEW} must have a line {BEGIN} and a line {END}: add them where the results belong.")
    passed = [test.stage for test in tests() if test.outcome == "passed"]
    results = {stage["name"]: stage["result"] for stage in stages()}
    rows = [[f"`{name}`", results.get(name, "not run"), sum(map(name.__eq__, passed)) or ""] for name in order]
    lines = [BEGIN, f"Results of `make soak` on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}.", ""]
    block = "\n".join([*lines, table(["stage", "result", "tests"], rows), END])
    OVERVIEW.write_text(before.partition(BEGIN)[0] + block + before.partition(END)[2])
    return OVERVIEW
