# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.backoff import pause_after


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0.5), (1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (5, 5.0), (10**9, 5.0)]
)
def test_a_pause_doubles_with_each_failure_up_to_the_longest(failures, pause):
    assert pause_after(failures, first=0.5, longest=5.0) == pause


def test_the_longest_pause_counts_from_the_first_failure():
    assert pause_after(0, first=8.0, longest=5.0) == 5.0
