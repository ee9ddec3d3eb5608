# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of Windows: a connection whose shell claims to be PowerShell, and a win_uri in Python."""

import os
import pathlib

CONNECTION = "windows_stand_in"
COLLECTION = pathlib.Path(__file__).parent / "windows_stand_in"


def windows(log: pathlib.Path) -> dict[str, str]:
    """The environment in which the stand-in of ansible.windows is found, and no other one.

    :param log: the file for the arguments of each run of win_uri.
    """
    return {
        **without_windows(),
        "ANSIBLE_COLLECTIONS_PATH": f"{COLLECTION}:{os.environ['ANSIBLE_COLLECTIONS_PATH']}",
        "STAND_IN_LOG": str(log),
    }


def without_windows() -> dict[str, str]:
    """The environment in which no ansible.windows is found, not even that of the package ansible."""
    return {"ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
