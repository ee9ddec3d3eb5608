# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the hooks of pre-commit and the unit tests of what changed since main: python scripts/quick.py [TEST ...]

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
LINT, UNIT = (ROOT / ".nox" / session / "bin" for session in ("lint", "unit"))


def ask(*command: str) -> list[str]:
    """The lines that a command shows; none if it fails, as in a clone without main."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()


def changed() -> list[str]:
    """The files that differ from main where the branch left it, and those that git does not track yet."""
    start = ask("git", "merge-base", "HEAD", "main") or ["HEAD"]
    found = ask("git", "diff", "--name-only", *start) + ask("git", "ls-files", "--others", "--exclude-standard")
    return sorted(name for name in set(found) if (ROOT / name).is_file())


def tests_of(files: list[str]) -> list[str]:
    """The unit tests that changed, or that import or name a file that changed."""
    sources = [pathlib.Path(name) for name in files if not name.startswith("tests/unit")]
    modules = "|".join(re.escape(path.stem) for path in sources if path.suffix == ".py") or "(?!)"
    names = "|".join(re.escape(path.name) for path in sources) or "(?!)"
    named = re.compile(rf"^\s*(?:from|import) .*\b(?:{modules})\b|(?<![\w.-])(?:{names})(?!\w)", re.MULTILINE)
    tests = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py"))}
    return [name for name, path in tests.items() if name in files or named.search(path.read_text())]


def main() -> None:
    if not (LINT / "pre-commit").exists() or not UNIT.exists():
        nox = [sys.executable, "-m", "nox", "--install-only", "--session", "lint", "unit"]
        subprocess.run(nox, cwd=ROOT, check=True)
    files = changed()
    tests = sorted({*tests_of(files), *sys.argv[1:]})
    print(f"{len(files)} files changed; unit tests: {' '.join(tests) or 'none'}", flush=True)
    os.environ["TIER"] = "quick"
    pytest = [UNIT / "pytest", "--quiet", "--numprocesses=2", "--dist=loadfile", *tests]
    commands = [[LINT / "pre-commit", "run", "--files", *files]] * bool(files) + [pytest] * bool(tests)
    sys.exit(1 if sum(subprocess.call(command, cwd=ROOT) for command in commands) else 0)


if __name__ == "__main__":
    main()
