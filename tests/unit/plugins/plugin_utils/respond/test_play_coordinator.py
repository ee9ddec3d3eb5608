# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import os
import pathlib

import pytest

from plugins.plugin_utils._respond.play_coordinator import (
    WAY_OUT,
    ClaimStatus,
    HostReport,
    Outcome,
    PlayCoordinator,
    SeenEvent,
)

SIGHT = {"A1": ["vm1", "vm2"]}
HOSTS = ["h1", "h2", "h3"]


@pytest.fixture
def meeting(tmp_path):
    return PlayCoordinator(tmp_path / "meeting", play_hosts=HOSTS)


BOTH = SeenEvent("Reboot", ["vm1", "vm2"])


def tell(meeting, number, *, sight=None, busy=False, event_type="Reboot", **outcomes):
    names = SIGHT if sight is None else sight
    seen = {event_id: SeenEvent(event_type, each) for event_id, each in names.items()}
    told = {event_id: Outcome(kind, event_type) for event_id, kind in outcomes.items()}
    meeting.publish(HostReport(host=f"h{number}", vm_name=f"VM{number}", sight=seen, outcomes=told, busy=busy))


def test_no_host_acknowledges_before_all_named_vms_are_prepared(meeting):
    tell(meeting, 1)
    tell(meeting, 2)
    tell(meeting, 3)
    assert not meeting.claim("A1", BOTH)
    assert meeting.obstacle("A1", BOTH) == "no host has prepared"
    tell(meeting, 1, A1="prepared")
    assert not meeting.claim("A1", BOTH)
    assert meeting.obstacle("A1", BOTH) == "vm2 has not prepared"
    tell(meeting, 2, A1="prepared")
    assert meeting.obstacle("A1", BOTH) is None
    assert meeting.claim("A1", BOTH)


def test_a_host_that_may_be_taken_for_prepared_completes_an_event_if_it_alone_is_missing(meeting):
    tell(meeting, 1)
    tell(meeting, 2)
    assert not meeting.claim("A1", BOTH, assuming="h1")
    tell(meeting, 2, A1="prepared")
    assert not meeting.claim("A1", BOTH)
    assert meeting.claim("A1", BOTH, assuming="h1")


def test_a_host_that_the_event_does_not_name_is_not_the_obstacle(meeting):
    tell(meeting, 1)
    tell(meeting, 3, A1="failed")
    assert meeting.obstacle("A1", BOTH) == "no host has prepared"


