# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a drill and its verdict, against a host and a load that the test plays."""

import datetime

import pytest
from histories import AT, ID, a_fact, a_maintenance, a_phase, announcement

from plugins.module_utils._drill import FIGURES as OPTIONS_OF_LIMITS
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._drill.asked_host import DrilledHostLost, DrillRefused, Look
from plugins.plugin_utils._drill.course import OUT_OF_SIGHT, Drill, Settings
from plugins.plugin_utils._drill.load import Counts, LostRequest
from plugins.plugin_utils._drill.verdict import FIGURES, lane_of, unfinished

HEALTHY = Counts(50, 0, 0, ())
ONE_LOST = Counts(50, 1, 0, (LostRequest(AT, "http://lb/", "503"),))
FAILED_PREPARATION = [
    announcement(),
    *a_phase("prepare", 1, 60, outcome="failed", reason="leave: exit status 1"),
    a_fact("held", 60, reason="preparation failed: leave: exit status 1"),
]
SETTINGS = Settings(
    host="web1",
    watch=False,
    acknowledges=True,
    notice=900.0,
    started_for=180.0,
    steady=5.0,
    stop_after=5.0,
    patience=1500.0,
    out_of_sight=OUT_OF_SIGHT,
    recovery=60.0,
    limits={"hear": 10.0, "margin": 0.0, "lost": 0.0, "redirected": 0.0},
)
OF_AZURE = "00000000-0000-0000-0000-00000000000A"


def recovery(end=4, outcome="ok", reason=""):
    """The facts after the end of an event, with times that count from this end."""
    returned = [a_fact("returned", end)] if outcome == "ok" else []
    return [a_fact("over", 0), *a_phase("recover", 1, end, outcome=outcome, reason=reason), *returned]


class Scene:
    """The host, the load and the clock. ``story``: what was done, in its order.

    :param facts: of the host until the end of the event, each of which it shows once its time has come.
    :param after: the facts after the end of the event.
    """

    event_type = "Redeploy"

    def __init__(self, facts, *, load=HEALTHY, after=None):
        self.facts, self.load, self.settled = list(facts), load, None
        self.after = recovery() if after is None else after
        self.now, self.story, self.announced_at = 0.0, [], None
        self.lost, self.failing_from, self.removed_at = [], None, None
        self.refused, self.noted, self.statuses = "", None, []
        self.is_unanswered = False  # the beginning

    # The host

    def begin(self, notice):
        self.story.append("begin")
        if self.refused:
            raise DrillRefused(self.refused)
        self.announced_at = self.now
        if self.is_unanswered:
            raise DrilledHostLost("web1 cannot be reached")
        not_before = a_fact("seen", notice).time
        return {"EventId": ID.upper(), "EventStatus": "Scheduled", "NotBefore": iso(not_before)}, AT

    def look(self, event):
        after = self.now - self.announced_at
        if any(begin <= after < end for begin, end in self.lost):
            raise DrilledHostLost("web1 cannot be reached")
        if event and event["EventStatus"] not in self.statuses:
            self.statuses.append(event["EventStatus"])
        facts = tuple(fact for fact in self.facts if fact.time <= AT + after)
        return Look(facts, AT + after, event is not None and self.removed_at is None)

    def end(self, event):
        assert event["EventId"] == ID.upper()
        self.story.append("end")
        self.removed_at = self.now - self.announced_at
        self.facts = [fact for fact in self.facts if fact.time <= AT + self.removed_at]
        self.facts += [fact._replace(time=fact.time + self.removed_at) for fact in self.after]

    def note(self, event_id, outcome, reason):
        assert event_id
        self.noted = (outcome, reason)

    # The load

    def start(self):
        self.story.append("load")

    def settle(self):
        self.load = self.settled or self.load

    def stop(self):
        self.story.append("no load")
        return self.load

    def counts(self):
        return self.load

    def failing(self):
        if self.failing_from is None or self.announced_at is None:
            return "", 0.0
        return "http://lb/", max(0.0, self.now - self.announced_at - self.failing_from)

    # The clock

    def sleep(self, seconds):
        self.now += max(seconds, 0.1)

    def run(self, *, without_load=False, **changes):
        clock = Clock(lambda: AT + self.now, lambda: self.now, self.sleep)
        self.said = []
        load = None if without_load else self
        return Drill(self, load, SETTINGS._replace(**changes), clock, self.said.append).run()


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def until_started():
    """The facts of a maintenance until its end, which the drill brings about."""
    return [
        fact for fact in a_maintenance() if fact.kind in ("seen", "acknowledged", "started") or fact.phase == "prepare"
    ]


