# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effect of --tags and --skip-tags on a tasks file, with the tasks as Ansible loads them."""

import json

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.vars.manager import VariableManager

from plugins.plugin_utils._run.tags import leave_out_all

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("collections")]

DRAIN = {"ansible.builtin.command": "drain", "tags": "drain"}
PLAIN = {"ansible.builtin.command": "drain"}
RESCUE = {"block": [DRAIN], "rescue": [PLAIN]}
DYNAMIC, STATIC = {"ansible.builtin.include_tasks": "more.yml"}, {"ansible.builtin.import_tasks": "more.yml"}


@pytest.fixture
def left_out(tmp_path):
    def ask(tasks, *, tags=(), skip_tags=(), more=(DRAIN,), inherited=()):
        (tmp_path / "drain.yml").write_text(json.dumps(tasks))
        (tmp_path / "more.yml").write_text(json.dumps(list(more)))
        loader = DataLoader()
        block = {"block": [{"ansible.builtin.debug": {}}], "tags": list(inherited)}
        play = Play.load({"hosts": "all", "tasks": [block]}, variable_manager=VariableManager(loader), loader=loader)
        play.only_tags, play.skip_tags = set(tags) or frozenset(("all",)), set(skip_tags)
        [task] = play.tasks[0].block
        return leave_out_all(task, str(tmp_path / "drain.yml"), {"wanted": ["drain"]})

    return ask


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([DRAIN], True),
        ([DRAIN, DRAIN], True),
        ([{**PLAIN, "tags": ["other", "drain"]}], True),
        ([{"block": [PLAIN], "tags": "drain"}], True),
        ([RESCUE], True),
        ([DRAIN, {"ansible.builtin.meta": "flush_handlers"}], True),
        ([DYNAMIC], True),
        ([STATIC], True),
        ([{**DYNAMIC, "tags": "drain"}], True),
        ([DRAIN, PLAIN], False),
        ([{"block": [DRAIN], "always": [PLAIN]}], False),
        ([{"ansible.builtin.include_tasks": "{{ file }}"}], False),
        ([{"ansible.builtin.include_tasks": "missing.yml"}], False),
        ([{"ansible.builtin.include_tasks": "drain.yml"}], False),
        ([{"ansible.builtin.include_role": {"name": "drain"}}], False),
        ([{"ansible.builtin.meta": "flush_handlers"}], False),
        ([], False),
    ],
)
def test_a_file_is_left_out_if_no_task_of_it_is_left(left_out, tasks, expected):
    assert left_out(tasks, skip_tags=["drain"]) is expected


@pytest.mark.parametrize(
    "run",
    [{}, {"skip_tags": ["other"]}, {"tags": ["all"]}, {"tags": ["drain"]}, {"tags": ["drain", "other"]}],
)
def test_unrelated_tags_change_nothing(left_out, run):
    assert left_out([DRAIN, PLAIN], **run) is False


@pytest.mark.parametrize(
    ("tasks", "inherited", "expected"),
    [
        ([PLAIN], [], True),
        ([DRAIN], [], True),
        ([PLAIN], ["maintenance"], False),
        ([PLAIN], ["always"], False),
        ([{**PLAIN, "tags": "always"}], [], False),
        ([{**DYNAMIC, "tags": "maintenance"}], [], True),
        ([{"ansible.builtin.include_tasks": {"file": "more.yml", "apply": {"tags": "maintenance"}}}], [], True),
        (
            [
                {
                    "ansible.builtin.include_tasks": {"file": "more.yml", "apply": {"tags": "maintenance"}},
                    "tags": "always",
                }
            ],
            [],
            False,
        ),
    ],
)
def test_tags_count_as_ansible_inherits_them(left_out, tasks, inherited, expected):
    assert left_out(tasks, tags=["maintenance"], inherited=inherited, more=[PLAIN]) is expected


def test_a_file_that_cannot_be_loaded_is_left_to_ansible(left_out):
    assert left_out([{"ansible.builtin.command": "x", "block": []}], skip_tags=["drain"]) is False
