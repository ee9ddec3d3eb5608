# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that are all on this machine and share an availability set, and the role rolling_maintenance for them."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fleet_hosts import Hosts


@pytest.fixture
def hosts_of(fleet, ansible, tmp_path):
    """Return a function that starts an emulator of these VMs: ``hosts_of("web1", "web2")``."""

    def start(*names, options=("--rate-limit", "0")):
        return Hosts(fleet(*names, options=options), ansible, tmp_path)

    return start
