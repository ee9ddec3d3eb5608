# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking many hosts at the same time."""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import subprocess
import time
import types

import pytest
from ansible.errors import AnsibleError

from plugins.plugin_utils._ansible.other_host import OtherHostError, OtherHostUnreachable
from plugins.plugin_utils._ansible.run import main_process_has_ended
from plugins.plugin_utils._gate import fleet as fleets
from plugins.plugin_utils._gate.fleet import Fleet, FleetHost, ask_all
from plugins.plugin_utils._gate.gate import DIRECTORY
from plugins.plugin_utils._gate.store import Store

HOSTS = [f"web{number}" for number in range(6)]
PATIENCE = 300.0  # seconds; only so that a test that hangs ends


def has_ended(pid):
    """Whether a process is a zombie, or gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def wait_for_end(pid):
    """Wait until a process has ended, or fail."""
    give_up_at = time.monotonic() + PATIENCE
    while not has_ended(pid):
        assert time.monotonic() < give_up_at, f"process {pid} goes on"
        time.sleep(0.01)


def test_every_host_is_asked_once_by_as_many_processes_as_there_are_forks():
    answers = ask_all(HOSTS, lambda host: {"host": host, "pid": os.getpid()}, forks=3, timeout=PATIENCE)
    assert {host: answer["host"] for host, answer in answers.items()} == {host: host for host in HOSTS}
    assert len({answer["pid"] for answer in answers.values()} - {os.getpid()}) == 3


def test_while_a_worker_of_ansible_lives_no_process_that_it_forks_takes_the_run_for_ended():
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def work():
        answers.put(ask_all(HOSTS, lambda _host: {"ended": main_process_has_ended()}, forks=2, timeout=PATIENCE))

    worker = context.Process(target=work)
    worker.start()
    worker.join()
    assert answers.get() == {host: {"ended": False} for host in HOSTS}


def test_asking_leaves_no_connection_to_a_process_open():
    before = os.listdir("/proc/self/fd")
    ask_all(HOSTS, lambda _host: {}, forks=3, timeout=PATIENCE)
    assert set(os.listdir("/proc/self/fd")) <= set(before)  # those of earlier tests may be closed meanwhile


def test_no_process_goes_on_with_the_code_of_the_one_that_asks(tmp_path):
    ask_all(HOSTS, lambda _host: {}, forks=2, timeout=PATIENCE)
    with open(tmp_path / "went on", "a") as file:
        file.write(f"{os.getpid()}\n")
    assert (tmp_path / "went on").read_text() == f"{os.getpid()}\n"


def test_a_process_ends_at_an_interrupt_whatever_ansible_does_at_one():
    def handlers(_host):
        return {"default": [signal.getsignal(each) is signal.SIG_DFL for each in (signal.SIGINT, signal.SIGTERM)]}

    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert ask_all(["web1"], handlers, forks=1, timeout=PATIENCE) == {"web1": {"default": [True, True]}}
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_as_many_are_asked_at_the_same_time_as_there_are_forks(tmp_path):
    def meet(host):
        (tmp_path / host).touch()
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.01)
        return {"met": True}

    answers = ask_all(HOSTS[:3], meet, forks=3, timeout=PATIENCE)
    assert all(answer["met"] for answer in answers.values())


def test_no_more_are_asked_at_the_same_time(tmp_path):
    def count(host):
        (tmp_path / host).touch()
        time.sleep(0.05)
        here = len(list(tmp_path.iterdir()))
        (tmp_path / host).unlink()
        return {"here": here}

    answers = ask_all(HOSTS, count, forks=2, timeout=PATIENCE)
    assert max(answer["here"] for answer in answers.values()) <= 2


def test_a_large_answer_arrives_whole():
    answers = ask_all(["web1"], lambda _host: {"text": "x" * 3_000_000}, forks=1, timeout=PATIENCE)
    assert len(answers["web1"]["text"]) == 3_000_000


def test_an_error_is_the_problem_of_that_host_alone():
    def ask(host):
        if host == "web1":
            raise ValueError("what went wrong")
        return {}

    assert ask_all(["web1", "web2"], ask, forks=2, timeout=PATIENCE) == {
        "web1": {"problem": "what went wrong"},
        "web2": {},
    }


def test_a_process_that_dies_is_a_problem_of_its_host_alone():
    def die(host):
        if host == "web1":
            os.kill(os.getpid(), signal.SIGKILL)
        return {}

    assert ask_all(["web0", "web1", "web2"], die, forks=1, timeout=PATIENCE) == {
        "web0": {},
        "web1": {"problem": "the process that asked it ended with status 9"},
        "web2": {},
    }


def test_no_process_outlives_the_one_that_asks(tmp_path):
    def note(host):
        (tmp_path / host).write_text(str(os.getpid()))
        if host == "web1":
            os.kill(os.getppid(), signal.SIGKILL)
        return {}

    asking = os.fork()
    if asking == 0:
        with contextlib.suppress(BaseException):
            ask_all(["web0", "web1"], note, forks=2, timeout=PATIENCE)
        os._exit(0)
    assert os.waitpid(asking, 0)[1] == signal.SIGKILL
    for path in tmp_path.iterdir():
        wait_for_end(path.read_text())


def test_a_host_that_hangs_is_given_up_and_those_that_wait_for_it_as_well(tmp_path):
    def hang(host):
        if host != "web0":
            program = subprocess.Popen(["sleep", str(PATIENCE)])
            (tmp_path / "program").write_text(str(program.pid))
            (tmp_path / host).write_text(str(os.getpid()))
            program.wait()
        return {}

    def clock():
        """It stands still until web1 hangs."""
        return 1.0 if (tmp_path / "web1").exists() and (tmp_path / "web1").read_text() else 0.0

    late = {"problem": "no answer within 1 s", "unreachable": True}
    answers = ask_all(["web0", "web1", "web2"], hang, forks=1, timeout=1.0, clock=clock)
    assert answers == {"web0": {}, "web1": late, "web2": late}
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "web1").read_text()), 0)
    assert not (tmp_path / "web2").exists()
    wait_for_end((tmp_path / "program").read_text())


def test_without_hosts_the_answer_is_empty():
    assert ask_all([], lambda _host: {}, forks=1, timeout=PATIENCE) == {}


@pytest.mark.parametrize(
    ("variables", "of_web1", "seconds"),
    [
        ({"ansible_forks": 10}, {}, 60.0 + 20.0),
        ({"ansible_forks": 1}, {}, 60.0 + 6 * 20.0),
        ({}, {}, 60.0 + 2 * 20.0),  # five forks, as Ansible has them
        ({"ansible_forks": 3}, {"ansible_connection": "ssh"}, 60.0 + 2 * 20.0),
        ({"ansible_forks": 10}, {"ansible_connection": "ansible.builtin.winrm"}, 4 * 80.0),
        ({"ansible_forks": 10}, {"ansible_shell_type": "powershell"}, 4 * 80.0),
    ],
)
def test_a_look_may_take_as_long_as_the_hosts_that_each_fork_asks(variables, of_web1, seconds):
    known = {**variables, "hostvars": {host: of_web1 if host == "web1" else {} for host in HOSTS}}
    assert Fleet(None, known, None, HOSTS).longest(HOSTS) == seconds


def test_a_host_whose_connection_is_not_known_keeps_no_other_one_from_being_asked():
    class Unknown(dict):
        def get(self, *_names):
            raise AnsibleError("A template was resolved to an Omit scalar")  # since ansible-core 2.19

    known = {"ansible_forks": 10, "hostvars": {"web1": Unknown(), "web2": {"ansible_connection": "winrm"}}}
    assert Fleet(None, known, None, HOSTS).longest(HOSTS) == 4 * 80.0
    assert Fleet(None, known, None, ["web1"]).longest(HOSTS) == 80.0


class Asked:
    """A host of a fleet that returns what the test says, or raises it."""

    answers, directory = {}, None

    def __init__(self, action, name, _variables, *, facts):
        self.name, self.facts, self.timeout = name, facts, action._task.timeout

    def run(self, module, options, *, within):
        answer = self.answers[self.name]
        if isinstance(answer, Exception):
            raise answer
        return {**answer, "asked": [module, options, within], "known": self.facts, "timeout": self.timeout}

    def close(self):
        pathlib.Path(self.directory, f"{self.name} is closed").touch()


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask the hosts of a fleet that answer so."""

    def hosts(**answers):
        monkeypatch.setattr(Asked, "answers", answers)
        return fleet.ask(list(answers), lambda host: {"name": host.name})

    monkeypatch.setattr(fleets, "FleetHost", Asked)
    monkeypatch.setattr(Asked, "directory", tmp_path)
    action = types.SimpleNamespace(_task=types.SimpleNamespace(timeout=7200))
    fleet = Fleet(action, {"hostvars": {}}, Store(tmp_path), [])
    return hosts


