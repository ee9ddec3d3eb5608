# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from plugins.plugin_utils._rendezvous import Rendezvous, Word

EVENT = {"event_id": "A1", "resources": ["VM1", "vm2"]}


@pytest.fixture
def meeting(tmp_path):
    return Rendezvous(tmp_path / "meeting", play_hosts=["h1", "h2", "h3"])


def tell(meeting, number, *, events=(EVENT,), api_version="2020-07-01", **outcomes):
    meeting.tell(
        Word(
            host=f"h{number}",
            vm_name=f"vm{number}",
            endpoint=f"http://127.0.0.{number}",
            api_version=api_version,
            events=events,
            outcomes=outcomes,
        )
    )


def claimed(meeting, host="h1"):
    return [claim["event_id"] for claim in meeting.claim(host)]


def reasons(meeting):
    return [held["reason"] for held in meeting.held(["A1"])]


def test_nobody_acknowledges_before_all_that_are_named_are_prepared(meeting):
    tell(meeting, 1)
    tell(meeting, 2)
    tell(meeting, 3)
    assert claimed(meeting) == []
    assert reasons(meeting) == ["no host has prepared"]
    tell(meeting, 1, A1="prepared")
    assert claimed(meeting) == []
    assert reasons(meeting) == ["vm2 has not prepared"]
    tell(meeting, 2, A1="prepared")
    assert claimed(meeting) == ["A1"]


def test_one_host_alone_acknowledges(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert [claimed(meeting, "h2"), claimed(meeting, "h1"), claimed(meeting, "h2")] == [["A1"], [], []]
    assert reasons(meeting) == []


def test_a_failed_host_holds_the_event(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="failed")
    assert claimed(meeting) == []
    assert reasons(meeting) == ["vm2 failed to prepare"]


def test_word_without_an_outcome_does_not_take_an_earlier_one_back(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    tell(meeting, 1)
    assert claimed(meeting) == ["A1"]


def test_a_vm_that_no_host_is_does_not_hold_the_event_once_all_hosts_have_told_their_names(meeting):
    stranger = {"event_id": "A1", "resources": ["vm1", "vm99"]}
    tell(meeting, 1, events=[stranger], A1="prepared")
    tell(meeting, 2, events=[stranger])
    assert claimed(meeting) == []
    assert reasons(meeting) == ["vm99 may be one of the hosts that have not answered: h3"]
    tell(meeting, 3, events=[])
    assert claimed(meeting, "h3") == ["A1"]


def test_a_silent_host_does_not_hold_an_event_whose_vms_are_all_known(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert claimed(meeting) == ["A1"]


def test_events_are_told_apart(meeting):
    both = [{"event_id": "A1", "resources": ["vm1"]}, {"event_id": "B2", "resources": ["vm2"]}]
    tell(meeting, 1, events=both, A1="prepared")
    tell(meeting, 2, events=both)
    assert claimed(meeting) == ["A1"]
    tell(meeting, 2, events=both, B2="prepared")
    assert claimed(meeting) == ["B2"]


def test_ids_compare_without_regard_to_case(meeting):
    tell(meeting, 1, events=[{"event_id": "ab", "resources": ["vm1"]}], AB="prepared")
    assert claimed(meeting) == ["ab"]


def test_the_leader_is_asked_first_then_the_host_itself_then_the_others_that_see_the_event(meeting):
    event = {"event_id": "A1", "resources": ["vm2", "vm1"]}
    for number in (1, 2, 3):
        tell(meeting, number, events=[event], **({"A1": "prepared"} if number < 3 else {}))
    [claim] = meeting.claim("h1")
    assert claim["senders"] == [
        {"host": "h2", "endpoint": "http://127.0.0.2"},
        {"host": "h1", "endpoint": "http://127.0.0.1"},
        {"host": "h3", "endpoint": "http://127.0.0.3"},
    ]


def test_a_host_that_does_not_see_the_event_does_not_acknowledge_it(meeting):
    event = {"event_id": "A1", "resources": ["vm1"]}
    tell(meeting, 1, events=[event], A1="prepared")
    tell(meeting, 2, events=[])
    [claim] = meeting.claim("h2")
    assert [sender["host"] for sender in claim["senders"]] == ["h1"]


def test_what_is_given_back_can_be_taken_over_again(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert claimed(meeting) == ["A1"]
    meeting.release(["a1"])
    assert reasons(meeting) == ["nobody could acknowledge it"]
    assert claimed(meeting, "h2") == ["A1"]


def test_names_of_the_preview_compare_without_their_underscore(meeting):
    event = {"event_id": "A1", "resources": ["_vm1"]}
    tell(meeting, 1, events=[event], api_version="2017-03-01", A1="prepared")
    assert claimed(meeting) == ["A1"]


@pytest.mark.parametrize("resources", [[], ["vm98", "vm99"]])
def test_an_event_that_names_no_host_of_the_play_is_left_alone(meeting, resources):
    for number in (1, 2, 3):
        tell(meeting, number, events=[{"event_id": "A1", "resources": resources}])
    assert claimed(meeting) == []
    assert reasons(meeting) == ["no host has prepared"]


@pytest.mark.parametrize("event_id", ["../../escape", "/etc/passwd", "a\x00b", "é", "x" * 5000])
def test_no_id_leads_out_of_the_directory(meeting, tmp_path, event_id):
    tell(meeting, 1, events=[{"event_id": event_id, "resources": ["vm1"]}], **{event_id: "prepared"})
    assert claimed(meeting) == [event_id]
    assert [path.name for path in tmp_path.iterdir()] == ["meeting"]
