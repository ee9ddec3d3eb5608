# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from responders import Hosts


@pytest.fixture(scope="module")
def hosts_of(fleet, ansible, tmp_path_factory):
    def start(*names, options=("--speed", "60", "--rate-limit", "0")):
        return Hosts(fleet(*names, options=options), ansible, tmp_path_factory.mktemp("vms"))

    return start
