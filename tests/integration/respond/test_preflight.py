# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the roles respond, rolling_maintenance and load_balancer refuse before their first look at a host."""

import pytest

from playbooks import COLLECTION, LOCAL

pytestmark = pytest.mark.core

JOB = {"awx_job_id": 7, "awx_job_template_name": "Respond"}
HALF = {"load_balancer_ports": [443], "load_balancer_haproxy_hosts": ["lb1"]}
SLICE = "Job 7 is a slice of Respond, and sees only some of the hosts."
# Name of the host → its variables, and the beginning of the message; empty if it is accepted. {} is the role.
CASES = {
    "plain": ({}, ""),
    "workflow_alone": ({"awx_workflow_job_id": 6, "awx_workflow_job_name": "Respond"}, ""),
    "slice": ({**JOB, "awx_workflow_job_id": 6, "awx_workflow_job_name": "Respond"}, SLICE),
    "half": (
        HALF,
        "load_balancer_haproxy_hosts, load_balancer_ports describes a load balancer, but load_balancer_provider is not "
        "set, so the hosts would stay in it. Set load_balancer_provider, for example to health_probe, or set "
        "{}_load_balancer to false",
    ),
    "half_with_null": (
        {**HALF, "{}_load_balancer": None},
        "load_balancer_haproxy_hosts, load_balancer_ports describes",
    ),
    "half_with_a_blank": (
        {**HALF, "{}_load_balancer": ""},
        "load_balancer_haproxy_hosts, load_balancer_ports describes",
    ),
    "typo": (
        {**HALF, "load_balancer_provider": "haproxi"},
        "load_balancer_provider: value of load_balancer_provider must be one of: health_probe, haproxy, "
        "azure_load_balancer, azure_application_gateway, tasks, got: haproxi. Correct it, or set {}_load_balancer to "
        "false",
    ),
    "chosen_by_a_template": ({**HALF, "{}_load_balancer": "{{ 1 == 1 }}"}, ""),
    "home": ({"scheduled_events_state_directory": "~/state"}, ""),
    "useful_alone": (
        {f"load_balancer_{name}": "/x" for name in ("probe_flag", "nginx_snippet")},
        "",
    ),
}
TIMES = {
    "zero": ({"rolling_maintenance_reboot_timeout": 0}, "rolling_maintenance_reboot_timeout is 0, expected a number"),
}


# The arguments of the role respond are verified before it begins, and a blank is not a bool.
OF_RESPOND = {name: case for name, case in CASES.items() if name != "half_with_a_blank"}
# It refuses the others before it looks for its tasks files.
MISSING = {"respond_prepare_tasks": "/missing.yml"}
NEXT = "respond_prepare_tasks is /missing.yml, expected a file on the control node. Give an absolute path"


@pytest.mark.parametrize(
    ("role", "tasks_from", "cases"),
    [("respond", "main", OF_RESPOND), ("rolling_maintenance", "preflight", {**CASES, **TIMES})],
    ids=["respond", "rolling_maintenance"],
)
def test_a_slice_half_a_load_balancer_and_a_wrong_time_are_refused(ansible, role, tasks_from, cases):
    hosts = {
        name: {**LOCAL, **MISSING, **{variable.format(role): value for variable, value in variables.items()}}
        for name, (variables, _message) in cases.items()
    }
    task = {"ansible.builtin.import_role": {"name": f"maintops.scheduled_events.{role}", "tasks_from": tasks_from}}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": [task]}], inventory={"all": {"hosts": hosts}}
    )
    said = {result.host: result["msg"] for result in run.tasks if result.failed}
    for name, (_variables, message) in cases.items():
        found = said.get(name, "")
        if message:
            assert found.startswith(message.format(role)), (name, found)
        else:
            assert found == (NEXT if role == "respond" else ""), (name, found)


SHARED = {"respond": "check", "rolling_maintenance": "preflight", "load_balancer": "health_probe"}


def test_a_role_for_each_host_by_itself_is_refused_where_it_is_delegated(ansible, tmp_path):
    known = {"load_balancer_state": "active", "load_balancer_probe_flag": str(tmp_path / "flag")}
    known["scheduled_events_state_directory"] = str(tmp_path)
    tasks = [
        {
            "block": [{"ansible.builtin.import_role": {"name": f"{COLLECTION}.{role}", "tasks_from": tasks_from}}],
            "rescue": [{"ansible.builtin.debug": {}}],
            "delegate_to": "web2",
        }
        for role, tasks_from in SHARED.items()
    ]
    run = ansible.run_playbook(
        [{"hosts": "web1", "gather_facts": False, "tasks": tasks}],
        inventory={"all": {"hosts": {"web1": {**LOCAL, **known}, "web2": LOCAL}}},
    )
    said = [each["msg"].partition(", which")[0] for each in run.tasks if each.failed]
    assert said == [f"delegate_to is set for the role {role}" for role in SHARED], run.output
