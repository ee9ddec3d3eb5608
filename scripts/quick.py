# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lint what changed since the branch left main, and run the unit tests that name it: python scripts/quick.py [TEST ...]

A unit test is run if it changed, if it imports a module that changed, or if it names a file that changed. The tests of
the arguments are run too. It uses the environments of the stages lint and unit, and does not replace them.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOX = ROOT / ".nox"
UNIT = pathlib.Path("tests", "unit")
ON_VMS = ("plugins/module_utils/_scheduled_events", "plugins/module_utils/_load_balancer", "roles/poller/files")
DOCUMENTATION = re.compile(r"^(docs/|roles/[^/]+/(README\.md|meta/))")


def changed() -> list[str]:
    """The files that differ from main where the branch left it, and those that git does not track yet."""
    start = ask("git", "merge-base", "HEAD", "main") or ["HEAD"]
    found = ask("git", "diff", "--name-only", *start) + ask("git", "ls-files", "--others", "--exclude-standard")
    return sorted(name for name in set(found) if (ROOT / name).is_file())


def ask(*command: str) -> list[str]:
    """The lines that a command shows; none if it fails, as in a clone without main."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()


def tests_of(files: list[str]) -> list[str]:
    """The unit tests that changed, or that import or name a file that changed."""
    modules = {pathlib.Path(name).stem for name in files if name.endswith(".py") and not name.startswith("tests/unit")}
    names = {pathlib.Path(name).name for name in files if not name.startswith("tests/unit")}
    imports = re.compile(r"^\s*(?:from|import) .*\b(?:%s)\b" % "|".join(map(re.escape, sorted(modules))), re.MULTILINE)
    mentions = re.compile(r"(?<![\w.-])(?:%s)(?!\w)" % "|".join(map(re.escape, sorted(names))))
    chosen = []
    for path in sorted((ROOT / UNIT).rglob("test_*.py")):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        if name in files or (modules and imports.search(text)) or (names and mentions.search(text)):
            chosen.append(name)
    return chosen


def commands(files: list[str], tests: list[str]) -> list[list[str]]:
    """What to run."""
    lint, unit = NOX / "lint" / "bin", NOX / "unit" / "bin"
    python = [name for name in files if name.endswith(".py")]
    yaml = [name for name in files if name.endswith((".yml", ".yaml"))]
    found = []
    if python:
        found += [[f"{lint}/ruff", "check", *python], [f"{lint}/ruff", "format", "--check", *python]]
    if any(name.startswith(ON_VMS) for name in python):
        found.append([f"{lint}/mypy"])
    if yaml:
        found.append([f"{lint}/yamllint", "--strict", *yaml])
    if any(map(DOCUMENTATION.match, files)):
        found.append([f"{lint}/python", "scripts/role_readmes.py", "--check"])
    if files:
        found += [[f"{lint}/python", "scripts/prose.py"], [f"{lint}/codespell", *files]]
    if tests:
        found.append([f"{unit}/pytest", "--quiet", "--numprocesses=2", "--dist=loadfile", *tests])
    return found


def main() -> None:
    missing = [session for session in ("lint", "unit") if not (NOX / session).exists()]
    if missing:
        nox = [sys.executable, "-m", "nox", "--install-only", "--session", *missing]
        subprocess.run(nox, cwd=ROOT, check=True)
    files = changed()
    tests = sorted({*tests_of(files), *sys.argv[1:]})
    print(f"{len(files)} files changed; unit tests: {' '.join(tests) or 'none'}", flush=True)
    environment = {**os.environ, "TIER": "quick"}
    failed = [
        command
        for command in commands(files, tests)
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    ]
    for command in failed:
        print("failed: " + " ".join(command))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
