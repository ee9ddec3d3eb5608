# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook of examples/ for Azure, with the modules of the real azure.azcollection. None of them runs."""

import json
import pathlib
import subprocess
import sys

import pytest
import yaml

PLAYBOOK = pathlib.Path(__file__).parents[2] / "examples" / "event-grid.yml"
TASKS = yaml.safe_load(PLAYBOOK.read_text())[0]["tasks"]
MODULES = sorted({name for task in TASKS for name in task if name.startswith("azure.azcollection.")})
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture(scope="module")
def options():
    """The options of each module, as its documentation shows them."""
    done = subprocess.run([BIN / "ansible-doc", "--json", *MODULES], capture_output=True, text=True, check=True)
    return {name: shown["doc"]["options"] for name, shown in json.loads(done.stdout).items()}


def test_ansible_accepts_the_syntax_of_the_playbook_that_sets_event_grid_up():
    done = subprocess.run(
        [BIN / "ansible-playbook", "--syntax-check", PLAYBOOK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["name"])
def test_each_task_uses_options_and_choices_that_its_module_has(task, options):
    [(module, given)] = [(name, task[name]) for name in MODULES if name in task]
    known = options[module]
    assert set(given) <= set(known)
    assert {name for name, option in known.items() if option.get("required")} <= set(given)
    assert all(value in known[name]["choices"] for name, value in given.items() if "choices" in known[name])
