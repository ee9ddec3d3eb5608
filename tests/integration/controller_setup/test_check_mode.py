# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role controller_setup in check mode, with a stand-in for a controller."""

import os

import pytest

LOOKUP = """
import os

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        return [{"name": "Fleet"}] if os.environ["HAS_OBJECTS"] else []
"""
ACTION = """
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"changed": True}
"""
MODULES = ["credential", "credential_type", "inventory", "job_template", "notification_template", "project", "user"]


@pytest.fixture
def check(ansible, tmp_path):
    """Run the role in check mode: ``check(state, has_objects)``."""
    plugins = tmp_path / "ansible_collections" / "awx" / "awx" / "plugins"
    files = {"lookup/controller_api.py": LOOKUP, **{f"action/{name}.py": ACTION for name in (*MODULES, "organization")}}
    for path, text in files.items():
        (plugins / path).parent.mkdir(parents=True, exist_ok=True)
        (plugins / path).write_text(text)
    paths = os.pathsep.join([str(tmp_path), os.environ["ANSIBLE_COLLECTIONS_PATH"]])

    def run(state, *, has_objects):
        role = {"role": "maintops.scheduled_events.controller_setup", "controller_setup_project_path": "fleet"}
        play = {"hosts": "localhost", "gather_facts": False, "roles": [{**role, "controller_setup_state": state}]}
        env = {"ANSIBLE_COLLECTIONS_PATH": paths, "HAS_OBJECTS": "1" if has_objects else ""}
        done = ansible.run_playbook([play], check=True, env=env)
        assert done.rc == 0, done.output
        return done

    return run


def test_check_mode_of_a_new_controller_says_what_it_cannot_show(check):
    run = check("present", has_objects=False)
    assert "The controller has no organization Scheduled Events yet, so check mode ends here" in run.output


def test_check_mode_of_a_removal_does_not_take_what_it_leaves_for_objects_of_others(check):
    run = check("absent", has_objects=True)
    [removed] = [task for task in run.tasks if task.action == "awx.awx.organization"]
    assert removed.result["changed"]
