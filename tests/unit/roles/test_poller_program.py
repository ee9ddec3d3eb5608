# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program and the hooks that the role poller installs, as its own tasks read, check and install them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
COMMANDS = [f"scheduled-events{name}" for name in ("", "-controller", "-drill", "-hooks", "-webhooks")]
SECRET = "s3cr3t"
DRAIN = {"name": "10-drain", "phase": "prepare", "content": f"#!/bin/sh\nexit 0 # {SECRET}\n"}
ROLE = "maintops.scheduled_events.poller"
RELEASE = {"directory": "{{ release }}", "program": "{{ __poller_program }}", "python": "{{ poller_python }}"}
TASKS = [
    {
        "block": [{"include_role": {"name": ROLE, "tasks_from": "check"}, "vars": {"poller_interval": "wrong"}}],
        "rescue": [{"set_fact": {"refused": "{{ ansible_failed_result.msg }}"}}],
    },
    {"include_role": {"name": ROLE, "tasks_from": "check"}},
    {"include_role": {"name": ROLE, "tasks_from": "hooks"}, "vars": {"__poller_hooks_preview": False}},
    {"maintops.scheduled_events.poller_files": {"release": RELEASE}, "check_mode": True},
    {"maintops.scheduled_events.poller_files": {"release": RELEASE}},
    {"copy": {"content": "{{ [__poller_program, refused] | to_json }}", "dest": "{{ written }}", "mode": "0600"}},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with what the role reads. One above it has the name of a package, as that of a checkout can have."""
    place = tmp_path_factory.mktemp("program") / "_scheduled_events"
    for name in ("galaxy.yml", "meta", "plugins", "roles/poller"):
        target = place / "ansible_collections" / "maintops" / "scheduled_events" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, target)
    return place


@pytest.fixture(scope="module")
def installed(place):
    """Run the tasks; returns the output, the texts of the program by path, and why a wrong option was refused."""
    (place / "etc").mkdir()
    (place / "play.yml").write_text(
        json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": TASKS}])
    )
    options = {
        "ansible_python_interpreter": sys.executable,
        "poller_python": sys.executable,
        "poller_hooks": [DRAIN],
        "__poller_only_look": False,
        "__poller_config_dir": str(place / "etc"),
        "release": str(place / "release"),
        "written": str(place / "written.json"),
    }
    (place / "options.json").write_text(json.dumps(options))
    done = subprocess.run(
        [
            *(pathlib.Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-vvv", "--diff"),
            *("-e", f"@{place}/options.json", place / "play.yml"),
        ],
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(place / "local"), "ANSIBLE_COLLECTIONS_PATH": str(place)},
        cwd=place,  # away from an ansible.cfg
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout, *json.loads((place / "written.json").read_text()))


@pytest.fixture(scope="module")
def program(installed):
    return installed[1]


def test_a_wrong_option_is_shown_although_the_options_are_not(installed):
    output, _program, refused = installed
    assert refused == 'poller_interval: expected seconds from 0.25 to 5, not "wrong"'
    assert SECRET not in output


def test_check_mode_and_then_a_run_show_the_names_of_the_files_that_differ(place, installed):
    output, program, _refused = installed
    lines = [line.strip() for line in output.splitlines()]
    assert lines.count("added prepare.d/10-drain") == 1  # not by the preview in the check, which changes nothing
    assert {name: lines.count(f"{place}/release/{name}") for name in program} == dict.fromkeys(program, 2)
    assert SECRET in (place / "etc" / "hooks" / "prepare.d" / "10-drain").read_text()


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


@pytest.mark.usefixtures("program")
def test_the_installed_commands_find_their_modules(place):
    for name in COMMANDS:
        command = place / "release" / name
        assert command.read_text().startswith(f"#!{sys.executable}\n")
        done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
        assert name in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
