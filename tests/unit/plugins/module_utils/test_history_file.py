# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a history keep what was written, within their bounds, whatever lies in their place."""

import errno
import os
import stat
import tracemalloc

import pytest
from _scheduled_events import history_file
from _scheduled_events.files import NotPlain
from _scheduled_events.history import Fact, line_of
from _scheduled_events.history_file import BEFORE, MAX_AGE, MAX_FILE, PRESENT, append, append_beside, prepare, read

pytestmark = pytest.mark.edge

NOW = 1600000000.0
DAY = 86400.0


def a_fact(number=0, *, time=NOW, **more):
    return Fact("seen", time, "poller", event_id=f"event-{number}", **more)


def facts_of(directory, now=NOW):
    return list(read(str(directory), now=now).facts)


def present(directory):
    return os.path.join(str(directory), PRESENT)


@pytest.fixture
def history(tmp_path):
    made = str(tmp_path / "history")
    prepare(made)
    return made


def test_facts_are_read_in_the_order_in_which_they_were_written(history):
    facts = [a_fact(number) for number in range(5)]
    append(history, facts[:2], now=NOW)
    append(history, facts[2:], now=NOW)
    assert facts_of(history) == facts
    with open(present(history), "rb") as file:
        assert file.read() == b"".join(map(line_of, facts))


def test_facts_since_a_time_leave_out_older_ones(history):
    facts = [a_fact(1, time=NOW - 100), a_fact(2, time=NOW - 50)]
    append(history, facts, now=NOW)
    assert read(history, now=NOW, since=NOW - 60).facts == (facts[1],)


def test_the_facts_of_two_histories_are_in_the_order_of_their_times(tmp_path):
    first, second = str(tmp_path / "unit"), str(tmp_path / "role")
    for directory, times in ((first, (NOW - 30, NOW - 10)), (second, (NOW - 40, NOW - 20))):
        prepare(directory)
        append(directory, [a_fact(time=time) for time in times], now=NOW)
    assert [NOW - fact.time for fact in read(first, second, now=NOW).facts] == [40, 30, 20, 10]


def test_a_directory_without_a_history_has_no_facts_and_no_problem(tmp_path):
    assert read(str(tmp_path / "missing"), now=NOW) == ((), ())


def test_the_group_may_read_the_files_and_others_may_not(history):
    before = os.umask(0o077)
    try:
        append(history, [a_fact()], now=NOW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(present(history)).st_mode) == 0o640


def test_a_fact_is_durable_before_the_call_returns(history, monkeypatch):
    order = []
    write, sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda *given: order.append("write") or write(*given))
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append("fsync") or sync(descriptor))
    append(history, [a_fact()], now=NOW)
    assert order == ["write", "fsync", "fsync"]  # the new name in the directory, too


def test_a_fact_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was(history, monkeypatch):
    append(history, [a_fact(1)], now=NOW)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:20]))
    with pytest.raises(OSError, match=r"20 of .* bytes were written"):
        append(history, [a_fact(2)], now=NOW)
    monkeypatch.undo()
    assert facts_of(history) == [a_fact(1)]


def test_a_full_file_is_followed_by_another_and_the_third_replaces_the_first(history, monkeypatch):
    monkeypatch.setattr(history_file, "MAX_FILE", 32 * 1024)
    lines_of_a_file = history_file.MAX_FILE // len(line_of(a_fact(10000, reason="x" * 400)))
    for number in range(3 * lines_of_a_file):
        append(history, [a_fact(10000 + number, reason="x" * 400)], now=NOW)
    found = facts_of(history)
    assert lines_of_a_file <= len(found) <= 2 * lines_of_a_file
    assert found[-1].event_id == f"event-{10000 + 3 * lines_of_a_file - 1}"


