# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""roles/emulator/files/unpack.py, which installs the emulator."""

import base64
import json
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).parents[3] / "roles" / "emulator" / "files" / "unpack.py"
FILES = {"package/module.py": "print('é')\n", "command": "#!/bin/sh\n"}


def unpack(directory, files, *options):
    """Run the program as the role does; the files that it names, without the directory."""
    command = [sys.executable, "-IS", "-c", PROGRAM.read_text(), str(directory), *options]
    given = base64.b64encode(json.dumps(files).encode())
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=True)
    return [str(pathlib.Path(line).relative_to(directory)) for line in done.stdout.decode().splitlines()]


def modes(directory):
    return {str(path.relative_to(directory)): oct(path.stat().st_mode)[-3:] for path in directory.rglob("*")}


def test_the_files_are_installed_with_their_modes_and_a_second_run_changes_nothing(tmp_path):
    directory = tmp_path / "emulator"
    assert unpack(directory, FILES) == ["command", "package/module.py"]
    assert modes(directory) == {"command": "755", "package": "755", "package/module.py": "644"}
    assert {name: (directory / name).read_text() for name in FILES} == FILES
    assert unpack(directory, FILES) == []


def test_what_differs_is_corrected_and_nothing_else(tmp_path):
    unpack(tmp_path, FILES)
    (tmp_path / "package" / "module.py").write_text("another\n")
    assert unpack(tmp_path, FILES) == ["package/module.py"]
    (tmp_path / "command").chmod(0o777)
    assert unpack(tmp_path, FILES) == ["command"]
    assert modes(tmp_path)["command"] == "755"
    assert (tmp_path / "package" / "module.py").read_text() == FILES["package/module.py"]


def test_a_check_reports_what_a_run_changes_and_changes_nothing(tmp_path):
    assert unpack(tmp_path / "emulator", FILES, "--check") == ["command", "package/module.py"]
    assert not (tmp_path / "emulator").exists()
