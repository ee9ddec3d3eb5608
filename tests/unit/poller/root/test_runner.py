# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hooks the root side runs, until when, what a hook gets, and what remains when a run ends."""

import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types

import pytest
from _scheduled_events.files import Occupied
from fake_clock import FakeClock
from polling_unit import until
from root_side import LONGER_THAN_A_TEST
from scheduled_events_poller.root import dispatcher, jobs, main, runner
from scheduled_events_poller.root.jobs import Process
from scheduled_events_poller.spool import LONGEST_REASON, RunResult


@pytest.fixture(autouse=True)
def _short_ticks(monkeypatch):
    """A clock that was moved and a deadline that was revised are noticed soon."""
    monkeypatch.setattr(runner, "TICK", 0.05)
    monkeypatch.setattr(runner, "GRACE", 0.1)


class JumpingClock(FakeClock):
    """Its clocks are moved as soon as a file is there."""

    def __init__(self, path, *, monotonic=0.0, wall=0.0):
        super().__init__(epoch=1769859000.0)
        self.path, self.jump = str(path), (monotonic, wall)

    def monotonic(self):
        if self.jump and os.path.exists(self.path):
            (monotonic, wall), self.jump = self.jump, None
            self.now += monotonic
            self.epoch += wall - monotonic
        return self.now


def marking(path, *, then="exec sleep 1000"):
    """A hook that makes a file, and then goes on."""
    return f"#!/bin/sh\necho $$ > {path}.new\nmv {path}.new {path}\n{then}\n"


# One job


def test_a_run_leaves_its_result_and_wakes_the_poller(root_side):
    root_side.add_hook()
    root_side.accept()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(root_side.directories.socket)
        listener.settimeout(60)
        assert runner.run(root_side.run_id, root_side.directories) == 0
        assert listener.recv(100) == b"ended"
    assert root_side.result().outcome == "ok"
    assert root_side.jobs() == []


def test_a_job_runs_once_however_often_it_is_started(root_side, tmp_path):
    root_side.add_hook(f"#!/bin/sh\necho ran >> {tmp_path / 'ran'}\n")
    for _time in range(2):
        root_side.accept()
        runner.run(root_side.run_id, root_side.directories)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert root_side.jobs() == []


def test_a_job_that_runs_is_not_run_a_second_time(root_side, tmp_path):
    root_side.add_hook(f"#!/bin/sh\necho ran >> {tmp_path / 'ran'}\n")
    root_side.accept()
    with jobs.held(root_side.directories, root_side.run_id):
        assert runner.run(root_side.run_id, root_side.directories) == 0
        with pytest.raises(Occupied, match="and 0 s of waiting"), jobs.held(root_side.directories, root_side.run_id):
            pass
    assert not (tmp_path / "ran").exists()
    assert root_side.result() is None


def test_a_job_that_has_ended_is_not_there_any_more(root_side, capsys):
    assert runner.run(root_side.run_id, root_side.directories) == 0
    assert "it has ended" in capsys.readouterr().err


def test_a_journal_that_reads_nothing_keeps_no_run_from_its_end(root_side):
    root_side.add_hook()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(b"x" * 4096)
        ours.setblocking(True)
        with open(os.dup(ours.fileno()), "wb", buffering=0) as output:
            assert runner.run_phase(root_side.job(), root_side.directories.hooks, output).outcome == "ok"


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "a.explode.1", ""])
def test_what_is_not_the_id_of_a_run_is_not_run(root_side, run_id):
    option = f"--hooks-runtime-directory={root_side.directories.hooks_runtime}"
    assert main.main([option, "run", run_id]) == 2
    assert main.main([option, "ended", run_id]) == 2


def test_a_job_that_cannot_be_read_is_a_failure(root_side):
    with open(root_side.accept(), "w") as file:
        file.write("no job")
    runner.run(root_side.run_id, root_side.directories)
    assert root_side.result().reason.startswith("the job cannot be read: it is not JSON")
    assert root_side.result().seconds == 0.0


def test_a_result_that_exists_is_never_overwritten(root_side):
    jobs.end(root_side.directories, RunResult(root_side.run_id, "ok", "", 1.0))
    assert not jobs.end(root_side.directories, RunResult(root_side.run_id, "failed", "late", 1.0))
    assert root_side.result().outcome == "ok"


def test_a_result_that_cannot_be_left_is_an_error_and_keeps_the_job(root_side):
    root_side.accept()
    os.rmdir(root_side.directories.results)
    open(root_side.directories.results, "w").close()
    with pytest.raises(FileExistsError):
        runner.run(root_side.run_id, root_side.directories)
    with pytest.raises(FileExistsError):
        runner.ended(root_side.run_id, root_side.directories, {})
    assert root_side.jobs() == [root_side.run_id]


def test_a_result_waits_for_room_as_long_as_that_takes(root_side, tmp_path, monkeypatch, capfd):
    write_once, failures = jobs.write_once, [OSError(errno.ENOSPC, "No space left on device")] * 100

    def write(*arguments, **options):
        if failures:
            raise failures.pop()
        return write_once(*arguments, **options)

    monkeypatch.setattr(jobs, "write_once", write)
    monkeypatch.setattr(runner, "RETRY_PAUSE", 0.0)
    root_side.add_hook(f"#!/bin/sh\necho ran >> {tmp_path / 'ran'}\n")
    root_side.accept()
    runner.run(root_side.run_id, root_side.directories)
    assert (root_side.result().outcome, (tmp_path / "ran").read_text(), root_side.jobs()) == ("ok", "ran\n", [])
    assert f"{root_side.run_id}: its result waits: [Errno 28] No space left" in capfd.readouterr().err


def test_the_name_of_a_hook_that_is_not_utf_8_gives_a_readable_result(root_side):
    directory = os.path.join(os.fsencode(root_side.directories.hooks), b"prepare.d")
    with open(os.path.join(directory, b"10-gr\xfcn"), "wb") as file:
        file.write(b"#!/bin/sh\nexit 3\n")
        os.fchmod(file.fileno(), 0o755)
    root_side.accept()
    runner.run(root_side.run_id, root_side.directories)
    assert root_side.result().reason == "10-gr\ufffdn: exit status 3"