def test_more_facts_at_once_than_a_file_holds_leave_the_newest_and_each_file_within_its_bound(history):
    large = a_fact(reason="x" * 200)
    facts = [large._replace(event_id=str(number)) for number in range(3 * MAX_FILE // len(line_of(large)))]
    append(history, facts, now=NOW)
    kept = facts_of(history)
    assert kept == facts[-len(kept) :]
    assert len(kept) > len(facts) // 6
    assert all(os.path.getsize(os.path.join(history, name)) <= MAX_FILE for name in (PRESENT, BEFORE))


def test_facts_of_more_than_400_days_ago_go_away(history):
    append(history, [a_fact(1)], now=NOW)
    assert facts_of(history, NOW + MAX_AGE + 1) == []
    append(history, [a_fact(2, time=NOW + 250 * DAY)], now=NOW + 250 * DAY)
    os.utime(os.path.join(history, BEFORE), (NOW, NOW))
    append(history, [a_fact(3, time=NOW + 401 * DAY)], now=NOW + 401 * DAY)
    assert os.listdir(history) == [PRESENT]


def in_place_of_the_file(kind, directory):
    path = present(directory)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a link":
        os.symlink("/etc/passwd", path)
    elif kind == "a directory":
        os.mkdir(path)
    elif kind == "a second name":
        with open(os.path.join(directory, "other"), "wb"):
            pass
        os.link(os.path.join(directory, "other"), path)
    else:
        with open(path, "wb") as file:
            file.truncate(MAX_FILE + 1)


@pytest.mark.parametrize("kind", ["a FIFO", "a link", "a directory", "a second name", "a large file"])
def test_something_else_in_place_of_the_file_is_reported_and_not_read(history, kind):
    in_place_of_the_file(kind, history)
    found = read(history, now=NOW)
    assert found.facts == ()
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"{present(history)} cannot be read: ")


@pytest.mark.parametrize("kind", ["a FIFO", "a link", "a directory", "a second name"])
def test_something_else_in_place_of_the_file_is_not_written_to(history, kind):
    in_place_of_the_file(kind, history)
    with pytest.raises(NotPlain):
        append(history, [a_fact()], now=NOW)


def test_a_large_file_in_place_of_the_history_is_put_aside_like_a_full_one(history):
    in_place_of_the_file("a large file", history)
    append(history, [a_fact()], now=NOW)
    assert facts_of(history) == [a_fact()]


def test_a_full_history_takes_little_memory_to_learn_from(history):
    facts = [a_fact(number) for number in range(2000)]
    append(history, facts, now=NOW)
    read(history, now=NOW)  # what is kept for each read is there now
    tracemalloc.start()
    try:
        history_file.experience(history, now=NOW)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_lines_that_are_no_facts_are_counted_and_the_others_are_read(history):
    append(history, [a_fact(1)], now=NOW)
    with open(present(history), "ab") as file:
        file.write(b"nonsense\n\xff\n")
    append(history, [a_fact(2)], now=NOW)
    found = read(history, now=NOW)
    assert list(found.facts) == [a_fact(1), a_fact(2)]
    assert found.problems[0].startswith(f"{present(history)}: 2 lines left out. The first: it is not JSON")


def test_the_bounds_are_those_of_the_documentation():
    assert (history_file.MAX_FILE, history_file.MAX_AGE) == (512 * 1024, 400 * DAY)


def test_facts_that_may_not_be_on_the_disk_are_not_there_twice_after_another_try(history, monkeypatch):
    def fail(_descriptor):
        raise OSError(errno.EIO, "Input/output error")

    for number in range(2):  # the first one makes the file, too
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            append(history, [a_fact(number)], now=NOW)
        monkeypatch.undo()
        append(history, [a_fact(number)], now=NOW)
    assert facts_of(history) == [a_fact(0), a_fact(1)]


def test_another_process_adds_to_the_first_history_that_it_may_write(history, tmp_path):
    assert append_beside([str(tmp_path / "missing"), history], [a_fact(1)])
    append(history, [a_fact(2)], now=NOW)
    assert append_beside([history], [a_fact(3)])
    assert facts_of(history) == [a_fact(1), a_fact(2), a_fact(3)]


def test_another_process_makes_no_file_in_the_directory_of_another_user(history, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not append_beside([history], [a_fact(1)])
    assert os.listdir(history) == []
    open(present(history), "x").close()
    assert append_beside([history], [a_fact(1)])
    assert facts_of(history) == [a_fact(1)]


@pytest.mark.parametrize("cut", [b"", b'{"version":1'], ids=["whole", "cut"])
def test_another_process_leaves_a_full_history_to_its_owner(history, cut):
    with open(os.path.join(history, PRESENT), "wb") as file:
        file.write(b"\n" * (MAX_FILE - 20) + cut)
    assert not append_beside([history], [a_fact(1)])


def test_another_process_that_cannot_add_durably_removes_nothing_of_the_owner(history, monkeypatch):
    append(history, [a_fact(1)], now=NOW)
    path = os.path.join(history, PRESENT)

    def fail(_descriptor):
        with open(path, "ab") as file:  # the owner adds a line at the same time
            file.write(line_of(a_fact(2)))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    assert not append_beside([history], [a_fact(3)])
    assert a_fact(2) in facts_of(history)


def test_another_process_adds_after_a_line_that_a_crash_has_cut(history):
    with open(os.path.join(history, PRESENT), "wb") as file:
        file.write(b'{"version":1')
    assert append_beside([history], [a_fact(1)])
    assert facts_of(history) == [a_fact(1)]
