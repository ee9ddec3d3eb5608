# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tests that a user copies from examples/test-your-tasks, outside of this repository.

The playbooks of the scenario run in the order of Molecule, on this machine in place of containers.
"""

import shutil
import socket
import subprocess
import sys

import pytest
import yaml
from emulation import ask
from page_blocks import ROOT, block
from pages import Reader
from ports import free_port
from zygotes import ZYGOTES

SCENARIO = "molecule/default"


@pytest.fixture
def copied(tmp_path):
    target = tmp_path / "test-your-tasks"
    shutil.copytree(ROOT / "examples" / "test-your-tasks", target)
    return target


@pytest.fixture
def here(tmp_path):
    """The variables that put this machine in place of the containers."""
    return {
        "ansible_connection": "local",
        "ansible_python_interpreter": ZYGOTES.interpreter,
        "emulator_python": sys.executable,
        "emulator_port": free_port(),
        "emulator_control_port": free_port(),
        "emulator_install_directory": str(tmp_path / "emulator"),
        "scheduled_events_state_directory": str(tmp_path) + "/{{ inventory_hostname }}",
        "test_image": "this machine",
        "web_directory": str(tmp_path) + "/{{ inventory_hostname }}",
        "web_port": free_port(),
        "web_notice": 0,
    }


def test_the_scenario_shows_a_preparation_an_acknowledgement_and_a_return(ansible, copied, here):
    inventory = yaml.safe_load((copied / SCENARIO / "inventory" / "hosts.yml").read_text())
    sequence = yaml.safe_load((copied / SCENARIO / "molecule.yml").read_text())["scenario"]["test_sequence"]
    assert [step for step in sequence if not (copied / SCENARIO / f"{step}.yml").exists()] == []
    steps = [(step, 0) for step in sequence[sequence.index("prepare") : sequence.index("verify") + 1]]
    steps.insert(2, ("verify", 2))  # it must fail before the event
    steps.insert(1, steps[0])  # as where a step of the preparation failed, and is repeated
    try:
        for step, status in steps:
            run = ansible.run_playbook(copied / SCENARIO / f"{step}.yml", inventory=inventory, extra_vars=here)
            assert run.rc == status, (step, run.output)
        tasks = block("docs/test-your-own-tasks.md", "- name: Read the log")
        tasks += block("docs/test-your-own-tasks.md", "- name: Schedule a Redeploy of both VMs")
        tasks = "".join(f"    {line}\n" for line in tasks.splitlines())
        (copied / "page.yml").write_text(f"- hosts: emulators\n  gather_facts: false\n  tasks:\n{tasks}")
        run = ansible.run_playbook(copied / "page.yml", inventory=inventory, extra_vars=here)
        assert run.rc == 0, run.output
        everywhere = {**here, "emulator_control_address": "::", "emulator_control_port": 1}
        run = ansible.run_playbook(copied / "page.yml", inventory=inventory, extra_vars=everywhere)
        assert "http://[::1]:1/control/log" in run.output
        run = ansible.run_playbook(copied / "page.yml", inventory=inventory, extra_vars=everywhere, check=True)
        assert "Connection refused" not in run.output  # no emulator was started: the log is empty
    finally:
        ask(f"http://127.0.0.1:{here['emulator_control_port']}", "POST", "/control/shutdown", body="{}")


def test_an_emulator_that_does_not_start_says_why(ansible, copied, here):
    inventory = yaml.safe_load((copied / SCENARIO / "inventory" / "hosts.yml").read_text())
    wrong = {**here, "emulator_vms": [{"name": "web1", "address": "127.0.10.1", "kind": "availability_set"}]}
    run = ansible.run_playbook(copied / SCENARIO / "prepare.yml", inventory=inventory, extra_vars=wrong)
    assert run.rc == 2
    assert "vms[0].set: null is not right for kind availability_set" in run.output
    with socket.create_server(("127.0.10.1", here["emulator_port"])):
        run = ansible.run_playbook(copied / SCENARIO / "prepare.yml", inventory=inventory, extra_vars=here)
    assert run.rc == 2
    assert f"cannot listen on 127.0.10.1 port {here['emulator_port']}: Address already in use" in run.output


def test_the_test_of_pytest_passes(tmp_path, installed_collection):
    reader = Reader(tmp_path, installed_collection)
    examples = installed_collection / "examples"  # not among what must suffice for the roles
    if not examples.exists():
        examples.symlink_to(ROOT / "examples")
    copied = block("docs/test-your-own-tasks.md", "cp -r")
    shown = reader.paste(copied + block("docs/test-your-own-tasks.md", "pip install ansible-core"))
    assert "1 passed" in shown, shown


def test_the_test_of_a_hook_passes_for_a_hook_that_succeeds_alone(tmp_path):
    (tmp_path / "files").mkdir()
    hook = tmp_path / "files" / "drain"
    hook.write_text('#!/bin/sh\ngrep -q web1 && exit "$(cat "${0%/*}/status")"\n')
    hook.chmod(0o755)
    (tmp_path / "test_hook.py").write_text(block("docs/test-your-own-tasks.md", "import json"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hook.py"]
    for status, expected in (("75", 0), ("1", 1)):
        (tmp_path / "files" / "status").write_text(status)
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == expected
