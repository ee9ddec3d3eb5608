# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json
import os
import stat
import threading

import pytest

from plugins.module_utils._load_balancer.record import (
    LEAVE_OUT,
    NOTHING_TO_DO,
    PUT_BACK,
    DrainError,
    Record,
    RecordError,
)
from plugins.module_utils._scheduled_events.files import LOCK_FILE, Folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "load-balancer.json"


@pytest.fixture
def record(path, clock):
    return Record(Folder(str(path.parent)), clock=clock)


def hold(record, holder, found=None, settings=None):
    with record.locked_when_free(holder, wait=30):
        return record.hold(holder, found or {}, settings)


def release(record, holder, lease=0):
    with record.locked():
        return record.release(holder, seconds=lease)


def forget(record, holder):
    with record.locked():
        record.forget(holder)


def test_what_was_found_first_counts(record):
    hold(record, "first", {"a": "ready"})
    hold(record, "second", {"a": "MAINT", "b": "DRAIN"})
    kept = record.read()
    assert kept.holders == ["first", "second"]
    assert kept.found == {"a": "ready", "b": "DRAIN"}


def test_the_file_is_for_root_alone_in_a_directory_for_all(record, path):
    old = os.umask(0o077)
    try:
        hold(record, "first")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o755


def test_how_a_host_was_found_survives_a_loss_of_power_from_then_on(record, monkeypatch):
    kinds = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: kinds.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    hold(record, "first", {"a": "ready"})
    assert {stat.S_IFREG, stat.S_IFDIR} <= set(kinds)


def test_no_file_but_that_of_the_lock_remains_after_the_last_holder(record, path):
    hold(record, "first")
    hold(record, "second")
    assert release(record, "first") == LEAVE_OUT
    assert release(record, "first") == NOTHING_TO_DO
    assert release(record, "second") == PUT_BACK
    assert record.read().holders == ["second"]  # so that a run that is killed is repeated
    forget(record, "second")
    assert [each.name for each in path.parent.iterdir()] == [LOCK_FILE]
    forget(record, "second")


def test_a_record_of_the_first_release_is_read(record, path):
    path.parent.mkdir()
    path.write_text(json.dumps({"holders": ["respond"], "found": {"lb1/www": "MAINT (via www/web2)"}}))
    assert release(record, "respond") == PUT_BACK
    assert record.read().found == {"lb1/www": "MAINT (via www/web2)"}