# An older run of the event, after files in /run were removed


def test_a_run_whose_directories_were_removed_leaves_its_result(root_side):
    root_side.add_hook(f"#!/bin/sh\nrm -r {root_side.directories.hooks_runtime}\n")
    root_side.accept()
    runner.run(root_side.run_id, root_side.directories)
    assert root_side.result().outcome == "ok"


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("phase", ["prepare", "recover"])
def test_a_run_begins_after_an_older_one_whether_the_job_of_that_was_removed_or_not(
    root_side, tmp_path, phase, removed
):
    log, go = tmp_path / "log", tmp_path / "go"
    script = f"echo begin >> {log}; until [ -e {go} ]; do sleep 0.02; done; sleep 0.5; echo end >> {log}"
    for each in ("prepare", "recover"):
        root_side.add_hook(f"#!/bin/sh\n{script}\n", phase=each)
    root_side.accept()
    command = [*root_side.command, "run"]
    first = Process([*command, root_side.run_id])
    _until_written(log)
    if removed:
        os.unlink(os.path.join(root_side.directories.jobs, root_side.run_id))
    again = root_side.run_id.replace("prepare.7", f"{phase}.8")
    root_side.accept(request_id=again, phase=phase)
    second = Process([*command, again])
    _until_it_holds_a_lock(second)
    go.touch()
    assert (first.wait(LONGER_THAN_A_TEST), second.wait(LONGER_THAN_A_TEST)) == (0, 0)
    assert log.read_text().split() == ["begin", "end", "begin", "end"]
    assert (root_side.result().outcome, root_side.result(again).outcome) == ("ok", "ok")


def _until_it_holds_a_lock(process):
    """Wait without a lock of one's own, which the process would take for another run."""
    locks = pathlib.Path("/proc/locks")
    until(lambda: f" {process.pid} " in locks.read_text(), "the lock")


@pytest.fixture
def processes(root_side, tmp_path, monkeypatch):
    """Processes that a test names, one of which is the present one: the run 7 of prepare, the 500th that started."""
    proc = tmp_path / "proc"
    monkeypatch.setattr(jobs, "PROC", str(proc))

    def add(pid, run_id, *, born=499, user=None, program="scheduled-events-hooks", namespace=1):
        directory = proc / pid
        (directory / "ns").mkdir(parents=True)
        (directory / "ns" / "pid").symlink_to(f"pid:[{namespace}]")
        (directory / "cmdline").write_text(f"python\0{program}\0run\0{run_id}\0")
        (directory / "status").write_text(f"Name:\ta\nUid:\t{os.getuid() if user is None else user}\t0\t0\t0\n")
        (directory / "stat").write_text(f"1 (a) b) S {' 0' * 18} {born} 0\n")

    add("self", root_side.run_id, born=500)
    add("1234", root_side.run_id, born=500)
    return add


def _older(root_side):
    found = jobs.older_run(root_side.directories, root_side.run_id)
    return found is not None


OTHER = "d8172cbd-b0ed-4624-c35c-bb6024b27234.prepare.3"


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"run_id": "{token}.prepare.6"}, True),
        ({"run_id": "{token}.started.6"}, True),
        ({"run_id": "{token}.prepare.7"}, True),
        ({"run_id": "{token}.advised.6"}, False),
        ({"run_id": "{token}.prepare.6", "user": 65534}, False),
        ({"run_id": "{token}.prepare.6", "namespace": 2}, False),
        ({"run_id": "{token}.prepare.6", "born": 501}, False),
        ({"run_id": "{token}.prepare.6", "program": "vi"}, False),
        ({"run_id": OTHER}, False),
        ({"run_id": ""}, False),
    ],
)
def test_only_an_older_run_of_the_event_by_the_same_user_outside_containers_holds_up_a_run(
    root_side, processes, changes, lost
):
    run_id = changes.pop("run_id").format(token=root_side.event_id.lower())
    processes("77", run_id, **changes)
    assert _older(root_side) == lost


@pytest.mark.parametrize(("ends_in", "overdue"), [(60.0, False), (-5.0, False), (-10.5, True)])
def test_an_older_run_that_goes_on_beyond_its_end_holds_up_no_other(root_side, processes, ends_in, overdue):
    run_id = root_side.run_id.replace("prepare.7", "started.6")
    root_side.accept(request_id=run_id, phase="started", ends_at=time.monotonic() + ends_in)
    processes("77", run_id)
    assert _older(root_side) == (not overdue)


def test_hooks_that_run_beside_others_are_not_held_up(root_side, processes):
    processes("77", root_side.run_id.replace("prepare.7", "prepare.6"))
    assert jobs.older_run(root_side.directories, root_side.run_id.replace("prepare", "failed")) is None


def test_the_command_of_a_process_of_another_user_is_not_read(root_side, processes, tmp_path):
    processes("77", "a", user=65534)
    os.unlink(str(tmp_path / "proc" / "77" / "cmdline"))
    os.mkfifo(str(tmp_path / "proc" / "77" / "cmdline"))  # its reader waits, as for memory that a file system lends
    assert not _older(root_side)


@pytest.mark.parametrize("end", ["ended", "another process"])
def test_an_older_run_is_waited_for_as_long_as_it_goes_on(root_side, processes, tmp_path, end):
    processes("77", root_side.run_id)
    older = jobs.older_run(root_side.directories, root_side.run_id)
    assert older.goes_on()
    shutil.rmtree(str(tmp_path / "proc" / "77"))
    if end == "another process":
        processes("77", root_side.run_id, born=498)
    assert not older.goes_on()


# A run that ends without a result


