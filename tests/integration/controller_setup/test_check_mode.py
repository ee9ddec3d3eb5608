# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role controller_setup in check mode, with a stand-in for a controller."""

import pytest
from stand_ins import stand_in

LOOKUP = """
import os

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, query_params=None, **kwargs):
        if "not__organization__name" in query_params:
            return []
        if "labels__name" in query_params:
            return [{"name": "Rolling maintenance"}] if "labels" in os.environ["OBJECTS"].split() else []
        return [{"name": "Fleet"}] if terms[0] in os.environ["OBJECTS"].split() else []
"""
# In check mode, the modules create nothing, and a template needs its project, its inventory and its label.
ACTION = """
import os

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        needed = ("projects", "inventories", "labels") if self._task.args.get("playbook") else ()
        missing = set(needed).difference(os.environ["OBJECTS"].split())
        return {"failed": bool(missing), "changed": True, "msg": f"{missing} not found"}
"""
MODULES = ["credential", "credential_type", "inventory", "job_template", "notification_template", "project", "user"]
MODULES += ["label", "organization", "role"]
ALL = ("organizations", "labels", "projects", "inventories", "credentials", "credential_types")


@pytest.fixture
def check(ansible, tmp_path):
    """Run the role in check mode: ``check(state, *objects)``: the kinds that the controller has."""
    plugins = {"lookup/controller_api": LOOKUP, **{f"action/{name}": ACTION for name in MODULES}}
    found = stand_in(tmp_path, "awx.awx", plugins)

    def run(state, *objects):
        role = {"role": "maintops.scheduled_events.controller_setup", "controller_setup_project_path": "fleet"}
        play = {"hosts": "localhost", "gather_facts": False, "roles": [{**role, "controller_setup_state": state}]}
        done = ansible.run_playbook([play], check=True, env={**found, "OBJECTS": " ".join(objects)})
        assert done.rc == 0, done.output
        return done

    return run


@pytest.mark.parametrize("objects", [(), ALL[:1], ALL[:3], ALL[:4]])
def test_check_mode_of_a_new_controller_says_what_it_cannot_show(check, objects):
    run = check("present", *objects)
    assert "so check mode ends here" in run.output
    assert not run.all(action="awx.awx.job_template")


def test_check_mode_shows_the_templates_of_a_controller_that_has_what_they_need(check):
    assert check("present", *ALL).all(action="awx.awx.job_template")


def test_check_mode_of_a_removal_does_not_take_what_it_leaves_for_objects_of_others(check):
    run = check("absent", *ALL)
    [removed] = [task for task in run.tasks if task.action == "awx.awx.organization"]
    assert removed.result["changed"]
