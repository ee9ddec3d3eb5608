# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables that the role emulator no longer reads."""

import pytest

from playbooks import play

ROLE = "maintops.scheduled_events.emulator"


@pytest.fixture(scope="module")
def runs(ansible):
    """Entry point → the run with a variable that was removed; nothing follows the check."""
    return {
        entry_point: ansible.run_playbook(
            [play([{"ansible.builtin.include_role": {"name": ROLE, "tasks_from": entry_point}}])],
            extra_vars={"emulator_vms": [{"name": "vm1", "address": "127.0.10.1"}], "emulator_speed": 2},
        )
        for entry_point in ("preflight", "serve")
    }


@pytest.mark.parametrize("entry_point", ["preflight", "serve"])
def test_a_removed_variable_is_refused_with_what_to_use_in_its_place(runs, entry_point):
    [refused] = [each for each in runs[entry_point].tasks if each.failed]
    assert refused["msg"] == (
        "The role no longer reads emulator_command, emulator_config_dir and emulator_speed. Remove them. The command "
        "is /usr/local/bin/scheduled-events-emulator, and the fleet file is in /etc/scheduled-events-emulator. Instead "
        "of emulator_speed use emulator_extra_arguments with --speed=FACTOR"
    )
    assert runs[entry_point].tasks[-1] == refused
