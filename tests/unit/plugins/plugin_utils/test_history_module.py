# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What scheduled_events_history_info returns."""

import time
import types

import pytest

from plugins.module_utils._scheduled_events.history import Fact
from plugins.module_utils._scheduled_events.history_file import append
from plugins.modules import scheduled_events_history_info


def returned_of(directory, monkeypatch, facts, *directories):
    returned = {}
    append(str(directory), facts, now=time.time())
    params = {"directories": [str(each) for each in directories or (directory,)], "days": 1.0}
    module = types.SimpleNamespace(params=params, exit_json=returned.update)
    monkeypatch.setattr(scheduled_events_history_info, "CheckedModule", lambda _options: module)
    scheduled_events_history_info.main()
    return [(fact["kind"], fact.get("event_id") or fact.get("maintenance")) for fact in returned["facts"]]


def test_the_facts_of_one_directory_are_in_the_order_of_their_times_also_after_the_clock_was_set_back(
    tmp_path, monkeypatch
):
    facts = [Fact("seen", time.time() - age, "poller", event_id=f"{age} s ago") for age in (10, 30, 20)]
    returned = returned_of(tmp_path, monkeypatch, facts)
    assert [event_id for _kind, event_id in returned] == ["30 s ago", "20 s ago", "10 s ago"]


def test_an_event_that_began_before_the_days_is_returned_whole_and_one_that_ended_before_them_is_not(
    tmp_path, monkeypatch
):
    day = 86400
    of_subjects = {"E1": {"event_id": "E1"}, "M1": {"maintenance": "M1"}, None: {}}
    facts = [
        Fact(kind, time.time() - age * day, "poller", **of_subjects[subject])
        for kind, age, subject in [
            *[("seen", 9, "E1"), ("held", 8, None), ("phase_began", 5, "M1"), ("started", 0.5, "E1")],
            *[("phase_ended", 0.4, "M1"), ("held", 0.3, None)],
        ]
    ]
    facts.append(Fact("seen", time.time() - 9 * day, "poller", event_id="E2"))
    expected = [("seen", "E1"), ("phase_began", "M1"), ("started", "E1"), ("phase_ended", "M1"), ("held", None)]
    assert returned_of(tmp_path, monkeypatch, facts) == expected


def test_the_facts_of_a_directory_that_has_two_names_are_returned_once(tmp_path, monkeypatch):
    directory, link = tmp_path / "history", tmp_path / "link"
    directory.mkdir()
    link.symlink_to(directory)
    facts = [Fact("seen", time.time(), "poller", event_id="E1")]
    assert returned_of(directory, monkeypatch, facts, directory, link, directory) == [("seen", "E1")]


def test_a_directory_without_a_name_is_not_the_working_directory_whose_history_would_be_empty(monkeypatch):
    def fail(msg):
        raise ValueError(msg)

    module = types.SimpleNamespace(params={"directories": [""], "days": 1.0}, fail_json=fail)
    monkeypatch.setattr(scheduled_events_history_info, "CheckedModule", lambda _options: module)
    with pytest.raises(ValueError, match="there is no history on this host"):
        scheduled_events_history_info.main()
