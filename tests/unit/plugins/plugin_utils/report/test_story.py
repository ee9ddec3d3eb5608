# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report says about histories."""

import pytest
from histories import AT, ID, NOTICE, a_fact, a_maintenance, a_phase, announcement

from plugins.module_utils._scheduled_events.transitions import AGAIN
from plugins.plugin_utils._report.lives import runs_of
from plugins.plugin_utils._report.story import Stretch, tell

HELD = [a_fact("held", 2, reason="prepare hooks missing: 10-drain"), *a_phase("failed", 3, 4)]


def lane_of(*facts):
    [event] = tell({"web1": facts}, {}).events
    [lane] = event.lanes
    return lane


def test_a_lane_has_each_time_and_the_margin_before_notbefore():
    lane = lane_of(*a_maintenance())
    times = [lane.seen, lane.prepared, lane.acknowledged, lane.started, lane.over, lane.returned]
    assert [each - AT for each in times] == [0, 121, 160, 170, 420, 450]
    assert (lane.margin, lane.announced_seconds, lane.impact, lane.measured_seconds) == (
        NOTICE - 121,
        5.0,
        "rebooted",
        48.2,
    )
    assert (lane.by, lane.via, lane.rule) == ("the polling unit of web1", "metadata service", "no rule: prepare")
    assert lane.problem == ""


def test_the_order_in_which_facts_are_given_changes_nothing():
    facts = a_maintenance()
    assert lane_of(*reversed(facts)) == lane_of(*facts)


def test_the_vms_of_an_event_are_put_together_by_its_id_in_any_case():
    other = [fact._replace(event_id=fact.event_id.upper()) for fact in a_maintenance("web2", later=30, leads=False)]
    [event] = tell({"web2": other, "web1": a_maintenance()}, {}).events
    assert [lane.host for lane in event.lanes] == ["web1", "web2"]
    assert (event.acknowledgement.host, event.margin) == ("web1", NOTICE - 151)
    assert (event.resources, event.resource_count) == (("web1", "web2"), 2)


def test_an_id_that_is_announced_again_after_its_end_is_another_event():
    again = [fact._replace(time=fact.time + 5000) for fact in a_maintenance()]
    events = tell({"web1": [*a_maintenance(), *again]}, {}).events
    assert [event.began for event in events] == [AT + 5000, AT]


def test_an_event_that_the_play_sees_after_the_unit_saw_its_end_is_no_other_event():
    late = announcement(after=421)._replace(source="respond")  # the play had read its document before the unit did
    ended = a_fact("over", 423)._replace(source="respond")
    [event] = tell({"web1": [*a_maintenance(), late, ended]}, {}).events
    assert (event.lanes[0].over, event.lanes[0].returned) == (AT + 423, AT + 450)


def test_an_id_that_only_the_play_sees_long_after_its_end_is_another_event():
    late = announcement(after=5000)._replace(source="respond")
    assert len(tell({"web1": [*a_maintenance(), late]}, {}).events) == 2


def test_a_play_that_sees_an_id_for_the_second_time_joins_the_second_event():
    again = [fact._replace(time=fact.time + 460) for fact in a_maintenance()]
    seen_later = [
        fact._replace(time=fact.time + 2, source="respond")
        for fact in (*a_maintenance(), *again)
        if fact.kind in ("seen", "over")
    ]
    events = tell({"web1": [*a_maintenance(), *again, *seen_later]}, {}).events
    assert [(event.began, event.lanes[0].over) for event in events] == [(AT + 460, AT + 882), (AT, AT + 422)]


def test_an_id_that_comes_back_before_its_recovery_is_the_same_event():
    back = announcement(after=600, reason=AGAIN)
    before = [announcement(), *a_phase("prepare", 1, 121), a_fact("over", 420)]
    lane = lane_of(*before, back)
    assert (lane.prepared, lane.over, lane.unfinished) == (AT + 121, None, "the event is not over")
    assert lane_of(*before, back, a_fact("over", 700)).over == AT + 700


def of_play(facts):
    return [fact._replace(source="respond") for fact in facts]


