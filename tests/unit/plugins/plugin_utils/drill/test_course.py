# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a drill and its verdict, against a host, a source and a load that the test plays."""

import pytest
from histories import AT, ID, a_fact, a_maintenance, a_phase, announcement

from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._drill.course import (
    OUT_OF_SIGHT,
    Announced,
    Drill,
    DrillRefused,
    HostLost,
    Look,
    Settings,
)
from plugins.plugin_utils._drill.load import Counts, Failure

HEALTHY = Counts(50, 0, 0, 0.1, ())
ONE_LOST = Counts(50, 1, 0, 0.1, (Failure(AT, "http://lb/", "503"),))
LIMITS = {"hear": 10.0, "margin": 0.0, "lost": 0.0}
FAILED_PREPARATION = [
    announcement(),
    *a_phase("prepare", 1, 60, outcome="failed", reason="leave: exit status 1"),
    a_fact("held", 60, reason="preparation failed: leave: exit status 1"),
]
CANCELLED = [a_fact("over", 70), *a_phase("recover", 71, 75), a_fact("returned", 75)]


class Scene:
    """Everything outside of the drill. ``story``: what happened, in its order.

    :param facts: of the host, each of which it shows once its time has come.
    """

    def __init__(self, facts, *, load=HEALTHY, after_cancel=()):
        self.facts, self.after_cancel, self.load = list(facts), list(after_cancel), load
        self.now, self.story, self.announced_at = 0.0, [], None
        self.ended, self.lost, self.failing_from, self.restored = "", [], None, True
        self.refused_at = ""

    # The source

    def begin(self):
        self.story.append("begin")
        if self.refused_at == "begin":
            raise DrillRefused("another drill runs")

    def announce(self):
        self.story.append("announce")
        self.announced_at = self.now
        return Announced(ID.upper(), AT)

    def look(self):
        after = self.now - self.announced_at
        if any(begin <= after < end for begin, end in self.lost):
            raise HostLost("web1 cannot be reached")
        facts = tuple(fact for fact in self.facts if fact.time <= AT + after)
        return Look(facts, self.ended, self.restored)

    def cancel(self):
        self.story.append("cancel")
        self.facts += self.after_cancel
        return True

    def end(self):
        self.story.append("end")

    def note(self, event_id, verdict):
        assert event_id
        self.story.append("noted" if verdict is None else f"noted {verdict.outcome}")

    # The load

    def start(self):
        self.story.append("load")

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

    def run(self, **changes):
        settings = Settings("web1", steady=5.0, stop_after=5.0, patience=900.0, recovery=60.0, limits=LIMITS)
        clock = Clock(lambda: AT + self.now, lambda: self.now, self.sleep)
        self.said = []
        load = None if changes.pop("without_load", False) else self
        return Drill(self, load, settings._replace(**changes), clock, self.said.append).run()


def test_a_drill_in_which_all_goes_well_passes_with_its_figures():
    scene = Scene(a_maintenance())
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems, verdict.requests) == ("passed", (), 50)
    assert verdict.figures == {
        **{"hear": 0.0, "prepare": 120.0, "acknowledge": 39.0, "margin": 779.0, "back": 30.0},
        **{"lost": 0.0, "slow": 0.0},
    }
    assert scene.story == ["load", "begin", "announce", "noted", "end", "no load", "noted passed"]


def test_a_hook_that_fails_ends_the_drill_and_the_verdict_names_it():
    scene = Scene(FAILED_PREPARATION, after_cancel=CANCELLED)
    verdict = scene.run()
    assert verdict.outcome == "failed"
    assert verdict.problems == ("the preparation failed: leave: exit status 1",)
    assert scene.story == ["load", "begin", "announce", "noted", "cancel", "end", "no load", "noted failed"]
    assert scene.now < 120  # not until NotBefore


def test_a_host_that_does_not_return_after_the_event_was_cancelled_is_named():
    stuck = [a_fact("over", 70), *a_phase("recover", 71, 75, outcome="failed", reason="return: exit status 1")]
    verdict = Scene(FAILED_PREPARATION, after_cancel=stuck).run()
    assert "the preparation failed: leave: exit status 1" in verdict.problems
    assert Scene([*a_maintenance()[:-4], *stuck[1:]]).run().problems == ("the recovery failed: return: exit status 1",)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"prepare": 60.0}, "prepare is 120, limit 60 (seconds that the preparation took)"),
        (
            {"margin": 800.0},
            "margin is 779, limit 800 (seconds between the end of the preparation and NotBefore)",
        ),
        ({"back": 29.9}, "back is 30, limit 29.9 (seconds from the end of the event until the host had returned)"),
    ],
)
def test_a_figure_beyond_its_limit_fails_the_drill(limits, problem):
    verdict = Scene(a_maintenance()).run(limits=limits)
    assert (verdict.outcome, verdict.problems) == ("failed", (problem,))


