# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What scheduled_events_history_info returns."""

import time
import types

from plugins.module_utils._scheduled_events.history import Fact
from plugins.module_utils._scheduled_events.history_file import History
from plugins.modules import scheduled_events_history_info


def test_the_facts_of_one_directory_are_in_the_order_of_their_times_also_after_the_clock_was_set_back(
    tmp_path, monkeypatch
):
    now, returned = time.time(), {}
    facts = [Fact("seen", now - age, "poller", event_id=f"{age} s ago") for age in (10, 30, 20)]
    History(str(tmp_path)).append(facts, now=now)
    params = {"directories": [str(tmp_path)], "days": 1.0}
    module = types.SimpleNamespace(params=params, exit_json=returned.update)
    monkeypatch.setattr(scheduled_events_history_info, "CheckedModule", lambda **_how: module)
    scheduled_events_history_info.main()
    assert [fact["event_id"] for fact in returned["facts"]] == ["30 s ago", "20 s ago", "10 s ago"]
