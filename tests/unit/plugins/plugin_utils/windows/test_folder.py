# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state directory of a Windows host, on a stand-in of its files: no Windows runs here."""

import contextlib
import hashlib

import pytest
from fake_clock import FakeClock

from plugins.module_utils._load_balancer import health_probe
from plugins.module_utils._load_balancer.call import OPTIONS
from plugins.module_utils._load_balancer.record import Record
from plugins.module_utils._respond.memory import Lease, Locked
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.files import Changed
from plugins.plugin_utils._windows.folder import WindowsFolder, decode

DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}


class Lost(Exception):
    """The connection broke."""


class Host:
    """The files of a host. ``breaks``: after how many calls the connection breaks; ``before``: what others do first."""

    def __init__(self):
        self.files, self.calls, self.breaks, self.before, self.made = {}, [], None, {}, False

    def _call(self, name):
        self.calls.append(name)
        happen = self.before.pop((name, self.calls.count(name)), None)
        if happen:
            happen()
        if self.breaks is not None:
            self.breaks -= 1
            if self.breaks < 0:
                raise Lost

    def is_there(self):
        self._call("is_there")
        return self.made

    def make(self):
        self._call("make")
        self.made = True

    def digests(self):
        self._call("digests")
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    def read(self, name):
        self._call("read")
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name, content):
        self._call("write")
        if not self.made:
            raise OSError("no such directory")
        self.files[name] = content

    def rename(self, old, new):
        self._call("rename")
        if old not in self.files or new in self.files:
            return False
        self.files[new] = self.files.pop(old)
        return True

    def remove(self, name):
        self._call("remove")
        self.files.pop(name, None)

    def generations(self):
        return sorted(name for name in self.files if name.startswith("state-"))

    def newest(self):
        return dict(decode(self.files[self.generations()[-1]]).files)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def run(host, tmp_path):
    """Return a function for the folder of a run, in a new task of it."""

    def start(name="run1"):
        return WindowsFolder("C:\\state", host, kept=tmp_path / name / "kept")

    return start


def put(folder, **texts):
    with folder.guarded(None):
        for name, text in texts.items():
            if text is None:
                folder.remove(name)
            else:
                folder.write(name, text.encode(), mode=0o600)


def test_what_is_written_is_read_by_another_run_and_by_the_next_task(host, run):
    put(run(), one="1", two="2")
    put(run(), one="3", two=None)
    for folder in (run(), run("run2")):
        assert (folder.read("one"), folder.has("two")) == (b"3", False)
    assert host.newest() == {"one": "3"}


def test_only_the_two_newest_generations_stay_and_no_temporary_file(host, run):
    host.made, host.files = True, {"new-0123456789ab.tmp": b"of a run that was killed"}
    for number in range(6):
        put(run(f"run{number % 2}"), one=str(number))
    assert sorted(host.files) == ["state-000000005.json", "state-000000006.json"]


def test_a_run_that_writes_often_leaves_the_two_newest_generations(host, run):
    folder = run()
    for number in range(6):
        put(folder, one=str(number))
    assert sorted(host.files) == ["state-000000005.json", "state-000000006.json"]


def test_nothing_is_written_where_nothing_changes(host, run):
    put(run(), one="1")
    before = len(host.calls)
    put(run(), one="1")
    assert set(host.calls[before:]) <= {"is_there", "digests"}


def test_what_fails_within_changes_nothing(host, run):
    put(run(), one="1")
    folder = run()

    def fail():
        with folder.guarded(None):
            folder.write("one", b"2", mode=0o600)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (folder.read("one"), host.newest()) == (b"1", {"one": "1"})


def test_a_change_of_another_file_by_another_run_is_kept(host, run):
    put(run(), one="1")
    host.before["rename", 2] = lambda: put(run("run2"), two="2")
    put(run(), one="3")
    assert host.newest() == {"one": "3", "two": "2"}


def test_a_file_that_changed_after_it_was_read_is_not_overwritten(host, run):
    put(run(), one="1")
    host.before["rename", 2] = lambda: put(run("run2"), one="2")
    folder = run()
    with pytest.raises(Changed, match="another run has changed the files"):
        put(folder, one="3")
    assert (host.newest(), folder.read("one")) == ({"one": "2"}, b"2")


def test_of_two_runs_that_take_the_lease_at_the_same_time_one_is_locked_out(host, run):
    def lease(name):
        return Lease(run(name), name, "web1", {"pid": 1}, Clock(wall=lambda: 1000.0))

    def take(each):
        with each.held(make=True):
            each.renew(600)

    first, second = lease("run1"), lease("run2")
    host.before["write", 1] = lambda: take(second)
    with pytest.raises(Changed):
        take(first)
    with pytest.raises(Locked):
        take(first)
    take(second)


