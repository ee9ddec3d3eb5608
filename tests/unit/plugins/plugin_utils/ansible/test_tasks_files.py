# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the roles refuse in a tasks file before any host is touched, and where a task of it is."""

import contextlib
import json
import pathlib
import types

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.playbook.role import Role
from ansible.vars.manager import VariableManager

from plugins.plugin_utils._ansible.tasks_files import TasksFileError, TasksFiles, left_out_by_tags

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("collections")]

DRAIN = {"name": "Drain", "ansible.builtin.command": "drain"}
NEVER = {**DRAIN, "tags": ["drain", "never"]}
FLUSH = {"ansible.builtin.meta": "flush_handlers"}
ROOT = pathlib.Path(__file__).parents[5]
LEAVE = {"ansible.builtin.meta": "end_host", "when": "inventory_hostname == 'web9'"}


@pytest.fixture
def files(tmp_path):
    loader = DataLoader()
    loader.set_basedir(str(tmp_path))
    manager = VariableManager(loader)
    play = Play.load({"hosts": "all", "tasks": []}, variable_manager=manager, loader=loader)
    role = Role(play=play)
    role._role_path = str(ROOT / "roles" / "respond")
    task = types.SimpleNamespace(get_variable_manager=lambda: manager, get_play=lambda: play, _role=role)
    action = types.SimpleNamespace(_task=task, _loader=loader, _find_needle=lambda _kind, name: name)
    return TasksFiles(action)


@pytest.fixture
def written(tmp_path):
    def write(tasks, name="drain.yml", **more):
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        for other, content in {name: tasks, **more}.items():
            text = content if isinstance(content, str) else f"---\n{json.dumps(content)}"  # only YAML has lines
            (tmp_path / "elsewhere" / other.replace("_", ".")).write_text(text)
        return str(tmp_path / "elsewhere" / name)

    return write


def test_a_file_is_read_once_for_all_that_is_asked_about_it(files, written, monkeypatch):
    read, load = [], DataLoader.load_from_file

    def noted(loader, path, **more):
        read.append(path)
        return load(loader, path, **more)

    monkeypatch.setattr(DataLoader, "load_from_file", noted)
    path = written([DRAIN])
    assert files.path("respond_prepare_tasks", path) == path
    assert [step.task.name for step in files.steps(path)] == ["Drain"]
    assert files.digest("respond_prepare_tasks", path).startswith("drain.yml:")
    assert read == [path]


@pytest.mark.parametrize(
    "tasks",
    [
        "",
        "---\n# drain later\n",
        [],
        [FLUSH],
        [NEVER],
        [NEVER, FLUSH],
        [{"block": [NEVER]}],
        [{"block": [DRAIN], "tags": "never"}],
        [{"block": [NEVER], "rescue": [DRAIN]}],
        [{"ansible.builtin.import_tasks": "more.yml"}],
    ],
)
def test_a_file_in_which_no_task_runs_is_refused(files, written, tasks):
    path = written(tasks, more_yml=[NEVER])
    with pytest.raises(TasksFileError) as refused:
        files.path("respond_prepare_tasks", path)
    assert str(refused.value) == (
        f"respond_prepare_tasks is {path}, in which no task runs: expected a task that is not meta and does not have "
        "the tag never. Add a task, or remove respond_prepare_tasks"
    )


@pytest.mark.parametrize(
    "tasks",
    [
        [DRAIN],
        [NEVER, DRAIN],
        [{**DRAIN, "tags": "drain"}],
        [{"block": [NEVER], "always": [DRAIN]}],
        [{"ansible.builtin.include_tasks": "{{ file }}"}],
        [{"ansible.builtin.include_tasks": "missing.yml"}],
        [{"ansible.builtin.include_role": {"name": "drain"}}],
        [{"ansible.builtin.import_tasks": "more.yml"}],
    ],
)
def test_a_file_in_which_a_task_runs_is_accepted_wherever_it_lies(files, written, tasks):
    path = written(tasks, more_yml=[DRAIN])
    assert files.path("respond_prepare_tasks", path) == path
    assert files.digest("respond_prepare_tasks", path).startswith("drain.yml:")


