# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacking a release on a VM, and compiling its modules."""

import io
import os
import pathlib
import py_compile
import subprocess
import sys
import tarfile

import pytest

UNPACK = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files" / "unpack.py"
FILES = {"command": "#!/bin/sh\n", "package/__init__.py": "", "package/module.py": "VALUE = 'ö'\n"}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "release.tar"
    with tarfile.open(str(path), "w", format=tarfile.USTAR_FORMAT) as made:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o644 if name.endswith(".py") else 0o755
            made.addfile(entry, io.BytesIO(text.encode()))
    return path


def unpack(archive, directory, check=True):
    """As the role does it, which sends the program as standard input."""
    command = [sys.executable, "-IS", "-", str(archive), str(directory)]
    with UNPACK.open("rb") as program:
        return subprocess.run(command, stdin=program, check=check, stderr=subprocess.PIPE)


def test_files_are_for_all_to_read_and_commands_for_all_to_run_whatever_the_umask_is(tmp_path, archive):
    old = os.umask(0o077)
    try:
        unpack(archive, tmp_path / "release")
    finally:
        os.umask(old)
    assert (tmp_path / "release/package/module.py").read_text(encoding="utf-8") == FILES["package/module.py"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "release").rglob("*")}
    compiled = [modes.pop(name) for name in sorted(modes) if name.endswith(".pyc")]
    assert compiled == [0o644, 0o644]
    assert (modes.pop("module.py"), modes.pop("__init__.py")) == (0o644, 0o644)
    assert modes == {"command": 0o755, "package": 0o755, "__pycache__": 0o755}


def test_a_module_is_imported_from_its_compiled_file(tmp_path, archive):
    if not hasattr(py_compile, "PycInvalidationMode"):
        pytest.skip("Python 3.6 compares the time and the size of the source")
    unpack(archive, tmp_path / "release")
    (tmp_path / "release/package/module.py").write_text("VALUE = 'compiled again'\n")
    code = "import sys; sys.path.insert(0, {!r}); from package.module import VALUE; print(ascii(VALUE))"
    done = subprocess.check_output([sys.executable, "-I", "-c", code.format(str(tmp_path / "release"))])
    assert done.decode().strip() == ascii("ö")


@pytest.mark.parametrize("left", ["a file", "nothing"])
def test_the_directory_exists_only_when_it_is_complete(tmp_path, archive, left):
    cut = tmp_path / "cut.tar"
    cut.write_bytes(archive.read_bytes()[:2053])
    if left == "a file":
        (tmp_path / "release.new").mkdir()
        (tmp_path / "release.new/of-an-interrupted-run").write_text("")
    assert unpack(cut, tmp_path / "release", check=False).returncode != 0
    assert not (tmp_path / "release").exists()
    unpack(archive, tmp_path / "release")
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == ["command", "package"]


def test_plays_at_the_same_time_unpack_it_once(tmp_path, archive):
    command = [sys.executable, "-IS", str(UNPACK), str(archive), str(tmp_path / "release")]
    plays = [subprocess.Popen(command, stderr=subprocess.PIPE) for _play in range(4)]
    assert [play.communicate()[1] for play in plays] == [b""] * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release", "release.tar"]
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == ["command", "package"]


def test_what_cannot_be_compiled_is_not_installed(tmp_path):
    path = tmp_path / "release.tar"
    (tmp_path / "wrong.py").write_text("def\n")
    with tarfile.open(str(path), "w") as made:
        made.add(str(tmp_path / "wrong.py"), "wrong.py")
    done = unpack(path, tmp_path / "release", check=False)
    assert done.returncode != 0
    assert b"cannot be compiled" in done.stderr
    assert not (tmp_path / "release").exists()
