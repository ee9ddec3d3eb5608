# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The YAML of the roles and playbooks, as Ansible reads it."""

import pathlib

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
    return gate.get("step") == "wait" or (any(name in task for name in LONG_ACTIONS) and not is_brief)


def test_no_limit_of_a_task_ends_what_takes_as_long_as_an_event():
    found = [
        (path, task["name"], task.get("timeout"))
        for path in FILES
        if path.startswith("roles/") and "/tasks/" in path
        for document in read((ROOT / path).read_text())
        for task in tasks_of(document)
        if is_long(task)
    ]
    assert len(found) == 8
    assert [each for each in found if each[2] != 0] == []


def test_a_drill_has_its_verdict_before_its_report_is_written_which_can_fail():
    [*_plays, last] = read((ROOT / "playbooks/drill.yml").read_text())[0]
    assert [task["name"] for task in last["tasks"]] == [
        "Give the verdict",
        "Write a report",
        "Fail unless all hosts passed",
    ]