def test_a_drill_in_which_all_goes_well_passes_with_its_figures():
    scene = Scene(until_started())
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems, verdict.requests) == ("passed", (), 50)
    assert verdict.figures == {
        **{"hear": 0.0, "prepare": 120.0, "acknowledge": 39.0, "margin": 779.0, "back": 4.0},
        **{"lost": 0.0, "slow": 0.0, "redirected": 0.0},
    }
    assert (scene.story, scene.noted) == (["load", "begin", "end", "no load"], ("passed", ""))


def test_an_event_does_not_wait_for_the_verdict_that_it_is_judged_for():
    drilled = [fact._replace(event_id=f"drill-{ID}") for fact in a_maintenance()]
    assert unfinished(lane_of(drilled, "web1", f"DRILL-{ID}")) == ()


def test_the_figures_are_the_keys_of_the_limits():
    assert tuple(FIGURES) == OPTIONS_OF_LIMITS


def test_the_event_starts_after_its_acknowledgement_and_ends_after_its_time():
    scene = Scene(until_started())
    scene.run()
    assert scene.statuses == ["Scheduled", "Started"]
    assert 160 + 180 <= scene.removed_at <= 160 + 180 + 10


def test_an_event_that_is_not_acknowledged_starts_at_not_before_and_fails():
    scene = Scene([announcement(), *a_phase("prepare", 1, 20)])
    assert scene.run(notice=100.0).problems == ("the event was not acknowledged",)
    assert scene.statuses == ["Scheduled", "Started"]
    assert 100 + 180 <= scene.removed_at <= 100 + 180 + 10


def test_a_hook_that_fails_ends_the_drill_and_the_verdict_names_it():
    scene = Scene(FAILED_PREPARATION)
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems) == ("failed", ("the preparation failed: leave: exit status 1",))
    assert (scene.noted, "cancelled" in scene.said) == (("failed", verdict.problems[0]), True)
    assert scene.removed_at < 120  # not until NotBefore


def test_a_preparation_that_fails_where_on_failure_approves_shows_the_acknowledgement():
    scene = Scene([*FAILED_PREPARATION[:-1], a_fact("acknowledged", 61)])
    assert scene.run().problems == ("the preparation failed: leave: exit status 1",)
    assert "acknowledged" in scene.said
    assert scene.statuses == ["Scheduled", "Started"]


@pytest.mark.parametrize("held", ["held by a rule", "held by the policy: never"])
def test_a_host_that_is_not_to_acknowledge_passes_once_it_is_prepared(held):
    scene = Scene([announcement(), *a_phase("prepare", 1, 20), a_fact("held", 20, reason=held)])
    verdict = scene.run(acknowledges=False)
    assert (verdict.outcome, verdict.problems) == ("passed", ())
    assert verdict.text.startswith("passed: prepared, not acknowledged (hear ")
    assert (scene.removed_at < 40, scene.statuses) == (True, ["Scheduled"])


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ([a_fact("held", 20, reason="held by a rule")], "nothing was prepared"),
        (FAILED_PREPARATION[1:], "the preparation failed: leave: exit status 1"),
    ],
    ids=["nothing", "failed"],
)
def test_a_host_that_is_not_to_acknowledge_and_did_not_prepare_fails(facts, problem):
    assert Scene([announcement(), *facts]).run(acknowledges=False).problems == (problem,)


def test_an_event_that_is_left_to_a_controller_is_waited_for():
    left = a_fact("held", 121, reason="left to the controller: job 7 runs")
    scene = Scene(sorted([*until_started(), left], key=lambda fact: fact.time))
    assert scene.run().outcome == "passed"


def test_a_host_without_recover_hooks_passes():
    returned = a_fact("returned", 0, reason="no recover hook is configured")
    assert Scene(until_started(), after=[a_fact("over", 0), returned]).run().outcome == "passed"