def with_job(phase, begin, end, **more):
    """A phase of the unit whose hook launches a job, which is done 10 seconds before the phase of the unit ends."""
    returned = [a_fact("returned", end - 10)] if phase == "recover" else []
    return [*a_phase(phase, begin, end, **more), *of_play([*a_phase(phase, begin + 5, end - 10), *returned])]


def test_a_phase_of_the_unit_that_fails_after_its_job_succeeded_is_a_problem():
    failed = {"outcome": "failed", "reason": "start: exit status 1"}
    recovered = [announcement(), *a_phase("prepare", 1, 121), a_fact("started", 170), a_fact("over", 420)]
    lane = lane_of(*recovered, *with_job("recover", 421, 450, **failed))
    assert lane.problem == "the recovery failed: start: exit status 1"
    lane = lane_of(announcement(), *with_job("prepare", 1, 121, **failed), a_fact("acknowledged", 125))
    assert lane.problem == "the preparation failed: start: exit status 1"


def test_an_end_of_a_phase_ends_the_run_of_its_own_writer():
    of_unit, of_job = a_phase("prepare", 1, 3, outcome="failed"), of_play(a_phase("prepare", 2, 5))
    facts = sorted([*of_unit, *of_job], key=lambda fact: fact.time)
    ended = [(each.begin - AT, each.end - AT, each.outcome) for _writer, each in runs_of(facts)]
    assert ended == [(1, 3, "failed"), (2, 5, "ok")]


def test_a_phase_of_the_unit_that_goes_on_after_its_job_succeeded_is_not_finished():
    before = [announcement(), *a_phase("prepare", 1, 121), a_fact("started", 170), a_fact("over", 420)]
    goes_on = [fact for fact in with_job("recover", 421, 450) if (fact.kind, fact.source) != ("phase_ended", "poller")]
    assert lane_of(*before, *goes_on).unfinished == "the recovery has not ended"
    again = [*a_phase("recover", 600, 620), a_fact("returned", 620)]  # after a power cut
    assert lane_of(*before, *goes_on, *again).unfinished == ""


def test_a_host_has_returned_when_all_that_prepared_it_put_it_back():
    before = [announcement(), *with_job("prepare", 1, 121), a_fact("started", 170), a_fact("over", 420)]
    of_unit = [a_fact("returned", 420, reason="no recovery is configured")]
    assert lane_of(*before, *of_unit).unfinished == "the host has not returned"
    lane = lane_of(*before, *of_unit, *of_play([*a_phase("recover", 425, 440), a_fact("returned", 440)]))
    assert (lane.unfinished, lane.returned - AT) == ("", 440)


def test_what_prepared_nothing_puts_nothing_back():
    nothing = of_play(a_phase("prepare", 1, 20, outcome="nothing"))
    before = [announcement(), *a_phase("prepare", 1, 121), a_fact("over", 420), a_fact("returned", 450)]
    assert lane_of(*before, *nothing).unfinished == ""


def test_the_margin_begins_when_the_unit_is_prepared_and_not_when_its_job_is():
    lane = lane_of(announcement(), *with_job("prepare", 1, 121), a_fact("started", 115))
    assert (lane.margin, lane.problem) == (NOTICE - 121, "the event started before the preparation ended")


def test_a_play_that_prepares_after_the_unit_failed_counts():
    failed = a_phase("prepare", 1, 20, outcome="failed", reason="leave: exit status 1")
    assert lane_of(announcement(), *failed, *of_play(a_phase("prepare", 60, 80))).problem == ""


def test_an_operator_who_acknowledges_is_shown_in_the_event_that_the_unit_saw():
    [_first, *rest] = [fact for fact in a_maintenance() if fact.kind != "acknowledged"]
    by_hand = a_fact("acknowledged", 160, by="alice, with scheduled-events approve")._replace(source="operator")
    [event] = tell({"web1": [announcement(), by_hand, *rest]}, {}).events
    assert (event.acknowledgement.by, event.lanes[0].acknowledged) == (by_hand.by, AT + 160)


def test_an_acknowledgement_for_another_vm_waits_for_nothing_here():
    by_hand = a_fact("acknowledged", 160, by="alice")._replace(source="operator")
    assert lane_of(by_hand).unfinished == ""