def test_one_host_alone_acknowledges(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert [meeting.claim("A1", BOTH) for _host in range(3)] == [True, False, False]


def test_a_host_that_saw_the_event_go_is_not_prepared_when_the_event_comes_back_under_its_id(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 1, sight={})  # gone, so this host recovers; another one still runs its tasks and has not looked
    tell(meeting, 2, A1="prepared")
    assert not meeting.claim("A1", BOTH)
    tell(meeting, 1, A1="prepared")
    tell(meeting, 3, sight={})  # not a VM of the event
    assert meeting.claim("A1", BOTH)


def test_a_host_that_recovers_from_what_an_earlier_run_prepared_is_not_prepared_when_the_event_comes_back(meeting):
    outcomes = {"A1": Outcome("prepared", "Reboot")}
    meeting.publish(HostReport(host="h2", vm_name="vm2", sight={}, outcomes=outcomes, recovers=True))
    tell(meeting, 1, A1="prepared")
    assert not meeting.claim("A1", BOTH)
    tell(meeting, 2, A1="prepared")
    assert meeting.claim("A1", BOTH)


def test_a_host_that_the_event_does_not_name_has_undone_nothing_when_it_saw_the_event_go(meeting):
    for each in (1, 2):
        tell(meeting, each, A1="prepared")
    tell(meeting, 3)
    tell(meeting, 3, sight={})
    assert meeting.claim("A1", BOTH)


def test_a_host_that_saw_the_event_go_has_not_looked_again_while_its_service_gives_no_document(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 1, sight={})
    meeting.publish(HostReport(host="h1", vm_name="vm1"))
    tell(meeting, 2, A1="prepared")
    tell(meeting, 3, sight={})
    assert not meeting.claim("A1", BOTH)


@pytest.mark.parametrize(
    "sight", [{"A1": SeenEvent("Reboot", ["vm2"])}, {"A1": BOTH}, None], ids=["left", "back", "unread"]
)
def test_a_host_that_is_put_back_is_not_prepared_until_it_looks_again(meeting, sight):
    tell(meeting, 1, A1="prepared")
    outcomes = {"A1": Outcome("prepared", "Reboot")}
    meeting.publish(HostReport(host="h1", vm_name="vm1", sight=sight, outcomes=outcomes, recovers=True))
    tell(meeting, 2, A1="prepared")
    tell(meeting, 3, sight={})
    assert not meeting.claim("A1", BOTH)
    tell(meeting, 1, A1="prepared")
    assert meeting.claim("A1", BOTH)


def test_a_host_that_is_put_back_while_another_one_takes_its_event_over_keeps_it_unacknowledged(meeting, monkeypatch):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    tell(meeting, 3, sight={})
    mkdir = pathlib.Path.mkdir

    def put_back_before(path, *arguments, **keywords):
        if "claims" in path.parts:
            meeting.publish(HostReport(host="h1", vm_name="vm1", sight={"A1": BOTH}, recovers=True))
        mkdir(path, *arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "mkdir", put_back_before)
        assert not meeting.claim("A1", BOTH)
    assert meeting.status("A1") is ClaimStatus.FREE
    tell(meeting, 1, A1="prepared")
    assert meeting.claim("A1", BOTH)


def test_of_two_hosts_that_find_an_event_free_at_the_same_moment_one_acknowledges(meeting, monkeypatch):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert meeting.claim("A1", BOTH)
    monkeypatch.setattr(meeting, "status", lambda _event_id: ClaimStatus.FREE)  # as it was when this host looked
    assert not meeting.claim("A1", BOTH)


def test_a_host_that_could_not_read_a_document_stays_prepared(meeting):
    tell(meeting, 1, A1="prepared")
    meeting.publish(HostReport(host="h1", vm_name="vm1", sight=None))
    tell(meeting, 2, A1="prepared")
    tell(meeting, 3)
    assert meeting.claim("A1", BOTH)


def test_a_failed_host_holds_the_event(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="failed")
    assert not meeting.claim("A1", BOTH)
    assert meeting.obstacle("A1", BOTH) == "vm2 failed to prepare"


def test_an_outcome_that_no_longer_holds_is_taken_back(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    tell(meeting, 1)
    assert meeting.obstacle("A1", BOTH) == "vm1 has not prepared"


def test_the_report_about_an_event_that_is_over_stays_known(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="failed")
    tell(meeting, 2, sight={})
    assert meeting.obstacle("A1", BOTH) == "vm2 failed to prepare"


def test_a_vm_outside_the_play_holds_the_event_and_the_reason_names_the_way_out(meeting):
    sight, seen = {"A1": ["vm1", "vm99"]}, SeenEvent("Reboot", ["vm1", "vm99"])
    tell(meeting, 1, sight=sight, A1="prepared")
    tell(meeting, 2, sight=sight)
    assert meeting.obstacle("A1", seen) == "vm99 may be one of the hosts that have not answered: h3"
    tell(meeting, 3, sight={})
    assert meeting.obstacle("A1", seen) == f"vm99 is not a host of this play; {WAY_OUT}"
    assert not meeting.claim("A1", seen)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("unconfigured", "nothing is configured that prepares vm2 for it"),
        ("held", "the action of a rule is hold for vm2"),
        ("failed", "vm2 failed to prepare"),
    ],
)
def test_a_host_that_is_not_prepared_holds_the_event_and_says_why(meeting, kind, reason):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1=kind)
    assert not meeting.claim("A1", BOTH)
    assert meeting.obstacle("A1", BOTH) == reason


def test_the_owner_may_speak_for_single_vms_outside_the_play_and_for_no_host_of_it(tmp_path):
    three, seen = ["vm1", "vm98", "vm99"], SeenEvent("Reboot", ["vm1", "vm98", "vm99"])
    meeting = PlayCoordinator(tmp_path, play_hosts=["h1", "h2"], speak_for=["VM99", "vm1"])
    tell(meeting, 1, sight={"A1": three})
    tell(meeting, 2, sight={})
    assert meeting.obstacle("A1", seen) == "no host has prepared"
    tell(meeting, 1, sight={"A1": three}, A1="prepared")
    assert meeting.obstacle("A1", seen) == f"vm98 is not a host of this play; {WAY_OUT}"
    assert meeting.obstacle("A1", SeenEvent("Reboot", ["vm1", "vm99"])) == f"vm98 is not a host of this play; {WAY_OUT}"
    tell(meeting, 1, sight={"A1": ["vm1", "vm99"]}, A1="prepared")
    assert meeting.claim("A1", SeenEvent("Reboot", ["vm1", "vm99"]))


