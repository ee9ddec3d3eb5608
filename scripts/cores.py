# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The releases of ansible-core that the collection is tested with, oldest first, and the Pythons that each runs on."""

from __future__ import annotations

CORES = {
    "2.16": ("3.10", "3.11", "3.12"),
    "2.17": ("3.10", "3.11", "3.12"),
    "2.18": ("3.11", "3.12", "3.13"),
    "2.19": ("3.11", "3.12", "3.13"),
    "2.20": ("3.12", "3.13", "3.14"),
    "2.21": ("3.12", "3.13", "3.14"),
}
OLDEST, *BETWEEN, NEWEST = CORES


def python_for(core: str, found: dict[str, str]) -> str:
    """The newest Python for this ansible-core that was found; without one, the newest that it runs on."""
    supported = CORES[core]
    return next((version for version in reversed(supported) if found.get(version)), supported[-1])
