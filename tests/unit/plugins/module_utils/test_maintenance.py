# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mark and the record of a rolling maintenance on a host."""

import json
import os

import pytest

from plugins.module_utils._maintenance import (
    ASKING,
    HELD,
    MARK,
    NAMES_KEPT,
    RECORD,
    UNNAMED_LEASE,
    Host,
    MaintenanceError,
    read_mark,
)
from plugins.module_utils._scheduled_events.clock import Clock, Moment
from plugins.module_utils._scheduled_events.files import LOCK_FILE, Folder

A, B = "controller1/run/web1", "controller2/run/web1"


class Now:
    """A host whose clocks the test sets."""

    def __init__(self):
        self.value = Moment(wall=1800000000.0, monotonic=1000.0, boot_id="boot1")

    def __call__(self):
        return self.value

    def after(self, seconds):
        wall, monotonic, boot_id = self.value
        self.value = Moment(wall + seconds, monotonic + seconds, boot_id)

    @property
    def clock(self):
        return Clock(
            wall=lambda: self.value.wall,
            monotonic=lambda: self.value.monotonic,
            sleep=self.after,
            boot_id=lambda: self.value.boot_id,
        )


@pytest.fixture
def now():
    return Now()


@pytest.fixture
def host(tmp_path, now):
    return Host(Folder(str(tmp_path / "state")), clock=now.clock)


def take(host, owner, **how):
    return host.take(owner, **dict({"by": {"node": "n"}, "stage": ASKING, "lease": 100.0}, **how))


def test_a_host_without_a_directory_has_no_mark_and_no_record(host, tmp_path):
    assert host.mark() is None
    assert host.records() == {}
    assert not host.drop(A)
    assert list(tmp_path.iterdir()) == []


def test_the_mark_says_whose_it_is_and_how_old(host, now):
    assert take(host, A) is None
    now.after(30)
    assert host.mark().describe() == {
        "owner": A,
        "by": {"node": "n"},
        "stage": ASKING,
        "age": 30.0,
        "lease": 100.0,
        "live": True,
        "unfinished": {},
    }


def test_everybody_may_read_the_mark(host, tmp_path):
    take(host, A)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "state" / MARK).stat().st_mode & 0o777 == 0o644


def test_a_second_owner_does_not_get_the_mark_and_learns_its_owner(host):
    take(host, A)
    assert take(host, B).owner == A
    assert host.mark().owner == A


def test_an_owner_renews_its_mark(host, now):
    take(host, A)
    now.after(90)
    assert take(host, A, stage=HELD, lease=500.0) is None
    assert host.mark()[2:] == (HELD, 0.0, 500.0, {})


def test_a_mark_whose_lease_is_over_is_taken_over(host, now):
    take(host, A)
    now.after(100)
    assert not host.mark().live
    assert take(host, B) is None
    assert host.mark().owner == B


def test_the_mark_of_an_owner_that_is_known_to_be_dead_is_taken_over(host):
    take(host, A)
    assert take(host, B, dead=[A]) is None


LEFT = {"owner": A, "by": {"node": "n"}}


def hold(host, owner, **how):
    assert take(host, owner, **how) is None
    assert take(host, owner, stage=HELD) is None


@pytest.mark.parametrize("asking", [None, 100], ids=["that never asked", "whose mark ran out at the gate"])
def test_no_run_begins_a_maintenance(host, now, asking):
    if asking:
        take(host, A)
        now.after(asking)
    with pytest.raises(MaintenanceError, match="ran out before its maintenance began"):
        take(host, A, stage=HELD)


def test_a_maintenance_that_takes_longer_than_its_lease_goes_on(host, now):
    hold(host, A)
    now.after(101)
    assert take(host, A, stage=HELD) is None
    assert host.mark().live


def test_what_a_dead_owner_began_stays_written_while_another_one_asks_for_the_host(host):
    hold(host, A)
    assert take(host, B, dead=[A]) is None
    assert take(host, B) is None
    assert (host.mark().owner, host.mark().unfinished) == (B, LEFT)


@pytest.mark.parametrize("stage", [ASKING, HELD], ids=["at the gate", "with its maintenance"])
def test_what_a_dead_owner_began_is_unfinished_again_when_the_next_one_does_not_succeed(host, stage):
    hold(host, A)
    hold(host, B, dead=[A])
    take(host, B, stage=stage)
    assert host.drop(B)
    left = host.mark()
    assert (left.owner, left.stage, left.live, left.begun()) == (A, HELD, False, LEFT)


def test_what_an_owner_asked_for_and_did_not_begin_is_not_unfinished(host):
    take(host, A)
    take(host, B, dead=[A])
    assert host.mark().unfinished == {}


def test_a_maintenance_that_ended_well_ends_what_was_unfinished_before(host):
    hold(host, A)
    hold(host, B, dead=[A])
    assert host.drop(B, ended=True)
    assert host.mark() is None


