# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The root side: which requests it takes, which hooks it runs, and what a hook gets."""

import contextlib
import json
import os
import socket
import time

import pytest
from scheduled_events_poller import runner
from scheduled_events_poller.runner import Directories, Job

EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
REQUEST_ID = EVENT_ID.lower() + ".prepare.7"
EVENT = {
    "event_id": EVENT_ID,
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["vm1", "vm2"],
    "not_before": "2026-01-31T12:00:00Z",
    "seconds_until_not_before": 900.0,
    "description": "a 'b' $(touch /tmp/x) \0\ud800 ü\nc",
    "duration_in_seconds": -1,
    "affects_this_vm": True,
    "is_leader": True,
    "additional": {},
}
REQUEST = {
    "version": 1,
    "event": EVENT,
    "vm_name": "vm1",
    "timeout": 60.0,
    "not_later_than": None,
    "deadline": 1769860800.0,
}


@pytest.fixture
def directories(tmp_path):
    made = Directories(str(tmp_path / "hooks"), str(tmp_path / "run"), str(tmp_path / "root"))
    os.makedirs(made.requests)
    os.makedirs(os.path.join(made.hooks, "prepare.d"))
    return made


@pytest.fixture
def started(monkeypatch):
    """The ids of the jobs that would have been started."""
    ids = []
    monkeypatch.setattr(runner, "_spawn", lambda request_id, _directories: ids.append(request_id))
    return ids


def leave(directories, name=REQUEST_ID, **changes):
    path = os.path.join(directories.requests, name)
    with open(path, "w") as file:
        json.dump(dict(REQUEST, **changes), file)
    return path


def add_hook(directories, script, name="10-hook", phase="prepare", mode=0o755):
    path = os.path.join(directories.hooks, phase + ".d", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(script)
    os.chmod(path, mode)
    return path


def job(phase="prepare", timeout=60.0, **changes):
    return Job(
        request_id=REQUEST_ID,
        phase=phase,
        event=EVENT,
        vm_name="vm1",
        timeout=timeout,
        not_later_than=changes.get("not_later_than"),
        deadline=1769860800.0,
    )


def run_phase(directories, tmp_path, **changes):
    with open(str(tmp_path / "output"), "wb") as output:
        return runner.run_phase(job(**changes), directories.hooks, output)


# Requests


def test_a_request_becomes_a_job_and_is_started(directories, started):
    leave(directories)
    assert runner.dispatch(directories, spawn=True) == 1
    assert started == [REQUEST_ID]
    assert os.listdir(directories.requests) == []
    assert os.listdir(directories.jobs) == [REQUEST_ID]


def test_a_request_whose_run_has_ended_is_dropped(directories, started):
    os.makedirs(directories.results)
    open(os.path.join(directories.results, REQUEST_ID), "w").close()
    leave(directories)
    assert runner.dispatch(directories, spawn=True) == 0
    assert (started, os.listdir(directories.jobs), os.listdir(directories.requests)) == ([], [], [])


def test_a_repeated_request_does_not_replace_its_job(directories, started):
    leave(directories)
    runner.dispatch(directories, spawn=True)
    leave(directories, vm_name="another")
    runner.dispatch(directories, spawn=True)
    with open(os.path.join(directories.jobs, REQUEST_ID)) as file:
        assert json.load(file)["vm_name"] == "vm1"
    assert started == [REQUEST_ID, REQUEST_ID]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("../../etc/passwd".replace("/", "_"), {}, "its name is not"),
        (EVENT_ID.lower() + ".explode.1", {}, "its name is not"),
        ("x y.prepare.1", {}, "its name is not"),
        (REQUEST_ID + "\n", {}, "its name is not"),
        ("0.prepare.1", {}, "its name belongs to another event"),
        (REQUEST_ID, {"version": 2}, "no object of version 1"),
        (REQUEST_ID, {"event": []}, "event is no object"),
        (REQUEST_ID, {"event": {"event_id": 1}}, "event is no object"),
        (REQUEST_ID, {"vm_name": None}, "vm_name is no text"),
        (REQUEST_ID, {"timeout": "1"}, "timeout is no number"),
        (REQUEST_ID, {"timeout": float("nan")}, "timeout is no number"),
        (REQUEST_ID, {"timeout": float("inf")}, "timeout is no number"),
        (REQUEST_ID, {"deadline": -1}, "deadline is no number"),
        (REQUEST_ID, {"not_later_than": []}, "not_later_than is no number"),
        (REQUEST_ID, {"padding": "x" * runner.MAX_REQUEST}, "longer than"),
    ],
)
def test_a_malformed_request_is_refused_and_removed(directories, started, capsys, name, changes, message):
    leave(directories, name, **changes)
    assert runner.dispatch(directories, spawn=True) == 0
    assert message in capsys.readouterr().err
    assert (started, os.listdir(directories.jobs), os.listdir(directories.requests)) == ([], [], [])


