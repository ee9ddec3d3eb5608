# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which requests the root side accepts, what it answers to the others, and that no user can keep it busy."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import socket
import stat
import time
import types

import pytest
from _scheduled_events.files import HALF_WRITTEN
from fake_clock import FakeClock
from hook_units import HookUnits
from polling_unit import until
from root_side import LONGER_THAN_A_TEST
from scheduled_events_poller.root import dispatcher, jobs
from scheduled_events_poller.root.dispatcher import Dispatcher
from scheduled_events_poller.spool import MAX_REQUEST, RunResult

pytestmark = pytest.mark.edge


class Starter:
    """Takes the ids of the runs that would have been started, and refuses those in ``reasons``."""

    def __init__(self):
        self.ids = []
        self.reasons = {}

    def __call__(self, ids):
        self.ids += ids
        return {request_id: self.reasons[request_id] for request_id in ids if request_id in self.reasons}


@pytest.fixture
def starter():
    return Starter()


@pytest.fixture
def look(root_side, starter):
    return Dispatcher(root_side.directories, starter).look


def a_run_id(number):
    return f"{number:08x}.prepare.1"


def leave_many(root_side, numbers):
    for number in numbers:
        event = dict(root_side.event, event_id=f"{number:08x}")
        root_side.leave(request_id=a_run_id(number), event=event)


def test_a_request_becomes_a_job_and_is_started(root_side, starter, look):
    root_side.leave()
    assert look() == (1, False)
    assert (starter.ids, root_side.requests(), root_side.jobs()) == ([root_side.run_id], [], [root_side.run_id])


def test_all_requests_of_a_look_are_started_in_one_call(root_side, look, monkeypatch):
    calls = []
    monkeypatch.setattr(Starter, "__call__", lambda _self, ids: calls.append(list(ids)) or {})
    leave_many(root_side, range(10))
    look()
    assert [sorted(ids) for ids in calls] == [[a_run_id(number) for number in range(10)]]


def test_only_root_can_read_a_job(root_side, look):
    root_side.leave()
    look()
    status = os.stat(os.path.join(root_side.directories.jobs, root_side.run_id))
    assert stat.S_IMODE(status.st_mode) == 0o600


def test_the_directory_of_jobs_is_made_and_is_of_root_alone_and_that_of_results_is_not(root_side, look):
    os.rmdir(root_side.directories.jobs)
    os.chmod(root_side.directories.results, 0o700)
    look()
    modes = [os.stat(path).st_mode & 0o777 for path in (root_side.directories.jobs, root_side.directories.results)]
    assert modes == [0o700, 0o755]


def test_a_request_whose_run_has_ended_is_dropped(root_side, starter, look):
    jobs.end(root_side.directories, RunResult(root_side.run_id, "ok", "", 1.0))
    root_side.leave()
    look()
    assert (starter.ids, root_side.jobs(), root_side.requests()) == ([], [], [])
    assert root_side.result().outcome == "ok"


def test_a_look_leaves_no_descriptor_open(root_side, look):
    root_side.leave()
    os.makedirs(os.path.join(root_side.directories.requests, "junk", "inner"))
    before = os.listdir("/proc/self/fd")
    look()
    assert set(os.listdir("/proc/self/fd")) <= set(before)  # those of earlier tests may be closed meanwhile


def test_a_repeated_request_neither_replaces_its_job_nor_revises_it(root_side, starter, look):
    job = root_side.job()
    for vm_name in ("vm1", "another"):
        root_side.leave(vm_name=vm_name, ends_at=job.ends_at)
        look()
    with open(os.path.join(root_side.directories.jobs, root_side.run_id)) as file:
        assert json.load(file)["vm_name"] == "vm1"
    assert root_side.jobs() == [root_side.run_id]
    assert starter.ids == [root_side.run_id] * 2


def test_a_request_with_other_times_revises_its_job(root_side, look):
    for ends_at in (1000.0, 900.0, 1100.0):
        root_side.leave(ends_at=ends_at)
        look()
        known = jobs.revision(root_side.directories, root_side.run_id)
        assert known is None if ends_at == 1000.0 else known.ends_at == ends_at
    with open(os.path.join(root_side.directories.jobs, root_side.run_id)) as file:
        assert json.load(file)["ends_at"] == 1000.0