def test_an_operator_who_looked_at_the_host_ends_what_was_unfinished(host, now):
    hold(host, A)
    host.check()
    assert host.mark().owner == A
    now.after(100)
    host.check()
    assert host.mark() is None
    hold(host, A)
    host.check([A])
    assert host.mark() is None
    hold(host, A)
    assert take(host, B, dead=[A], checked=True) is None
    assert host.mark().unfinished == {}


def test_a_host_without_a_directory_gets_none_when_an_operator_looked_at_it(host, tmp_path):
    host.check()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("owner", "dropped"), [(A, True), (B, False), ("controller1/run/web", False)])
def test_only_the_owner_drops_its_mark(host, owner, dropped):
    take(host, A)
    assert host.drop(owner) == dropped
    assert (host.mark() is None) == dropped


LONG = "9" * 400  # digits, which no float has
AT = '"unfinished": {}, "at": {"wall": 1, "monotonic": 1, "boot_id": ""}'
LONG_LEASE = '{"owner": "x", "by": {}, "stage": "held", "lease": ' + LONG + ", " + AT + "}"
LONG_AGE = LONG_LEASE.replace('"wall": 1', '"wall": ' + LONG)


@pytest.mark.parametrize("content", ["", "garbage", "[]", '{"owner": "x"}', "\x80", "[" * 100000, LONG_LEASE, LONG_AGE])
def test_a_broken_mark_lasts_a_limited_time(host, now, tmp_path, content):
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / MARK
    path.write_text(content)
    written_at = now().wall - UNNAMED_LEASE + 1
    os.utime(str(path), (written_at, written_at))
    assert take(host, A).owner == ""
    now.after(1)
    assert take(host, A) is None


def test_dead_owners_do_not_include_the_one_that_is_not_known(host, now, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / MARK).touch()
    os.utime(str(tmp_path / "state" / MARK), (now().wall, now().wall))
    assert take(host, A, dead=[""]) is not None


def test_what_was_done_is_remembered_by_name_for_the_owner_alone(host, now, tmp_path):
    host.done("patch", round_id="r", hosts=["web1"], since_begin=61.5)
    host.done("urgent", round_id="u", hosts=["web1", "web2"], since_begin=1.0)
    now.after(9)
    assert host.records() == {
        "patch": {"round": "r", "hosts": ["web1"], "since_begin": 61.5, "age": 9.0},
        "urgent": {"round": "u", "hosts": ["web1", "web2"], "since_begin": 1.0, "age": 9.0},
    }
    assert (tmp_path / "state" / RECORD).stat().st_mode & 0o777 == 0o600


def test_the_oldest_maintenances_are_forgotten(host, now):
    for number in range(NAMES_KEPT + 2):
        host.done(str(number), round_id="r", hosts=[], since_begin=0.0)
        now.after(1)
    assert sorted(host.records(), key=int) == [str(number) for number in range(2, NAMES_KEPT + 2)]


@pytest.mark.parametrize(
    "content",
    [
        *('{"round": 3, "finished_at": 1800000000}', "", "broken", "[1]", '{"rounds": {"patch": {"round": "r"}}}'),
        *("[" * 100000, f'{{"rounds": {{"patch": {{"round": "r", "hosts": [], "since_begin": {LONG}}}}}}}'),
    ],
)
def test_a_broken_record_counts_as_nothing_and_is_replaced(host, tmp_path, content):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / RECORD).write_text(content)
    assert host.records() == {}
    host.done("urgent", round_id="u", hosts=[], since_begin=0.0)
    assert list(host.records()) == ["urgent"]


def test_a_kill_while_the_mark_is_written_leaves_the_old_one(host, tmp_path, monkeypatch):
    take(host, A)

    def killed(*_paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        take(host, A, stage=HELD)
    assert host.mark().stage == ASKING
    assert sorted(os.listdir(str(tmp_path / "state"))) == sorted([LOCK_FILE, MARK])


def test_a_lock_that_stays_held_is_an_error_and_no_hang(host, tmp_path):
    with Folder(str(tmp_path / "state")).guarded(), pytest.raises(MaintenanceError, match=r"cannot be locked: .* 20 s"):
        take(host, A)
    assert take(host, A) is None


def test_a_place_that_is_not_a_directory_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MaintenanceError, match="cannot be locked"):
        take(Host(Folder(str(tmp_path / "file" / "state"))), A)


def test_the_mark_is_one_line_of_json(host, tmp_path):
    take(host, A)
    text = (tmp_path / "state" / MARK).read_text()
    assert text.endswith("}\n")
    assert set(json.loads(text)) == {"owner", "by", "stage", "lease", "at", "unfinished"}


def test_the_mark_can_be_read_without_a_host(host, tmp_path, now):
    take(host, A)
    assert read_mark(Folder(str(tmp_path / "state")), now.clock).owner == A
    assert read_mark(Folder(str(tmp_path / "nothing"))) is None
