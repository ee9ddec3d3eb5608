# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import ctypes
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import threading
import time

import pytest
from ansible.errors import AnsibleError

from plugins.plugin_utils._ansible.run import began, is_dead, main_pid, owner_of, run_id_of, this_owner

FORK = multiprocessing.get_context("fork")  # as Ansible starts its workers
LIMIT = 60.0  # seconds; only so that a hang is named
EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}  # the number of the system call


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


def test_a_number_that_no_process_can_have_is_that_of_a_dead_one():
    assert is_dead({**owner_of(os.getpid()), "pid": 2**40})


@pytest.mark.parametrize("owner", [{}, {"place": "elsewhere", "pid": 1}, {"pid": "1"}])
def test_nothing_is_known_of_a_process_on_another_machine(owner):
    assert not is_dead(owner)


@pytest.mark.parametrize(
    "change", [{"place": "elsewhere"}, {"place": ""}, {"began": ""}, {"pid": "garbage"}, {"pid": -1}]
)
def test_what_is_not_certain_does_not_count_as_dead(change):
    assert not is_dead({**owner_of(os.getpid()), "pid": 4194304, **change})


def test_without_proc_a_process_that_runs_does_not_count_as_dead(monkeypatch):
    monkeypatch.setattr("plugins.plugin_utils._ansible.run.began", lambda _pid: None)
    assert not is_dead(owner_of(os.getpid()))


def refuse(*_arguments):
    raise PermissionError


@pytest.mark.parametrize("kill", [refuse, lambda *_arguments: None], ids=["of another user", "of another group"])
@pytest.mark.parametrize(
    ("shown", "dead"), [(None, False), ("1", False), ("2", True), ("", True)], ids=["hidden", "same", "other", "ended"]
)
def test_a_process_is_dead_only_if_the_system_shows_that_it_ended(monkeypatch, kill, shown, dead):
    owner = {**owner_of(os.getpid()), "began": "1"}
    monkeypatch.setattr("plugins.plugin_utils._ansible.run.began", lambda _pid: shown)  # None with hidepid
    monkeypatch.setattr(os, "kill", kill)
    assert is_dead(owner) is dead


def test_a_run_has_its_own_identity():
    mine = owner_of(os.getpid())
    assert run_id_of(mine) == run_id_of(owner_of(os.getpid())) != run_id_of(owner_of(os.getppid()))


def start_worker_and_die(answers):
    FORK.Process(target=answer_after_the_end, args=(os.getpid(), answers)).start()
    os.kill(os.getpid(), signal.SIGKILL)


def start_worker_and_leave_a_thread(answers):
    """End as a killed process does, one of whose threads takes longer."""
    FORK.Process(target=answer_after_the_end, args=(os.getpid(), answers)).start()
    threading.Thread(target=time.sleep, args=(LIMIT,), daemon=True).start()
    ctypes.CDLL(None).syscall(EXIT_OF_A_THREAD[platform.machine()], 0)


def answer_after_the_end(controller, answers):
    give_up_at = time.monotonic() + LIMIT
    while os.getppid() == controller and began(controller) != "" and time.monotonic() < give_up_at:
        time.sleep(0.01)
    try:
        answers.send((main_pid(), str(this_owner())))
    except AnsibleError as error:
        answers.send((main_pid(), error.message))


@pytest.mark.parametrize("end", [start_worker_and_die, start_worker_and_leave_a_thread])
def test_a_worker_of_a_run_that_was_killed_does_not_take_its_new_parent_for_the_run(end):
    answers, sender = FORK.Pipe(duplex=False)
    controller = FORK.Process(target=end, args=(sender,))
    controller.start()
    sender.close()
    assert answers.poll(LIMIT)
    pid, message = answers.recv()
    assert pid == controller.pid
    assert message == "the process of Ansible that began this task has ended. Run the play again"
    controller.kill()
    controller.join()


def test_a_worker_of_a_run_has_the_identity_of_the_run():
    answers, sender = FORK.Pipe(duplex=False)
    worker = FORK.Process(target=lambda: sender.send(this_owner()))
    worker.start()
    assert answers.poll(LIMIT)
    assert answers.recv() == owner_of(os.getpid())
    worker.join()