def test_a_host_whose_recovery_fails_is_named():
    stuck = recovery(outcome="failed", reason="return: exit status 1")
    assert Scene(FAILED_PREPARATION, after=stuck).run().problems[1:] == ("the host has not returned",)
    assert Scene(until_started(), after=stuck).run().problems == ("the recovery failed: return: exit status 1",)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"prepare": 60.0}, "prepare is 120, limit 60 (seconds that the preparation took)"),
        (
            {"margin": 800.0},
            "margin is 779, limit 800 (seconds between the end of the preparation and NotBefore)",
        ),
        ({"back": 3.9}, "back is 4, limit 3.9 (seconds from the end of the event until the host had returned)"),
    ],
)
def test_a_figure_beyond_its_limit_fails_the_drill(limits, problem):
    verdict = Scene(until_started()).run(limits=limits)
    assert (verdict.outcome, verdict.problems) == ("failed", (problem,))


def test_a_figure_at_its_limit_passes():
    assert Scene(until_started()).run(limits={"prepare": 120.0, "margin": 779.0}).outcome == "passed"


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        (ONE_LOST, "lost is 1, limit 0 (lost requests, the first http://lb/: 503)"),
        (HEALTHY._replace(redirected=2), "redirected is 2, limit 0 (redirected requests)"),
    ],
    ids=["lost", "redirected"],
)
def test_requests_beyond_their_limit_fail_the_drill(load, problem):
    scene = Scene(until_started())
    scene.counts = lambda: HEALTHY
    scene.load = load
    assert scene.run().problems == (problem,)


def test_a_lost_request_is_said_once_in_the_step_in_which_it_was_lost():
    scene = Scene(until_started())
    scene.counts = lambda: HEALTHY if scene.announced_at is None or scene.now < scene.announced_at + 60 else ONE_LOST
    scene.run()
    assert scene.said.count("lost http://lb/: 503") == 1
    step = scene.said.index("lost http://lb/: 503")
    assert scene.said[step - 1 : step + 2] == ["prepare began", "lost http://lb/: 503", "prepare ended: ok"]


@pytest.mark.parametrize("load", [ONE_LOST, Counts(0, 0, 0, ())], ids=["lost", "no answer"])
def test_a_service_that_is_not_healthy_before_is_not_drilled(load):
    scene = Scene(until_started(), load=load)
    with pytest.raises(DrillRefused, match="the service is not healthy before the drill"):
        scene.run()
    assert scene.story == ["load", "no load"]


def test_a_service_that_has_not_answered_yet_is_waited_for_before_the_drill():
    scene = Scene(until_started())
    scene.settled = ONE_LOST
    with pytest.raises(DrillRefused, match="1 of 50 requests were lost"):
        scene.run()
    assert scene.story == ["load", "no load"]


def test_a_service_that_fails_for_too_long_stops_the_drill_and_the_host_returns():
    scene = Scene([announcement(), *a_phase("prepare", 1, 400)])
    scene.failing_from = 20.0
    verdict = scene.run()
    assert verdict.problems[0].startswith("http://lb/ failed for ")
    assert (scene.story[-2:], scene.noted[0]) == (["end", "no load"], "failed")
    assert scene.removed_at < 40


def test_an_event_of_azure_aborts_the_drill_also_during_its_preparation():
    of_azure = announcement(after=30)._replace(event_id=OF_AZURE, event_type="Freeze")
    scene = Scene([announcement(), *a_phase("prepare", 1, 400), of_azure])
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems) == (
        "aborted",
        (f"the drill was ended: Freeze {OF_AZURE} of Azure names this VM, and the host handles it",),
    )
    assert scene.removed_at < 40


def test_a_hint_of_azure_does_not_abort_the_drill():
    hint = announcement(after=30, event_status="Advisory")._replace(event_id=OF_AZURE)
    assert Scene(sorted([*until_started(), hint], key=lambda fact: fact.time)).run().outcome == "passed"


def test_a_drill_whose_event_is_no_longer_announced_is_aborted():
    scene = Scene([announcement(), *a_phase("prepare", 1, 400)])
    look = scene.look
    scene.look = lambda event: look(event)._replace(announced=scene.now < 40)
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems[0]) == (
        "aborted",
        "the drill was ended: its event was no longer announced: the control node did not look in time, or the file "
        "was removed",
    )


def test_a_host_that_does_not_see_the_event_fails_after_the_patience():
    scene = Scene([], after=[])
    assert scene.run(patience=60.0).problems == (
        "the drill took more than 60 s",
        "the host did not see the event",
    )


def test_a_host_that_does_not_return_in_time_fails():
    assert Scene(until_started(), after=[a_fact("over", 0)]).run().problems == ("the host has not returned",)


