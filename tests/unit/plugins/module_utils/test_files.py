# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files are there as a whole or not at all, and no attempt leaves anything beside them."""

import os
import stat

import pytest
from _scheduled_events.files import write_atomically, write_once

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
