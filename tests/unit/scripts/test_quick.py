# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/quick.py: what it checks and tests after a change."""

import importlib
import pathlib
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).parents[3] / "scripts"
FILES = {
    "plugins/module_utils/_scheduled_events/rules.py": "",
    "plugins/module_utils/_scheduled_events/state.py": "",
    "roles/poller/tasks/main.yml": "",
    "tests/unit/test_rules.py": "from _scheduled_events import rules as decisions\n",
    "tests/unit/test_state.py": "from _scheduled_events.state import State\n",
    "tests/unit/test_role.py": 'PATH = "tasks/main.yml"\n',
}


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """The module, in a clone with a branch that changed nothing yet."""
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("quick")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet", "-b", "main"], ["add", "."], [*author, "commit", "--quiet", "-m", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return module


def test_nothing_changed(quick):
    assert (quick.changed(), quick.tests_of([])) == ([], [])


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("plugins/module_utils/_scheduled_events/rules.py", ["tests/unit/test_rules.py"]),
        ("plugins/module_utils/_scheduled_events/state.py", ["tests/unit/test_state.py"]),
        ("roles/poller/tasks/main.yml", ["tests/unit/test_role.py"]),
        ("tests/unit/test_state.py", ["tests/unit/test_state.py"]),
    ],
)
def test_the_tests_of_a_file_are_those_that_import_or_name_it(quick, changed, tests):
    (quick.ROOT / changed).write_text("# changed\n" + FILES[changed])
    assert quick.changed() == [changed]
    assert quick.tests_of([changed]) == tests


def test_a_new_file_counts_and_a_deleted_one_does_not(quick):
    (quick.ROOT / "tests/unit/test_new.py").touch()
    (quick.ROOT / "tests/unit/test_role.py").unlink()
    assert quick.changed() == ["tests/unit/test_new.py"]


def test_what_changed_is_linted_and_tested_and_one_failure_is_enough(quick, monkeypatch):
    ran = []

    def call(command, **_options):
        ran.append([str(word) for word in command])
        return int(ran[-1][0].endswith("pre-commit"))

    for directory in ("LINT", "UNIT"):
        monkeypatch.setattr(quick, directory, quick.ROOT)
    (quick.ROOT / "pre-commit").touch()
    monkeypatch.setattr(quick, "changed", lambda: ["roles/poller/tasks/main.yml"])
    monkeypatch.setattr(quick.subprocess, "call", call)
    monkeypatch.setattr(quick.sys, "argv", ["quick.py", "tests/unit/test_state.py"])
    with pytest.raises(SystemExit) as ended:
        quick.main()
    assert ended.value.code == 1
    assert ran[0][1:] == ["run", "--files", "roles/poller/tasks/main.yml"]
    assert ran[1][-2:] == ["tests/unit/test_role.py", "tests/unit/test_state.py"]
