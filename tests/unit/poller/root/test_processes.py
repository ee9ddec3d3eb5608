# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes are started as the standard library does it, and their end is noticed at once."""

import os
import signal
import threading

import pytest
from root_side import LONGER_THAN_A_TEST
from scheduled_events_poller.root.jobs import Process

pytestmark = pytest.mark.edge


def output_of(arguments, **options):
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe:
        process = Process(arguments, output=write_end, **options)
        os.close(write_end)
        output = pipe.read()
        assert process.wait(LONGER_THAN_A_TEST) is not None
    return output


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 75", 75), ("kill -TERM $$", -15)])
def test_the_status_is_that_of_the_program(script, status):
    process = Process(["/bin/sh", "-c", script])
    assert process.wait(LONGER_THAN_A_TEST) == status
    assert process.wait(0) == status


def test_a_running_program_has_no_status():
    process = Process(["/bin/sleep", "1000"])
    assert process.wait(0.0) is None
    process.end(LONGER_THAN_A_TEST)
    assert process.wait(0) == -signal.SIGTERM


def test_an_end_before_the_waiting_is_not_missed(tmp_path):
    process = Process(["/bin/sh", "-c", f"exec 3> {tmp_path / 'mark'}"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.wait(LONGER_THAN_A_TEST) == 0


def test_standard_output_and_error_go_to_the_same_place():
    assert output_of(["/bin/sh", "-c", "echo out; echo err >&2"]) == b"out\nerr\n"


def test_standard_input_is_empty_without_one():
    assert output_of(["/bin/cat"]) == b""


def test_standard_input_is_read_from_a_file(tmp_path):
    (tmp_path / "input").write_text("text")
    descriptor = os.open(str(tmp_path / "input"), os.O_RDONLY)
    assert output_of(["/bin/cat"], stdin=descriptor) == b"text"
    os.close(descriptor)


def test_the_environment_is_the_one_that_is_given():
    assert output_of(["/usr/bin/env"], environment={b"NAME": b"v\xfclue"}) == b"NAME=v\xfclue\n"


def test_a_program_gets_no_descriptor_signal_mask_or_ignored_signal_of_ours():
    script = "ls /proc/self/fd | wc -l; grep -E '^Sig(Blk|Ign)' /proc/self/status"
    lines = output_of(["/bin/sh", "-c", script]).decode().split()
    assert lines[0] == "4"  # the three standard ones, and the directory that ls reads
    assert int(lines[2], 16) == 0
    assert int(lines[4], 16) & (1 << signal.SIGPIPE - 1) == 0


def test_it_is_the_head_of_its_own_session():
    process = Process(["/bin/sleep", "1000"])
    assert os.getsid(process.pid) == process.pid
    process.end(LONGER_THAN_A_TEST)


@pytest.mark.parametrize("name", ["/no/such/program", "no-such-program"])
def test_a_program_that_is_not_there_is_an_error(name):
    with pytest.raises(FileNotFoundError):
        Process([name])


def test_a_file_that_is_not_a_program_is_an_error(tmp_path):
    path = tmp_path / "text"
    path.write_text("text")
    path.chmod(0o755)
    with pytest.raises(OSError, match="Exec format error"):
        Process([str(path)])


@pytest.mark.timeout(60)
def test_an_end_is_not_missed_beside_another_thread(monkeypatch):
    """Whichever thread gets the signal of the end, and whenever: here right after a look that found it running."""
    waitpid, looks = os.waitpid, []

    def look(pid, options):
        looks.append(pid)
        if len(looks) > 1:
            return waitpid(pid, options)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return 0, 0

    release = threading.Event()
    other = threading.Thread(target=release.wait, daemon=True)  # which does not block the signal
    other.start()
    process = Process(["/bin/sh", "-c", "exit 7"])
    monkeypatch.setattr(os, "waitpid", look)
    assert process.wait(LONGER_THAN_A_TEST) == 7
    release.set()
