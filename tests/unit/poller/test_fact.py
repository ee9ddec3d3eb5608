# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The local fact: what it makes of the poller's status file, also when a hostile user put something else there."""

import json
import os
import pathlib
import socket
import subprocess
import time

import pytest

FACT = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files" / "scheduled_events.fact"
STATUS = {
    "version": "0.2.0",
    "vm_name": "web1",
    "maintenance_pending": False,
    "events": [
        {"event_id": "A", "event_type": "Reboot", "condition": "hooks run", "doing": "a } b\n{", "trouble": None}
    ],
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "status.json"


def write(file, content, *, age=0):
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=1).encode() + b"\n")
    os.utime(str(file), (time.time() - age,) * 2)


def gather(file):
    """Run the script as Ansible does; the time limit only names a hang."""
    done = subprocess.run(
        [str(FACT), str(file)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
    )
    assert done.stderr == b""
    return json.loads(done.stdout.decode())


def nothing_known(reason):
    return {"stale": True, "maintenance_pending": True, "reason": reason}


def test_a_fresh_status_is_shown_with_its_age(file):
    write(file, STATUS)
    facts = gather(file)
    assert facts.pop("age") in range(60)
    assert facts == {**STATUS, "stale": False}


@pytest.mark.parametrize("age", [3600, -3600], ids=["old", "of the future"])
def test_a_stale_status_is_shown_and_never_says_that_no_maintenance_is_pending(file, age):
    write(file, STATUS, age=age)
    facts = gather(file)
    assert abs(facts.pop("age") - age) < 60
    assert facts == {**STATUS, "stale": True, "maintenance_pending": True}


def test_without_a_status_nothing_is_known(file):
    assert gather(file) == nothing_known("the poller has no status file")


def test_the_status_cannot_say_that_it_is_fresh(file):
    write(file, {"stale": False, "age": 0, "maintenance_pending": False}, age=3600)
    facts = gather(file)
    assert (facts["stale"], facts["maintenance_pending"]) == (True, True)


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"{\n}",
        b"[\n]",
        b"{",
        b"plain text\n",
        b"#!/bin/sh\nid\n",
        b'{"a": 1}\n',
        b"\xff\xfe\n\xff",
        b"$(id)\n`id`\n",
        b"%s%s%s%n\n",
    ],
)
def test_what_is_not_an_object_over_several_lines_is_not_shown(file, content):
    write(file, content)
    assert gather(file) == nothing_known("the status file is not a JSON object")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\0\0\0\0"])
def test_an_empty_file_is_not_shown(file, content):
    write(file, content)
    assert gather(file) == nothing_known("the status file cannot be read: gather facts as root")


def test_text_of_the_status_is_neither_a_format_nor_a_command(file):
    status = {"error": "%s %d $(id) `id` \\n \\\\ ' \" ; exit 1"}
    write(file, status)
    assert gather(file)["error"] == status["error"]


def test_what_only_looks_like_json_ends_as_one_error_of_this_fact(file):
    write(file, b'{\n} "x\n}\n')
    done = subprocess.run([str(FACT), str(file)], check=True, stdout=subprocess.PIPE, timeout=60)
    with pytest.raises(ValueError, match="line 2 column 3"):
        json.loads(done.stdout.decode())


def test_a_link_is_not_followed(file, tmp_path):
    write(tmp_path / "secret", {"secret": "x"})
    file.symlink_to(tmp_path / "secret")
    assert gather(file) == nothing_known("the status file is not a regular file")


def test_another_name_of_a_file_is_not_read(file, tmp_path):
    write(tmp_path / "secret", {"secret": "x"})
    os.link(str(tmp_path / "secret"), str(file))
    assert gather(file) == nothing_known("the status file belongs to another user")


def test_a_huge_file_is_not_read(file):
    write(file, b"{\n")
    os.truncate(str(file), 1 << 40)
    os.utime(str(file), None)
    assert gather(file) == nothing_known("the status file is too large")


def test_a_directory_a_fifo_and_a_socket_are_not_opened(file):
    listener = socket.socket(socket.AF_UNIX)
    for make in (
        file.mkdir,
        lambda: (file.rmdir(), os.mkfifo(str(file))),
        lambda: (file.unlink(), listener.bind(os.path.relpath(str(file)))),
    ):
        make()
        assert gather(file) == nothing_known("the status file is not a regular file")
    listener.close()


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path)], ids=["a FIFO", "a link"])
def test_what_takes_the_place_of_the_file_after_the_look_is_neither_followed_nor_waited_for(file, tmp_path, put):
    # A stat that shows a fresh file of this user, whatever is there.
    (tmp_path / "stat").write_text(f'#!/bin/sh\n[ "$2" = %u ] && echo 7 || echo "81a4 1 7 {int(time.time())} 100"\n')
    (tmp_path / "stat").chmod(0o755)
    put(str(file))
    done = subprocess.run(
        [str(FACT), str(file)],
        check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert json.loads(done.stdout.decode()) == nothing_known("the status file cannot be read: gather facts as root")
