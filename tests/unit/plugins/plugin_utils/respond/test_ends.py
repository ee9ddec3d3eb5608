# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from plugins.plugin_utils._respond.ends import (
    BEGUN,
    UNFINISHED,
    Ends,
    ends_of_all_plays,
    merge,
    of_events,
    of_maintenance,
    of_respond,
    of_unfinished,
    summary,
)

IDLE = {
    "vm_name": "vm9",
    **{name: [] for name in ("named", "prepared", "acknowledged", "held", "recovered", "failures", "story", "history")},
}
EVENT = {
    "event_id": "A1",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "not_before": "2026-11-22T10:00:00Z",
    "resources": ["vm1", "vm2"],
    "affects_this_vm": True,
}


def told(text, at="2026-11-22T09:00:00Z"):
    return {"event_id": "A1", "event_type": "Reboot", "text": text, "at": at}


def fact(kind, time="2026-11-22T09:00:00.000Z"):
    return {"version": 1, "kind": kind, "time": time, "source": "respond", "event_id": "A1"}


def responded(**more):
    return {**IDLE, **more}


def test_who_acknowledged_an_event_and_when_is_in_the_artifacts_of_that_host_alone():
    story = [told("prepared"), told("acknowledged 60 s before NotBefore"), told("recovered")]
    history = [fact("seen"), fact("acknowledged", time="2026-11-22T09:59:00.250Z")]
    run = {"prepared": ["A1"], "acknowledged": ["A1"], "recovered": ["A1"], "story": story, "history": history}
    first = of_respond("web1", responded(**run))
    second = of_respond("web2", responded(prepared=["A1"], recovered=["A1"], story=[told("prepared")]))
    assert merge([first, second])["events"]["A1"] == {
        "event_type": "Reboot",
        "acknowledged_by": "web1",
        "acknowledged_at": "2026-11-22T09:59:00Z",
        "hosts": {"web1": "prepared, acknowledged 60 s before NotBefore, recovered", "web2": "prepared"},
    }


def test_an_event_that_an_earlier_run_acknowledged_is_not_claimed_for_this_one():
    part = of_respond("web1", responded(prepared=["A1"], recovered=["A1"], story=[told("recovered")]))
    assert "acknowledged_by" not in part["events"]["A1"]


def test_a_run_in_check_mode_does_not_claim_an_acknowledgement():
    story = [told("prepared"), told("would be acknowledged 60 s before NotBefore")]
    part = of_respond("web1", responded(prepared=["A1"], acknowledged=["A1"], story=story))
    assert "acknowledged_by" not in part["events"]["A1"]
    assert summary({"web1": part}, hosts=1)[1] == "  Reboot A1: not acknowledged by this job"


@pytest.mark.parametrize(("history", "claimed"), [([], False), ([fact("acknowledged")], True)])
def test_the_facts_decide_who_acknowledged_and_not_the_words_of_the_steps(history, claimed):
    for text in ("acknowledged", "would be acknowledged", "prepared"):
        part = of_respond("web1", responded(acknowledged=["A1"], story=[told(text)], history=history))
        assert ("acknowledged_by" in part["events"]["A1"]) == claimed


def test_a_held_event_names_the_reason():
    held = [{"event_id": "A1", "reason": "vm2 has not prepared"}]
    part = of_respond("web1", responded(held=held, story=[told("prepared")]))
    assert part["events"]["A1"]["hosts"] == {"web1": "prepared, held: vm2 has not prepared"}


def test_an_event_that_needed_nothing_says_so():
    assert of_respond("web1", responded(prepared=["A1"]))["events"]["A1"]["hosts"] == {"web1": "nothing to do"}


def test_a_host_that_had_nothing_to_do_for_an_event_does_not_hide_the_type_that_another_one_knows():
    parts = {
        "web1": of_respond("web1", responded(prepared=["A1"], story=[told("over")])),
        "web2": of_respond("web2", responded(prepared=["A1"])),
    }
    assert summary(parts, hosts=2)[1] == "  Reboot A1: not acknowledged by this job"
    assert summary({"web2": parts["web2"]}, hosts=1)[1] == "  event A1: not acknowledged by this job"


def test_a_host_without_an_event_leaves_no_artifact():
    assert not any(of_respond("web9", IDLE).values())


@pytest.mark.parametrize("part_of", [of_respond, of_events, of_maintenance])
def test_a_host_that_ended_without_a_result_is_a_failure(part_of):
    assert list(part_of("web1", {})["failures"]) == ["web1"]