def test_a_revision_holds_no_more_of_its_request_than_the_times(root_side, look):
    for ends_at in (1000.0, 900.0):
        root_side.leave_raw(ends_at=ends_at, hooks=["long" * 1000], event=dict(root_side.event, description="x" * 9000))
        look()
    assert os.stat(os.path.join(root_side.directories.jobs, root_side.run_id + jobs.REVISION)).st_size < 1000
    assert jobs.revision(root_side.directories, root_side.run_id).ends_at == 900.0


def test_a_request_that_goes_back_to_the_first_times_revises_its_job(root_side, look):
    for ends_at in (1000.0, 900.0, 1000.0):
        root_side.leave(ends_at=ends_at)
        look()
    assert jobs.revision(root_side.directories, root_side.run_id).ends_at == 1000.0


def test_a_malformed_request_is_refused_with_a_result_and_removed(root_side, starter, look, capsys):
    root_side.leave_raw(timeout="1")
    look()
    assert root_side.result()[1:] == (
        "failed",
        'the request was refused: timeout: expected a number from 0 to 604800, not "1"',
        0.0,
    )
    assert "timeout: expected a number" in capsys.readouterr().err
    assert (starter.ids, root_side.jobs(), root_side.requests()) == ([], [], [])


def test_a_request_as_long_as_it_may_be_is_read_whole_and_so_is_its_job(root_side, starter, look, monkeypatch):
    size = os.path.getsize(root_side.leave())
    for module in (dispatcher, jobs):
        monkeypatch.setattr(module, "MAX_REQUEST", size)
    look()
    assert starter.ids == [root_side.run_id]
    with jobs.held(root_side.directories, root_side.run_id) as text:
        assert len(text) == size


def test_a_malformed_repetition_does_not_end_a_run(root_side, starter, look):
    root_side.accept()
    root_side.leave_raw(timeout="1")
    look()
    assert (starter.ids, root_side.result()) == ([], None)
    assert (root_side.jobs(), root_side.requests()) == ([root_side.run_id], [])


def test_a_refused_request_wakes_the_poller(root_side, look):
    root_side.leave_text(b"")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(root_side.directories.socket)
        listener.settimeout(60)
        look()
        assert listener.recv(100) == b"ended"


