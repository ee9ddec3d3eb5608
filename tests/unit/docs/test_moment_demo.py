# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo of a notice of three days: announced on Monday at noon, maintained on Monday night."""

from demo.moment import three_days
from plugins.module_utils._scheduled_events.history import format_moment
from plugins.plugin_utils._report.story import tell


def test_an_event_with_a_notice_of_three_days_is_maintained_on_the_first_night():
    [event] = tell({"web1": three_days()}, {}).events
    [lane] = event.lanes
    times = (lane.waits, lane.stretches[0].begin, lane.acknowledged, lane.over, lane.returned)
    assert [format_moment(each)[5:16] for each in times] == [
        "11-23T12:00",
        "11-23T22:00",
        "11-23T22:02",
        "11-23T22:11",
        "11-23T22:12",
    ]
    assert lane.problem == ""