def test_a_module_that_could_not_begin_is_shown_with_what_the_host_said():
    failure = {"msg": "MODULE FAILURE", "module_stdout": "", "module_stderr": "sudo: not found\n"}  # before 2.19
    assert of_events("web1", failure)["failures"] == {"web1": ["MODULE FAILURE (sudo: not found)"]}
    assert of_events("web1", {})["failures"] == {"web1": ["its events could not be read"]}


def test_the_summary_of_events_shows_which_hosts_are_named():
    parts = {
        "web1": of_events("web1", {"events": [EVENT]}),
        "web3": of_events("web3", {"events": [{**EVENT, "affects_this_vm": False}]}),
    }
    assert summary(parts, hosts=2) == [
        "Summary of 2 hosts:",
        "  Reboot A1: Scheduled, NotBefore 2026-11-22T10:00:00Z, from Platform, for vm1, vm2",
        "    web1: named",
        "    web3: sees it",
    ]


def test_events_without_an_id_do_not_hide_one_another():
    freeze = {**EVENT, "event_id": None, "event_type": "Freeze"}
    reboot = {**EVENT, "event_id": None}
    parts = {
        "web1": of_events("web1", {"events": [reboot, freeze]}),
        "web2": of_events("web2", {"events": [freeze, reboot]}),
    }
    lines = summary(parts, hosts=2)
    assert sorted(line.split()[0] for line in lines if "without EventId" in line) == ["Freeze", "Reboot"]
    assert len([line for line in lines if line.endswith(": named")]) == 4
    assert not [event_id for part in parts.values() for event_id in part["events"] if not isinstance(event_id, str)]


def test_the_summary_counts_hosts_without_an_event_and_without_a_result():
    parts = {"web1": of_respond("web1", responded(failures=["no"])), "web9": of_respond("web9", IDLE)}
    assert summary(parts, hosts=3) == [
        "Summary of 3 hosts:",
        "  FAILED web1: no",
        "  no event: 1 host",
        "  without a result: 1 (unreachable or not started; see the recap)",
    ]


def test_the_summary_shows_an_event_that_the_rules_ignore():
    assert summary({"web1": of_respond("web1", responded(named=["A1"]))}, hosts=1)[1:] == [
        "  event A1: not acknowledged by this job",
        "    web1: nothing to do",
    ]


def test_the_summary_of_a_maintenance_groups_hosts_by_their_outcome():
    parts = {name: of_maintenance(name, {"outcome": "maintained"}) for name in ("web1", "web2")}
    assert summary(parts, hosts=2) == ["Summary of 2 hosts:", "  maintained: web1, web2"]


def test_only_the_last_host_of_a_play_gets_the_summary(tmp_path):
    ends = Ends(tmp_path / "play")
    shown = [ends.add(host, of_respond(host, IDLE), hosts=2) for host in ("web1", "web2")]
    assert [*shown, ends.show()] == [[], ["Summary of 2 hosts:", "  no event: 2 hosts"], []]


def test_a_host_that_reports_more_later_is_summed_up_with_all_of_it(tmp_path):
    ends = Ends(tmp_path / "play")
    story = of_respond("web1", responded(prepared=["A1"], story=[told("prepared")]))
    assert ends.add("web1", story, hosts=1, kind=BEGUN) == []
    assert ends.add("web1", of_maintenance("web1", {"outcome": "maintained"}), hosts=1) == [
        "Summary of 1 host:",
        "  Reboot A1: not acknowledged by this job",
        "    web1: prepared",
        "  maintained: web1",
    ]


def test_a_play_that_lost_a_host_is_summed_up_when_no_host_can_follow(tmp_path):
    assert Ends(tmp_path / "play").add("web1", of_respond("web1", IDLE), hosts=2) == []
    [ends] = ends_of_all_plays(tmp_path)
    assert ends.show()[-1].startswith("  without a result: 1")


def test_a_host_that_does_not_come_to_the_end_of_a_phase_is_a_failure_until_it_does(tmp_path):
    ends = Ends(tmp_path / "play")
    for host in ("web1", "web2"):
        part = of_unfinished(host, {"next": "prepare", "events": [{"event_type": "Reboot", "event_id": "A1"}]})
        assert ends.add(host, part, hosts=2, kind=UNFINISHED) == []
    ends.add("web1", of_respond("web1", IDLE), hosts=2)
    assert ends.unfinished() == ["web2"]
    [title, failure, idle] = ends.show()
    assert (title, idle) == ("Summary of 2 hosts:", "  no event: 1 host")
    assert failure.startswith("  FAILED web2: did not come to the end of prepare for Reboot A1: ")
