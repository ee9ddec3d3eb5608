# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard reaches the modules that ansible runs."""

import subprocess


def test_a_module_with_the_default_endpoint_is_stopped_by_the_guard_not_by_the_network():
    run = subprocess.run(
        ["ansible", "localhost", "-m", "maintops.scheduled_events.scheduled_events_info", "-a", "retry_for=1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2
    assert "refused to contact a real metadata service at 169.254.169.254" in run.stdout