def test_wherever_the_connection_breaks_the_state_is_either_the_new_one_or_the_old_one(host, run):
    for calls in range(20):
        put(run(), one="before")
        host.breaks = calls
        with contextlib.suppress(Lost):
            put(run(), one="after")
            host.breaks = None
        ended, host.breaks = host.breaks is None, None
        found = run("run2").read("one")
        assert found in (b"before", b"after")
        assert not ended or found == b"after"
        put(run(), one="again")
        assert run("run2").read("one") == b"again"


@pytest.mark.parametrize(
    "left", [lambda content: content[:100], lambda content: bytes(len(content)), lambda _: b"", lambda _: b"[" * 100000]
)
def test_a_broken_newest_generation_is_an_error_that_names_it_and_the_one_before(host, run, left):
    put(run(), one="1")
    put(run(), one="2")
    host.files["state-000000002.json"] = left(host.files["state-000000002.json"])
    with pytest.raises(OSError, match=r"state-000000002\.json is broken .*state-000000001\.json holds what was noted"):
        run("run2").has("one")
    del host.files["state-000000002.json"]
    assert run("run2").read("one") == b"1"


@pytest.mark.parametrize("how", ["truncated", "gone", "older", "all gone"])
def test_what_the_host_loses_with_its_power_is_written_again_by_the_run_that_wrote_it(host, run, how):
    put(run(), one="1")
    put(run(), one="2")
    if how == "truncated":
        host.files["state-000000002.json"] = b"{"
    elif how == "gone":
        host.files["new-0123456789ab.tmp"] = host.files.pop("state-000000002.json")
    elif how == "older":
        del host.files["state-000000002.json"]
    else:
        host.files, host.made = {}, False
    assert run().read("one") == b"2"
    assert run("run2").read("one") == b"2"


def test_what_another_run_wrote_in_place_of_what_the_host_lost_counts(host, run):
    put(run(), one="1")
    put(run(), one="2")
    del host.files["state-000000002.json"]
    put(run("run2"), two="drained")
    assert run().read("two") == b"drained"
    assert (run().has("one"), run().read("one")) == (True, b"1")


def test_what_another_run_wrote_later_counts(run):
    put(run(), one="1")
    put(run("run2"), one="2")
    assert run().read("one") == b"2"


def test_a_file_that_cannot_be_renamed_is_an_error_and_not_forgotten(host, run):
    put(run(), one="1")
    host.rename = lambda _old, _new: False
    with pytest.raises(OSError, match="a file cannot be renamed in C:"):
        put(run(), one="2")
    assert (host.newest(), sorted(host.files)) == ({"one": "1"}, ["state-000000001.json"])


def test_a_directory_keeps_its_identity_and_others_have_another_one(run, tmp_path):
    assert run().identity == ""
    put(run(), one="1")
    identity = run().identity
    put(run("run2"), one="2")
    assert identity == run("run3").identity != ""
    other = Host()
    put(WindowsFolder("C:\\state", other, kept=tmp_path / "other"), one="1")
    assert WindowsFolder("C:\\state", other, kept=tmp_path / "none").identity != identity


def test_settled_changes_are_written_before_the_end_and_changes_of_others_are_read_then(host, run):
    folder = run()
    with folder.guarded(None):
        folder.write("one", b"1", mode=0o600)
        folder.write_changes()
        assert (host.newest(), folder.has("two")) == ({"one": "1"}, False)
        put(run("run2"), two="2")
        assert not folder.has("two")
        folder.write_changes()
        assert folder.has("two")


class Flag(health_probe.Flag):
    """A flag of a host, and what others do right before it is lowered."""

    def __init__(self):
        self.up, self.others = False, None

    def is_up(self):
        return self.up

    def raise_(self):
        self.up = True

    def lower(self):
        others, self.others = self.others, None
        if others:
            others()
        self.up = False


def probed(folder, flag, clock, holder, state):
    options = {**DEFAULTS, "holder": holder, "state": state, "return_timeout": 0, "interval": 1.0, "count": 1}
    return health_probe.Probed(
        options,
        Record(folder, clock=clock),
        probe=lambda: health_probe.ProbeAnswer(503 if flag.up else 200),
        peers=list,
        flag=flag,
        simulate=False,
        clock=clock,
    ).bring()


def test_a_host_that_another_run_drains_while_its_flag_is_lowered_stays_out(run):
    flag, clock = Flag(), FakeClock()
    assert probed(run(), flag, clock, "first", "drained")["changed"]
    flag.others = lambda: probed(run("run2"), flag, clock, "second", "drained")
    assert probed(run(), flag, clock, "first", "active")["msg"] == "stays drained for second"
    assert flag.up
    assert probed(run("run2"), flag, clock, "second", "active")["changed"]
    assert not flag.up


def test_a_flag_is_noted_before_it_is_raised(host, run):
    flag = Flag()
    host.breaks = 0
    with pytest.raises(Lost):
        probed(run(), flag, FakeClock(), "first", "drained")
    assert not flag.up