@pytest.mark.parametrize("name", ["clear_host_errors", "end_batch", "end_host", "end_play", "end_role"])
@pytest.mark.parametrize("wrap", [lambda task: task, lambda task: {"block": [DRAIN], "rescue": [task]}])
def test_a_task_that_takes_a_host_out_of_the_play_is_refused_in_the_files_of_phases(files, written, name, wrap):
    path = written([DRAIN, wrap({**LEAVE, "ansible.builtin.meta": name})])
    with pytest.raises(TasksFileError, match=f"respond_prepare_tasks is {path}, with meta: {name} in {path}:"):
        files.path("respond_prepare_tasks", path)
    with contextlib.nullcontext() if name != "end_role" else pytest.raises(TasksFileError, match="meta: end_role"):
        assert files.digest("rolling_maintenance_tasks", path)


@pytest.mark.parametrize("how", ["import_tasks", "include_tasks"])
def test_a_task_that_takes_a_host_out_of_the_play_is_found_in_the_files_that_a_file_includes(files, written, how):
    path = written([{f"ansible.builtin.{how}": "more.yml"}, DRAIN], more_yml=[LEAVE])
    with pytest.raises(TasksFileError, match=r"with meta: end_host in .*/elsewhere/more.yml:"):
        files.path("respond_recover_tasks", path)


def test_the_steps_of_a_file_say_where_they_are_and_whether_a_rescue_handles_them(files, written):
    inner = {"ansible.builtin.include_tasks": "more.yml"}
    path = written([DRAIN, {"block": [inner], "rescue": [FLUSH]}], more_yml=[DRAIN, inner])
    found = [step for step in files.steps(path) if step.is_of("Drain", "ansible.builtin.command")]
    assert [step.rescued for step in found] == [False, True]
    assert [step.place.rpartition("/")[2].partition(":")[0] for step in found] == ["drain.yml", "more.yml"]


@pytest.mark.parametrize(
    ("name", "arguments", "is_it"),
    [
        ("Close web1 (now)", {"path": "/srv/web1/out", "mode": 420, "owner": None, "lines": ["web1"]}, True),
        ("Close web1 (now)", {"path": "/srv/a\nb/out", "mode": 420, "owner": "root", "lines": [], "more": 1}, True),
        ("Close web1 now", {"path": "/srv/web1/out", "mode": 420, "lines": []}, False),
        ("Close web1 (now)", {"path": "/srv/web1/in", "mode": 420, "lines": []}, False),
        ("Close web1 (now)", {"path": "/srv/web1/out", "mode": 493, "lines": []}, False),
    ],
)
def test_a_task_with_templates_is_known_by_what_is_written_around_them(files, written, name, arguments, is_it):
    own = {"path": "/srv/{{ host }}/out", "mode": 420, "owner": "{% if a %}a{% endif %}", "lines": ["{{ host }}"]}
    task = {"name": "Close {{ host }} (now)", "ansible.builtin.file": own}
    [step] = files.steps(written([task]))
    assert (step.is_of(name, "ansible.builtin.file") and step.has(arguments)) is is_it
    assert not step.is_of(name, "ansible.builtin.copy")


@pytest.mark.parametrize(
    ("inclusion", "is_closed"),
    [
        ({"ansible.builtin.include_role": {"name": "drain"}}, True),
        ({"ansible.builtin.include_tasks": "{{ kind }}.yml"}, True),
        ({"ansible.builtin.include_tasks": {"file": "{{ kind }}.yml"}}, True),
        ({"ansible.builtin.include_tasks": "more.yml"}, False),
        ({"ansible.builtin.command": "{{ command }}"}, False),
    ],
)
def test_an_inclusion_is_closed_if_nothing_shows_what_it_includes(files, written, inclusion, is_closed):
    assert next(files.steps(written([inclusion], more_yml=[DRAIN]))).is_closed is is_closed


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"ansible_skip_tags": [], "ansible_run_tags": ["all"]}, ""),
        ({"ansible_run_tags": ["drain", "tagged"]}, ""),
        ({"ansible_skip_tags": ["web", "db"], "ansible_run_tags": ["all"]}, "--skip-tags web,db"),
        ({"ansible_run_tags": ["untagged"]}, "--tags untagged"),
        ({"ansible_skip_tags": ("web",), "ansible_run_tags": ("untagged",)}, "--skip-tags web --tags untagged"),
    ],
)
def test_only_some_tags_leave_out_a_part_of_a_tasks_file(variables, expected):
    assert left_out_by_tags(variables) == expected
