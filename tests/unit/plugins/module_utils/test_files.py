# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files are there as a whole or not at all, and no attempt leaves anything beside them."""

import contextlib
import errno
import os
import stat

import pytest
from _scheduled_events.clock import Clock
from _scheduled_events.files import (
    HALF_WRITTEN,
    LOCK_FILE,
    Folder,
    NotPlain,
    Occupied,
    explained,
    locked,
    read_plain,
    remove_half_written,
    trim,
    write_atomically,
    write_once,
)

pytestmark = pytest.mark.edge


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = str(tmp_path / "file")
    write_atomically(path, b"old", mode=0o640, durable=True)

    def fail(*_arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new", mode=0o640, durable=True)
    assert os.listdir(str(tmp_path)) == ["file"]
    with open(path, "rb") as file:
        assert file.read() == b"old"


def test_a_durable_file_outlasts_a_power_cut_before_it_takes_its_name_and_its_name_before_the_call_returns(
    tmp_path, monkeypatch
):
    done = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor):
        fsync(descriptor)
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)

    def note_replace(old, new):
        replace(old, new)
        done.append(os.path.basename(new))

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(str(tmp_path / "file"), b"content", mode=0o600, durable=True)
    assert done == [len(b"content"), "file", "directory"]


@pytest.mark.parametrize("write", [write_atomically, write_once])
def test_a_file_has_its_mode_whatever_the_mask_is(tmp_path, write):
    before = os.umask(0o077)
    try:
        write(str(tmp_path / "file"), b"", mode=0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(str(tmp_path / "file")).st_mode) == 0o644


def test_a_file_that_is_made_once_is_never_replaced(tmp_path):
    path = str(tmp_path / "file")
    assert write_once(path, b"first", mode=0o600)
    assert not write_once(path, b"second", mode=0o600)
    assert os.listdir(str(tmp_path)) == ["file"]
    with open(path, "rb") as file:
        assert file.read() == b"first"


@pytest.mark.parametrize("write", [write_atomically, write_once])
def test_a_file_with_a_name_as_long_as_names_can_be_is_written(tmp_path, write):
    write(str(tmp_path / ("x" * 255)), b"", mode=0o600)
    assert os.listdir(str(tmp_path)) == ["x" * 255]


def make_large(path):
    with open(path, "wb") as file:
        file.truncate(2**40)


def make_second_name(path):
    with open(path + "-other", "wb") as file:
        file.write(b"secret")
    os.link(path + "-other", path)


def make_socket(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)


HOSTILE = {
    os.mkfifo: "it is not a regular file",
    os.mkdir: "it is not a regular file",
    make_socket: "it is not a regular file",
    make_large: "it has more than 100 bytes",
    make_second_name: "it has another name, too",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "reason"), HOSTILE.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_not_a_plain_file_is_refused_and_not_waited_for(tmp_path, make, reason):
    path = str(tmp_path / "file")
    make(path)
    with pytest.raises(NotPlain, match=reason):
        read_plain(path, most=100)


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd", "/nowhere"])
def test_a_link_is_refused(tmp_path, target):
    path = str(tmp_path / "file")
    os.symlink(target, path)
    with pytest.raises(NotPlain, match="it is not a regular file"):
        read_plain(path, most=100)


def test_what_takes_the_place_of_a_file_while_it_is_opened_is_not_read(tmp_path, monkeypatch):
    path = str(tmp_path / "file")
    write_atomically(path, b"content", mode=0o600)
    fstat = os.fstat

    def replaced(descriptor):
        os.unlink(path)
        os.symlink("/etc/passwd", path)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", replaced)
    assert read_plain(path, most=7) == b"content"


def test_no_file_is_no_hostile_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_plain(str(tmp_path / "file"), most=100)


def test_what_a_crash_left_half_written_is_removed_and_nothing_else(tmp_path):
    for name in ("state.json", ".state.json.0123456789ab", ".state.json.x", ".other.json.0123456789ab"):
        (tmp_path / name).write_text("")
    remove_half_written(str(tmp_path / "state.json"))
    assert sorted(os.listdir(str(tmp_path))) == [".other.json.0123456789ab", ".state.json.x", "state.json"]


# Locks


def take(path, **how):
    with locked(path, **how):
        pass


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_lock_keeps_others_out_until_it_is_left(tmp_path, clock, kind):
    path = tmp_path if kind == "directory" else tmp_path / "lock"
    with locked(path):
        with pytest.raises(Occupied, match="another process holds the lock, and 5 s of waiting") as raised:
            take(path, patience=5.0, clock=clock)
        assert raised.value.filename == str(path)
        assert clock.now == pytest.approx(105.0)
    with locked(path, patience=0.0) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), os.stat(str(path)))


