# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the stages of `make test`, three at a time, and show the running and the remaining stages, and the time of each.

    python scripts/stages.py                     the stages of `make test`
    python scripts/stages.py --soak              those of `make soak`; writes the table in docs/overview.md
    python scripts/stages.py [--soak] STAGE ...  only these

A stage is a session of nox. Its output goes to a log, and to the screen if it fails. Most stages wait for something, so
three of them share two cores well. The exit status is 1 if a stage failed; what failed in it is shown again at the end.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

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
    *("molecule", "integration", "unit", "oldest", "controllers", f"sanity({pythons.NEWEST_CORE})", "edge"),
    *(f"core({pythons.OLDEST_CORE})", "lint", "eda", "docs", f"sanity({pythons.OLDEST_CORE})", "galaxy", "emulator"),
]
# `make soak`: every Python, every core, and every repetition.
SOAK = [
    *("molecule", "unit", "fuzz", "integration", "controllers", "faults"),
    *(f"{session}({core})" for session in ("core", "sanity") for core in pythons.CORES),
    *(f"{session}-{version}" for session in ("library", "library_oldest") for version in pythons.VERSIONS),
    f"ansible_test({pythons.NEWEST_CORE})",
    *("lint", "edge", "eda", "docs", "galaxy", "emulator", "publish_test"),
]
LANES = 3
REPEAT = ".venv/bin/nox --session"
SHOWN = 200  # lines of the log of a stage that failed
COLOR = re.compile("\x1b\\[[0-9;]*m")
# What nox writes of a session. It also ends without an error if it skips all sessions of a stage.
SUCCEEDED = re.compile("^nox > Session .* was successful", re.MULTILINE)
SKIPPED = re.compile("^nox > Session .* skipped: (.*)", re.MULTILINE)
# What pytest, Ansible, linters, Python and nox write about a failure, with the indented lines below it.
REASON = re.compile(
    r"^(?:E   |FAILED (?!- )|fatal: |    (?:msg|stderr): |\[?ERROR\b|[^ :]+:[0-9]+: |[\w.]+(?:Error|Exception): "
    r"|nox > .*(?:failed|aborted)).*(?:\n {6}.*)*",
    re.MULTILINE,
)
REASONS, SHOWN_OF_REASON = 4, 200  # how many are shown at the end, and characters of the beginning and end of each


def show(text: str) -> None:
    print(text, flush=True)


def span(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def plain_log(name: str) -> str:
    """The log of a stage, without colours."""
    return COLOR.sub("", (LOGS / f"{name}.log").read_text(errors="replace"))


def conclude(name: str, status: int, seconds: float, left: list[str]) -> str:
    """Show what became of a stage, and return it: passed, FAILED, or skipped and why. A skipped one has no result."""
    log, result = LOGS / f"{name}.log", REPORTS / f"{name}.json"
    text = plain_log(name)
    outcome, skipped = "passed", None if SUCCEEDED.search(text) else SKIPPED.search(text)
    if status:
        outcome = "FAILED"
        lines = log.read_text(errors="replace").splitlines()
        show(f"--- the last {SHOWN} of {len(lines)} lines of {log}")
        show("\n".join(lines[-SHOWN:]))
        show(f"--- {name} failed; repeat it with: {REPEAT} {shlex.quote(name)}")
    elif skipped:
        outcome = f"skipped ({skipped[1].rstrip('.')})"
        result.unlink(missing_ok=True)
    used = json.loads(result.read_text()) if result.exists() else {"cpu": 0, "memory": 0}  # also if it was killed
    used = f"{span(seconds)} (CPU {span(used['cpu'])}, memory {used['memory'] // 2**20} MiB)"
    show(f"{name}: {outcome} in {used}; left: {', '.join(left) or 'nothing'}")
    return outcome


def reasons(name: str) -> list[str]:
    """The first failures in the log of a stage."""
    width = SHOWN_OF_REASON
    found = REASON.findall(plain_log(name))[:REASONS]
    return [each if len(each) <= 2 * width else f"{each[:width]} ... {each[-width:]}" for each in found]


def run_all(names: list[str]) -> dict[str, str]:
    """Run the stages; what became of each."""
    waiting, running, outcomes = list(names), dict[str, subprocess.Popen](), dict[str, str]()

    def run(name: str) -> None:
        waiting.remove(name)
        log, began = LOGS / f"{name}.log", time.monotonic()
        show(f"{name}: begins (follow it with: tail -f {log})")
        command = [sys.executable, MEASURED, REPORTS / f"{name}.json", NOX, "--non-interactive", "--session", name]
        streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, **streams) as running[name]:
            status = running[name].wait()
        del running[name]
        left = [f"{each} runs" for each in running] + waiting
        outcomes[name] = conclude(name, status, time.monotonic() - began, left)

    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        try:
            list(pool.map(run, names))
        finally:  # the user has perhaps interrupted the run
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running.values()):
                process.terminate()
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--soak", action="store_true", help="what a release needs")
    parser.add_argument("stages", nargs="*", help="the stages to run (default: all)")
    chosen = parser.parse_args()
    os.environ["TIER"] = "soak" if chosen.soak else "test"
    missing = [version for version in pythons.VERSIONS if not pythons.find(version)]
    every = chosen.stages or (SOAK if chosen.soak else TEST)
    names = [name for name in every if name.rpartition("-")[2] not in missing]
    for directory in (LOGS, REPORTS):
        directory.mkdir(parents=True, exist_ok=True)
    for path in [*REPORTS.glob("*.xml"), *REPORTS.glob("*.json")]:
        path.unlink()
    show(f"Stages, {LANES} at a time: {', '.join(names)}")
    if missing:
        show(f"Skipped, because this machine does not have them: Python {', '.join(missing)}")
    began = time.monotonic()
    became = run_all(names)
    failed = [name for name in names if became[name] == "FAILED"]
    show(f"{list(became.values()).count('passed')} of {len(names)} stages passed in {span(time.monotonic() - began)}")
    if failed:
        show(f"Failed: {', '.join(failed)}. Repeat with: {REPEAT} {shlex.join(failed)}")
    for name in failed:  # once more, since its log is perhaps a thousand lines above
        show("\n".join([f"--- {name}:", *reasons(name)]))
    if every == SOAK:
        show(f"Results of the stages: {report.write_overview(SOAK)}")
    show(f"Report: {report.write()}")
    outcomes = [test.outcome for test in report.tests()]
    show(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped")))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
