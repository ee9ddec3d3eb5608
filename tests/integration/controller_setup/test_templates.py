# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job templates of the role controller_setup, and above all their surveys, with a stand-in of the module.

A controller replaces variables of the template and of the inventory with the defaults of the survey.
"""

import json

import pytest
from stand_ins import stand_in

ACTION = """
import json
import os

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        with open(os.environ["TEMPLATES"], "a") as record:
            print(json.dumps([self._task.action.rpartition(".")[2], self._task.args]), file=record)
        return {"changed": True}
"""
OWN = {
    "rolling_maintenance": {
        "rolling_maintenance_max_unavailable": "25%",
        "rolling_maintenance_on_event": None,
        "rolling_maintenance_serial": [1, 5],
    },
    "install_poller": {"poller_hook_timeout": 900, "poller_controller": {"interval": 5}},
    "report": {"report_scope": "all"},
}


@pytest.fixture(scope="module")
def made(ansible, tmp_path_factory):
    """The templates and the schedules by their names."""
    directory = tmp_path_factory.mktemp("stand_in")
    found = stand_in(directory, "awx.awx", {f"action/{kind}": ACTION for kind in ("job_template", "schedule")})
    role = {"name": "maintops.scheduled_events.controller_setup", "tasks_from": "templates"}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}
    play["vars"] = {
        "controller_setup_template_credentials": "VMs, Azure,",
        "controller_setup_url": "https://awx.example.com",
        "controller_setup_variables": OWN,
        "controller_setup_notification": {"notification_type": "slack", "notification_configuration": {}},
        "controller_setup_notify_on": ["success"],
        "controller_setup_schedules": {"report": "RRULE:FREQ=DAILY"},
    }
    run = ansible.run_playbook([play], env={**found, "TEMPLATES": str(directory / "templates")})
    assert run.rc == 0, run.output
    found = {"job_template": {}, "schedule": {}}
    for line in (directory / "templates").read_text().splitlines():
        kind, arguments = json.loads(line)
        found[kind][arguments["name"]] = arguments
    return found


@pytest.fixture(scope="module")
def templates(made):
    return made["job_template"]


def asked(template):
    return [question["variable"] for question in template["survey_spec"]["spec"]]


def test_a_variable_of_the_owner_is_not_asked_for_since_the_default_of_the_question_would_replace_it(templates):
    rolling, install = templates["Rolling maintenance"], templates["Install the polling unit"]
    assert asked(rolling) == ["rolling_maintenance_reboot", "rolling_maintenance_gate_timeout"]
    assert rolling["extra_vars"]["rolling_maintenance_max_unavailable"] == "25%"
    assert rolling["extra_vars"]["rolling_maintenance_serial"] == [1, 5]
    assert asked(install) == ["poller_state", "poller_on_failure"]
    assert install["extra_vars"]["poller_hook_timeout"] == 900
    assert install["extra_vars"]["poller_controller"]["interval"] == 5
    assert install["extra_vars"]["poller_controller"]["url"] == "https://awx.example.com"


def test_a_variable_that_is_null_is_left_to_the_inventory(templates):
    assert "rolling_maintenance_on_event" not in templates["Rolling maintenance"]["extra_vars"]


def test_a_template_without_questions_has_no_survey_since_a_controller_takes_no_empty_one(templates):
    report = templates["Report of scheduled events"]
    assert (report["survey_enabled"], report.get("survey_spec")) == (False, None)


def test_a_template_asks_all_questions_of_which_no_variable_is_set(templates):
    assert asked(templates["Respond to scheduled events"]) == ["respond_acknowledge", "respond_wait_timeout"]
    assert templates["Respond to scheduled events"]["survey_enabled"] is True


def test_credentials_may_be_a_text_as_from_the_command_line(templates):
    credentials = {name: template["credentials"] for name, template in templates.items()}
    assert credentials["Rolling maintenance"] == ["VMs", "Azure"]
    assert credentials["Install the polling unit"] == ["VMs", "Azure", "Scheduled Events hook"]


def test_only_what_prepares_or_maintains_hosts_notifies_and_only_of_what_is_chosen(templates):
    ends = ("started", "success", "error")
    notifies = {name: [bool(made[f"notification_templates_{end}"]) for end in ends] for name, made in templates.items()}
    chosen = ("Respond to scheduled events", "Rolling maintenance")
    assert notifies == {name: [False, name in chosen, False] for name in templates}


def test_jobs_that_must_not_wait_for_one_another_run_side_by_side_and_no_other_jobs_do(templates):
    side_by_side = {name for name, made in templates.items() if made["allow_simultaneous"]}
    assert side_by_side == {"Respond to scheduled events", "Report of scheduled events"}


def test_a_schedule_names_all_hosts_since_a_playbook_acts_only_on_hosts_that_are_named(made):
    schedules = {name: (each["rrule"], each.get("limit")) for name, each in made["schedule"].items()}
    assert schedules == {"Report of scheduled events": ("RRULE:FREQ=DAILY", "all")}
