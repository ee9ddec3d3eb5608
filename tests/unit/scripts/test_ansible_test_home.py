# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The home directory of ansible-test: it installs pip there without a download, and the user's own is as it was."""

import base64
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import venv

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "ansible_test_home.py"
FOUND = importlib.util.find_spec("ansible_test")
if FOUND is None:
    pytest.skip("ansible-test hides itself from unit tests", allow_module_level=True)
ANSIBLE_TEST = pathlib.Path(FOUND.origin).parent
LIMIT = 300  # seconds; only so that a hang is named


@pytest.fixture
def user(tmp_path):
    """The home directory of a user who has settings and files."""
    user = tmp_path / "user"
    (user / ".config" / "pip").mkdir(parents=True)
    (user / ".config" / "pip" / "pip.conf").write_text("[global]\nno-index = true\n")
    (user / ".ansible").mkdir()
    (user / "thesis").touch()
    return user


@pytest.fixture
def uv(tmp_path):
    """A stand-in of uv, which shows its arguments."""
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "uv: $UV_NO_INDEX $*"\n')
    uv.chmod(0o700)
    return uv


@pytest.fixture
def home(tmp_path, user, uv):
    """What the script makes for that user, the second time."""
    home = tmp_path / "made" / "home"
    for _time in range(2):
        command = [sys.executable, str(SCRIPT), str(home), str(uv)]
        subprocess.run(command, env={**os.environ, "HOME": str(user), "UV_NO_INDEX": "1"}, check=True, timeout=LIMIT)
    return home


def test_settings_are_linked_except_those_of_ansible(home, user):
    assert sorted(entry.name for entry in home.iterdir()) == [".ansible", ".config"]
    assert (home / ".config").readlink() == user / ".config"
    assert not (home / ".ansible").is_symlink()
    assert list((user / ".ansible").iterdir()) == []


def test_ansible_test_installs_pip_without_a_download(home, tmp_path):
    """Its own program is run, as it runs it, with a requirement that pip itself meets."""
    target = ANSIBLE_TEST / "_util" / "target" / "setup"
    cached = next((home / ".ansible" / "test" / "cache").iterdir()).stem
    version = cached.replace("get_pip_", "").replace("_", ".")
    bootstrap = {"pip_version": version, "packages": ["pip==1", "wheel==2"], "setuptools": False, "wheel": False}
    install = {"requirements": [["r.txt", "yamllint"]], "constraints": [], "packages": []}
    uninstall = {"packages": ["pip", "wheel"], "ignore_errors": False}
    payload = {
        "script": (target / "quiet_pip.py").read_text(),
        "verbosity": 0,
        "commands": [["bootstrap", bootstrap], ["install", install], ["uninstall", uninstall]],
    }
    encoded = base64.b64encode(json.dumps(payload).encode()).decode()
    program = (target / "requirements.py").read_text().format(payload=encoded)
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    environ = {**os.environ, "HOME": str(home)}
    run = subprocess.run(
        [python], input=program, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Using cached pip {version} bootstrap script" in run.stderr
    assert run.stdout.splitlines() == [
        f"uv: 1 pip install --quiet --python {python} --compile-bytecode wheel==2",  # pip itself is there
        f"uv: 1 pip install --quiet --python {python} --compile-bytecode -r r.txt",
    ]
    subprocess.run([python, "-m", "pip", "--version"], check=True, timeout=LIMIT)


def test_an_ansible_test_without_versions_of_pip_is_an_error(tmp_path, user):
    """Else it would download."""
    internal = tmp_path / "ansible_test" / "_internal"
    internal.mkdir(parents=True)
    (tmp_path / "ansible_test" / "__init__.py").touch()
    (internal / "python_requirements.py").write_text("pip = newest\n")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "home"), "uv"],
        env={**os.environ, "HOME": str(user), "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert run.returncode == 1
    assert "names no version of pip: expected lines such as pip='25.2'" in run.stderr
