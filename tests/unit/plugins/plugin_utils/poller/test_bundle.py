# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program and the hooks of the polling unit as files on the control node."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from plugins.plugin_utils._poller import bundle

ROOT = pathlib.Path(__file__).parents[5]
COMMANDS = [f"scheduled-events{name}" for name in ("", "-controller", "-hooks", "-webhooks")]
HOOKS = {"prepare": {"10-drain": b"#!/bin/sh\n"}, "failed": {"10-tell": b"\x7fELF\xff\0"}}


@pytest.fixture
def role(tmp_path):
    """The role in a copy of the collection."""
    collection = tmp_path / "collection"
    for name in ("plugins/module_utils", "roles/poller"):
        shutil.copytree(ROOT / name, collection / name, ignore=shutil.ignore_patterns("__pycache__"))
    return collection / "roles" / "poller"


def test_the_same_files_give_the_same_bytes_wherever_and_whenever_they_were_installed(role):
    for path in [*role.rglob("*"), *role.parents[1].glob("plugins/**/*")]:
        os.utime(path, (1000, 1000))
        path.chmod(0o700)
    found = [bundle.program_files(each, "/usr/bin/python3") for each in (role, ROOT / "roles" / "poller")]
    packed = [bundle.pack(dict(reversed(found[0].items()))), bundle.pack(found[1])]
    assert packed[0] == packed[1]


def test_every_module_of_both_packages_and_each_command_is_in_the_program(role):
    files = bundle.program_files(role, "/usr/bin/python3")
    modules = {
        str(path.relative_to(place.parent)): path.read_bytes()
        for place in (role / "files" / "scheduled_events_poller", ROOT / "plugins/module_utils/_scheduled_events")
        for path in place.rglob("*.py")
    }
    assert len(modules) > 40
    assert sorted(set(files) - set(modules)) == COMMANDS
    assert {name: content for name, content in files.items() if name not in COMMANDS} == modules


def test_a_release_depends_on_the_interpreter_and_its_version_and_is_written_once(tmp_path, role):
    given = [("/usr/bin/python3", "3.11"), ("/usr/bin/python3", "3.12"), ("/usr/bin/python", "3.11")]
    written = [bundle.write_program(tmp_path, role, *each) for each in given]
    assert len({release for release, _path in written}) == len({path for _release, path in written}) == 3
    before = written[0][1].stat().st_ino
    assert bundle.write_program(tmp_path, role, *given[0]) == written[0]
    assert written[0][1].stat().st_ino == before
    assert len(list(tmp_path.glob("*.tar"))) == len([path for path in tmp_path.iterdir() if path.is_file()]) == 3


def test_the_installed_commands_find_their_modules(tmp_path, role):
    _release, archive = bundle.write_program(tmp_path, role, sys.executable, "3")
    subprocess.run([sys.executable, role / "files" / "unpack.py", archive, tmp_path / "installed"], check=True)
    for name in COMMANDS:
        command = tmp_path / "installed" / name
        assert command.read_text().startswith(f"#!{sys.executable}\n")
        done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
        assert name in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_hooks_are_written_by_phase_as_they_are_for_nobody_else_to_read(tmp_path):
    _name, path = bundle.write_hooks(tmp_path, HOOKS)
    found = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    assert found.pop("README").startswith(b"The role poller ")
    assert found == {"prepare.d/10-drain": b"#!/bin/sh\n", "failed.d/10-tell": b"\x7fELF\xff\0"}
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_set_has_the_same_name_as_long_as_no_hook_changes(tmp_path):
    changed = [
        {"prepare": {"10-drain": b"#!/bin/sh\n "}, "failed": HOOKS["failed"]},
        {"prepare": {"11-drain": b"#!/bin/sh\n"}, "failed": HOOKS["failed"]},
        {"started": HOOKS["prepare"], "failed": HOOKS["failed"]},
        {},
    ]
    names = [bundle.write_hooks(tmp_path, hooks)[0] for hooks in (HOOKS, dict(reversed(HOOKS.items())), *changed)]
    assert names[0] == names[1]
    assert len(set(names)) == 5