def test_an_ignored_event_is_neither_a_problem_nor_unfinished():
    ignored = announcement(event_status="Started", rule="rule 2: ignore")
    lane = lane_of(ignored)
    assert (lane.ignored, lane.problem, lane.unfinished) == ("rule 2: ignore", "", "")
    assert tell({"web1": [ignored]}, {}).verdict == "1 event, no problem. 1 event was ignored by a rule."


def test_an_event_that_only_one_of_unit_and_play_ignores_is_not_ignored():
    seen = announcement(rule="no rule: prepare")._replace(source="respond")
    assert lane_of(announcement(rule="rule 1: ignore"), seen).ignored == ""


@pytest.mark.parametrize(
    ("event_type", "announced", "outcome", "measured", "problem"),
    [
        ("Freeze", 5.0, "rebooted", 48.0, "announced as a Freeze, and the VM rebooted"),
        ("Freeze", 5.0, "paused", 15.5, "it was paused for 15.5 s, announced were 5 s"),
        ("Freeze", 30.0, "paused", 60.5, "it was paused for 60.5 s, announced were 30 s"),
        ("Freeze", 0.0, "paused", 10.5, "it was paused for 10.5 s, announced were 0 s"),
        ("Freeze", 5.0, "paused", 15.0, ""),
        ("Freeze", 30.0, "paused", 60.0, ""),
        ("Freeze", -1.0, "paused", 600.0, ""),
        ("Freeze", None, "paused", 600.0, ""),
        ("Freeze", 5.0, "none", 0.0, ""),
        ("Reboot", 30.0, "rebooted", 200.0, ""),  # not the same seconds
        ("Reboot", 30.0, "paused", 9.0, ""),
        ("Redeploy", -1.0, "rebooted", None, ""),
    ],
)
def test_an_impact_that_is_larger_than_announced_is_a_problem(event_type, announced, outcome, measured, problem):
    impact = a_fact("impact", 40, outcome=outcome, measured_seconds=measured)
    facts = [*a_phase("prepare", 1, 20), a_fact("started", 30), impact, a_fact("over", 300)]
    facts = [announcement(announced_seconds=announced), *facts, *a_phase("recover", 301, 310), a_fact("returned", 310)]
    assert lane_of(*(fact._replace(event_type=event_type) for fact in facts)).problem == problem


def test_of_several_impacts_the_largest_counts():
    pauses = [a_fact("impact", 40 + n, outcome="paused", measured_seconds=n) for n in (4.0, 9.0, 3.0)]
    assert lane_of(announcement(), *pauses).measured_seconds == 9.0
    reboot = a_fact("impact", 41, outcome="rebooted", measured_seconds=2.0)
    assert lane_of(announcement(), reboot, *pauses).impact == "rebooted"


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (a_phase("prepare", 1, 20, outcome="failed", reason="drain: exit status 1"), "failed: drain: exit status 1"),
        (a_phase("prepare", 1, 20, outcome="timeout"), "the preparation failed: timeout"),
        ([*a_phase("prepare", 1, 20), a_fact("started", 10)], "the event started before the preparation ended"),
        ([a_fact("phase_began", 1, phase="prepare"), a_fact("started", 10)], "started before the preparation ended"),
        (a_phase("prepare", 1, 912), "the preparation ended 12 s after NotBefore"),
        (a_phase("recover", 1, 20, outcome="failed", reason="start: exit status 3"), "the recovery failed: start"),
        ([a_fact("refused", 3, reason="HTTP 409")], "the acknowledgement was refused: HTTP 409"),
        ([a_fact("held", 2, reason="nothing_prepares")], "held: nothing_prepares"),
        (a_phase("started", 1, 20, outcome="failed", reason="pause: exit status 1"), "the phase started failed: pause"),
        ([*HELD, a_fact("started", 900), a_fact("over", 990)], "nothing had prepared for it: prepare hooks missing"),
        (
            [
                *a_phase("prepare", 1, 20, outcome="nothing", reason="0-notify ended with exit status 77"),
                a_fact("held", 20, reason="nothing prepared: 0-notify ended with exit status 77"),
                a_fact("started", 900),
            ],
            "the event started and nothing had prepared for it: nothing prepared: 0-notify",
        ),
        ([*HELD, a_fact("over", 990)], "nothing had prepared for it: prepare hooks missing"),  # its start was not seen
        ([a_fact("phase_began", 1, phase="prepare"), a_fact("over", 990)], "the preparation did not end"),
    ],
)
def test_what_went_wrong_is_a_problem_of_the_host(facts, problem):
    story = tell({"web1": [announcement(), *facts]}, {})
    assert problem in story.events[0].problems["web1"]
    assert not story.is_good
    assert story.verdict.startswith("1 of 1 event needs a look, on web1.")


