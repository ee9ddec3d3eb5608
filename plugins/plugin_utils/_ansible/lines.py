# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines that people see while a task runs. A host can return anything in them. Private to the collection."""

from __future__ import annotations

from ansible import constants
from ansible.utils.display import Display

from ...module_utils._scheduled_events.text import clean

LONGEST = 65536  # characters

_display = Display()


def show(line: str) -> None:
    """Show a line. It stays one, and no text in it is a command for the terminal."""
    _display.display(clean(line, LONGEST))


def warn(text: str) -> None:
    """Show a warning now. Ansible would keep its own kind until the task ends, which may wait for an hour."""
    _display.display(f"[WARNING]: {clean(text, LONGEST)}", color=constants.COLOR_WARN, stderr=True)