def _symlink(path, elsewhere):
    os.symlink(elsewhere, path)


def _hard_link(path, elsewhere):
    os.link(elsewhere, path)


def _fifo(path, _elsewhere):
    os.mkfifo(path)


def _directory(path, elsewhere):
    os.makedirs(os.path.join(path, "deep"))
    os.symlink(os.path.dirname(elsewhere), os.path.join(path, "deep", "link"))


@pytest.mark.parametrize("make", [_symlink, _hard_link, _fifo, _directory])
def test_a_request_that_is_no_file_of_its_own_is_refused_and_removed(directories, started, tmp_path, make):
    elsewhere = tmp_path / "elsewhere" / "secret"
    elsewhere.parent.mkdir()
    elsewhere.write_text(json.dumps(REQUEST))
    make(os.path.join(directories.requests, REQUEST_ID), str(elsewhere))
    assert runner.dispatch(directories, spawn=True) == 0
    assert (started, os.listdir(directories.requests)) == ([], [])
    assert json.loads(elsewhere.read_text()) == REQUEST


def test_a_request_that_a_poller_begun_anew_repeats_while_it_is_read_is_not_lost(directories, started, monkeypatch):
    path = leave(directories)
    fstat = os.fstat

    def repeat(descriptor):
        monkeypatch.setattr(os, "fstat", fstat)
        os.rename(leave(directories, "repeated"), path)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", repeat)
    runner.dispatch(directories, spawn=True)
    assert started == [REQUEST_ID]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_request_of_another_user_than_the_directory_is_refused(directories, started, capsys):
    os.chown(leave(directories), 12345, -1)
    runner.dispatch(directories, spawn=True)
    assert "belongs to another user" in capsys.readouterr().err
    assert started == []


def test_a_directory_of_requests_that_is_a_link_is_not_followed(directories, started, tmp_path):
    os.rename(directories.requests, str(tmp_path / "moved"))
    os.symlink(str(tmp_path / "moved"), directories.requests)
    leave(directories)
    assert runner.dispatch(directories, spawn=True) == 0
    assert started == []


def test_jobs_are_limited(directories, started, monkeypatch, capsys):
    monkeypatch.setattr(runner, "MAX_JOBS", 1)
    leave(directories)
    leave(directories, EVENT_ID.lower() + ".started.8")
    runner.dispatch(directories, spawn=True)
    assert len(started) == 1
    assert "there are 1 jobs already" in capsys.readouterr().err


def test_old_results_are_removed(directories, started):
    os.makedirs(directories.results)
    for name, age in (("old", runner.KEEP_RESULTS + 60), ("new", 60)):
        path = os.path.join(directories.results, name)
        open(path, "w").close()
        os.utime(path, (time.time() - age, time.time() - age))
    runner.dispatch(directories, spawn=True)
    assert os.listdir(directories.results) == ["new"]
    assert started == []


@pytest.mark.parametrize("key", ["c7061bac-afdc", "../..", "a b", "ü", "x" * 300, "", "\ud800", "-x"])
def test_any_event_id_gives_a_name_that_is_accepted(key):
    name = runner.request_id_of(key, "prepare", 12)
    text = json.dumps(dict(REQUEST, event={"event_id": key.upper()})).encode()
    if key.upper().lower() == key:
        assert runner.parse_request(text, name).phase == "prepare"
    assert "/" not in name
    assert len(name) < 128


# Runs


