# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What plugins show on the terminal of the control node: a host can return anything."""

import pathlib

import pytest

from plugins.plugin_utils._ansible import lines

PLUGINS = pathlib.Path(__file__).parents[5] / "plugins"
HOSTILE = "vm1\x1b]0;title\x07\x1b[2J\nPLAY RECAP\u202e"


@pytest.mark.parametrize(("show", "before"), [(lines.show, ""), (lines.warn, "[WARNING]: ")])
def test_no_text_of_a_host_is_a_command_of_the_terminal_or_another_line(monkeypatch, show, before):
    shown = []
    monkeypatch.setattr(lines._display, "display", lambda text, **_style: shown.append(text))
    show(HOSTILE)
    assert shown == [f"{before}vm1\ufffd]0;title\ufffd\ufffd[2J PLAY RECAP\ufffd"]


def test_no_plugin_shows_a_line_in_another_way():
    uses = [path.name for path in PLUGINS.rglob("*.py") if "Display" in path.read_text()]
    assert uses == ["lines.py"]