def test_a_figure_at_its_limit_passes():
    assert Scene(a_maintenance()).run(limits={"prepare": 120.0, "margin": 779.0}).outcome == "passed"


def test_lost_requests_fail_the_drill():
    scene = Scene(a_maintenance())
    counts = iter([HEALTHY])
    scene.counts = lambda: next(counts)
    scene.load = ONE_LOST
    assert scene.run().problems == ("lost is 1, limit 0 (lost requests)",)


@pytest.mark.parametrize("load", [ONE_LOST, Counts(0, 0, 0, 0.0, ())], ids=["lost", "no answer"])
def test_a_service_that_is_not_healthy_before_is_not_drilled(load):
    scene = Scene(a_maintenance(), load=load)
    with pytest.raises(DrillRefused, match="the service is not healthy before the drill"):
        scene.run()
    assert scene.story == ["load", "no load"]


def test_a_service_that_fails_for_too_long_stops_the_drill_and_the_host_returns():
    scene = Scene([announcement(), *a_phase("prepare", 1, 400)], after_cancel=CANCELLED)
    scene.failing_from = 20.0
    verdict = scene.run()
    assert verdict.problems[0].startswith("http://lb/ failed for ")
    assert scene.story[-4:] == ["cancel", "end", "no load", "noted failed"]
    assert scene.now < 120


def test_an_event_of_azure_aborts_the_drill_without_touching_what_follows():
    scene = Scene([announcement(), *a_phase("prepare", 1, 400)])
    scene.ended = "an event of Azure names this VM"
    verdict = scene.run()
    assert (verdict.outcome, verdict.problems) == (
        "aborted",
        ("the drill was ended: an event of Azure names this VM",),
    )
    assert "cancel" not in scene.story


def test_a_host_that_does_not_see_the_event_fails_after_the_patience():
    scene = Scene([])
    assert scene.run(patience=60.0).problems == (
        "the drill took more than 60 s",
        "the host did not see the event",
    )


def test_an_event_that_is_never_over_fails():
    scene = Scene(a_maintenance()[:-4])
    assert scene.run(patience=300.0).problems == ("the drill took more than 300 s", "the event is not over")


def test_an_event_that_was_not_acknowledged_fails():
    facts = [fact for fact in a_maintenance() if fact.kind != "acknowledged"]
    assert Scene(facts).run().problems == ("the event was not acknowledged",)


def test_a_host_that_is_out_of_sight_for_a_moment_changes_nothing():
    scene = Scene(a_maintenance())
    scene.lost = [(172.0, 172.0 + OUT_OF_SIGHT - 5)]
    assert scene.run().outcome == "passed"


def test_a_host_that_stays_out_of_sight_ends_the_drill():
    scene = Scene(a_maintenance())
    scene.lost = [(172.0, 1e9)]
    problems = scene.run().problems
    assert problems[0].startswith("the host was out of sight for more than 60 s")
    assert problems[-1].startswith("the host is not restored: web1 cannot be reached")


def test_a_host_that_is_not_restored_is_said():
    scene = Scene(a_maintenance())
    scene.restored = False
    assert scene.run().problems == (
        "the host is not restored: its polling unit has not read its own service. Run 'systemctl stop "
        "scheduled-events-drill' on it",
    )


def test_a_drill_that_cannot_begin_is_cleaned_up_and_announces_nothing():
    scene = Scene(a_maintenance())
    scene.refused_at = "begin"
    with pytest.raises(DrillRefused, match="another drill runs"):
        scene.run()
    assert scene.story == ["load", "begin", "end", "no load"]


def test_without_urls_no_requests_are_counted():
    verdict = Scene(a_maintenance()).run(without_load=True)
    assert (verdict.outcome, verdict.requests, verdict.figures["lost"]) == ("passed", 0, None)


def test_an_event_that_only_azure_knows_is_found_in_the_history_of_the_host():
    old = [fact._replace(event_id="00000000-0000-0000-0000-000000000000", time=AT - 50) for fact in a_maintenance()[:3]]
    scene = Scene([*old, *a_maintenance(later=5)])
    scene.announce = lambda: (setattr(scene, "announced_at", scene.now), Announced("", AT))[1]
    verdict = scene.run()
    assert (verdict.outcome, verdict.figures["margin"]) == ("passed", 774.0)
    assert verdict.figures["hear"] is None  # only Azure knows when it was announced


def test_each_step_is_said_once():
    scene = Scene(a_maintenance())
    scene.run()
    assert scene.said[2:] == [
        *("seen", "prepare began", "prepare ended: ok", "acknowledged", "started", "over"),
        *("recover began", "recover ended: ok", "returned"),
    ]
