# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the look of a gate finds on a host."""

import types

import pytest

from plugins.module_utils._load_balancer.record import FILE
from plugins.module_utils._maintenance import Host
from plugins.module_utils._maintenance_calls import OPTIONS, survey
from plugins.module_utils._scheduled_events.files import Changed, Folder


def look(folder, *, flag=False):
    options = {name: option.get("default") for name, option in OPTIONS.items()}
    module = types.SimpleNamespace(params=options, check_mode=False)
    return survey(module, Host(folder), flag_is_up=lambda: flag, read=dict)


class Refusing(Folder):
    """Its files cannot be read."""

    error = PermissionError(13, "Permission denied")

    def read(self, name, largest=-1):  # noqa: ARG002 - as of Folder
        raise self.error if name == FILE else FileNotFoundError(name)


def test_a_host_without_a_record_is_not_drained(tmp_path):
    found = look(Folder(tmp_path))
    assert (found["drained"], found["drained_because"], found["returning"]) == (False, "", None)


def test_a_host_with_its_flag_is_drained(tmp_path):
    assert look(Folder(tmp_path), flag=True)["drained"]


@pytest.mark.parametrize("content", ["{", '{"holders": 1, "found": {}}'])
def test_a_host_with_a_broken_record_is_drained_and_the_file_is_named(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    found = look(Folder(tmp_path))
    assert (found["drained"], found["returning"]) == (True, None)
    assert found["drained_because"].startswith(f"{tmp_path / FILE} cannot be read (")


def test_a_host_whose_record_may_not_be_read_is_drained_and_the_file_is_named(tmp_path):
    found = look(Refusing(tmp_path))
    assert (found["drained"], found["returning"]) == (True, None)
    assert found["drained_because"] == (
        f"{tmp_path / FILE} cannot be read: [Errno 13] Permission denied. Become root, or give the file to this user"
    )


def test_a_record_that_another_run_changes_meanwhile_is_read_again_by_who_asked_for_the_look(tmp_path):
    folder = Refusing(tmp_path)
    folder.error = Changed("by another run")
    with pytest.raises(Changed):
        look(folder)