def test_a_lock_that_becomes_free_is_taken(tmp_path, clock):
    with contextlib.ExitStack() as other:
        other.enter_context(locked(tmp_path / "lock"))

        def sleep(seconds):
            clock.sleep(seconds)
            if clock.now >= 101.0:
                other.close()

        with locked(tmp_path / "lock", patience=5.0, clock=Clock(monotonic=clock.monotonic, sleep=sleep)):
            assert clock.now < 101.1


def test_a_lock_file_is_of_its_maker_alone_and_is_made_only_where_wanted(tmp_path):
    with locked(tmp_path / "lock"):
        assert stat.S_IMODE(os.stat(str(tmp_path / "lock")).st_mode) == 0o600
    with pytest.raises(FileNotFoundError), locked(tmp_path / "job", make=False):
        pass


def test_a_lock_file_that_leads_elsewhere_is_not_followed(tmp_path):
    os.symlink(str(tmp_path / "elsewhere"), str(tmp_path / "lock"))
    with pytest.raises(OSError, match="lock"), locked(tmp_path / "lock"):
        pass
    assert os.listdir(str(tmp_path)) == ["lock"]


# Directories


def test_a_directory_is_made_for_its_files_and_locked_while_they_change(tmp_path):
    folder = Folder(tmp_path / "state")
    with folder.guarded():
        folder.write_json("a.json", {"b": 1})
        with pytest.raises(Occupied), Folder(folder.path).guarded(0.0):
            pass
    assert folder.read_json("a.json") == {"b": 1}
    assert sorted(os.listdir(folder.path)) == [LOCK_FILE, "a.json"]
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o755


@pytest.mark.parametrize("umask", [0, 0o77])
def test_directories_that_are_made_above_a_new_one_have_its_mode_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        Folder(tmp_path / "a" / "b" / "c").make()
    finally:
        os.umask(before)
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o755] * 3


def test_an_error_of_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"a\.json") as caught:
        Folder(tmp_path).write_json("a.json", {}, durable=True)
    assert explained(caught.value).endswith("a.json'. Free the disk")


def test_a_link_that_takes_the_place_of_a_new_directory_is_not_followed(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    monkeypatch.setattr(os, "makedirs", lambda path, **_options: os.symlink(str(secret), path))
    with pytest.raises(OSError, match="new"):
        Folder(str(tmp_path / "new")).make()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


def test_an_existing_directory_keeps_its_mode(tmp_path):
    os.chmod(str(tmp_path), 0o700)
    with Folder(tmp_path).guarded():
        assert stat.S_IMODE(os.stat(str(tmp_path)).st_mode) == 0o700


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100000], ids=["cut", "bytes", "deep"])
def test_what_is_not_json_is_a_value_error(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 - what the reason is called differs
        Folder(tmp_path).read_json("a.json")


def test_files_of_another_machine_note_no_boot_of_this_one(tmp_path):
    class Elsewhere(Folder):
        is_here = False

    clock = Clock(lambda: 1.0, lambda: 2.0, boot_id=lambda: "boot")
    assert Folder(tmp_path).moment(clock) == (1.0, 2.0, "boot")
    assert Elsewhere(tmp_path).moment(clock) == (1.0, 2.0, "")


AGES = {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5, ".new": HALF_WRITTEN - 1, ".old": HALF_WRITTEN + 1, "x": 5000}


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"most": 9}, {"a", "b", "c", "d", "e", ".new"}),
        ({"most": 3}, {"c", "d", "e"}),
        ({"most": 0}, set()),
        ({"most": 1, "begins": "b"}, set(AGES)),
        ({"most": 1, "keep": ["a", "x", ".old"]}, {"a", "x", ".old", "e"}),
        ({"most": 3, "matters": lambda path: path[-1] in "ab"}, {"a", "b", "e"}),
        ({"most": 1, "matters": lambda path: path[-1] in "ab"}, {"b"}),
    ],
)
def test_old_files_go_and_the_oldest_of_too_many(tmp_path, options, left):
    for name, age in AGES.items():
        (tmp_path / name).write_bytes(b"")
        os.utime(str(tmp_path / name), (9000 - age, 9000 - age))
    trim(str(tmp_path), 9000.0, oldest=4000.0, **options)
    assert set(os.listdir(str(tmp_path))) == left


def test_a_directory_among_too_many_files_stays(tmp_path):
    (tmp_path / "directory").mkdir()
    trim(str(tmp_path), 9e9, oldest=1.0, most=0)
    assert os.listdir(str(tmp_path)) == ["directory"]
