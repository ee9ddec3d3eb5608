# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import os
import subprocess
import sys

import pytest

from plugins.plugin_utils._run.identity import is_dead, owner_of, run_id_of


@pytest.fixture
def ended_process():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = owner_of(process.pid)
    process.kill()
    return process, owner


def test_a_process_that_runs_is_not_dead():
    assert not is_dead(owner_of(os.getpid()))


def test_a_process_that_has_ended_is_dead(ended_process):
    process, owner = ended_process
    process.wait()
    assert is_dead(owner)


def test_another_process_under_the_same_number_does_not_count_as_the_one_before():
    assert is_dead(dict(owner_of(os.getpid()), began="1"))


@pytest.mark.parametrize("owner", [{}, {"place": "elsewhere", "pid": 1}, {"pid": "1"}])
def test_nothing_is_known_of_a_process_on_another_machine(owner):
    assert not is_dead(owner)


@pytest.mark.parametrize(
    "change", [{"place": "elsewhere"}, {"place": ""}, {"began": ""}, {"pid": "garbage"}, {"pid": -1}]
)
def test_what_is_not_certain_does_not_count_as_dead(change):
    assert not is_dead({**owner_of(os.getpid()), "pid": 4194304, **change})


def test_without_proc_a_process_that_runs_does_not_count_as_dead(monkeypatch):
    monkeypatch.setattr("plugins.plugin_utils._run.identity.began", lambda _pid: "")
    assert not is_dead(owner_of(os.getpid()))


def test_a_run_has_its_own_identity():
    mine = owner_of(os.getpid())
    assert run_id_of(mine) == run_id_of(owner_of(os.getpid())) != run_id_of(owner_of(os.getppid()))