@pytest.mark.parametrize(
    "facts",
    [
        [a_fact("refused", 3, reason="HTTP 503"), a_fact("acknowledged", 4)],
        [a_fact("held", 2, reason="takes_over"), a_fact("over", 9)],
        [*a_phase("prepare", 1, 20), a_fact("held", 21, reason="held by the policy: leader")],
        [*a_phase("prepare", 1, 20), a_fact("held", 21, reason="left to the controller until a moment: job 5")],
        [*a_phase("prepare", 1, 20), a_fact("over", 40), a_fact("held", 41, reason="recovery waits for another event")],
        [*a_phase("prepare", 1, 20, outcome="failed", reason="x"), *a_phase("prepare", 30, 40)],
        [*HELD, a_fact("over", 800)],  # cancelled
        [*HELD, *a_phase("prepare", 30, 40), a_fact("started", 900), a_fact("over", 990)],
        [*HELD, a_fact("acknowledged", 30), a_fact("started", 900), a_fact("over", 990)],  # by hand
    ],
)
def test_what_was_followed_by_success_is_no_problem(facts):
    assert lane_of(announcement(), *facts).problem == ""


@pytest.mark.parametrize("reason", ["held by a rule", "held by the policy: never"])
def test_an_event_that_the_owner_lets_start_unprepared_is_no_problem(reason):
    assert lane_of(announcement(), a_fact("held", 2, reason=reason), a_fact("started", 900)).problem == ""


def test_an_event_that_had_started_when_it_was_seen_first_is_a_problem():
    facts = [announcement(event_status="Started", rule="no rule: prepare"), a_fact("started", 0), a_fact("over", 300)]
    assert lane_of(*facts).problem.endswith("nothing had prepared for it: it had started when it was seen first")


def test_an_event_that_a_rule_approves_can_have_started_when_it_is_seen_first():
    facts = [announcement(event_status="Started", rule="rule 1: approve"), a_fact("started", 0), a_fact("over", 300)]
    assert lane_of(*facts).problem == ""


def test_an_event_without_an_id_is_a_problem():
    held = a_fact("held", 1, reason="the event has no EventId")._replace(event_id="", event_type="")
    assert tell({"web1": [held]}, {}).verdict == "1 of 1 event needs a look, on web1."


def test_a_run_that_a_power_cut_ended_does_not_take_the_end_of_the_next_run():
    lane = lane_of(a_fact("phase_began", 1, phase="prepare", run="a"), *a_phase("prepare", 50, 80, run="b"))
    assert lane.stretches == (Stretch("prepare", AT + 1), Stretch("prepare", AT + 50, AT + 80, "ok"))


@pytest.mark.parametrize(
    ("facts", "unfinished"),
    [
        ([], "the event is not over"),
        ([a_fact("started", 900)], "the event is not over"),
        ([*a_phase("prepare", 1, 20), a_fact("over", 990)], "the host has not returned"),
        ([a_fact("over", 990), a_fact("phase_began", 991, phase="recover")], "the recovery has not ended"),
    ],
)
def test_the_verdict_names_events_that_are_not_finished(facts, unfinished):
    story = tell({"web1": [announcement(), *facts], "web2": a_maintenance("web2", later=30)}, {})
    assert story.events[0].unfinished == {"web1": unfinished}
    assert story.verdict.startswith("1 event, no problem so far. 1 event is not finished, on web1.")


