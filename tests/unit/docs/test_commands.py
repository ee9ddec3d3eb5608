# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands in the pages name programs, playbooks, options and units that this collection has."""

import pytest
from code_blocks import commands
from page_commands import CHECKS, program


def own_commands():
    """The commands that can be checked, each once."""
    found = {" ".join(command): (page, command) for page, command in commands() if command}
    return {name: command for name, (_page, command) in found.items() if program(command) in CHECKS}


@pytest.mark.parametrize("command", own_commands().values(), ids=own_commands())
def test_a_command_of_a_page_is_one_of_this_collection(command):
    CHECKS[program(command)](command[1:])


@pytest.mark.parametrize(
    "command",
    [
        ["scheduled-events", "aprove", "ID"],
        ["scheduled-events-emulator", "schedule", "Reboot", "web1", "--notce", "900"],
        ["ansible-playbook", "maintops.scheduled_events.nothing"],
        ["ansible-rulebook", "--rulebook", "maintops.scheduled_events.nothing"],
        ["ansible-doc", "maintops.scheduled_events.nothing"],
        ["ansible-playbook", "a.yml", "-e", "poller_nothing=1"],
        ["journalctl", "-u", "scheduled-events-nothing"],
        ["make", "nothing"],
    ],
    ids=" ".join,
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises((AssertionError, SystemExit)):
        CHECKS[program(command)](command[1:])