NO_LEASE = '{"holders": ["a"], "found": {}, "returning": {"holder": "a", "seconds": 60}}'
LONG = NO_LEASE.replace("60", "9" * 400 + ', "at": {"wall": 1, "monotonic": 1, "boot_id": ""}')


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"holders": ["a"]}', '{"holders": 1, "found": {}}', "null", NO_LEASE, LONG]
)
def test_a_record_that_cannot_be_read_is_named_with_what_to_do(record, path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(RecordError, match=r"load-balancer\.json cannot be read .* remove the file, and run it again"):
        hold(record, "first")


def test_nothing_is_drained_while_another_holder_puts_the_host_back(record, clock):
    hold(record, "first")
    release(record, "first", lease=100)
    clock.at = [(1007, lambda: forget(record, "first"))]
    assert hold(record, "second", {"a": "ready"}).holders == ["second"]
    assert clock.now == 1007


@pytest.mark.parametrize(("lease", "goes_on_at"), [(100, 1030), (5, 1005)])
def test_the_wait_for_another_holder_ends_with_its_lease_or_with_the_time(record, clock, lease, goes_on_at):
    hold(record, "first", {"a": "ready"})
    release(record, "first", lease=lease)
    kept = hold(record, "second", {"a": "MAINT"})
    assert clock.now == goes_on_at
    assert kept.holders == ["second"]  # it puts the host back in the end, also if the first one is never run again
    assert kept.found == {"a": "ready"}


@pytest.mark.parametrize("lease", [0, -5])
def test_a_return_without_a_lease_or_one_that_has_failed_keeps_no_other_holder_waiting(record, lease):
    hold(record, "first", {"a": "ready"})
    release(record, "first", lease=lease)
    assert record.returning() is None
    release(record, "first", lease=100)
    assert record.returning() == {"holder": "first", "seconds": 100}
    release(record, "first", lease=9999)
    assert record.returning() == {"holder": "first", "seconds": 3600}
    with record.locked():
        assert record.interrupt("first") == PUT_BACK
    assert record.returning() is None


def test_a_holder_that_was_killed_while_it_put_the_host_back_does_not_wait_for_itself(record, clock):
    hold(record, "first")
    release(record, "first", lease=100)
    assert release(record, "first", lease=100) == PUT_BACK
    hold(record, "first")
    assert clock.now == 1000


def test_a_clock_that_was_set_back_does_not_make_a_lease_last(record, clock):
    hold(record, "first")
    release(record, "first", lease=100)
    clock.now -= 100000
    before = clock.now
    hold(record, "second")
    assert clock.now == before


def test_a_holder_that_came_when_the_lease_had_run_out_is_not_forgotten(record):
    hold(record, "first", {"a": "ready"})
    release(record, "first", lease=5)
    hold(record, "second")
    forget(record, "first")
    assert record.read().holders == ["second"]


def test_a_holder_that_returns_is_not_forgotten_by_the_one_whose_place_it_took(record):
    hold(record, "first", {"a": "ready"})
    release(record, "first", lease=5)
    hold(record, "second")
    release(record, "second", lease=100)
    forget(record, "first")
    assert release(record, "second") == PUT_BACK
    assert record.read().found == {"a": "ready"}


FIRST, OTHER = ({"provider": name, "server": "web1"} for name in ("haproxy", "tasks"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [(OTHER, "provider"), ({**FIRST, "server": "web2"}, "server"), ({**FIRST, "server": None}, "server")],
)
def test_a_host_is_neither_drained_nor_put_back_with_other_settings_than_the_first_ones(record, settings, named):
    message = f"was taken out with {named}={FIRST[named]}, but {named} is {settings[named]} now. Set it back to "
    hold(record, "first", settings=FIRST)
    hold(record, "second")
    with record.locked():
        assert record.release("second", seconds=0, settings=settings) == LEAVE_OUT
    before = record.read()
    with pytest.raises(DrainError, match=message):
        hold(record, "second", settings=settings)
    with record.locked(), pytest.raises(DrainError, match=message):
        record.release("first", seconds=0, settings=settings)
    assert record.read() == before
    with record.locked():
        assert record.release("nobody", seconds=0, settings=settings) == NOTHING_TO_DO
        assert record.release("first", seconds=0, settings=FIRST) == PUT_BACK
    forget(record, "first")
    hold(record, "first", settings=settings)


@pytest.mark.parametrize("simulate", [False, True])
def test_a_record_that_is_lost_is_named_to_the_holder_that_has_drained_the_host(record, path, clock, simulate):
    hold(record, "first")
    path.unlink()
    lost = r"taken out for first, but its record .*load-balancer\.json is gone\. Unless .* put it back .* by hand"
    again = Record(Folder(str(path.parent)), simulate=simulate, clock=clock)
    with again.locked(), pytest.raises(RecordError, match=lost):
        again.release("first", seconds=0, was_drained=True)


def test_a_holder_whose_place_another_one_took_has_nothing_to_put_back(record):
    hold(record, "first")
    release(record, "first")
    hold(record, "second")
    with record.locked():
        assert record.release("first", seconds=0, was_drained=True) == NOTHING_TO_DO
    assert record.read().holders == ["second"]


def test_check_mode_changes_nothing(path, record, clock):
    simulated = Record(Folder(str(path.parent)), simulate=True, clock=clock)
    assert hold(simulated, "first", {"a": "ready"}).holders == ["first"]
    assert not path.parent.exists()
    hold(record, "first", {"a": "ready"})
    before = path.read_text()
    assert release(simulated, "first", lease=100) == PUT_BACK
    forget(simulated, "first")
    assert path.read_text() == before


def test_each_step_takes_the_lock_once_also_for_a_step_within_it(record, monkeypatch):
    taken, guarded = [], Folder.guarded
    monkeypatch.setattr(Folder, "guarded", lambda folder: taken.append(folder) or guarded(folder))
    for _step in range(2):
        with record.locked(), record.locked():
            pass
    assert len(taken) == 2


def test_holders_that_come_at_once_are_all_noted(path):
    holders = [f"holder{number}" for number in range(8)]

    def come(holder):
        hold(Record(Folder(str(path.parent))), holder)

    threads = [threading.Thread(target=come, args=(holder,)) for holder in holders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads(path.read_text())["holders"]) == holders