def test_a_phase_whose_begin_is_older_than_the_history_is_kept():
    [_began, ended] = a_phase("prepare", 1, 20)
    assert lane_of(ended).stretches == (Stretch("prepare", AT + 20, AT + 20, "ok"),)


def test_a_history_that_could_not_be_read_is_never_passed_over():
    story = tell({"web1": a_maintenance()}, {"web2": ["its history was not read"]})
    assert not story.is_good
    assert story.hosts == ("web1", "web2")
    assert story.verdict == (
        "1 event, no problem. Smallest margin before NotBefore: 779 s (Redeploy). The history is incomplete on web2."
    )


def test_no_history_has_no_event():
    assert tell({"web1": []}, {}).verdict == "No event in the history."


def test_a_drill_is_told_apart_and_its_verdict_is_a_problem_if_it_failed():
    unended = [fact._replace(event_id=f"drill-{ID}") for fact in a_maintenance()]
    [event] = tell({"web1": unended}, {}).events
    assert (event.lanes[0].drill, event.lanes[0].seen - AT, event.problems) == ("began", 0, {})
    ended = a_fact("drilled", 500, outcome="failed", reason="lost is 3, limit 0 (lost requests)")._replace(
        source="drill"
    )
    [event] = tell({"web1": [*a_maintenance(), ended]}, {}).events
    assert event.problems == {"web1": "the drill failed: lost is 3, limit 0 (lost requests)"}
    long_after_the_end = ended._replace(outcome="passed", reason="", time=AT + 1000)
    story = tell({"web1": [*a_maintenance(), long_after_the_end]}, {})
    assert (story.is_good, len(story.events), story.events[0].unfinished) == (True, 1, {})


def test_a_drill_that_was_aborted_or_has_no_verdict_does_not_look_like_one_that_passed():
    drilled = [fact._replace(event_id=f"drill-{ID}") for fact in a_maintenance()]
    story = tell({"web1": drilled}, {})
    assert (story.events[0].unfinished, story.is_good) == ({"web1": "the drill has no verdict"}, True)
    assert "1 event is not finished, on web1." in story.verdict
    reason = "the drill was ended: Reboot A1 of Azure names this VM, and the host handles it"
    aborted = a_fact("drilled", 500, outcome="aborted", reason=reason)._replace(source="drill", event_id=f"drill-{ID}")
    [event] = tell({"web1": [*drilled, aborted]}, {}).events
    assert (event.problems, event.unfinished) == ({"web1": reason}, {})


def test_a_drill_that_the_host_did_not_see_is_an_event_of_its_own():
    ended = a_fact("drilled", 500, outcome="failed", reason="the host did not see the event")._replace(source="drill")
    [event] = tell({"web1": [ended]}, {}).events
    assert event.problems == {"web1": "the drill failed: the host did not see the event"}


def kept_out(host, *, until=900):
    return [announcement(host), *a_phase("prepare", 1, 61, host), a_fact("started", until, host)]


def test_an_event_that_nothing_acknowledged_and_that_kept_all_of_its_vms_out_needs_a_look():
    story = tell({"web1": kept_out("web1"), "web2": kept_out("web2")}, {})
    finding = "nothing acknowledged the event, and all of its VMs were out of service for 839 s until it began"
    assert story.events[0].problems == {"web1": finding, "web2": finding}
    assert story.verdict.startswith("1 of 1 event needs a look, on web1, web2.")


@pytest.mark.parametrize(
    "other",
    [
        kept_out("web2", until=100),  # not for long
        [*kept_out("web2"), a_fact("acknowledged", 880, "web2", by="an operator")],
        [announcement("web2"), a_fact("started", 900, "web2")],  # it served
    ],
)
def test_an_event_that_left_a_vm_in_service_or_was_acknowledged_needs_none(other):
    assert tell({"web1": kept_out("web1"), "web2": other}, {}).events[0].finding == ""


def test_an_event_of_a_vm_without_a_history_leaves_open_whether_all_were_out():
    assert tell({"web1": kept_out("web1")}, {}).events[0].finding == ""


WAITS = a_fact("held", 1, reason="waits for its moment: window Mon 22:00 to 05:00 UTC")