def test_a_killed_runner_leaves_a_failure_through_the_end_of_its_unit(root_side, tmp_path):
    root_side.add_hook(marking(tmp_path / "mark"))
    root_side.accept()
    process = Process([*root_side.command, "run", root_side.run_id])
    hook = int(_until_written(tmp_path / "mark"))
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(LONGER_THAN_A_TEST) == -signal.SIGKILL
    os.kill(hook, signal.SIGKILL)
    how = {b"SERVICE_RESULT": b"signal", b"EXIT_CODE": b"killed", b"EXIT_STATUS": b"KILL"}
    arguments = [*root_side.command, "ended", root_side.run_id]
    process = Process(arguments, environment={**os.environb, **how})
    assert process.wait(LONGER_THAN_A_TEST) == 0
    assert root_side.result()[1:3] == ("failed", "its unit ended before its hooks: signal killed KILL")
    assert root_side.jobs() == []


def _until_written(path):
    until(path.exists, str(path))
    return path.read_text()


def test_the_end_of_a_unit_wakes_the_poller(root_side):
    root_side.accept()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(root_side.directories.socket)
        listener.settimeout(60)
        runner.ended(root_side.run_id, root_side.directories, {})
        assert listener.recv(100) == b"ended"
    assert root_side.result().reason.endswith("systemd gives no reason")


def test_a_poller_that_reads_nothing_holds_up_no_run(root_side):
    unix = socket.AF_UNIX, socket.SOCK_DGRAM
    with socket.socket(*unix) as listener, socket.socket(*unix) as sender:
        listener.bind(root_side.directories.socket)
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.sendto(b"full", root_side.directories.socket)
        waking = threading.Thread(target=jobs.wake, args=[root_side.directories], daemon=True)
        waking.start()
        waking.join(60)
        assert not waking.is_alive()


def test_the_end_of_a_unit_leaves_a_result_alone(root_side, capsys):
    jobs.end(root_side.directories, RunResult(root_side.run_id, "ok", "", 1.0))
    root_side.accept()
    for _again in range(2):  # the second time without a job
        runner.ended(root_side.run_id, root_side.directories, {})
    assert (root_side.result().outcome, root_side.jobs(), capsys.readouterr().err) == ("ok", [], "")


def test_the_end_of_a_unit_reports_the_failure_that_it_stores(root_side, capsys):
    root_side.accept()
    runner.ended(root_side.run_id, root_side.directories, {"SERVICE_RESULT": "signal"})
    assert capsys.readouterr().err == f"{root_side.run_id}: its unit ended before its hooks: signal\n"


@pytest.mark.parametrize("state", ["stopping", "running", "degraded"])
def test_a_run_that_ends_because_the_machine_goes_down_has_no_result(root_side, tmp_path, monkeypatch, capsys, state):
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho {state}\nexit 1\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    root_side.accept()
    assert runner.ended(root_side.run_id, root_side.directories, {}) == 0
    assert ("goes down" in capsys.readouterr().err) == (state == "stopping")
    kept = (None, [root_side.run_id]) if state == "stopping" else ("failed", [])
    assert (root_side.result() and root_side.result().outcome, root_side.jobs()) == kept


def test_the_end_of_a_unit_without_a_job_leaves_nothing(root_side):
    runner.ended(root_side.run_id, root_side.directories, {})
    assert root_side.result() is None


def test_a_run_whose_process_could_not_be_started_waits_for_the_next_start_of_its_unit(root_side):
    root_side.accept()
    runner.ended(root_side.run_id, root_side.directories, {"SERVICE_RESULT": "resources"})
    assert (root_side.result(), root_side.jobs()) == (None, [root_side.run_id])


def test_the_end_of_a_unit_leaves_a_job_alone_that_another_process_runs(root_side):
    root_side.accept()
    with jobs.held(root_side.directories, root_side.run_id):
        runner.ended(root_side.run_id, root_side.directories, {})
    assert (root_side.result(), root_side.jobs()) == (None, [root_side.run_id])


# Order and outcome


def names_run(root_side):
    return [line.split()[2].rstrip(":") for line in root_side.printed().splitlines() if " hook " in line]


def test_hooks_run_in_lexical_order_without_hidden_files_and_backups(root_side):
    for name in ("20-b", "10-a", ".hidden", "10-a~", "#10-a#", "5-z"):
        root_side.add_hook(name=name)
    root_side.run_phase()
    assert names_run(root_side) == ["10-a", "20-b", "5-z"]


def test_the_end_of_a_hook_is_logged_between_its_output_and_that_of_the_next(root_side):
    for name in ("10-a", "20-b"):
        root_side.add_hook(f"#!/bin/sh\necho output of {name}\n", name)
    root_side.run_phase()
    found = [line.partition(": ok")[0] for line in root_side.printed().splitlines()]
    assert found == ["output of 10-a", "prepare hook 10-a", "output of 20-b", "prepare hook 20-b"]


def test_preparation_stops_at_the_first_failure(root_side):
    root_side.add_hook("#!/bin/sh\nexit 3\n", "1")
    root_side.add_hook(name="2")
    result = root_side.run_phase()
    assert (result.outcome, result.reason, names_run(root_side)) == ("failed", "1: exit status 3", ["1"])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'job 7 failed' >$F; exit 1", ("failed", "10-hook: job 7 failed")),
        ("echo no answer >$F", ("ok", "10-hook: no answer")),
        ("echo first >$F; echo last >$F; kill -9 $$", ("failed", "10-hook: last")),
        ("printf 'two\\nlines\\033[31m' >$F; exit 1", ("failed", "10-hook: two lines\ufffd[31m")),
        ("head -c 1000000 /dev/zero | tr '\\0' x >$F; exit 1", ("failed", ("10-hook: " + 3000 * "x")[:LONGEST_REASON])),
        (">$F; exit 3", ("failed", "10-hook: exit status 3")),
    ],
)
def test_a_hook_says_why_in_a_file(root_side, script, expected):
    root_side.add_hook(f"#!/bin/sh\nF=$SCHEDULED_EVENT_REASON_FILE\n{script}\n")
    result = root_side.run_phase()
    assert (result.outcome, result.reason.replace("…", "x")) == expected


