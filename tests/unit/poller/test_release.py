# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installing the files of a release, and compiling its modules."""

import os
import pathlib
import py_compile
import subprocess
import sys

import pytest

from plugins.module_utils._poller import release

COMPILER = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files" / release.COMPILER
FILES = {"package/__init__.py": "", "package/module.py": "VALUE = 'ö'\n", "command": "#!/bin/sh\n"}


def run(directory, *, check=False, files=None):
    """Install; returns the paths that differed, below the directory."""

    def run_python(text, *arguments, data):
        command = [sys.executable, "-IS", "-c", text, *arguments]
        return subprocess.run(command, check=True, input=data.encode(), stdout=subprocess.PIPE).stdout.decode()

    compiler = {release.COMPILER: COMPILER.read_text(encoding="utf-8")}
    differed = release.install(
        str(directory), {**compiler, **(FILES if files is None else files)}, run_python, check=check
    )
    paths = [os.path.relpath(path, str(directory)) for path in differed]
    return [path for path in paths if not path.startswith("scheduled_events_poller")]


def compiled(directory):
    (path,) = directory.glob("package/__pycache__/module.*.pyc")
    return path


def test_files_are_written_for_all_to_read_and_commands_for_all_to_run(tmp_path):
    old = os.umask(0o077)
    try:
        run(tmp_path / "release")
    finally:
        os.umask(old)
    assert (tmp_path / "release/package/module.py").read_text(encoding="utf-8") == FILES["package/module.py"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "release").rglob("*")}
    assert (modes["module.py"], modes["command"], modes["package"], modes["__pycache__"]) == (
        0o644,
        0o755,
        0o755,
        0o755,
    )
    assert compiled(tmp_path / "release").stat().st_mode & 0o777 == 0o644


def test_a_second_run_changes_nothing(tmp_path):
    assert len(run(tmp_path)) == 5
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert run(tmp_path) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_check_mode_reports_the_same_and_changes_nothing(tmp_path):
    reported = run(tmp_path / "release", check=True)
    assert list(tmp_path.iterdir()) == []
    assert run(tmp_path / "release") == reported


def test_a_module_is_imported_from_its_compiled_file(tmp_path):
    run(tmp_path)
    (tmp_path / "package/module.py").write_text("VALUE = 'compiled again'\n")
    os.utime(str(tmp_path / "package/module.py"), ns=(compiled(tmp_path).stat().st_mtime_ns,) * 2)
    if not hasattr(py_compile, "PycInvalidationMode"):
        pytest.skip("Python 3.6 compares the time and the size of the source")
    code = "import sys; sys.path.insert(0, {!r}); from package.module import VALUE; print(ascii(VALUE))"
    done = subprocess.check_output([sys.executable, "-I", "-c", code.format(str(tmp_path))])
    assert done.decode().strip() == ascii("ö")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:20]),
        lambda path: path.write_bytes(b"\0" * 4 + path.read_bytes()[4:]),
        lambda path: path.write_bytes(path.read_bytes()[:8] + b"\0" * 4 + path.read_bytes()[12:]),
        lambda path: path.chmod(0o666),
    ],
    ids=["none", "empty", "cut", "of another Python", "of another source", "mode"],
)
def test_a_wrong_compiled_file_is_replaced(tmp_path, damage):
    run(tmp_path)
    path = compiled(tmp_path)
    damage(path)
    assert run(tmp_path) == [os.path.relpath(str(path), str(tmp_path))]
    assert run(tmp_path) == []


def test_a_changed_file_is_replaced_and_compiled_again(tmp_path):
    run(tmp_path)
    changed = {**FILES, "package/module.py": "VALUE = 2\n"}
    assert run(tmp_path, files=changed) == [
        "package/module.py",
        os.path.relpath(str(compiled(tmp_path)), str(tmp_path)),
    ]
    assert run(tmp_path, files=changed) == []