def test_the_owner_may_speak_for_all_vms_outside_the_play_once_all_hosts_have_reported_their_names(tmp_path):
    seen = SeenEvent("Reboot", ["vm1", "vm99"])
    meeting = PlayCoordinator(tmp_path, play_hosts=["h1", "h2"], speak_for=None)
    tell(meeting, 1, sight={"A1": ["vm1", "vm99"]}, A1="prepared")
    assert not meeting.claim("A1", seen)
    tell(meeting, 2, sight={})
    assert meeting.claim("A1", seen)


def test_a_silent_host_does_not_hold_an_event_whose_vms_are_all_known(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    assert meeting.claim("A1", BOTH)


def test_a_vm_that_joined_the_event_holds_it_until_it_is_prepared(meeting):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2, A1="prepared")
    tell(meeting, 3, sight={"A1": ["vm1", "vm2", "vm3"]})
    assert meeting.obstacle("A1", BOTH) == "vm3 has not prepared"
    tell(meeting, 3, sight={"A1": ["vm1", "vm2", "vm3"]}, A1="prepared")
    assert meeting.claim("A1", BOTH)


def test_the_sight_of_a_host_that_the_event_does_not_name_does_not_count(meeting):
    tell(meeting, 3, sight={"A1": ["vm1", "vm2"]})  # it does not follow the event, and may have ended since
    tell(meeting, 1, sight={"A1": ["vm1"]}, A1="prepared")
    assert meeting.claim("A1", SeenEvent("Reboot", ["vm1"]))


def test_a_preparation_counts_for_the_type_that_it_was_for(meeting):
    tell(meeting, 1, event_type="Freeze", A1="prepared")
    tell(meeting, 2, event_type="Freeze", A1="prepared")
    redeploy = SeenEvent("Redeploy", ["vm1", "vm2"])
    assert meeting.obstacle("A1", redeploy) == "vm1 has prepared for a Freeze, and the event is a Redeploy now"
    tell(meeting, 1, event_type="Redeploy", A1="prepared")
    assert meeting.obstacle("A1", redeploy) == "vm2 has prepared for a Freeze, and the event is a Redeploy now"
    assert not meeting.claim("A1", redeploy)
    assert not meeting.claim("A1", redeploy, assuming="h1")
    assert meeting.claim("A1", redeploy, assuming="h2")


def test_events_are_distinguished(meeting):
    both, of_vm2 = {"A1": ["vm1"], "B2": ["vm2"]}, SeenEvent("Reboot", ["vm2"])
    tell(meeting, 1, sight=both, A1="prepared")
    tell(meeting, 2, sight=both)
    assert [meeting.claim("A1", SeenEvent("Reboot", ["vm1"])), meeting.claim("B2", of_vm2)] == [True, False]
    tell(meeting, 2, sight=both, B2="prepared")
    assert meeting.claim("B2", of_vm2)


def test_ids_and_names_compare_without_regard_to_case(meeting):
    tell(meeting, 1, sight={"ab": ["vm1"]}, AB="prepared")
    assert meeting.claim("Ab", SeenEvent("Reboot", ["vm1"]))


def test_what_is_given_back_can_be_taken_over_again(meeting):
    seen = SeenEvent("Reboot", ["vm1"])
    tell(meeting, 1, sight={"A1": ["vm1"]}, A1="prepared")
    assert meeting.status("A1") is ClaimStatus.FREE
    assert meeting.claim("A1", seen)
    assert meeting.status("a1") is ClaimStatus.CLAIMED
    meeting.release("a1")
    assert meeting.claim("A1", seen)
    meeting.accept("A1")
    assert meeting.status("A1") is ClaimStatus.ACCEPTED
    assert not meeting.claim("A1", seen)


@pytest.mark.parametrize("names", [[], ["vm98", "vm99"]])
def test_an_event_that_names_no_host_of_the_play_is_left_alone(meeting, names):
    for number in (1, 2, 3):
        tell(meeting, number, sight={"A1": names})
    seen = SeenEvent("Reboot", names)
    assert not meeting.claim("A1", seen)
    assert meeting.obstacle("A1", seen) == "no host has prepared"


def test_the_second_host_that_is_the_same_vm_learns_who_the_first_one_is(meeting, tmp_path):
    assert meeting.twin("h1", "vm1") is None
    (path,) = (tmp_path / "meeting" / "names").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert meeting.twin("h2", "VM1") == "h1"
    assert meeting.twin("h1", "vm1") is None