def test_a_run_leaves_its_result_and_wakes_the_poller(directories):
    os.makedirs(directories.jobs)
    os.makedirs(directories.results)
    add_hook(directories, "#!/bin/sh\n")
    os.rename(leave(directories), os.path.join(directories.jobs, REQUEST_ID))
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(directories.socket)
        listener.settimeout(5)
        assert runner.run(REQUEST_ID, directories) == 0
        assert listener.recv(100) == b"ended"
    with open(os.path.join(directories.results, REQUEST_ID)) as file:
        result = json.load(file)
    assert (result["outcome"], result["phase"]) == ("ok", "prepare")
    assert [hook["name"] for hook in result["hooks"]] == ["10-hook"]
    assert os.listdir(directories.jobs) == []


def test_a_job_runs_once_however_often_it_is_started(directories, tmp_path):
    os.makedirs(directories.jobs)
    os.makedirs(directories.results)
    add_hook(directories, "#!/bin/sh\necho ran >> %s\n" % (tmp_path / "ran"))
    for _time in range(2):
        os.rename(leave(directories), os.path.join(directories.jobs, REQUEST_ID))
        runner.run(REQUEST_ID, directories)
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_hooks_run_in_lexical_order_without_hidden_files_and_backups(directories, tmp_path):
    for name in ("20-b", "10-a", ".hidden", "10-a~", "#10-a#", "5-z"):
        add_hook(directories, "#!/bin/sh\n", name)
    result = run_phase(directories, tmp_path)
    assert [hook["name"] for hook in result["hooks"]] == ["10-a", "20-b", "5-z"]


def test_preparation_stops_at_the_first_failure(directories, tmp_path):
    add_hook(directories, "#!/bin/sh\nexit 3\n", "1")
    add_hook(directories, "#!/bin/sh\n", "2")
    result = run_phase(directories, tmp_path)
    assert (result["outcome"], result["reason"], len(result["hooks"])) == ("failed", "1: exit status 3", 1)


@pytest.mark.parametrize("phase", ["started", "recover", "failed"])
def test_other_phases_go_on_after_a_failure(directories, tmp_path, phase):
    add_hook(directories, "#!/bin/sh\nexit 3\n", "1", phase)
    add_hook(directories, "#!/bin/sh\n", "2", phase)
    result = run_phase(directories, tmp_path, phase=phase)
    assert (result["outcome"], [hook["outcome"] for hook in result["hooks"]]) == ("failed", ["failed", "ok"])


