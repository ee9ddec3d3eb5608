# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from plugins.plugin_utils._rendezvous import WAY_OUT, Rendezvous, Word

SIGHT = {"A1": ["vm1", "vm2"]}


@pytest.fixture
def meeting(tmp_path):
    return Rendezvous(tmp_path / "meeting", play_hosts=["h1", "h2", "h3"])


def tell(meeting, number, *, sight=None, busy=False, **outcomes):
    seen = SIGHT if sight is None else sight
    meeting.tell(Word(host=f"h{number}", vm_name=f"VM{number}", sight=seen, outcomes=outcomes, busy=busy))


def test_no_host_acknowledges_before_all_named_vms_are_prepared(meeting):
    tell(meeting, 1)
    tell(meeting, 2)
    tell(meeting, 3)
    assert not meeting.claim("A1")
    assert meeting.obstacle("A1") == "no host has prepared"
    tell(meeting, 1, A1="prepared")
    assert not meeting.claim("A1")
    assert meeting.obstacle("A1") == "vm2 has not prepared"
    tell(meeting, 2, A1="prepared")
    assert meeting.obstacle("A1") is None
    assert meeting.claim("A1")


def test_a_host_that_may_be_taken_for_prepared_completes_an_event_if_it_alone_is_missing(meeting):
    tell(meeting, 1)
    tell(meeting, 2)
    assert not meeting.claim("A1", assuming="h1")
    tell(meeting, 2, A1="prepared")
    assert not meeting.claim("A1")
    assert meeting.claim("A1", assuming="h1")


def test_one_host_alone_acknowledges(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert [meeting.claim("A1") for _host in range(3)] == [True, False, False]


def test_a_failed_host_holds_the_event(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="failed")
    assert not meeting.claim("A1")
    assert meeting.obstacle("A1") == "vm2 failed to prepare"


def test_an_outcome_that_no_longer_holds_is_taken_back(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    tell(meeting, 1)
    assert meeting.obstacle("A1") == "vm1 has not prepared"


def test_the_report_about_an_event_that_is_over_stays_known(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="failed")
    tell(meeting, 2, sight={})
    assert meeting.obstacle("A1") == "vm2 failed to prepare"


def test_a_vm_outside_the_play_holds_the_event_and_the_reason_names_the_way_out(meeting):
    sight = {"A1": ["vm1", "vm99"]}
    tell(meeting, 1, sight=sight, A1="prepared")
    tell(meeting, 2, sight=sight)
    assert meeting.obstacle("A1") == "vm99 may be one of the hosts that have not answered: h3"
    tell(meeting, 3, sight={})
    assert meeting.obstacle("A1") == f"vm99 is not a host of this play; {WAY_OUT}"
    assert not meeting.claim("A1")


def test_the_owner_may_speak_for_a_vm_outside_the_play_once_all_hosts_have_reported_their_names(tmp_path):
    meeting = Rendezvous(tmp_path, play_hosts=["h1", "h2"], speak_for_others=True)
    tell(meeting, 1, sight={"A1": ["vm1", "vm99"]}, A1="prepared")
    assert not meeting.claim("A1")
    tell(meeting, 2, sight={})
    assert meeting.claim("A1")


def test_a_silent_host_does_not_hold_an_event_whose_vms_are_all_known(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert meeting.claim("A1")


def test_events_are_distinguished(meeting):
    both = {"A1": ["vm1"], "B2": ["vm2"]}
    tell(meeting, 1, sight=both, A1="prepared")
    tell(meeting, 2, sight=both)
    assert [meeting.claim("A1"), meeting.claim("B2")] == [True, False]
    tell(meeting, 2, sight=both, B2="prepared")
    assert meeting.claim("B2")


def test_ids_and_names_compare_without_regard_to_case(meeting):
    tell(meeting, 1, sight={"ab": ["Vm1"]}, AB="prepared")
    assert meeting.claim("Ab")


def test_what_is_given_back_can_be_taken_over_again(meeting):
    tell(meeting, 1, sight={"A1": ["vm1"]}, A1="prepared")
    assert meeting.status("A1") == "free"
    assert meeting.claim("A1")
    assert meeting.status("a1") == "claimed"
    meeting.release("a1")
    assert meeting.claim("A1")
    meeting.accept("A1")
    assert meeting.status("A1") == "accepted"
    assert not meeting.claim("A1")


@pytest.mark.parametrize("names", [[], ["vm98", "vm99"]])
def test_an_event_that_names_no_host_of_the_play_is_left_alone(meeting, names):
    for number in (1, 2, 3):
        tell(meeting, number, sight={"A1": names})
    assert not meeting.claim("A1")
    assert meeting.obstacle("A1") == "no host has prepared"


def test_the_second_host_that_is_the_same_vm_learns_who_the_first_one_is(meeting):
    assert meeting.twin("h1", "vm1") is None
    assert meeting.twin("h2", "VM1") == "h1"
    assert meeting.twin("h1", "vm1") is None


def test_hosts_that_are_busy_or_silent_need_a_turn(meeting):
    tell(meeting, 1, busy=True)
    tell(meeting, 2)
    assert meeting.others_need_a_turn("h1")  # h3 has not reported anything
    tell(meeting, 3)
    assert not meeting.others_need_a_turn("h1")
    assert meeting.others_need_a_turn("h2")


@pytest.mark.parametrize("event_id", ["../../escape", "/etc/passwd", "a\x00b", "é", "x" * 5000])
def test_no_id_leads_out_of_the_directory(meeting, tmp_path, event_id):
    tell(meeting, 1, sight={event_id: ["vm1"]}, **{event_id: "prepared"})
    assert meeting.claim(event_id)
    assert [path.name for path in tmp_path.iterdir()] == ["meeting"]
