# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role controller_setup asks of an EDA server, with stand-ins of the modules of ansible.eda.

Their options, and the inputs of the types of credentials, are those of the documentation.
"""

import json

import pytest
from stand_ins import stand_in

ACTION = """
import json
import os
import pathlib

from ansible.plugins.action import ActionBase

COMMON = {"name", "state"}
OPTIONS = {
    "project": (COMMON | {"organization_name", "url"}, {"organization_name", "url"}),
    "decision_environment": (COMMON | {"organization_name", "image_url"}, {"organization_name", "image_url"}),
    "credential_info": ({"name"}, set()),
    "credential": (
        COMMON | {"organization_name", "credential_type_name", "inputs"},
        {"organization_name", "credential_type_name", "inputs"},
    ),
    "event_stream": (
        COMMON | {"organization_name", "credential_name", "forward_events"},
        {"organization_name", "credential_name"},
    ),
    "rulebook_activation": (
        COMMON | {
            "organization_name", "project_name", "rulebook_name", "decision_environment_name", "eda_credentials",
            "extra_vars", "event_streams",
        },
        {"organization_name", "project_name", "rulebook_name", "decision_environment_name"},
    ),
}


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host, module = task_vars["inventory_hostname"], self._task.action.removeprefix("ansible.eda.")
        given, server = dict(self._task.args), pathlib.Path(os.environ["EDA_SERVER"], host)
        allowed, required = OPTIONS[module]
        state = given.get("state", "present")
        if set(given) - allowed or (state == "present" and required - set(given)):
            return {"failed": True, "msg": f"{module}: options {sorted(given)}"}
        if task_vars.get("is_old") and module in ("credential_info", "event_stream"):
            return {"failed": True, "msg": f"Module ansible.eda.{module} supports AAP 2.5 and onwards"}
        if task_vars.get("refuses") == module:
            return {"failed": True, "msg": f"refused: {given}"}
        (server / module).mkdir(parents=True, exist_ok=True)
        kept = server / module.removesuffix("_info") / given["name"]
        if module == "credential_info":
            return {"changed": False, "credentials": [{"name": kept.name}] if kept.exists() else []}
        wanted = None if state == "absent" else json.dumps(given)
        # It encrypts the inputs of a credential, and cannot compare them.
        changed = wanted != (kept.read_text() if kept.exists() else None) or (module == "credential" and wanted)
        if changed and not self._task.check_mode:
            with open(server / "asked", "a") as record:
                print(json.dumps([module, state, given]), file=record)
            kept.write_text(wanted) if wanted else kept.unlink()
        return {"changed": bool(changed)}
