# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that the role poller installs, as its own tasks read, check and unpack it."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
UNPACK = ROOT / "roles" / "poller" / "files" / "unpack.py"
COMMANDS = ["scheduled-events", "scheduled-events-controller", "scheduled-events-hooks", "scheduled-events-webhooks"]
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {{name: {role}, tasks_from: check}}
    - ansible.builtin.copy: {{content: "{{{{ __poller_program | to_json }}}}", dest: {written}, mode: "0600"}}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what the role reads. A directory above it has the name of a package, as that of a checkout can have."""
    place = tmp_path_factory.mktemp("program") / "_scheduled_events" / "collection"
    for name in ("roles/poller", "plugins/module_utils/_scheduled_events"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.fixture(scope="module")
def program(checkout):
    """What the role reads to install it: texts by path. It only looks at the host."""
    directory = checkout.parent.parent
    play, written = directory / "play.yml", directory / "program.json"
    play.write_text(PLAY.format(role=checkout / "roles" / "poller", written=written))
    options = {
        "ansible_python_interpreter": sys.executable,
        "poller_python": sys.executable,
        "__poller_only_look": True,
        "__poller_config_dir": str(directory / "no"),
    }
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "localhost,",
            play,
            "-e",
            json.dumps(options),
        ],
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(directory / "local")},
        cwd=directory,  # away from an ansible.cfg
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(written.read_text())


def test_every_module_of_both_packages_is_installed_and_each_command(program):
    modules = {
        str(path.relative_to(place.parent)): path.read_text()
        for place in (
            ROOT / "roles/poller/files/scheduled_events_poller",
            ROOT / "plugins/module_utils/_scheduled_events",
        )
        for path in place.rglob("*.py")
    }
    assert len(modules) > 40
    assert sorted(set(program) - set(modules)) == COMMANDS
    assert {name: text for name, text in program.items() if name not in COMMANDS} == modules


def test_the_installed_commands_find_their_modules(program, tmp_path):
    release = tmp_path / "release"
    subprocess.run(
        [sys.executable, "-IS", "-c", UNPACK.read_text(), str(release)],
        check=True,
        input=base64.b64encode(json.dumps(program).encode()),
        stdout=subprocess.DEVNULL,
    )
    for name in COMMANDS:
        assert (release / name).read_text().startswith(f"#!{sys.executable}\n")
        done = subprocess.run([release / name, "--help"], capture_output=True, text=True, check=False)
        assert name in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