def test_a_hook_that_is_ended_at_its_deadline_has_said_what_it_waited_for(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(f"#!/bin/sh\necho job 7 is running >$SCHEDULED_EVENT_REASON_FILE\n>{mark}\nexec sleep 600\n")
    result = root_side.run_phase(JumpingClock(mark, monotonic=61.0), ends_at=1060.0)
    assert result[1:3] == ("timeout", "10-hook: it was ended at its deadline: job 7 is running")


@pytest.mark.parametrize("phase", ["started", "recover", "failed"])
def test_other_phases_go_on_after_a_failure(root_side, phase):
    root_side.add_hook("#!/bin/sh\nexit 3\n", "1", phase)
    root_side.add_hook("#!/bin/sh\nkill -9 $$\n", "2", phase)
    root_side.add_hook(name="3", phase=phase)
    result = root_side.run_phase(phase=phase)
    assert (result.outcome, result.reason) == ("failed", "1: exit status 3; 2: signal 9")
    assert names_run(root_side) == ["1", "2", "3"]


def test_the_reasons_of_many_failures_are_cut(root_side):
    for number in range(20):
        root_side.add_hook("#!/bin/sh\nexit 3\n", f"{number}" * 120, "recover")
    assert len(root_side.run_phase(phase="recover").reason) == 2000


def test_no_hooks_are_a_success(root_side):
    assert root_side.run_phase(phase="recover")[1:3] == ("ok", "")


def test_hooks_that_cannot_be_listed_are_a_failure(root_side):
    with open(os.path.join(root_side.directories.hooks, "recover.d"), "w"):
        pass
    result = root_side.run_phase(phase="recover")
    assert result.outcome == "failed"
    assert result.reason.startswith("recover.d: the hooks cannot be listed: ")
    assert "failed after 0.0 s" in root_side.printed()


def test_a_hook_that_exits_with_75_is_run_again(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(f"#!/bin/sh\necho x >> {mark}\n[ $(wc -l < {mark}) -ge 3 ] || exit 75\n")
    clock = FakeClock()
    assert root_side.run_phase(clock, ends_at=1060.0).outcome == "ok"
    assert (mark.read_text(), clock.now) == ("x\n" * 3, 1010.0)
    assert root_side.printed().count("not yet (exit status 75), again in 5 s") == 2


@pytest.mark.parametrize("name", ["Process", "_memory_file"])
def test_a_hook_is_tried_again_while_the_machine_has_no_room_for_it(root_side, monkeypatch, name):
    root_side.add_hook()
    lacking, works = [errno.EAGAIN, errno.ENOMEM], getattr(runner, name)

    def start(*arguments, **options):
        if lacking:
            raise OSError(lacking[0], os.strerror(lacking.pop(0)))
        return works(*arguments, **options)

    monkeypatch.setattr(runner, name, start)
    result = root_side.run_phase(FakeClock(), ends_at=1060.0)
    assert (result.outcome, result.seconds, lacking) == ("ok", 10.0, [])
    assert "not yet (it cannot be started: Cannot allocate memory), again in 5 s" in root_side.printed()
    lacking += [errno.EAGAIN] * 100
    reason = "10-hook: the deadline passed before it was done: it cannot be started: Resource temporarily unavailable"
    assert root_side.run_phase(FakeClock(), ends_at=1060.0)[1:3] == ("timeout", reason)


def test_hooks_run_with_a_full_disk_before_python_3_8(root_side, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", "/missing")  # as where no directory for such files has room
    root_side.add_hook("#!/bin/sh\ngrep -q vm1 && echo seen >$SCHEDULED_EVENT_REASON_FILE\n")
    assert root_side.run_phase()[1:3] == ("ok", "10-hook: seen")


def test_the_time_that_hooks_took_is_that_of_the_clock(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(name="10-a")
    assert root_side.run_phase(FakeClock(), ends_at=1060.0).seconds == 0.0
    root_side.add_hook(f"#!/bin/sh\necho x >> {mark}\n[ $(wc -l < {mark}) -ge 3 ] || exit 75\n", "20-b")
    root_side.add_hook(f"#!/bin/sh\n[ -e {mark}-2 ] || {{ touch {mark}-2; exit 75; }}\n", "30-c")
    assert root_side.run_phase(FakeClock(), ends_at=1060.0).seconds == 15.0
    took = [line.rpartition("hook ")[2] for line in root_side.printed().splitlines() if " after " in line]
    assert took == ["10-a: ok after 0.0 s"] * 2 + ["20-b: ok after 10.0 s", "30-c: ok after 5.0 s"]


# Deadlines


def test_a_hook_that_exits_with_75_until_the_deadline_has_timed_out(root_side):
    root_side.add_hook("#!/bin/sh\nexit 75\n")
    clock = FakeClock()
    result = root_side.run_phase(clock, ends_at=1012.0)
    assert (result.outcome, result.reason) == ("timeout", "10-hook: the deadline passed before it was done")
    assert clock.now == 1012.0


@pytest.mark.parametrize(
    ("limits", "jump"),
    [
        ({"ends_at": 1060.0, "timeout": 600.0}, {"monotonic": 61.0}),
        # Much later than the timeout: what a hostile request asks for.
        ({"ends_at": 1e9, "timeout": 60.0}, {"monotonic": 61.0}),
        ({"ends_at": 1060.0, "timeout": 60.0, "not_later_than": 1769860030.0}, {"wall": 31.0}),
        # The clock of the wall is set back, and no hook runs longer for that.
        ({"ends_at": 1060.0, "timeout": 60.0, "not_later_than": 1769860030.0}, {"wall": -3600.0, "monotonic": 61.0}),
    ],
)
def test_a_hanging_hook_is_ended_at_its_deadline_with_all_that_it_started(root_side, tmp_path, limits, jump):
    mark = tmp_path / "mark"
    root_side.add_hook(
        f"#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho $! > {mark}.new\nmv {mark}.new {mark}\nwait\nwait\n"
    )
    result = root_side.run_phase(JumpingClock(mark, **jump), **limits)
    assert (result.outcome, result.reason) == ("timeout", "10-hook: it was ended at its deadline")
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(mark.read_text()))


@pytest.mark.parametrize("separately", ["timeout 1000", "setsid", "setsid setsid --fork"])
def test_a_phase_has_a_result_only_when_what_its_hook_started_has_ended_in_whatever_group(
    root_side, tmp_path, separately
):
    mark = tmp_path / "mark"
    started = f'trap "" TERM; echo $$ > {mark}.new; mv {mark}.new {mark}; while :; do sleep 0.01; done'
    root_side.add_hook(f"#!/bin/sh\n{separately} sh -c '{started}'\nexec sleep 1000\n")
    assert _outcome_at_the_deadline(root_side, mark) == "timeout"
    assert _has_ended(int(mark.read_text()))


def test_what_a_hook_leaves_behind_has_ended_when_its_phase_has_a_result(root_side, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "GRACE", LONGER_THAN_A_TEST)
    mark = tmp_path / "mark"
    left = f'trap "echo ended > {mark}.ended; exit" TERM; echo $$ > {mark}; while :; do sleep 0.01; done'
    root_side.add_hook(
        f"#!/bin/sh\nsetsid sh -c '{left}' &\nuntil [ -s {mark} ]; do sleep 0.01; done\n", name="10-leaves"
    )
    root_side.add_hook(f"#!/bin/sh\n[ ! -e {mark}.ended ]\n", name="20-runs-beside-it")
    assert root_side.run_phase().outcome == "ok"
    assert _has_ended(int(mark.read_text()))
    assert (tmp_path / "mark.ended").exists()


def test_a_container_or_another_unit_that_a_hook_started_goes_on_after_its_phase(root_side, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    root_side.add_hook(f"#!/bin/sh\nsetsid sleep 1000 &\necho $! > {mark}.new\nmv {mark}.new {mark}\n", phase="recover")
    monkeypatch.setattr(jobs, "_control_group", lambda pid: b"own" if pid == os.getpid() else b"other")
    assert root_side.run_phase(phase="recover").outcome == "ok"
    pid = int(mark.read_text())
    assert not _has_ended(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_program_of_a_shell_gets_the_time_to_undo_what_it_did(root_side, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "GRACE", LONGER_THAN_A_TEST)
    mark = tmp_path / "mark"
    program = f'trap "sleep 0.3; echo done > {mark}.undone; exit" TERM; echo > {mark}; while :; do sleep 0.01; done'
    root_side.add_hook(f"#!/bin/sh\nsh -c '{program}' || exit 1\nexit 0\n")
    assert _outcome_at_the_deadline(root_side, mark) == "timeout"
    assert (tmp_path / "mark.undone").exists()


def _outcome_at_the_deadline(root_side, mark):
    """The outcome of a run whose deadline passes as soon as its hook has made a file."""
    return root_side.run_phase(JumpingClock(mark, monotonic=61.0), ends_at=1060.0).outcome


def _has_ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _wait_for_end(pid):
    give_up_at = time.monotonic() + 300
    while time.monotonic() < give_up_at:
        os.kill(pid, 0)
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                raise ProcessLookupError
        time.sleep(0.01)


def test_no_hook_begins_after_the_deadline(root_side):
    root_side.add_hook()
    result = root_side.run_phase(FakeClock(), ends_at=999.0)
    assert (result.outcome, result.reason) == ("timeout", "10-hook: it was not started, since the deadline had passed")


def test_a_hook_ends_in_time_although_the_clock_was_set_back_before_it(root_side):
    root_side.add_hook("#!/bin/sh\nexit 75\n")
    clock = FakeClock(epoch=1769859000.0 - 3600.0)
    root_side.run_phase(clock, ends_at=1012.0, not_later_than=1769860012.0)
    assert clock.now == 1012.0


def test_a_deadline_that_moves_earlier_ends_a_hook_that_runs(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(marking(mark))
    earlier = root_side.job(ends_at=999.0)
    result = root_side.run_phase(FakeClock(), revised=lambda: earlier if mark.exists() else None, ends_at=1060.0)
    assert (result.outcome, result.reason) == ("timeout", "10-hook: it was ended at its deadline")


def test_a_deadline_that_moves_later_gives_a_hook_more_time_up_to_its_timeout(root_side):
    root_side.add_hook("#!/bin/sh\nexit 75\n")
    clock = FakeClock()
    later = root_side.job(ends_at=1e9, timeout=30.0)
    root_side.run_phase(clock, revised=lambda: later if clock.now >= 1010.0 else None, ends_at=1012.0, timeout=30.0)
    assert clock.now == 1030.0


def test_a_hook_that_begins_after_the_deadline_moved_sees_the_new_one(root_side):
    root_side.add_hook("#!/bin/sh\necho $SCHEDULED_EVENT_DEADLINE\nexit 75\n")
    clock = FakeClock()
    later = root_side.job(ends_at=1009.0, deadline=1769860860.0)
    root_side.run_phase(clock, revised=lambda: later if clock.now >= 1004.0 else None, ends_at=1008.0)
    assert [line for line in root_side.printed().splitlines() if line.endswith("Z")] == [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:01:00Z",
    ]


def test_a_job_that_runs_takes_over_the_times_of_a_request_that_revises_it(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(marking(mark))
    root_side.accept(ends_at=time.monotonic() + 600, timeout=600.0)
    process = Process([*root_side.command, "run", root_side.run_id])
    _until_written(mark)
    root_side.leave(ends_at=time.monotonic(), timeout=600.0)
    dispatcher.Dispatcher(root_side.directories, lambda _ids: {}).look()
    assert process.wait(LONGER_THAN_A_TEST) == 0
    assert root_side.result()[1:3] == ("timeout", "10-hook: it was ended at its deadline")
    assert root_side.jobs() == []


# Required hooks, and sets of hooks


def test_a_configured_hook_that_is_not_there_fails_the_run_before_any_hook_runs(root_side):
    root_side.add_hook(name="10-a")
    result = root_side.run_phase(hooks=("10-a", "20-b"))
    directory = os.path.join(root_side.directories.hooks, "prepare.d")
    assert (result.outcome, names_run(root_side)) == ("failed", ["20-b"])
    assert result.reason == f"20-b: configured, but not in {directory}. Run the role again"
    assert "prepare hook 20-b: failed after 0.0 s configured, but not in" in root_side.printed()


def test_a_configured_hook_is_missing_where_there_is_no_directory(root_side):
    assert "10-a, 20-b: configured, but not in" in root_side.run_phase(phase="recover", hooks=("10-a", "20-b")).reason


def test_configured_hooks_are_found_whatever_their_encoding(root_side):
    root_side.add_hook(name="10-grün")
    assert root_side.run_phase(hooks=("10-grün",)).outcome == "ok"


def test_a_hook_that_is_not_configured_and_is_removed_while_its_phase_runs_is_skipped(root_side):
    gone = root_side.add_hook(name="20-b")
    root_side.add_hook(f"#!/bin/sh\nrm {gone}\n", "10-a")
    root_side.add_hook(name="30-c")
    result = root_side.run_phase(hooks=("10-a", "30-c"))
    assert (result.outcome, result.reason) == ("ok", "")
    assert "prepare hook 20-b: skipped, since it was removed meanwhile" in root_side.printed()


def test_a_configured_hook_that_is_removed_while_its_phase_runs_is_a_failure(root_side):
    gone = root_side.add_hook(name="20-b")
    root_side.add_hook(f"#!/bin/sh\nrm {gone}\n", "10-a")
    result = root_side.run_phase(hooks=("10-a", "20-b"))
    assert result.outcome == "failed"
    assert result.reason.startswith("20-b: configured, but removed from ")


def test_a_run_keeps_to_the_set_of_hooks_that_it_began_with(root_side, tmp_path):
    for name in ("old", "new"):
        root_side.add_hook(f"#!/bin/sh\necho {name} set\n", "20-b")
        os.rename(root_side.directories.hooks, str(tmp_path / name))
    os.mkdir(root_side.directories.hooks)
    link = os.path.join(root_side.directories.hooks, "managed")
    os.symlink(str(tmp_path / "old"), link)
    swap = f"#!/bin/sh\nln -s {tmp_path / 'new'} {link}.new\nmv -T {link}.new {link}\n"
    root_side.add_hook(swap, "10-a")
    assert root_side.run_phase(hooks=("10-a", "20-b")).outcome == "ok"
    assert "old set" in root_side.printed()
    assert os.path.realpath(link) == str(tmp_path / "new")


def test_the_hooks_of_the_owner_and_of_the_role_run_in_the_order_of_their_names(root_side, tmp_path):
    for name in ("10-a", "30-c"):
        root_side.add_hook(f"#!/bin/sh\necho role {name}\n", name)
    os.rename(root_side.directories.hooks, str(tmp_path / "set"))
    root_side.add_hook("#!/bin/sh\necho owner 20-b\n", "20-b")
    os.symlink(str(tmp_path / "set"), os.path.join(root_side.directories.hooks, "managed"))
    assert root_side.run_phase(hooks=("10-a", "30-c")).outcome == "ok"
    printed = [line for line in root_side.printed().splitlines() if line.startswith(("role", "owner"))]
    assert printed == ["role 10-a", "owner 20-b", "role 30-c"]


def test_a_hook_of_the_owner_with_the_name_of_one_of_the_role_fails_its_phase(root_side, tmp_path):
    roles = root_side.add_hook("#!/bin/sh\necho role\n").replace(root_side.directories.hooks, str(tmp_path / "set"))
    os.rename(root_side.directories.hooks, str(tmp_path / "set"))
    owners = root_side.add_hook("#!/bin/sh\necho owner\n")
    os.symlink(str(tmp_path / "set"), os.path.join(root_side.directories.hooks, "managed"))
    result = root_side.run_phase(hooks=("10-hook",))
    assert (result.outcome, result.reason) == (
        "failed",
        f"10-hook: refused: {owners} and {roles} have the same name. Rename one of them",
    )


def test_a_link_to_the_set_of_the_role_in_a_directory_that_others_can_write_is_refused(root_side, tmp_path):
    root_side.add_hook()
    os.rename(root_side.directories.hooks, str(tmp_path / "set"))
    os.mkdir(root_side.directories.hooks)
    os.symlink(str(tmp_path / "set"), os.path.join(root_side.directories.hooks, "managed"))
    os.chmod(root_side.directories.hooks, 0o777)  # noqa: S103 - what is refused
    refused = f"refused: other users than root can write the directory {root_side.directories.hooks}"
    assert refused in root_side.run_phase().reason


# Which programs


def test_ten_megabytes_of_output_pass_through(root_side):
    root_side.add_hook("#!/bin/sh\nhead -c 10000000 /dev/zero\n")
    assert root_side.run_phase().outcome == "ok"
    assert os.path.getsize(root_side.output) > 10000000


@pytest.mark.parametrize(
    ("script", "mode", "reason"),
    [
        ("#!/bin/sh\n", 0o655, "refused: it is not executable. Run chmod +x"),
        ("#!/bin/sh\n", 0o757, "refused: other users than its owner can write it. Run chmod go-w"),
        ("#!/bin/sh\n", 0o775, "refused: other users than its owner can write it. Run chmod go-w"),
        (
            "#!/no/such/interpreter -x\n",
            0o755,
            'the interpreter in its first line is missing: "#!/no/such/interpreter -x"',
        ),
        ("#!/usr\n", 0o755, 'the interpreter in its first line cannot be executed: "#!/usr"'),
        ("echo no first line\n", 0o755, "it is not a program, expected a first line such as #!/bin/sh"),
    ],
)
def test_a_wrong_hook_is_a_clear_failure(root_side, script, mode, reason):
    root_side.add_hook(script, mode=mode)
    result = root_side.run_phase()
    assert result.outcome == "failed"
    assert reason in result.reason


def test_a_hook_on_a_file_system_that_runs_no_program_is_refused_before_an_event_mocked_mount(root_side, monkeypatch):
    root_side.add_hook("#!/bin/sh\n")
    monkeypatch.setattr(os, "statvfs", lambda _path: types.SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    [problem] = runner.refused(root_side.directories.hooks)
    assert problem.endswith("refused: its file system is mounted with noexec. Mount it without this option")


def test_a_hook_that_is_removed_while_it_is_looked_at_is_skipped(root_side, monkeypatch):
    root_side.add_hook("#!/bin/sh\n")
    monkeypatch.setattr(os, "statvfs", lambda path: os.lstat(path + b"-gone"))
    assert list(runner.refused(root_side.directories.hooks)) == []
    assert root_side.run_phase().outcome == "nothing"


@pytest.mark.parametrize("ends", ["\n", "\0 more\n"])
def test_a_hook_that_the_kernel_runs_is_not_refused_whatever_its_first_line_is(root_side, tmp_path, ends):
    directory = tmp_path / "l".ljust(225 - len(str(tmp_path)), "o")
    directory.mkdir()
    (directory / "sh").symlink_to("/bin/sh")
    root_side.add_hook(f"#!{directory}/sh{ends}")
    assert list(runner.refused(root_side.directories.hooks)) == []
    assert root_side.run_phase().outcome == "ok"


@pytest.mark.parametrize("target", ["/bin/true", "scripts/drain-database"])
def test_a_link_is_not_a_hook_wherever_it_leads(root_side, target):
    os.symlink(target, os.path.join(root_side.directories.hooks, "prepare.d", "10-link"))
    assert "refused: it is not a regular file" in root_side.run_phase().reason
    [problem] = runner.refused(root_side.directories.hooks)
    assert problem.startswith("prepare.d/10-link: refused: it is not a regular file")


def test_a_directory_is_not_a_hook(root_side):
    os.mkdir(os.path.join(root_side.directories.hooks, "prepare.d", "10-directory"))
    assert "refused: it is not a regular file" in root_side.run_phase().reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_hook_of_another_user_is_refused(root_side):
    os.chown(root_side.add_hook(), 1, -1)
    assert "refused: it belongs to user 1, expected root" in root_side.run_phase().reason


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_hook_in_a_directory_that_others_can_write_is_refused(root_side, mode):
    root_side.add_hook()
    os.chmod(root_side.directories.hooks, mode)
    expected = f"refused: other users than root can write the directory {root_side.directories.hooks}"
    assert expected in root_side.run_phase().reason


def test_a_link_to_the_hooks_in_a_directory_that_others_can_write_is_refused(root_side, tmp_path):
    root_side.add_hook()
    (tmp_path / "open").mkdir()
    link = str(tmp_path / "open" / "hooks")
    os.symlink(root_side.directories.hooks, link)
    (tmp_path / "open").chmod(0o777)
    root_side.directories = root_side.directories._replace(hooks=link)
    assert f"refused: other users than root can write the directory {tmp_path / 'open'}" in root_side.run_phase().reason


# What a hook gets


def given(root_side, tmp_path, **changes):
    """The standard input of a hook, and of its environment what is about the event."""
    phase = changes.get("phase", "prepare")
    root_side.add_hook(f"#!/bin/sh\ncat > {tmp_path}/stdin\nenv -0 > {tmp_path}/environment\n", phase=phase)
    assert root_side.run_phase(**changes).outcome == "ok"
    pairs = [pair.split(b"=", 1) for pair in (tmp_path / "environment").read_bytes().split(b"\0") if b"=" in pair]
    variables = {name: value for name, value in pairs if name.startswith(b"SCHEDULED_EVENT")}
    return json.loads((tmp_path / "stdin").read_text()), variables


def test_a_hook_reads_the_event_and_finds_it_in_its_environment(root_side, tmp_path):
    event, variables = given(root_side, tmp_path)
    assert event == root_side.event
    assert re.match(b"/proc/[0-9]+/fd/[0-9]+$", variables.pop(b"SCHEDULED_EVENT_REASON_FILE"))
    assert variables == {
        b"SCHEDULED_EVENT_ID": root_side.event_id.encode(),
        b"SCHEDULED_EVENT_TYPE": b"Reboot",
        b"SCHEDULED_EVENT_STATUS": b"Scheduled",
        b"SCHEDULED_EVENT_SOURCE": b"Platform",
        b"SCHEDULED_EVENT_NOT_BEFORE": b"2026-01-31T12:00:00Z",
        b"SCHEDULED_EVENT_DURATION": b"-1",
        b"SCHEDULED_EVENT_RESOURCES": b"vm1,vm2",
        b"SCHEDULED_EVENT_DESCRIPTION": "a 'b' $(touch /tmp/x) ? ü\nc".encode(),
        b"SCHEDULED_EVENT_PHASE": b"prepare",
        b"SCHEDULED_EVENT_DEADLINE": b"2026-01-31T12:00:00Z",
        b"SCHEDULED_EVENT_RUN": root_side.job().request_id.encode(),
        b"SCHEDULED_EVENT_FIRST_RUN": root_side.job().request_id.encode(),
        b"SCHEDULED_EVENT_RECOVERED": b"0",
        b"SCHEDULED_EVENT_UNDONE": b"false",
        b"SCHEDULED_EVENTS_VM_NAME": b"vm1",
    }


def test_failed_hooks_learn_which_phase_failed_and_why(root_side, tmp_path):
    failure = {"failed_phase": "recover", "failure": "10-return: exit status 3"}
    _event, variables = given(root_side, tmp_path, phase="failed", **failure)
    assert variables[b"SCHEDULED_EVENT_FAILED_PHASE"] == b"recover"
    assert variables[b"SCHEDULED_EVENT_FAILED_REASON"] == b"10-return: exit status 3"


ODD_VALUES = [
    None,
    [],
    {},
    {"a": [1]},
    True,
    float("inf"),
    10**19,  # the most digits of a number that a request can have
    ["\ud800\0", None, 10**19],
    "\0" * 10,
]


@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_whatever_the_values_of_an_event_are_a_hook_gets_an_environment(root_side, value):
    event = dict.fromkeys(root_side.event, value)
    variables = runner.environment(root_side.job(event=event), 0.0)
    assert all(b"\0" not in text for text in variables.values())
    assert variables[b"SCHEDULED_EVENT_DEADLINE"] == b"1970-01-01T00:00:00Z"


def test_a_hook_is_not_given_the_socket_of_the_service_manager(root_side, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    assert b"NOTIFY_SOCKET" not in runner.environment(root_side.job(), 0.0)


def test_a_hook_that_reads_nothing_is_not_waited_for(root_side):
    root_side.add_hook("#!/bin/sh\nexec < /dev/null\n")
    event = dict(root_side.event, additional={"long": "x" * 100000})
    assert root_side.run_phase(event=event).outcome == "ok"


def test_a_hook_gets_an_event_with_thousands_of_long_names_on_standard_input_alone(root_side, tmp_path):
    long = dict(root_side.event, resources=[f"{number:0250}" for number in range(5000)])
    event, variables = given(root_side, tmp_path, event=long)
    assert event == long
    assert b"SCHEDULED_EVENT_RESOURCES" not in variables
    assert variables[b"SCHEDULED_EVENT_ID"] == root_side.event_id.encode()


def test_a_hook_starts_with_all_variables_of_an_event_as_long_as_they_can_be(root_side, tmp_path):
    longest = "x" * runner.LONGEST_VARIABLE
    event = dict.fromkeys(root_side.event, longest)
    failure = {"failed_phase": longest, "failure": longest, "vm_name": longest}
    _event, variables = given(root_side, tmp_path, event=event, phase="failed", **failure)
    assert variables[b"SCHEDULED_EVENT_TYPE"] == longest.encode()


@pytest.mark.parametrize("field", ["event_type", "description"])
def test_no_variable_of_an_event_can_keep_a_hook_from_its_start(root_side, tmp_path, monkeypatch, field):
    name = f"SCHEDULED_EVENT_{field.replace('event_', '').upper()}"
    monkeypatch.setenv(name, "of another event")
    long = dict(root_side.event, **{field: "x" * (runner.LONGEST_VARIABLE + 1)})
    event, variables = given(root_side, tmp_path, event=long)
    assert event == long
    assert name.encode() not in variables


def test_a_hook_that_is_interrupted_in_a_trial_does_not_go_on(root_side, tmp_path):
    mark = tmp_path / "mark"
    root_side.add_hook(marking(mark))

    def interrupt():
        if mark.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        root_side.run_phase(revised=interrupt)
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(mark.read_text()))


# How long a hook waits for the root side


@pytest.mark.parametrize("module", ["dispatcher", "runner"])
def test_what_a_hook_waits_for_imports_nothing_slow(module):
    package = os.path.abspath(os.path.join(os.path.dirname(runner.__file__), "..", ".."))
    library = os.path.join(package, "..", "..", "..", "plugins", "module_utils")
    slow = "argparse asyncio datetime hashlib inspect logging random shutil socket tempfile"
    code = (
        f"import sys; sys.path += [{package!r}, {library!r}]; import scheduled_events_poller.root.{module}; "
        f"print([name for name in {slow.split()!r} if name in sys.modules])"
    )
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe:
        process = Process([sys.executable, "-IS", "-c", code], output=write_end)
        os.close(write_end)
        assert pipe.read() == b"[]\n"
        assert process.wait(LONGER_THAN_A_TEST) == 0


# What prepares, and what only reports


@pytest.mark.parametrize(
    ("scripts", "outcome", "reason"),
    [
        ([], "nothing", "there is no prepare hook"),
        (["exit 77"], "nothing", "0-hook ended with exit status 77"),
        (["exit 77", "exit 77"], "nothing", "0-hook, 1-hook ended with exit status 77"),
        (["echo the job failed > $SCHEDULED_EVENT_REASON_FILE; exit 77"], "nothing", "0-hook: the job failed"),
        (["exit 77", "exit 0"], "ok", ""),
        (["exit 0", "exit 77"], "ok", ""),
        (["exit 77", "exit 1", "exit 0"], "failed", "1-hook: exit status 1"),
        (["exit 77", "kill -9 $$"], "failed", "1-hook: signal 9"),
    ],
)
def test_a_preparation_needs_a_hook_that_ends_with_0(root_side, scripts, outcome, reason):
    for number, script in enumerate(scripts):
        root_side.add_hook(f"#!/bin/sh\n{script}\n", name=f"{number}-hook")
    assert root_side.run_phase()[1:3] == (outcome, reason)


def test_a_hook_that_is_tried_again_may_end_with_77(root_side):
    mark = os.path.join(root_side.directories.hooks, "mark")
    root_side.add_hook(f"#!/bin/sh\n[ -e {mark} ] && exit 77\ntouch {mark}\nexit 75\n")
    assert root_side.run_phase(FakeClock(), ends_at=1060.0).outcome == "nothing"


def test_a_preparation_that_reaches_its_deadline_after_a_77_has_timed_out(root_side):
    root_side.add_hook("#!/bin/sh\nexit 77\n", name="0-notify")
    root_side.add_hook("#!/bin/sh\nexit 75\n", name="1-drain")
    assert root_side.run_phase(FakeClock(), ends_at=1060.0).outcome == "timeout"


def test_a_preparation_whose_only_drain_vanished_meanwhile_prepares_nothing(root_side):
    second = root_side.add_hook(name="20-drain")
    root_side.add_hook(f"#!/bin/sh\nrm {second}\nexit 77\n", name="0-webhooks")
    assert root_side.run_phase().outcome == "nothing"


def test_the_hook_of_the_webhooks_fails_no_phase(root_side):
    os.chmod(root_side.add_hook(name="0-webhooks"), 0o644)  # as an operator turns it off
    assert root_side.run_phase().outcome == "nothing"
    root_side.add_hook(name="10-drain")
    ended = root_side.run_phase()
    assert (ended.outcome, ended.reason) == ("ok", "0-webhooks: refused: it is not executable. Run chmod +x")


@pytest.mark.parametrize("phase", ["started", "recover", "advised", "failed"])
@pytest.mark.parametrize("scripts", [[], ["exit 77"], ["exit 77", "exit 0"]])
def test_in_other_phases_77_is_success(root_side, phase, scripts):
    for number, script in enumerate(scripts):
        root_side.add_hook(f"#!/bin/sh\n{script}\n", name=f"{number}-hook", phase=phase)
    run_id = root_side.run_id.replace("prepare", phase)
    assert root_side.run_phase(request_id=run_id, phase=phase).outcome == "ok"