def test_a_host_that_is_out_of_sight_for_a_moment_changes_nothing():
    scene = Scene(until_started())
    scene.lost = [(172.0, 172.0 + OUT_OF_SIGHT - 5)]
    assert scene.run().outcome == "passed"


def test_the_time_before_the_event_does_not_count_as_out_of_sight():
    scene = Scene(until_started())
    scene.lost = [(0, 3)]
    assert scene.run(steady=2 * OUT_OF_SIGHT).outcome == "passed"


def test_a_drill_fails_while_a_job_that_prepared_the_host_has_not_put_it_back():
    of_job = [fact._replace(source="respond") for fact in a_phase("prepare", 2, 100)]
    after = [a_fact("over", 0), a_fact("returned", 0, reason="no recovery is configured")]
    verdict = Scene([*until_started(), *of_job], after=after).run()
    assert (verdict.outcome, verdict.problems) == ("failed", ("the host has not returned",))
    back = [fact._replace(source="respond") for fact in (*a_phase("recover", 5, 30), a_fact("returned", 30))]
    verdict = Scene([*until_started(), *of_job], after=[*after, *back]).run()
    assert (verdict.outcome, verdict.figures["back"]) == ("passed", 30.0)


def test_a_host_that_stays_out_of_sight_ends_the_drill():
    scene = Scene(until_started())
    scene.lost = [(172.0, 1e9)]
    assert scene.run().problems[0].startswith("the host was out of sight for more than 60 s")


def test_an_event_that_cannot_be_removed_ends_by_itself():
    scene = Scene(until_started())
    end = scene.end

    def lose(event):
        end(event)
        raise DrilledHostLost("web1 cannot be reached")

    scene.end = lose
    assert scene.run().outcome == "passed"
    assert "the event ends by itself within a minute: web1 cannot be reached" in scene.said


def test_a_drill_that_cannot_begin_announces_nothing():
    scene = Scene(until_started())
    scene.refused = "another drill runs"
    with pytest.raises(DrillRefused, match="another drill runs"):
        scene.run()
    assert scene.story == ["load", "begin", "no load"]


def test_without_urls_no_requests_are_counted():
    verdict = Scene(until_started()).run(without_load=True)
    assert (verdict.outcome, verdict.requests, verdict.figures["lost"]) == ("passed", 0, None)


def test_an_interrupted_drill_removes_its_event():
    scene = Scene(until_started())

    def interrupt(_event):
        raise KeyboardInterrupt

    scene.look = interrupt
    with pytest.raises(KeyboardInterrupt):
        scene.run()
    assert scene.story == ["load", "begin", "end", "no load"]


# An event of Azure that is only watched


def test_the_next_event_of_azure_with_its_type_is_judged_and_nothing_is_announced():
    another = [
        fact._replace(event_id="00000000-0000-0000-0000-000000000000", event_type="Freeze") for fact in a_maintenance()
    ]
    scene = Scene([*another, *a_maintenance(later=5)])
    scene.announced_at = 0.0
    verdict = scene.run(watch=True)
    assert (verdict.outcome, verdict.figures["margin"]) == ("passed", 774.0)
    assert verdict.figures["hear"] is None  # only Azure knows when it was announced
    assert (scene.story, scene.statuses, scene.noted) == (["load", "no load"], [], ("passed", ""))


def test_a_vm_that_azure_reboots_is_waited_for():
    scene = Scene(a_maintenance())
    scene.announced_at, scene.lost = 0.0, [(180.0, 400.0)]
    assert scene.run(watch=True, out_of_sight=1500.0).outcome == "passed"


def test_an_event_of_azure_that_does_not_come_fails():
    scene = Scene([])
    scene.announced_at = 0.0
    assert scene.run(watch=True, patience=60.0).problems[0] == "the drill took more than 60 s"


def test_each_step_is_said_once():
    scene = Scene(until_started())
    scene.run()
    assert scene.said[2:] == [
        *("seen", "prepare began", "prepare ended: ok", "acknowledged", "started", "ended", "over"),
        *("recover began", "recover ended: ok", "returned"),
    ]


def test_a_drill_that_may_have_begun_is_aborted_so_that_no_other_host_is_drilled_meanwhile():
    scene = Scene([])
    scene.is_unanswered = True
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems) == (
        "aborted",
        (
            "the drill was ended: it is not known whether its event was announced, which ends by itself within a "
            "minute: web1 cannot be reached",
        ),
    )
    assert (scene.story, scene.noted, scene.now < 10) == (["load", "begin", "no load"], None, True)
