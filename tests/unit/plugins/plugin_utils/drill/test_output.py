# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drill shows on the terminal of the control node: the host can return anything."""

import shlex

import pytest

from plugins.action import scheduled_events_drill as action


@pytest.mark.parametrize(("name", "shown"), [("web_1", "web"), ("a;reboot_1", "'a;reboot'"), ("$(id)_1", "'$(id)'")])
def test_the_name_of_a_host_is_a_word_of_the_commands_that_people_copy(name, shown):
    (line,) = action.ActionModule._az_commands({"event_type": "Reboot", "vm_name": name})
    vm, scale_set = line.partition(": ")[2].split(" or ")
    assert vm == f"az vm restart --resource-group GROUP --name {shlex.quote(name)}"
    assert scale_set == f"az vmss restart --resource-group GROUP --name {shown} --instance-ids 1"