def test_each_host_gets_its_own_options_and_a_minute_for_its_answer(ask):
    answers = ask(web1={}, web2={})
    assert {host: answer["asked"] for host, answer in answers.items()} == {
        host: ["maintenance_gate", {"name": host}, 60.0] for host in ("web1", "web2")
    }


def test_the_timeout_of_the_task_which_ends_no_forked_process_leaves_each_host_its_own(ask):
    assert ask(web1={})["web1"]["timeout"] == 0


@pytest.mark.parametrize(("kind", "unreachable"), [(OtherHostError, False), (OtherHostUnreachable, True)])
def test_a_host_that_cannot_be_asked_has_its_problem_without_its_name(ask, tmp_path, kind, unreachable):
    assert ask(web1=kind("web1: no route"), web2={})["web1"] == {"problem": "no route", "unreachable": unreachable}
    assert sorted(path.name for path in tmp_path.glob("* is closed")) == ["web1 is closed", "web2 is closed"]


@pytest.mark.parametrize(("value", "options"), [("/own", {"directory": "/own"}), ("", {}), (None, {})])
def test_a_host_has_the_directory_of_its_variable_or_else_that_of_the_module(value, options):
    variables = {"scheduled_events_state_directory": value}
    assert FleetHost.options(types.SimpleNamespace(variables=variables), DIRECTORY) == options


def test_what_ansible_found_out_about_a_host_is_known_at_the_next_look(ask):
    ask(web1={"ansible_facts": {"python": "/usr/bin/python3"}}, web2={})
    answers = ask(web1={}, web2={})
    assert [answers[host]["known"] for host in ("web1", "web2")] == [{"python": "/usr/bin/python3"}, {}]