def test_hosts_that_are_busy_have_work_and_silent_ones_have_none(meeting):
    tell(meeting, 1, busy=True)
    tell(meeting, 2)
    assert not meeting.others_have_work("h1", HOSTS)  # h3 has not reported anything
    assert meeting.others_have_work("h2", HOSTS)
    meeting.end_tasks("h1")
    assert not meeting.others_have_work("h2", HOSTS)


def test_a_host_that_left_the_play_or_ended_has_no_work_and_no_preparation_before_it(meeting):
    for number in (1, 2, 3):
        meeting.twin(f"h{number}", f"vm{number}")
        tell(meeting, number, busy=number == 2)
    meeting.tell("h1", {"A1": BOTH}, last="prepared")
    assert meeting.others_have_work("h1", HOSTS)
    assert meeting.is_ahead_of_others("A1", BOTH, HOSTS)
    assert not meeting.others_have_work("h1", ["h1", "h3"])
    assert not meeting.is_ahead_of_others("A1", BOTH, ["h1", "h3"])
    meeting.end("h2")
    assert not meeting.others_have_work("h1", HOSTS)
    assert not meeting.is_ahead_of_others("A1", BOTH, HOSTS)


def test_a_host_for_which_another_process_reports_an_outcome_alone_has_no_work(meeting):
    for number in (1, 2, 3):
        meeting.publish(HostReport(host=f"h{number}", vm_name=f"vm{number}", outcomes={}))
    assert not meeting.others_have_work("h1", HOSTS)


def test_a_host_that_ends_is_not_busy_any_more(meeting):
    for number in (1, 2, 3):
        tell(meeting, number, busy=number == 2)
    meeting.end("h2")
    assert not meeting.others_have_work("h1", HOSTS)


def test_a_host_that_reports_again_after_its_end_responds_again(meeting):
    tell(meeting, 1)
    meeting.end("h1")
    assert not meeting.others_respond("h2", ["h1", "h2"], silent=False)
    tell(meeting, 1)
    assert meeting.others_respond("h2", ["h1", "h2"], silent=False)


def test_a_host_that_ended_is_called_when_an_event_grows_to_its_vm(meeting):
    meeting.twin("h2", "vm2")
    tell(meeting, 2, sight={})
    meeting.end("h2")
    assert not meeting.calls(HOSTS)
    tell(meeting, 1)
    assert meeting.is_called("VM2")
    assert not meeting.is_called("vm1")
    assert meeting.calls(HOSTS)
    assert not meeting.calls(["h1", "h3"])  # where h2 has left the play
    tell(meeting, 2)
    assert not meeting.is_called("vm2")


def test_a_host_that_has_not_ended_is_not_called(meeting):
    tell(meeting, 2, sight={})
    tell(meeting, 1)
    assert not meeting.calls(HOSTS)


def test_others_respond_until_they_have_ended_and_a_silent_one_where_that_counts(meeting):
    hosts = ["h1", "h2", "h3"]
    tell(meeting, 1)
    assert not meeting.others_respond("h1", hosts, silent=False)
    assert meeting.others_respond("h1", hosts, silent=True)
    tell(meeting, 2)
    assert meeting.others_respond("h1", hosts, silent=False)
    assert not meeting.others_respond("h1", ["h1"], silent=True)
    meeting.end("h2")
    assert not meeting.others_respond("h1", hosts, silent=False)
    meeting.end("h3")
    assert not meeting.others_respond("h1", hosts, silent=True)


def test_a_report_that_a_host_has_not_written_completely_does_not_count(meeting, monkeypatch):
    tell(meeting, 1, A1="prepared")
    tell(meeting, 2)
    replace, found = os.replace, []

    def looked_at_before(temporary, path):
        found.append(meeting.obstacle("A1", BOTH))
        replace(temporary, path)

    monkeypatch.setattr(os, "replace", looked_at_before)
    tell(meeting, 2, A1="prepared")
    assert found == ["vm2 has not prepared"]
    assert meeting.obstacle("A1", BOTH) is None


@pytest.mark.parametrize("event_id", ["../../escape", "/etc/passwd", "a\x00b", "é", "x" * 5000])
def test_no_id_leads_out_of_the_directory(meeting, tmp_path, event_id):
    tell(meeting, 1, sight={event_id: ["vm1"]}, **{event_id: "prepared"})
    assert meeting.claim(event_id, SeenEvent("Reboot", ["vm1"]))
    assert [path.name for path in tmp_path.iterdir()] == ["meeting"]
