# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drill shows on the terminal of the control node: the host can return anything."""

import pytest

from plugins.action import scheduled_events_drill as action

HOSTILE = "vm1\x1b]0;title\x07\x1b[2J\nweb2: passed"


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(action.display, "display", found.append)
    return found


def test_no_text_of_a_host_reaches_the_terminal_as_a_command_or_as_a_line_of_another_host(lines):
    plugin = object.__new__(action.ActionModule)
    plugin._name = "web1"
    plugin._say(HOSTILE)
    action._verdict_of({"web1": {"verdict": HOSTILE, "outcome": "failed"}}, check=False)
    assert lines == ["web1: vm1\ufffd]0;title\ufffd\ufffd[2J web2: passed"] * 2