"""
MODULES = ("project", "decision_environment", "credential_info", "credential", "event_stream", "rulebook_activation")
RULEBOOK = {
    "name": "respond.yml",
    "project_url": "https://git.example.com/rulebooks.git",
    "decision_environment_image": "registry.example.com/de:1",
    "secret": "not to be shown",
    "credentials": ["Launcher"],
    "variables": {"scheduled_events_port": 5000},
}


class Server:
    """The role on one host for each case, each with a separate server."""

    def __init__(self, ansible, directory):
        self._ansible, self.directory = ansible, directory
        self._found = stand_in(directory, "ansible.eda", {f"action/{name}": ACTION for name in MODULES})

    def play(self, hosts, tasks, *, check=False, installed=True):
        role = {"name": "maintops.scheduled_events.controller_setup", "tasks_from": tasks}
        plays = [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}]
        inventory = {
            name: {"ansible_connection": "local", "controller_setup_rulebook": RULEBOOK, **variables}
            for name, variables in hosts.items()
        }
        env = {**(self._found if installed else {}), "EDA_SERVER": str(self.directory)}
        return self._ansible.run_playbook(plays, inventory={"all": {"hosts": inventory}}, check=check, env=env)

    def asked(self, host):
        record = self.directory / host / "asked"
        return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def changed(run):
    return sum(bool(each.result.get("changed")) for each in run.tasks)


def messages(run):
    return [each["msg"] for each in run.all() if each.failed and each.action.endswith("fail")]


@pytest.fixture(scope="module")
def server(ansible, tmp_path_factory):
    return Server(ansible, tmp_path_factory.mktemp("stand_in"))


def test_a_stand_in_is_asked_for_the_objects_in_their_order_and_once(server):
    runs = [server.play({"new": {}}, "rulebook") for _time in range(2)]
    assert [(run.rc, changed(run)) for run in runs] == [(0, 5), (0, 0)], runs[1].output
    assert "not to be shown" not in runs[0].output
    asked = {module: arguments for module, _state, arguments in server.asked("new")}
    assert list(asked) == ["project", "decision_environment", "credential", "event_stream", "rulebook_activation"]
    assert asked["credential"]["inputs"] == {
        "auth_type": "hmac",
        "secret": "not to be shown",
        "hash_algorithm": "sha256",
        "http_header_key": "X-Hub-Signature-256",
        "signature_encoding": "hex",
        "signature_prefix": "sha256=",
    }
    activation = asked["rulebook_activation"]
    assert activation["event_streams"] == [{"event_stream": "Scheduled Events", "source_name": "Event Grid"}]
    assert json.loads(activation["extra_vars"]) == RULEBOOK["variables"]


def test_check_mode_changes_nothing_at_a_stand_in_and_activates_no_rulebook_of_a_missing_project(server):
    run = server.play({"checked": {}}, "rulebook", check=True)
    assert (run.rc, changed(run), server.asked("checked")) == (0, 4, []), run.output


def test_a_stand_in_gets_no_event_stream_without_a_secret_and_a_token_for_its_type_of_credential(server):
    kinds = {"polled": {"secret": None}, "token": {"credential_type": "Token Event Stream"}}
    hosts = {name: {"controller_setup_rulebook": {**RULEBOOK, **changes}} for name, changes in kinds.items()}
    assert server.play(hosts, "rulebook").rc == 0
    [*before, (_module, _state, activation)] = server.asked("polled")
    assert [module for module, *_more in before] == ["project", "decision_environment"]
    assert "event_streams" not in activation
    [inputs] = [arguments["inputs"] for module, _state, arguments in server.asked("token") if module == "credential"]
    assert inputs == {"auth_type": "token", "token": "not to be shown", "http_header_key": "Authorization"}


def test_a_stand_in_of_an_older_server_makes_the_role_say_what_to_do_by_hand(server):
    run = server.play({"old": {"is_old": True}}, "rulebook")
    [message] = messages(run)
    assert "Find the credential of the event stream failed: Module ansible.eda.credential_info supports" in message
    assert "create by hand, under Automation Decisions: a project with respond.yml, a decision" in message


def test_what_to_do_by_hand_does_not_show_what_may_be_secret_of_what_a_stand_in_refused(server):
    tasks = {"credential": "credential of the event stream exists", "rulebook_activation": "rulebook is activated"}
    run = server.play({f"refusing-{kind}": {"refuses": kind} for kind in tasks}, "rulebook")
    found = messages(run)
    for task in tasks.values():
        assert any(f"Ensure the {task} failed: its output is hidden by no_log. The" in message for message in found)


def test_what_to_do_by_hand_shows_why_a_rulebook_without_variables_is_not_activated(server):
    rulebook = {**RULEBOOK, "variables": {}}
    hosts = {"bare-activation": {"refuses": "rulebook_activation", "controller_setup_rulebook": rulebook}}
    [message] = messages(server.play(hosts, "rulebook"))
    assert "Ensure the rulebook is activated failed: refused: " in message


def test_the_role_says_what_to_do_by_hand_without_the_collection_that_has_a_stand_in_here(server):
    run = server.play({"bare": {}}, "rulebook", installed=False)
    [message] = messages(run)
    assert "Ensure the project with the rulebook exists failed: " in message
    assert "the collection ansible.eda 2 or newer" in message


def test_what_a_stand_in_has_is_removed_in_the_reverse_order_and_once(server):
    assert server.play({"removed": {}}, "rulebook").rc == 0
    runs = [server.play({"removed": {}}, "rulebook_absent") for _time in range(2)]
    assert [(run.rc, changed(run)) for run in runs] == [(0, 5), (0, 0)], runs[0].output
    removed = [module for module, state, _arguments in server.asked("removed") if state == "absent"]
    assert removed == ["rulebook_activation", "event_stream", "credential", "decision_environment", "project"]
