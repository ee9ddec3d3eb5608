# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host whose modules return facts with the names of variables of a role."""

import json

import pytest

from playbooks import LOCAL

CASES = {
    "another provider": ("load_balancer", {}, "load_balancer_provider"),
    "other tasks": ("load_balancer", {"tasks_from": "out_tasks"}, "load_balancer_out_tasks"),
    "other tasks for the reboot": ("rolling_maintenance", {"tasks_from": "reboot"}, "rolling_maintenance_reboot_tasks"),
    "other tasks after the first module": ("load_balancer", {"tasks_from": "tasks"}, "load_balancer_drain_tasks"),
    "other tasks of the return": ("load_balancer", {"tasks_from": "tasks"}, "load_balancer_return_tasks"),
}
BALANCER = {
    **{"provider": "health_probe", "holder": "me", "ports": [80]},
    **{f"{name}_tasks": "/nothing.yml" for name in ("drain", "out", "return")},
}


@pytest.mark.parametrize("case", CASES)
def test_a_host_does_not_choose_the_tasks_of_a_role(ansible, tmp_path, case):
    role, how, name = CASES[case]
    loot = tmp_path / "loot.yml"
    loot.write_text(json.dumps([{"ansible.builtin.fail": {"msg": "tasks that the host has chosen"}}]))
    path = str(loot) if name.endswith("_tasks") else f"{'../' * 20}{loot.with_suffix('')}"
    answer = {"changed": False, "msg": "", "resume": {"any": 1}, "stat": {"exists": True}, "todo": "put back"}
    answer["found"] = {"found": {}}
    (tmp_path / "answer.json").write_text(json.dumps({**answer, "ansible_facts": {name: path}}))
    own = {f"load_balancer_{key}": value for key, value in BALANCER.items()}
    own["load_balancer_state"] = "active" if "return" in name else "drained"
    inventory = {"web1": {**LOCAL, **own, "ansible_connection": "answers", "rolling_maintenance_reboot": "always"}}
    tasks = [
        {"ansible.builtin.stat": {"path": "/"}, "when": "first"},
        {"ansible.builtin.include_role": {"name": f"maintops.scheduled_events.{role}", **how}},
    ]
    first = how.get("tasks_from") in ("out_tasks", "reboot")
    known = {"ANSWERS": "answer.json", "ANSWERS_COUNT": "count"}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "vars": {"first": first}, "tasks": tasks}],
        inventory={"all": {"hosts": inventory}},
        env={"ANSWERS_AFTER": "0", **{key: str(tmp_path / file) for key, file in known.items()}},
    )
    failed = [each["msg"] for each in run.tasks if each.failed]
    refusal = f"web1 has returned the facts {name}, which are variables of this collection"
    assert {refusal in message for message in failed} == {True}, run.output
