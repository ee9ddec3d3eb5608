# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write one page about a run of the stages, from what they left in .nox/reports: python scripts/report.py

It shows the stages with CPU and wall time and memory, the tests that used most CPU time, what failed, what was skipped,
and what is flaky: what failed now, and passed in an earlier run on the same files.
"""

from __future__ import annotations

import hashlib
import html
import json
import pathlib
import subprocess
import xml.etree.ElementTree as ET
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPORTS = ROOT / ".nox" / "reports"
PAGE = ROOT / ".nox" / "report" / "index.html"
PASSED = ROOT / ".nox" / "report" / "passed.json"  # what passed so far, and on which files
SLOWEST = 50
HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Report of the tests</title>
<style>
body { font: 15px/1.4 sans-serif; margin: 2em; }
table { border-collapse: collapse; }
td, th { border-bottom: 1px solid #ccc; padding: 2px 12px 2px 0; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
pre { white-space: pre-wrap; margin: 0; }
</style>
<h1>Report of the tests</h1>
"""


class Test(NamedTuple):
    """A test that ran or was skipped."""

    stage: str
    name: str
    cpu: float
    fixtures: str  # those that it set up and that used CPU time
    outcome: str  # passed, failed, skipped
    detail: str


def test_of(stage: str, case: ET.Element) -> Test:
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    fixtures = [f"{name[len('cpu of ') :]} {value}" for name, value in properties.items() if name.startswith("cpu of ")]
    outcome, detail = "passed", ""
    for kind, word in (("skipped", "skipped"), ("failure", "failed"), ("error", "failed")):
        for found in case.findall(kind):
            outcome, detail = word, found.get("message") or ""
    name = f"{case.get('classname')}::{case.get('name')}"
    return Test(stage, name, float(properties.get("cpu", 0)), ", ".join(fixtures), outcome, detail)


def tests() -> list[Test]:
    """All tests of the run."""
    return [
        test_of(path.stem, case)
        for path in sorted(REPORTS.glob("*.xml"))
        for case in ET.parse(path).getroot().iter("testcase")
    ]


def stages() -> list[dict[str, object]]:
    """What scripts/measured.py wrote about each stage, the one that used most CPU time first."""
    found = [{"name": path.stem, **json.loads(path.read_text())} for path in REPORTS.glob("*.json")]
    return sorted(found, key=lambda stage: -stage["cpu"])


def files() -> str:
    """A hash of all files that git tracks, or would."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    digest = hashlib.sha256()
    for path in (ROOT / name for name in sorted(set(names)) if name):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def passed_before(ran: list[Test]) -> set[str]:
    """The tests that passed in earlier runs on the same files; what passed now is added for the next run."""
    now = files()
    known = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    before = set(known["passed"]) if known.get("files") == now else set()
    passed = before | {f"{test.stage} {test.name}" for test in ran if test.outcome == "passed"}
    PASSED.write_text(json.dumps({"files": now, "passed": sorted(passed)}))
    return before


def table(title: str, heads: list[str], rows: list[list[object]]) -> str:
    """A table; numbers stand at the right."""
    if not rows:
        return f"<h2>{html.escape(title)}</h2>\n<p>None.</p>\n"
    lines = ["".join(f"<th>{html.escape(head)}</th>" for head in heads)]
    for row in rows:
        cells = (
            f'<td class="number">{cell}</td>' if isinstance(cell, (int, float)) else f"<td>{html.escape(cell)}</td>"
            for cell in row
        )
        lines.append("".join(cells))
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<h2>{html.escape(title)}</h2>\n<table>\n{body}\n</table>\n"


def write() -> pathlib.Path:
    """Write the page, and return its path."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    ran = tests()
    before = passed_before(ran)
    failed = [test for test in ran if test.outcome == "failed"]
    slowest = sorted(ran, key=lambda test: -test.cpu)[:SLOWEST]
    measured = stages()
    total = {key: sum(stage[key] for stage in measured) for key in ("cpu", "seconds")}
    rows = [
        [
            stage["name"],
            "passed" if stage["status"] == 0 else "failed",
            round(stage["cpu"]),
            round(stage["seconds"]),
            round(stage["memory"] / 2**20),
        ]
        for stage in measured
    ]
    if rows:
        rows.append(["all", "", round(total["cpu"]), round(total["seconds"]), max(row[4] for row in rows)])
    flaky = [[test.stage, test.name] for test in failed if f"{test.stage} {test.name}" in before]
    PAGE.write_text(
        HEAD
        + table("Stages", ["stage", "result", "CPU seconds", "seconds", "most memory, MiB"], rows)
        + table("Failed", ["stage", "test", "message"], [[test.stage, test.name, test.detail] for test in failed])
        + table("Flaky: failed now, passed earlier on the same files", ["stage", "test"], flaky)
        + table(
            f"The {SLOWEST} tests with most CPU time",
            ["CPU seconds", "stage", "test", "of these, fixtures"],
            [[test.cpu, test.stage, test.name, test.fixtures] for test in slowest],
        )
        + table(
            "Skipped",
            ["stage", "test", "reason"],
            [[test.stage, test.name, test.detail] for test in ran if test.outcome == "skipped"],
        )
    )
    return PAGE


if __name__ == "__main__":
    print(write())
