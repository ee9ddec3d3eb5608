# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects that the role controller_setup asks for, with plugins that only record in place of those of awx.awx."""

import collections
import json

import pytest
from stand_ins import stand_in

LOOKUP = """
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = "name: controller_api"

class LookupModule(LookupBase):
    def run(self, terms, variables=None, query_params=None, **kwargs):
        if "not__organization__name" in query_params:
            return [{"name": "Scheduled Events hook"}] if variables.get("elsewhere") else []
        if "labels__name" in query_params:
            return [{"name": name} for name in variables.get("labelled", [])]
        own_environment = terms[0] == "execution_environments" and "name" in query_params
        is_there = ("organizations", "credential_types", *variables.get("others", []))
        existing = variables["controller_setup_existing"]
        was_made = variables["controller_setup_state"] == "absent" or "organization" in existing
        return [{"name": terms[0]}] if was_made and (terms[0] in is_there or own_environment) else []
"""
ACTION = """
import json
import os

from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        arguments = {name: value for name, value in self._task.args.items() if "password" not in name}
        with open(os.environ["ASKED"], "a") as record:
            print(json.dumps([task_vars["inventory_hostname"], self._task.action, arguments]), file=record)
        return {"changed": True, "ansible_facts": {"controller_token": {"token": "secret"}}}
"""
KINDS = (
    *("organization", "label", "credential", "execution_environment", "project", "inventory", "inventory_source"),
    *("notification_template", "credential_type", "user", "token", "job_template", "role", "schedule"),
)
REQUIRED = {"controller_setup_project_path": "playbooks", "controller_setup_url": "https://awx.example.com"}
UNSET = (
    *("execution_environment_image", "execution_environment_credential", "project_url", "project_branch"),
    *("project_credential", "azure_credential", "notification", "hook_user", "hook_token_file"),
)
VARIABLES = {
    "default": {},
    "null": {f"controller_setup_{name}": None for name in UNSET},
    "empty": {f"controller_setup_{name}": {} if name == "notification" else "" for name in UNSET},
}
STATES = ("present", "absent")
EXISTING = ("organization", "project", "inventory", "user", "execution_environment")


@pytest.fixture(scope="module")
def asked(ansible, tmp_path_factory):
    """Host → the kind and the arguments of each request."""
    directory = tmp_path_factory.mktemp("stand_in")
    plugins = {"lookup/controller_api": LOOKUP, **{f"action/{name}": ACTION for name in KINDS}}
    local = {"ansible_connection": "local", **REQUIRED}
    hosts = {
        f"{name}-{state}": {**local, "controller_setup_state": state, **variables}
        for name, variables in VARIABLES.items()
        for state in STATES
    }
    hosts["default-absent"]["labelled"] = ["Report of scheduled events", "Respond to scheduled events", "of the owner"]
    hosts.update({f"elsewhere-{state}": {**hosts[f"default-{state}"], "elsewhere": True} for state in STATES})
    existing = {
        "labelled": ["Rolling maintenance"],
        "controller_setup_existing": EXISTING,
        "controller_setup_execution_environment_image": "example/image",
        "controller_setup_azure_credential": "Azure",
    }
    hosts.update({f"existing-{state}": {**local, "controller_setup_state": state, **existing} for state in STATES})
    hosts["kept"] = {**hosts["default-absent"], "controller_setup_existing": ["organization"]}
    shared = {
        name: {**hosts[name], "others": ["credentials", "teams", "applications", "workflow_job_templates"]}
        for name in ("default-absent", "kept")
    }
    hosts.update({"shared": shared["default-absent"], "kept": shared["kept"]})
    tasks = [{"ansible.builtin.include_role": {"name": "maintops.scheduled_events.controller_setup"}}]
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": tasks}],
        inventory={"all": {"hosts": hosts}},
        env={**stand_in(directory, "awx.awx", plugins), "ASKED": str(directory / "asked")},
    )
    failed = {each.host: each["msg"] for each in run.all() if each.failed}
    assert sorted(failed) == ["elsewhere-present", "shared"], run.output
    found = {host: [] for host in hosts}
    for line in (directory / "asked").read_text().splitlines():
        host, action, arguments = json.loads(line)
        found[host].append((action.removeprefix("awx.awx."), arguments))
    return {**found, "failed": failed}


def test_the_defaults_create_neither_an_execution_environment_nor_an_inventory_source_nor_a_notification(asked):
    assert collections.Counter(kind for kind, _arguments in asked["default-present"]) == {
        **dict.fromkeys(("organization", "label", "project", "inventory", "credential_type"), 1),
        **{"user": 1, "token": 1, "credential": 1, "job_template": 5, "role": 2},
    }


def test_no_user_creates_nothing_for_the_hook(asked):
    assert collections.Counter(kind for kind, _arguments in asked["null-present"]) == {
        **dict.fromkeys(("organization", "label", "project", "inventory"), 1),
        "job_template": 5,
    }


def test_what_is_not_set_is_not_passed_on(asked):
    project = dict(asked["null-present"])["project"]
    assert project == {
        "name": "Scheduled Events",
        "organization": "Scheduled Events",
        "scm_type": "manual",
        "local_path": "playbooks",
    }


@pytest.mark.parametrize("state", STATES)
def test_an_empty_text_still_stands_for_null(asked, state):
    assert asked[f"empty-{state}"] == asked[f"null-{state}"]


def test_an_organization_with_other_objects_stays(asked):
    assert (
        "organization Scheduled Events, since it has others: credentials, teams, applications, workflow_job_templates."
        in asked["failed"]["shared"]
    )
    assert asked["shared"] == asked["kept"] == asked["default-absent"][:-1]
    assert asked["default-absent"][-1][0] == "organization"


def test_a_removal_takes_only_templates_with_the_label_of_the_role_and_no_notification_that_it_did_not_make(asked):
    names = sorted(arguments["name"] for kind, arguments in asked["default-absent"] if kind == "job_template")
    assert names == ["Report of scheduled events", "Respond to scheduled events"]
    assert "notification_template" not in dict(asked["default-absent"])


def test_a_removal_leaves_another_set_up_the_user_and_the_credential_type(asked):
    kinds = [kind for kind, _arguments in asked["default-absent"]]
    assert {"user", "credential_type"} < set(kinds)
    left = [kind for kind, _arguments in asked["elsewhere-absent"]]
    assert left == [kind for kind in kinds if kind not in ("user", "credential_type")]


def test_a_second_set_up_is_refused_before_anything_is_created(asked):
    assert asked["elsewhere-present"] == []
    assert "expected one set-up for each controller" in asked["failed"]["elsewhere-present"]


@pytest.mark.parametrize("state", STATES)
def test_what_the_owner_has_is_neither_changed_nor_removed(asked, state):
    kinds = {kind for kind, _arguments in asked[f"existing-{state}"]}
    assert "job_template" in kinds
    assert not kinds & {*EXISTING, "token"}


def test_an_inventory_of_azure_keeps_vms_that_do_not_run_since_azure_redeploys_them(asked):
    source = dict(asked["existing-present"])["inventory_source"]
    assert (source["source"], source["source_vars"]["default_host_filters"]) == ("azure_rm", [])
