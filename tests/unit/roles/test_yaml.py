# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The YAML of the roles and playbooks, as Ansible reads it."""

import json
import pathlib
import re

import jinja2
import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
FILES = sorted(
    str(path.relative_to(ROOT))
    for place in ("roles", "playbooks", "extensions", "meta", "examples", "demo")
    for path in (ROOT / place).rglob("*.y*ml")
)


class Strict(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, also when a merge (``<<``) brings one of the two, as Ansible warns of."""

    def construct_mapping(self, node, deep=False):
        self.flatten_mapping(node)
        keys = [self.construct_object(key, deep=deep) for key, _value in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {', '.join(twice)}", node.start_mark)
        return super().construct_mapping(node, deep=deep)


Strict.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def read(text):
    return list(yaml.load_all(text, Loader=Strict))


@pytest.mark.parametrize("path", FILES)
def test_no_mapping_has_a_key_twice(path):
    read((ROOT / path).read_text())


@pytest.mark.parametrize("text", ["a: 1\na: 2", "- &one {a: 1}\n- {<<: *one, a: 2}"])
def test_a_key_that_is_there_twice_is_found_also_in_a_merge(text):
    with pytest.raises(yaml.constructor.ConstructorError, match="duplicate key a"):
        read(text)


# They take as long as an event, a drain or a reboot, and have their own limits. A limit that Ansible puts on each
# task (task_timeout) would end them in the middle.
LONG_ACTIONS = [
    *(f"maintops.scheduled_events.{name}" for name in ("load_balancer", "scheduled_events_drill")),
    *("ansible.builtin.reboot", "ansible.windows.win_reboot"),
]


def tasks_of(value):
    """All tasks below a value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from tasks_of(each)


def is_long(task):
    gate = task.get("maintops.scheduled_events.maintenance_gate", {})
    balancer = task.get("maintops.scheduled_events.load_balancer", {})
    is_brief = balancer.get("provider") == "record" and "wait" not in balancer
    turn = task.get("maintops.scheduled_events.scheduled_events_turn", {})
    follows_an_event = "reached" in turn or ("of_role" in turn and "check_only" not in turn)
    is_long_itself = any(name in task for name in LONG_ACTIONS) and not is_brief
    return gate.get("step") == "wait" or follows_an_event or is_long_itself


def test_no_limit_of_a_task_ends_what_takes_as_long_as_an_event():
    found = [
        (path, task["name"], task.get("timeout"))
        for path in FILES
        if path.startswith("roles/") and "/tasks/" in path
        for document in read((ROOT / path).read_text())
        for task in tasks_of(document)
        if is_long(task)
    ]
    assert len(found) == 12
    assert [each for each in found if each[2] != 0] == []


BALANCER_CALLS = [
    task["maintops.scheduled_events.load_balancer"]
    for path in FILES
    if path.startswith("roles/load_balancer/tasks/")
    for task in tasks_of(read((ROOT / path).read_text()))
    if "maintops.scheduled_events.load_balancer" in task
]


def test_each_return_says_whether_this_run_has_drained_the_host_so_that_a_lost_record_fails_it():
    returns = [call for call in BALANCER_CALLS if call["state"] in ("returning", "{{ __load_balancer_state }}")]
    assert [call.get("was_drained") for call in returns] == ["{{ __load_balancer_was_drained }}"] * 4


def test_tasks_of_the_user_neither_drain_nor_return_a_host_that_another_provider_took_out():
    calls = [call for call in BALANCER_CALLS if call["state"] in ("held", "returning")]
    assert [call.get("settings") for call in calls] == [{"load_balancer_provider": "tasks"}] * 3


def test_a_drill_has_its_verdict_before_its_report_is_written_which_can_fail():
    [*_plays, last] = read((ROOT / "playbooks/drill.yml").read_text())[0]
    assert [task["name"] for task in last["tasks"]] == [
        "Give the verdict",
        "Write a report",
        "Fail unless all hosts passed",
    ]


def shown_tasks(tasks):
    """The tasks whose results are shown: neither they nor a block around them has ``no_log``."""
    for task in tasks:
        if task.get("no_log") is not True:
            inner = [each for part in ("block", "rescue", "always") for each in task.get(part, [])]
            yield from shown_tasks(inner) if inner else [task]


def test_no_task_shows_a_secret_of_the_hook_of_an_event_stream_or_of_a_notification():
    secrets = (
        r"__controller_setup_password|__controller_setup_token\.ansible_facts|controller_setup_credentials"
        "|__controller_setup_stream_inputs|notification_configuration"
    )
    tasks = [
        task
        for path in FILES
        if path.startswith("roles/controller_setup/tasks/")
        for document in read((ROOT / path).read_text())
        for task in document
    ]
    assert [task["name"] for task in tasks if re.search(secrets, json.dumps(task))]
    assert [task["name"] for task in shown_tasks(tasks) if re.search(secrets, json.dumps(task))] == []


def test_a_fact_that_a_role_sets_is_that_of_its_host_only_where_the_role_says_so():
    """A host that returns a variable of the collection is refused, and module_defaults can make the fact such a one."""
    facts = [
        task["ansible.builtin.set_fact"]
        for path in FILES
        for task in tasks_of(read((ROOT / path).read_text()))
        if path.startswith("roles/") and "ansible.builtin.set_fact" in task
    ]
    assert [fact for fact in facts if "cacheable" not in fact] == []
    assert len(facts) > 10


def test_no_host_resets_what_another_one_has_read():
    """Where a fact is set with run_once, all hosts get it: with the strategy free, also those that are ahead."""
    with_run_once = "roles/load_balancer/tasks/out_tasks.yml"  # is included with it
    resets = {
        f"{path}: {task['name']}": task.get("run_once", path == with_run_once)
        for path in FILES
        for task in tasks_of(read((ROOT / path).read_text()))
        if path.startswith("roles/")
        and "ansible.builtin.set_fact" in task
        and "{{" not in str(task["ansible.builtin.set_fact"])
    }
    assert [name for name, reaches_all in resets.items() if reaches_all] == []
    assert any(name.startswith(with_run_once) for name in resets)


@pytest.mark.parametrize(
    ("path", "unset", "given"),
    [("report.yml", [90], [5]), ("drill.yml", [1, 1], [5, 5]), ("audit.yml", [30], [5])],
)
def test_report_days_are_those_of_the_owner_or_those_that_the_playbook_documents(path, unset, given):
    found = [
        text
        for task in tasks_of(read((ROOT / "playbooks" / path).read_text()))
        for text in task.values()
        if isinstance(text, str) and "report_days" in text
    ]

    def days(**variables):
        return [float(jinja2.Template(text).render(**variables)) for text in found]

    assert [days(), days(report_days=None)] == [unset] * 2
    assert [days(report_days=5), days(report_days="5")] == [given] * 2
