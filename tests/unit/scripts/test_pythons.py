# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The choice of a Python: only one that really runs counts."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "pythons.py"


def run(path, home):
    """Run the script where only ``path`` and the pyenv under ``home`` have Pythons."""
    environment = {"PATH": str(path), "HOME": str(home)}
    return subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def add(tmp_path):
    """Put a fake Python into a directory under tmp_path; it answers like a CPython of ``version``, or exits 127."""

    def add(directory, version, works=True):
        target = tmp_path / directory / f"python{version}"
        target.parent.mkdir(parents=True, exist_ok=True)
        answer = f"echo cpython {version}" if works else "exit 127"
        target.write_text(f"#!/bin/sh\n{answer}\n")
        target.chmod(0o755)
        return str(target)

    return add


def test_the_newest_python_is_chosen(add, tmp_path):
    add("bin", "3.11")
    newest = add("bin", "3.12")
    assert run(tmp_path / "bin", tmp_path).stdout == newest + "\n"


def test_a_python_of_pyenv_is_found_behind_a_command_that_does_not_run(add, tmp_path):
    add("bin", "3.13", works=False)
    real = add(os.path.join(".pyenv", "versions", "3.13.0", "bin"), "3.13")
    assert run(tmp_path / "bin", tmp_path).stdout == real + "\n"


def test_a_python_of_pyenv_is_found_in_place_of_the_command_that_starts_it(add, pythons, monkeypatch, tmp_path):
    add("shims", "3.11")
    add("bin", "3.11")
    real = add(os.path.join("versions", "3.11.7", "bin"), "3.11")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "shims"), str(tmp_path / "bin")]))
    assert pythons.find("3.11") == real


def test_without_a_python_for_the_controller_it_says_what_to_install(add, tmp_path):
    add("bin", "3.10")
    outcome = run(tmp_path / "bin", tmp_path)
    assert outcome.returncode == 1
    assert outcome.stderr == "No CPython 3.11 or later was found on PATH or under pyenv: install one.\n"


@pytest.fixture
def pythons(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    return importlib.import_module("pythons")


def test_a_missing_version_has_no_path(add, pythons):
    found = add("bin", "3.6")
    assert (pythons.find("3.6"), pythons.find("3.7")) == (found, "")


@pytest.mark.parametrize(
    ("found", "expected"),
    [({"3.11": "/a", "3.12": "", "3.13": "/b"}, "3.11"), ({"3.10": "/a", "3.12": "/b"}, "3.12"), ({}, "3.12")],
)
def test_a_core_runs_on_the_newest_python_that_it_supports(pythons, found, expected):
    assert pythons.python_for("2.16", found) == expected
