# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the stages of `make test`, two at a time, and show the running and the remaining stages, and the time of each.

    python scripts/stages.py                     the stages of `make test`
    python scripts/stages.py --soak              those of `make soak`; writes the table in docs/overview.md
    python scripts/stages.py [--soak] STAGE ...  only these

A stage is a session of nox. Its output goes to a log, and to the screen if it fails. Most stages wait for something, so
two of them share two cores well. The exit status is 1 if a stage failed.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import cores
import matrix
import pythons
import report

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOX = ROOT / ".venv" / "bin" / "nox"
MEASURED = ROOT / "scripts" / "measured.py"
LOGS = ROOT / ".nox" / "logs"
REPORTS = report.REPORTS
# `make test`: every behaviour once, where it can differ. The longest ones first, so that none of them runs alone at the
# end; Molecule and integration need most.
TEST = [
    "molecule",
    "integration",
    "unit",
    "controllers",
    "oldest",
    f"core({cores.OLDEST})",
    f"sanity({cores.NEWEST})",
    f"sanity({cores.OLDEST})",
    "lint",
    "edge",
    "eda",
    "docs",
    "galaxy",
    "emulator",
]
# `make soak`: every Python, every core, and every repetition.
SOAK = [
    "molecule",
    "unit",
    "fuzz",
    "integration",
    "controllers",
    *(f"{session}({core})" for session in ("core", "sanity") for core in cores.CORES),
    *(f"{session}-{major}.{minor}" for session in ("library", "library_oldest") for major, minor in pythons.VERSIONS),
    f"ansible_test({cores.NEWEST})",
    "lint",
    "edge",
    "eda",
    "docs",
    "galaxy",
    "emulator",
    "publish_test",
]
LANES = 2
REPEAT = ".venv/bin/nox --session"
SHOWN = 200  # lines of the log of a stage that failed


class Stage:
    """A stage that runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = LOGS / f"{name}.log"
        self._result = REPORTS / f"{name}.json"
        self._began = time.monotonic()
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(MEASURED), str(self._result), str(NOX), "--non-interactive", "--session", name],
                cwd=str(ROOT),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def used(self) -> str:
        """The time and the memory that it took."""
        seconds = span(time.monotonic() - self._began)
        if not self._result.exists():  # it was killed
            return seconds
        result = json.loads(self._result.read_text())
        return f"{seconds} (CPU {span(result['cpu'])}, memory {result['memory'] // 2**20} MiB)"

    def ended(self) -> bool:
        return self._process.poll() is not None

    def succeeded(self) -> bool:
        return self._process.returncode == 0

    def stop(self) -> None:
        """End it, and wait until it has cleaned up."""
        self._process.terminate()
        self._process.wait()


def show(text: str) -> None:
    print(text, flush=True)


def span(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def conclude(stage: Stage, running: list[Stage], waiting: list[str]) -> None:
    """Show what became of a stage."""
    left = [f"{each.name} runs" for each in running] + waiting
    outcome = "passed" if stage.succeeded() else "FAILED"
    if not stage.succeeded():
        lines = stage.log.read_text(errors="replace").splitlines()
        show(f"--- the last {SHOWN} of {len(lines)} lines of {stage.log}")
        show("\n".join(lines[-SHOWN:]))
        show(f"--- {stage.name} failed; repeat it with: {REPEAT} {shlex.quote(stage.name)}")
    show(f"{stage.name}: {outcome} in {stage.used()}; left: {', '.join(left) or 'nothing'}")


def run_all(names: list[str]) -> list[str]:
    """Run the stages; those that failed."""
    waiting, running, failed = list(names), list[Stage](), list[str]()
    try:
        while waiting or running:
            while waiting and len(running) < LANES:
                running.append(Stage(waiting.pop(0)))
                show(f"{running[-1].name}: begins (follow it with: tail -f {running[-1].log})")
            time.sleep(0.5)
            for stage in [each for each in running if each.ended()]:
                running.remove(stage)
                conclude(stage, running, waiting)
                if not stage.succeeded():
                    failed.append(stage.name)
    finally:
        for stage in running:  # the user has interrupted the run
            stage.stop()
    return failed


def sum_up() -> str:
    """All tests that ran."""
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for path in REPORTS.glob("*.xml"):
        suite = ET.parse(path).getroot().find("testsuite")
        total = {name: count + int(suite.get(name)) for name, count in total.items()}
    failed = total["failures"] + total["errors"]
    return f"{total['tests'] - failed - total['skipped']} passed, {failed} failed, {total['skipped']} skipped"


def skipped_pythons() -> list[str]:
    """Versions of Python for which this machine has no interpreter."""
    listing = subprocess.check_output([sys.executable, str(ROOT / "scripts" / "pythons.py")], text=True)
    return [line.split("\t")[0] for line in listing.splitlines() if not line.split("\t")[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--soak", action="store_true", help="what a release needs")
    parser.add_argument("stages", nargs="*", help="the stages to run (default: all)")
    chosen = parser.parse_args()
    os.environ["TIER"] = "soak" if chosen.soak else "test"
    every = SOAK if chosen.soak else TEST
    names = chosen.stages or every
    for directory in (LOGS, REPORTS):
        directory.mkdir(parents=True, exist_ok=True)
    for path in [*REPORTS.glob("*.xml"), *REPORTS.glob("*.json")]:
        path.unlink()
    show(f"Stages, {LANES} at a time: {', '.join(names)}")
    missing = skipped_pythons()
    if missing:
        show(f"Skipped, because this machine does not have them: Python {', '.join(missing)}")
    if names == TEST:
        show(f"Left to `make soak`: ansible-core {', '.join(cores.BETWEEN)}, and the full tests of Pythons in between")
    began = time.monotonic()
    failed = run_all(names)
    show(f"{len(names) - len(failed)} of {len(names)} stages passed in {span(time.monotonic() - began)}")
    if failed:
        show(f"Failed: {', '.join(failed)}. Repeat with: {REPEAT} {shlex.join(failed)}")
    if names == SOAK:
        show(f"Results of cores and Pythons: {matrix.write()}")
    show(f"Report: {report.write()}")
    show(sum_up())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