def test_a_vm_that_waits_in_service_for_a_moment_is_no_problem_and_has_the_time():
    lane = lane_of(announcement(), WAITS)
    assert (lane.waits, lane.problem, lane.held) == (AT + 1, "", "")


def test_a_lead_time_that_was_raised_is_a_problem_until_the_preparation_begins():
    raised = a_fact("held", 1, reason="waits, with more lead time than its rule has: 95 s before NotBefore")
    assert lane_of(announcement(), raised).problem.startswith("held: waits, with more lead time")
    assert lane_of(announcement(), raised, *a_phase("prepare", 5, 9)).problem == ""


def test_an_event_that_started_before_the_moment_that_its_rule_chose_is_a_problem():
    lane = lane_of(announcement(), WAITS, a_fact("started", 5))
    assert lane.problem == f"the event started and nothing had prepared for it: {WAITS.reason}"


NOTHING_RAN = a_phase("prepare", 1, 2, outcome="nothing", reason="drain: exit status 77")


@pytest.mark.parametrize("policy", [": never", ": leader", " alone: web2"])
def test_a_preparation_that_did_nothing_is_a_problem_whatever_the_policy(policy):
    held = a_fact("held", 3, reason=f"held by the policy{policy}")
    lane = lane_of(announcement(), *NOTHING_RAN, held, a_fact("started", 900), a_fact("over", 1000))
    assert lane.problem.startswith("the event started and nothing had prepared for it: ")


def test_a_policy_that_holds_an_event_while_its_hooks_run_does_not_say_that_nothing_is_configured():
    began, ended = NOTHING_RAN
    held = a_fact("held", 1, reason="held by the policy: never")
    lane = lane_of(announcement(), began, held, ended, a_fact("started", 900), a_fact("over", 1000))
    assert lane.problem == "the event started and nothing had prepared for it: drain: exit status 77"


def test_a_preparation_that_was_undone_and_then_did_nothing_is_a_problem():
    undone = [
        announcement(),
        *a_phase("prepare", 1, 20, run="p1"),
        *a_phase("prepare", 60, 61, "web1", "nothing", "77"),
    ]
    lane = lane_of(*undone, a_fact("started", 900), a_fact("over", 1000))
    assert (lane.margin, lane.problem) == (None, "the event started and nothing had prepared for it: 77")


def test_a_preparation_of_a_play_counts_although_the_unit_that_begins_later_did_nothing():
    play = [fact._replace(source="respond") for fact in a_phase("prepare", 1, 20)]
    unit = a_phase("prepare", 60, 61, outcome="nothing")
    lane = lane_of(announcement(), *play, *unit, a_fact("started", 900), a_fact("over", 1000))
    assert (lane.margin, lane.problem) == (NOTICE - 20, "")


@pytest.mark.parametrize("reason", ["held by a rule", "held by the policy: never"])
def test_a_webhook_makes_no_problem_of_an_event_that_the_owner_lets_start_unprepared(reason):
    held = a_fact("held", 1, reason=reason)  # before the hooks run: nothing is configured that prepares
    lane = lane_of(announcement(), held, *NOTHING_RAN, a_fact("started", 900), a_fact("over", 1000))
    assert lane.problem == ""


def test_a_preparation_that_did_nothing_is_a_problem_also_where_its_hooks_were_missing_before():
    held = a_fact("held", 1, reason="prepare hooks missing: 10-drain")
    lane = lane_of(announcement(), held, *NOTHING_RAN, a_fact("started", 900), a_fact("over", 1000))
    assert lane.problem == "the event started and nothing had prepared for it: drain: exit status 77"


@pytest.mark.parametrize("phase", ["prepare", "recover"])
def test_a_phase_during_which_the_clock_was_set_back_has_ended(phase):
    begin = 500 if phase == "recover" else 40
    before = [announcement(), *([] if phase == "prepare" else a_phase("prepare", 1, 20, run="p"))]
    after = [a_fact("started", 200), a_fact("over", 450), a_fact("returned", 500)]
    lane = lane_of(*before, *a_phase(phase, begin, begin - 20, run="r"), *after)
    assert (lane.problem, lane.unfinished) == ("", "")