NAMES = [
    "_.._etc_passwd",
    "c7061bac.explode.1",
    "x y.prepare.1",
    "c7061bac.prepare.1\n",
    b"gr\xfcn.prepare.1",
    "-",
    ".hidden",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_valid_name_is_removed_and_gets_no_result(root_side, starter, look, name):
    path = os.path.join(os.fsencode(root_side.directories.requests), name if isinstance(name, bytes) else name.encode())
    with open(path, "wb"):
        pass
    look()
    assert (starter.ids, root_side.requests(), root_side.jobs()) == ([], [], [])
    assert os.listdir(root_side.directories.results) == []


def _symlink(path, elsewhere):
    os.symlink(elsewhere, path)


def _dangling_symlink(path, _elsewhere):
    os.symlink("/no/such/file", path)


def _hard_link(path, elsewhere):
    os.link(elsewhere, path)


def _fifo(path, _elsewhere):
    os.mkfifo(path)


def _socket(path, _elsewhere):
    place, name = os.path.split(path)
    before = os.getcwd()
    os.chdir(place)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(name)
    finally:
        os.chdir(before)


def _directory(path, elsewhere):
    os.makedirs(os.path.join(path, "deep"))
    os.symlink(os.path.dirname(elsewhere), os.path.join(path, "deep", "link"))


def _huge_file(path, _elsewhere):
    with open(path, "wb") as file:
        file.truncate(MAX_REQUEST * 1000)


@pytest.mark.parametrize("make", [_symlink, _dangling_symlink, _hard_link, _fifo, _socket, _directory, _huge_file])
def test_a_request_that_is_not_a_separate_plain_file_is_refused_with_a_result(root_side, starter, look, tmp_path, make):
    elsewhere = tmp_path / "elsewhere" / "secret"
    elsewhere.parent.mkdir()
    elsewhere.write_text("secret")
    make(os.path.join(root_side.directories.requests, root_side.run_id), str(elsewhere))
    look()
    assert (starter.ids, root_side.requests()) == ([], [])
    assert root_side.result().reason.startswith("the request was refused: it ")
    assert elsewhere.read_text() == "secret"


@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_not_a_directory_in_place_of_the_requests_is_not_followed_and_ends_nothing(
    root_side, look, tmp_path, capsys, is_link
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / root_side.run_id).write_text("secret")
    os.rmdir(root_side.directories.requests)
    if is_link:
        os.symlink(str(tmp_path / "elsewhere"), root_side.directories.requests)
    else:
        open(root_side.directories.requests, "w").close()
    assert look() == (0, True)
    assert capsys.readouterr().err.startswith("requests cannot be read: ")
    assert (tmp_path / "elsewhere" / root_side.run_id).exists()


@pytest.mark.parametrize(
    ("make", "why"),
    [(_symlink, "it is not a regular file"), (_directory, "it is not a regular file"), (_hard_link, "it has another")],
)
def test_a_refused_request_says_what_is_wrong_with_its_file(root_side, look, tmp_path, make, why):
    (tmp_path / "elsewhere").write_text("secret")
    make(os.path.join(root_side.directories.requests, root_side.run_id), str(tmp_path / "elsewhere"))
    look()
    assert f"it cannot be read: {why}" in root_side.result().reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_request_of_another_user_than_the_directory_is_refused(root_side, starter, look):
    os.chown(root_side.leave(), 12345, -1)
    look()
    assert "belongs to another user" in root_side.result().reason
    assert starter.ids == []


def test_a_request_that_replaces_one_while_that_is_read_is_not_lost(root_side, look, monkeypatch):
    root_side.leave(ends_at=1000.0)
    fstat = os.fstat

    def replace(descriptor):
        monkeypatch.setattr(os, "fstat", fstat)
        root_side.leave(ends_at=900.0)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", replace)
    look()
    look()
    assert jobs.revision(root_side.directories, root_side.run_id).ends_at == 900.0
    assert root_side.requests() == []


def test_a_request_that_was_taken_when_the_process_was_killed_is_carried_out(root_side, starter, look):
    os.rename(root_side.leave(), os.path.join(root_side.directories.requests, "taken:" + root_side.run_id))
    look()
    assert (starter.ids, root_side.requests()) == ([root_side.run_id], [])


def test_a_taken_request_is_not_hidden_from_the_path_unit(root_side, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_JOBS", 0)
    root_side.leave()
    Dispatcher(root_side.directories, Starter()).look()
    assert [name for name in root_side.requests() if not name.startswith(".") and not name.endswith("~")]


def test_a_spool_that_is_a_link_is_not_followed(root_side, starter, look, tmp_path):
    os.rename(root_side.directories.requests, str(tmp_path / "moved"))
    os.symlink(str(tmp_path / "moved"), root_side.directories.requests)
    root_side.leave()
    assert look() == (0, True)
    assert starter.ids == []


def test_requests_wait_while_there_are_too_many_jobs(root_side, starter, look, monkeypatch, capsys):
    monkeypatch.setattr(dispatcher, "MAX_JOBS", 2)
    leave_many(root_side, range(3))
    assert look() == (2, True)
    (waits,) = {a_run_id(number) for number in range(3)} - set(starter.ids)
    assert f"request {waits} waits: there are 2 jobs already" in capsys.readouterr().err
    assert look() == (0, True)
    jobs.end(root_side.directories, RunResult(starter.ids[0], "ok", "", 1.0))
    assert look() == (1, False)
    assert starter.ids[2:] == [waits]


def test_requests_wait_while_the_jobs_are_too_large_together(root_side, starter, look, monkeypatch):
    root_side.accept()
    (size,) = jobs.sizes(root_side.directories).values()
    monkeypatch.setattr(dispatcher, "MAX_JOB_BYTES", size + 1)
    leave_many(root_side, range(2))
    assert look() == (1, True)
    assert len(starter.ids) == 1


def test_requests_wait_while_the_jobs_are_as_large_as_they_may_be(root_side, look, monkeypatch):
    root_side.accept()
    monkeypatch.setattr(dispatcher, "MAX_JOB_BYTES", *jobs.sizes(root_side.directories).values())
    leave_many(root_side, [0])
    assert look() == (0, True)


def test_a_running_job_is_revised_while_there_are_too_many_jobs(root_side, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_JOBS", 1)
    root_side.accept()
    root_side.leave(ends_at=1e9)
    look()
    assert jobs.revision(root_side.directories, root_side.run_id).ends_at == 1e9


@pytest.mark.parametrize(("ends_in", "runs", "left"), [(-10.5, False, False), (-10.5, True, True), (-5.0, False, True)])
def test_a_job_whose_time_is_over_and_that_nothing_runs_keeps_out_no_request(
    root_side, starter, look, monkeypatch, ends_in, runs, left
):
    monkeypatch.setattr(dispatcher, "MAX_JOBS", 1)
    root_side.accept(ends_at=time.monotonic() + ends_in)
    leave_many(root_side, [0])
    with jobs.held(root_side.directories, root_side.run_id) if runs else contextlib.ExitStack():
        look()
    assert starter.ids == ([] if left else [a_run_id(0)])
    assert root_side.jobs() == [root_side.run_id if left else a_run_id(0)]
    assert left or root_side.result().outcome == "failed"


def test_a_job_whose_end_was_moved_to_a_later_time_keeps_its_place(root_side, starter, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_JOBS", 1)
    root_side.accept(ends_at=0.0)
    jobs.accept(root_side.directories, b"", root_side.job())
    leave_many(root_side, [0])
    look()
    assert (starter.ids, root_side.jobs()) == ([], [root_side.run_id, root_side.run_id + jobs.REVISION])


def test_no_job_is_read_while_there_is_room_for_another(root_side, starter, monkeypatch):
    read = []
    monkeypatch.setattr(jobs, "parse_request", lambda _text, request_id: read.append(request_id))
    root_side.accept(ends_at=0.0)
    leave_many(root_side, [0])
    Dispatcher(root_side.directories, starter).serve(clock=FakeClock(), processor=lambda: 0.0)
    assert (starter.ids, read) == ([a_run_id(0)], [])


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (jobs, "write_once", errno.ENOSPC),
        (os, "rename", errno.EROFS),
        (os, "rename", errno.ENFILE),
        (os, "rename", errno.ENOMEM),
    ],
)
def test_a_request_waits_while_it_cannot_be_kept_or_read(
    root_side, starter, look, monkeypatch, capsys, place, name, error
):
    def fail(*_arguments, **_options):
        raise OSError(error, os.strerror(error))

    root_side.leave()
    with monkeypatch.context() as lacking:
        lacking.setattr(place, name, fail)
        assert look() == (0, True)
    assert f"request {root_side.run_id} waits: [Errno {error}] " in capsys.readouterr().err
    assert (starter.ids, root_side.result()) == ([], None)
    look()
    assert starter.ids == [root_side.run_id]


def test_a_request_that_is_removed_before_it_is_taken_gets_no_result(root_side, starter, look, monkeypatch):
    rename = os.rename

    def remove(name, *arguments, **options):
        shutil.rmtree(root_side.directories.requests)
        rename(name, *arguments, **options)

    root_side.leave()
    monkeypatch.setattr(os, "rename", remove)
    look()
    assert (starter.ids, root_side.result()) == ([], None)


def test_a_run_that_cannot_be_started_for_a_moment_waits(root_side, starter, look):
    starter.reasons[root_side.run_id] = "systemctl start ended with status 1"
    root_side.leave()
    assert look() == (0, True)
    del starter.reasons[root_side.run_id]
    assert look() == (1, False)
    assert (starter.ids, root_side.result()) == ([root_side.run_id] * 2, None)
    assert (root_side.jobs(), root_side.requests()) == ([root_side.run_id], [])


def test_a_run_that_cannot_be_started_is_given_up_after_ten_seconds(root_side, starter, look, monkeypatch):
    clock, ended = types.SimpleNamespace(now=100.0), []
    monkeypatch.setattr(dispatcher, "time", types.SimpleNamespace(monotonic=lambda: clock.now, time=time.time))
    starter.reasons[root_side.run_id] = "systemctl start ended with status 1"
    root_side.leave()
    for seconds in (0.0, 9.5, 0.5):
        clock.now += seconds
        look()
        ended.append(root_side.result() is not None)
    assert ended == [False, False, True]


def test_a_run_that_cannot_be_started_gets_a_result_and_a_line_in_the_journal(
    root_side, starter, look, monkeypatch, capsys
):
    monkeypatch.setattr(dispatcher, "UNSTARTED", 0.0)
    starter.reasons[root_side.run_id] = "systemctl start ended with status 1"
    root_side.leave()
    look()
    assert root_side.result()[1:] == ("failed", "systemctl start ended with status 1", 0.0)
    assert (root_side.jobs(), root_side.requests()) == ([], [])
    assert f"request {root_side.run_id}: systemctl start ended with status 1" in capsys.readouterr().err


def test_a_run_that_cannot_be_started_waits_while_its_result_cannot_be_left(
    root_side, starter, look, monkeypatch, capsys
):
    def fail(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dispatcher, "UNSTARTED", 0.0)
    starter.reasons[root_side.run_id] = "systemctl start ended with status 1"
    root_side.leave()
    with monkeypatch.context() as full:
        full.setattr(jobs, "end", fail)
        assert look() == (0, True)
    assert f"request {root_side.run_id} waits: [Errno 28] No space left" in capsys.readouterr().err
    assert look() == (1, False)
    assert root_side.result().outcome == "failed"


def test_a_spool_that_does_not_exist_yet_is_empty(root_side, look):
    os.rmdir(root_side.directories.requests)
    assert look() == (0, False)


def test_a_repetition_that_cannot_be_started_does_not_end_a_run(root_side, starter, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "UNSTARTED", 0.0)
    starter.reasons[root_side.run_id] = "systemctl start ended with status 1"
    root_side.accept(ends_at=1000.0)
    root_side.leave(ends_at=1000.0)
    with jobs.held(root_side.directories, root_side.run_id):
        look()
    assert root_side.result() is None
    assert root_side.jobs() == [root_side.run_id]


# Junk


def nest(directory, levels):
    """Make directories in one another."""
    descriptor = os.open(directory, os.O_RDONLY)
    for _level in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_directory_goes_back_to_the_poller_however_much_it_holds(root_side, look):
    nest(root_side.directories.requests, 50)
    assert (look().left, root_side.requests()) == (False, [])
    assert {name.partition("-")[0] for name in os.listdir(root_side.directories.runtime)} == {"requests", "removed"}


def test_a_look_removes_a_bounded_number_of_files(root_side, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_REMOVALS", 10)
    for number in range(25):
        root_side.leave_text(b"", f"junk{number}")
    lefts = [look().left, look().left, look().left]
    assert (lefts, root_side.requests()) == ([True, True, False], [])
    for number in range(10):
        root_side.leave_text(b"", f"junk{number}")
    assert (look().left, root_side.requests()) == (False, [])  # as many as it may remove


def test_a_directory_that_cannot_be_removed_is_left_for_the_next_look(root_side, starter, look, monkeypatch, capsys):
    def busy(*_arguments, **_options):
        raise OSError(errno.EBUSY, "Device or resource busy")

    os.mkdir(os.path.join(root_side.directories.requests, "junk"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", busy)
        Dispatcher(root_side.directories, starter).serve(clock=FakeClock(), processor=lambda: 0.0)
        assert (root_side.requests(), capsys.readouterr().err) == (["junk"], "")
    assert (look().left, root_side.requests()) == (False, [])


def test_a_request_is_started_in_the_first_look_however_much_junk_there_is(root_side, starter, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_REMOVALS", 100)
    nest(root_side.directories.requests, 200)
    for number in range(5000):
        root_side.leave_text(b"", f"{number}")
    root_side.leave()
    assert look() == (1, True)
    assert starter.ids == [root_side.run_id]


def test_a_request_is_started_in_the_first_look_although_a_flood_of_valid_names_came_before(
    root_side, starter, look, monkeypatch
):
    monkeypatch.setattr(dispatcher, "MAX_REQUESTS", 5)
    for number in range(20):
        root_side.leave_text(b"", a_run_id(number))
    time.sleep(0.05)  # a step of the clock of the files
    root_side.leave()
    assert look() == (5, True)
    assert starter.ids == [root_side.run_id]


def test_a_request_that_is_a_link_is_dated_without_a_look_at_what_it_names(root_side, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_REQUESTS", 1)
    root_side.leave()
    time.sleep(0.05)  # a step of the clock of the files
    os.symlink("/no/such/file", os.path.join(root_side.directories.requests, a_run_id(0)))
    look()
    assert (root_side.requests(), root_side.result(a_run_id(0)).outcome) == ([root_side.run_id], "failed")


def test_junk_does_not_fill_the_journal(root_side, capsys, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_COMPLAINTS", 5)
    for number in range(300):
        root_side.leave_text(b"", f"junk{number}")
        root_side.leave_text(b"", a_run_id(number))
    os.mkdir(os.path.join(root_side.directories.requests, "directory"))
    Dispatcher(root_side.directories, Starter()).serve(clock=FakeClock())
    journal = capsys.readouterr().err
    assert len(journal.splitlines()) == 5 + 1
    assert "removed 301 files and directories that are not requests" in journal


def test_results_are_limited(root_side, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_RESULTS", 3)
    for number in range(6):
        root_side.leave_text(b"", a_run_id(number))
    look()
    assert len(os.listdir(root_side.directories.results)) == 3


def test_outputs_that_killed_hooks_left_are_limited_and_that_of_a_run_stays(root_side, look, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_RESULTS", 3)
    ids = [root_side.event_id, *(f"{number:08x}" for number in range(5))]
    for age, event_id in enumerate(reversed(ids)):
        path = root_side.directories.said(event_id)
        open(path, "w").close()
        os.utime(path, (time.time() + age - 600, time.time() + age - 600))
    os.utime(path, (0, 0))  # of the run: older than any may be
    root_side.leave()
    look()
    left = [name for name in os.listdir(root_side.directories.hooks_runtime) if name not in ("jobs", "results")]
    assert sorted(left) == sorted(os.path.basename(root_side.directories.said(event_id)) for event_id in ids[:4])


def test_old_results_and_temporary_files_are_removed(root_side, look):
    month = 30 * 24 * 3600
    ages = {"old": month + 60, "new": month - 60, ".left": HALF_WRITTEN + 60, ".fresh": 0}
    for name, age in ages.items():
        path = os.path.join(root_side.directories.results, name)
        open(path, "w").close()
        os.utime(path, (time.time() - age, time.time() - age))
    root_side.leave()
    look()
    assert sorted(os.listdir(root_side.directories.results)) == [".fresh", "new"]


# Its share of the time


def test_an_empty_spool_ends_it_after_a_while_without_a_word(root_side, starter, capsys):
    clock = FakeClock()
    Dispatcher(root_side.directories, starter).serve(clock=clock, processor=lambda: 0.0)
    assert capsys.readouterr().err == ""
    assert 0.3 <= sum(clock.pauses) < 0.4


def test_a_request_that_comes_while_it_lingers_is_taken(root_side, starter):
    clock = FakeClock()
    clock.at = [(clock.now + 2 * dispatcher.PAUSE, root_side.leave)]
    Dispatcher(root_side.directories, starter).serve(clock=clock)
    assert starter.ids == [root_side.run_id]


def test_it_lingers_once_the_last_junk_is_removed(root_side, starter, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAX_REMOVALS", 1)
    for number in range(10):
        root_side.leave_text(b"", f"junk{number}")
    clock = FakeClock(7000.0)
    Dispatcher(root_side.directories, starter).serve(clock=clock, processor=lambda: 0.0)
    assert sum(clock.pauses) == pytest.approx(8 * dispatcher.PAUSE + dispatcher.LINGER, abs=dispatcher.PAUSE)


def test_a_spool_that_cannot_be_emptied_is_looked_at_at_intervals_and_for_a_limited_time(root_side, starter):
    os.rmdir(root_side.directories.requests)
    os.symlink("/", root_side.directories.requests)
    clock = FakeClock()
    Dispatcher(root_side.directories, starter).serve(clock=clock, processor=lambda: 0.0)
    assert 20.0 <= sum(clock.pauses) < 20.1
    assert set(clock.pauses) == {0.05}


def test_what_systemd_refuses_is_tried_once_a_second_since_each_attempt_is_a_line_in_the_journal(root_side, starter):
    starter.reasons[root_side.run_id] = "systemctl start ended with status 5"
    root_side.leave()
    Dispatcher(root_side.directories, starter).serve(clock=FakeClock(), processor=lambda: 0.0)
    assert len(starter.ids) == 20


@pytest.mark.parametrize(("computed", "rest"), [(0.5, 2.0), (100.0, 20.0)])
def test_it_rests_four_times_as_long_as_a_look_computed_and_never_too_long(root_side, starter, computed, rest):
    os.rmdir(root_side.directories.requests)
    os.symlink("/", root_side.directories.requests)
    clock = FakeClock()
    spent = itertools.count(step=computed)
    Dispatcher(root_side.directories, starter).serve(clock=clock, processor=lambda: next(spent))
    assert set(clock.pauses) == {rest}


def test_the_work_of_a_look_is_that_of_this_process_and_of_its_children_in_the_system_too(monkeypatch):
    monkeypatch.setattr(os, "times", lambda: (1.0, 2.0, 4.0, 8.0, 16.0))
    assert dispatcher.processor_time() == 15.0


def test_a_flood_of_valid_requests_gets_a_fifth_of_a_processor_for_its_runs(root_side):
    serials = itertools.count()
    started, looks = [], []

    clock = FakeClock()

    def come():
        clock.at = [(clock.now, come)]
        leave_many(root_side, [next(serials) for _time in range(2 * dispatcher.MAX_REQUESTS)])

    def start(ids):
        looks.append(len(ids))
        for request_id in ids:
            jobs.end(root_side.directories, RunResult(request_id, "ok", "", 0.0))
        started.extend(ids)
        return {}

    come()
    Dispatcher(root_side.directories, start).serve(clock=clock, processor=lambda: 0.0)
    assert set(looks) == {16}
    assert len(started) * dispatcher.RUN_COST == pytest.approx((sum(clock.pauses)) / 4)
    assert dispatcher.LONGEST <= sum(clock.pauses) < 2 * dispatcher.LONGEST  # it ends with a rest


# Starting


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """A systemctl that writes its arguments down and does what a script says."""

    def make(script):
        path = tmp_path / "bin" / "systemctl"
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")

    make.calls = lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    return make


def test_units_are_started_with_one_systemctl(systemctl):
    systemctl("")
    assert dispatcher.start_units(["a.prepare.1", "b.started.2"]) == {}
    assert systemctl.calls() == [
        "start --no-block -- scheduled-events-hook@a.prepare.1.service scheduled-events-hook@b.started.2.service"
    ]


def test_units_that_systemctl_does_not_start_are_named_with_its_status(systemctl):
    systemctl("exit 5")
    reason = "systemctl start ended with status 5; see journalctl -u scheduled-events-hooks"
    ids = ["a.prepare.1", "b.started.2"]
    assert dispatcher.start_units(ids) == dict.fromkeys(ids, reason)
    assert len(systemctl.calls()) == 1


def test_a_systemctl_that_hangs_is_given_up(systemctl, monkeypatch):
    monkeypatch.setattr(dispatcher, "PATIENCE", 0.0)
    systemctl("exec sleep 1000")
    reasons = dispatcher.start_units(["a.prepare.1", "b.started.2"])
    assert set(reasons.values()) == {"systemctl start did not end within 0 s"}


def test_without_systemctl_the_reason_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    reasons = dispatcher.start_units(["a.prepare.1"])
    assert list(reasons) == ["a.prepare.1"]
    assert reasons["a.prepare.1"].startswith("systemctl cannot be started: [Errno 2] No such file or directory")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_request_waits_while_the_machine_has_no_room_for_systemctl(root_side, monkeypatch, number):
    def start(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(dispatcher, "Process", start)
    monkeypatch.setattr(dispatcher, "UNSTARTED", 0.0)
    root_side.leave()
    with pytest.raises(OSError, match=os.strerror(number)):
        dispatcher.Dispatcher(root_side.directories, dispatcher.start_units).look()
    assert os.listdir(root_side.directories.requests) == [f"taken:{root_side.run_id}"]
    assert os.listdir(root_side.directories.results) == []


def test_the_program_that_runs_as_root_takes_a_request_to_its_result(root_side, tmp_path):
    root_side.add_hook("#!/bin/sh\ncat\n")
    root_side.leave()
    units = HookUnits(root_side.command, tmp_path)
    units.start()
    until(root_side.result, "the result")
    units.stop()
    assert root_side.result().outcome == "ok"


@pytest.mark.parametrize(
    "arguments", [[], ["explode"], ["run"], ["run", "a", "b"], ["--etc-directory=/etc", "dispatch"]]
)
def test_the_program_that_runs_as_root_refuses_another_command(root_side, arguments):
    process = dispatcher.Process([*root_side.command, *arguments])
    assert process.wait(LONGER_THAN_A_TEST) == 1