def test_a_hook_that_exits_with_75_is_run_again(directories, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RETRY_PAUSE", 0.0)
    mark = tmp_path / "mark"
    add_hook(directories, f"#!/bin/sh\necho x >> {mark}\n[ $(wc -l < {mark}) -ge 3 ] || exit 75\n")
    assert run_phase(directories, tmp_path)["outcome"] == "ok"
    assert mark.read_text() == "x\n" * 3


def test_a_hook_that_exits_with_75_until_the_deadline_has_timed_out(directories, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RETRY_PAUSE", 1000.0)
    add_hook(directories, "#!/bin/sh\nexit 75\n")
    result = run_phase(directories, tmp_path, timeout=1.0)
    assert (result["outcome"], result["reason"]) == ("timeout", "10-hook: the deadline passed before it was done")


@pytest.mark.parametrize("limit", [{"timeout": 0.3}, {"not_later_than": 0.3}])
def test_a_hanging_hook_is_ended_at_its_deadline_with_all_that_it_started(directories, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(runner, "GRACE", 0.1)
    children = tmp_path / "children"
    add_hook(directories, f"#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho $! > {children}\nwait\nwait\n")
    if "not_later_than" in limit:
        limit = {"not_later_than": time.time() + 0.3}
    result = run_phase(directories, tmp_path, **limit)
    assert (result["outcome"], result["reason"]) == ("timeout", "10-hook: it was ended at its deadline")
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(children.read_text()))


def _wait_for_end(pid):
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                raise ProcessLookupError
        time.sleep(0.01)


def test_ten_megabytes_of_output_pass_through(directories, tmp_path):
    add_hook(directories, "#!/bin/sh\nhead -c 10000000 /dev/zero\n")
    assert run_phase(directories, tmp_path)["outcome"] == "ok"
    assert (tmp_path / "output").stat().st_size > 10000000


@pytest.mark.parametrize(
    ("script", "mode", "reason"),
    [
        ("#!/bin/sh\n", 0o644, "refused: it is not executable; chmod +x"),
        ("#!/bin/sh\n", 0o757, "refused: others than its owner can write it; chmod go-w"),
        ("#!/bin/sh\n", 0o775, "refused: others than its owner can write it; chmod go-w"),
        (
            "#!/no/such/interpreter -x\n",
            0o755,
            "its interpreter is missing, says its first line: #!/no/such/interpreter",
        ),
        ("echo no first line\n", 0o755, "it is no program, and has no first line such as #!/bin/sh"),
    ],
)
def test_a_wrong_hook_is_a_clear_failure(directories, tmp_path, script, mode, reason):
    add_hook(directories, script, mode=mode)
    result = run_phase(directories, tmp_path)
    assert result["outcome"] == "failed"
    assert reason in result["reason"]


def test_a_link_is_no_hook(directories, tmp_path):
    os.symlink("/bin/true", os.path.join(directories.hooks, "prepare.d", "10-link"))
    assert "refused: it is no regular file" in run_phase(directories, tmp_path)["reason"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_hook_of_another_user_is_refused(directories, tmp_path):
    os.chown(add_hook(directories, "#!/bin/sh\n"), 12345, -1)
    assert "refused: it belongs to user 12345, not to root" in run_phase(directories, tmp_path)["reason"]


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_hook_in_a_directory_that_others_can_write_is_refused(directories, tmp_path, mode):
    add_hook(directories, "#!/bin/sh\n")
    os.chmod(directories.hooks, mode)
    expected = f"refused: others than root can write the directory {directories.hooks}"
    assert expected in run_phase(directories, tmp_path)["reason"]


def test_no_hooks_are_a_success(directories, tmp_path):
    result = run_phase(directories, tmp_path, phase="recover")
    assert (result["outcome"], result["hooks"]) == ("ok", [])


def test_a_hook_reads_the_event_and_finds_it_in_its_environment(directories, tmp_path):
    add_hook(directories, f"#!/bin/sh\ncat > {tmp_path}/stdin\nenv -0 > {tmp_path}/environment\n")
    run_phase(directories, tmp_path)
    assert json.loads((tmp_path / "stdin").read_text()) == EVENT
    variables = dict(
        pair.split(b"=", 1) for pair in (tmp_path / "environment").read_bytes().split(b"\0") if b"=" in pair
    )
    assert {name: value for name, value in variables.items() if name.startswith(b"SCHEDULED_EVENT")} == {
        b"SCHEDULED_EVENT_ID": EVENT_ID.encode(),
        b"SCHEDULED_EVENT_TYPE": b"Reboot",
        b"SCHEDULED_EVENT_STATUS": b"Scheduled",
        b"SCHEDULED_EVENT_SOURCE": b"Platform",
        b"SCHEDULED_EVENT_NOT_BEFORE": b"2026-01-31T12:00:00Z",
        b"SCHEDULED_EVENT_DURATION": b"-1",
        b"SCHEDULED_EVENT_RESOURCES": b"vm1,vm2",
        b"SCHEDULED_EVENT_DESCRIPTION": "a 'b' $(touch /tmp/x) ? ü\nc".encode(),
        b"SCHEDULED_EVENT_PHASE": b"prepare",
        b"SCHEDULED_EVENT_DEADLINE": b"2026-01-31T12:00:00Z",
        b"SCHEDULED_EVENTS_VM_NAME": b"vm1",
    }


def test_a_hook_that_reads_nothing_is_not_waited_for(directories, tmp_path, monkeypatch):
    monkeypatch.setitem(EVENT, "additional", {"long": "x" * 100000})
    add_hook(directories, "#!/bin/sh\nexec < /dev/null\n")
    assert run_phase(directories, tmp_path)["outcome"] == "ok"


def test_the_largest_request_fits_into_an_environment(directories, tmp_path, monkeypatch):
    monkeypatch.setitem(EVENT, "description", "x" * (runner.MAX_REQUEST - 1000))
    add_hook(directories, "#!/bin/sh\n")
    assert run_phase(directories, tmp_path)["outcome"] == "ok"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = str(tmp_path / "file")
    runner.write_atomically(path, b"old", mode=0o640, durable=True)

    def fail(*_arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        runner.write_atomically(path, b"new", mode=0o640, durable=True)
    assert os.listdir(str(tmp_path)) == ["file"]
    with open(path, "rb") as file:
        assert file.read() == b"old"