@pytest.mark.parametrize("action", ["ignore", "approve"])
def test_a_preparation_that_did_nothing_is_no_problem_where_a_rule_of_the_unit_or_the_role_wants_none(action):
    beside = announcement(rule=f"rule 1: {action}")._replace(source="respond")
    assert lane_of(announcement(), beside, *NOTHING_RAN, a_fact("started", 900), a_fact("over", 1000)).problem == ""


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ({"reason": "held by the policy alone: web2"}, "held by the policy alone: web2"),
        ({"reason": "held by the policy alone: web2", "rule": "rule 1: approve"}, ""),
        ({"reason": "held by the policy: leader"}, ""),
    ],
)
def test_an_event_that_names_others_too_and_that_nothing_prepares_for_is_a_problem_unless_the_owner_wants_it(
    held, problem
):
    lane = lane_of(announcement(), a_fact("held", 3, **held), a_fact("started", 900), a_fact("over", 1000))
    assert lane.problem == (problem and f"the event started and nothing had prepared for it: {problem}")


NAMES = {"web1": "web1", "web2": "WEB2", "host9": "web2"}


@pytest.mark.parametrize("host", ["web2", "host9"])
@pytest.mark.parametrize("later", [None, 0])
def test_a_host_that_is_named_and_whose_history_does_not_have_the_event_is_a_problem(host, later):
    own = [] if later is None else [fact._replace(event_id="E1") for fact in a_maintenance("web2")]
    events = tell({"web1": a_maintenance(), host: own}, {}, NAMES).events
    [event] = [each for each in events if each.event_id == ID]
    assert event.problems == {host: "its history does not have the event, which names it"}


def test_a_host_is_missed_in_no_event_before_its_history_or_that_another_host_of_its_vm_has():
    newer = [fact._replace(event_id="E1", time=fact.time + 5000) for fact in a_maintenance("web2")]
    assert tell({"web1": a_maintenance(), "web2": newer}, {}, NAMES).events[-1].problems == {}
    assert tell({"web1": a_maintenance(), "web2": a_maintenance("web2"), "host9": []}, {}, NAMES).is_good
    unread = {"web2": ["its history was not read"]}
    assert tell({"web1": a_maintenance(), "web2": []}, unread, NAMES).events[0].problems == {}


def test_a_host_that_knows_the_id_is_not_missed_where_another_host_saw_the_event_come_back():
    again = [fact._replace(time=fact.time + 5000) for fact in a_maintenance()]
    story = tell({"web1": [*a_maintenance(), *again], "web2": a_maintenance("web2")}, {}, NAMES)
    assert [event.problems.get("web2") for event in story.events] == [None, None]


def test_a_host_is_not_missed_where_another_one_of_its_name_could_not_be_read():
    other = {"web2": ["its history was not read"]}
    assert tell({"web1": a_maintenance(), "host9": []}, other, NAMES).events[0].problems == {}


def test_an_event_in_which_the_vm_rebooted_was_not_cancelled():
    rebooted = a_fact("impact", 620, outcome="rebooted")
    held = a_fact("held", 3, reason="nothing prepares")
    lane = lane_of(announcement(), held, rebooted, a_fact("over", 620))
    assert (lane.was_cancelled, lane.problem) == (
        False,
        "the event started and nothing had prepared for it: nothing prepares",
    )


def test_an_event_that_waits_for_the_maintenance_of_its_host_is_a_problem_only_if_it_starts():
    held = [announcement(), a_fact("held", 3, reason="waits for the maintenance of this host")]
    assert lane_of(*held).problem == ""
    assert lane_of(*held, a_fact("started", 900)).problem.endswith(": waits for the maintenance of this host")


def test_events_of_which_nothing_has_happened_since_a_time_can_be_left_out():
    later = [fact._replace(time=fact.time + 5000) for fact in a_maintenance()]
    story = tell({"web1": [*a_maintenance(), *later]}, {"web2": ["it is cut"]})
    assert [event.began for event in story.since(AT + 450).events] == [AT + 5000, AT]
    assert [event.began for event in story.since(AT + 451).events] == [AT + 5000]
    assert story.since(AT + 9000) == story._replace(events=())
