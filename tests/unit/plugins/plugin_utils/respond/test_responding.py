# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control node's part of the turns of a host, with a module, a clock and other hosts that the test plays."""

import os

import pytest

from plugins.module_utils._scheduled_events.checks import WrongValue
from plugins.plugin_utils._ansible.other_host import HostLost
from plugins.plugin_utils._ansible.run import owner_of
from plugins.plugin_utils._respond.context import Notes, Published
from plugins.plugin_utils._respond.play_coordinator import ClaimStatus, HostReport, Outcome, PlayCoordinator, SeenEvent
from plugins.plugin_utils._respond.responding import Responding, looks_cut_off

from .conftest import EVENT, OWNER, PlayedHost, shown, sight, waiting

pytestmark = pytest.mark.core

OPTIONS = {"advised_tasks": "/checkpoint.yml", "recover_tasks": "/return.yml"}
SEEN = SeenEvent("Reboot", ["vm1", "vm2"])
CLAIM = {"event_id": "A1", "event_type": "Reboot", "names": ["vm1", "vm2"]}


class Host(PlayedHost):
    def __init__(self, directory):
        super().__init__(directory)
        self.coordinator = PlayCoordinator(directory, play_hosts=["web1", "web2"])
        self.bounds, self.active_hosts, self.forks = [], ["web1", "web2"], 2
        self.published = Published([])

    def execute(self, controller, outcome, within):
        self.bounds.append(within)
        answer = self.answer(controller, outcome)
        if isinstance(answer, Exception):
            self.now += 1.0
            raise answer
        self.now += max(1.0, controller["slice"])
        return answer

    def responds(self, *script, fresh=True, shares_fork=False, **given):
        """Take turns with these answers of the module."""
        self.script = list(script)
        self.asked.clear()
        self.bounds.clear()
        how = {name: given.pop(name, False) for name in ("check_mode", "lockstep", "has_failed")}
        self.responding = Responding(
            self.context(
                {**OPTIONS, **given},
                fresh=fresh,
                active_hosts=self.active_hosts,
                published=self.published,
                forks=1 if shares_fork else self.forks,
                **how,
            )
        )
        return self.responding.next_step()

    def kept(self, name):
        """What the next task of the play learns."""
        return Notes(self.directory / "notes" / "web1", fresh=False, began=0.0)[name]

    def tell(self, *, host="web2", vm_name="vm2", busy=False, last="", **outcomes):
        told = {event_id: Outcome(kind, "Reboot") for event_id, kind in outcomes.items()}
        self.coordinator.publish(HostReport(host, vm_name, {"A1": SEEN}, told, busy, last))

    def acknowledges(self):
        """The ids that each turn was asked to acknowledge."""
        return [[claim["event_id"] for claim in asked["acknowledge"]] for asked, _outcome in self.asked]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "meeting")


def test_an_idle_host_costs_one_run_of_the_module_and_one_line(host):
    end = host.responds(shown("done", sight=[], named=[]))
    assert (end["next"], end["respond_result"]["failures"], len(host.asked)) == ("done", [], 1)
    assert end["respond_result"]["drill"] is False
    assert host.said == ["web1: no event"]


@pytest.mark.parametrize(
    ("balances", "more"), [(True, ""), (False, ", and nothing is configured that prepares for events")]
)
def test_a_host_without_any_preparation_says_so_before_an_event_comes(host, balances, more):
    host.responds(shown("done", sight=[], named=[]), prepare_tasks="", load_balancer=balances)
    assert host.said == [f"web1: no event{more}"]


def test_a_host_says_for_which_event_there_is_nothing_to_do(host):
    assert host.responds(shown("done", sight=[]))["respond_result"]["named"] == ["A1"]
    assert host.said == ["web1: nothing to do for A1"]


def test_a_phase_goes_back_to_the_play_with_what_it_needs(host):
    following = host.responds(shown("prepare"), load_balancer=True)
    files = ["load_balancer.yml", "/drain.yml"]
    assert {**following, "events": None} == {
        "next": "prepare",
        "changed": True,
        "events": None,
        "request_ids": ["1"],
        "steps": [{"file": file, "number": number, "of": files} for number, file in enumerate(files, 1)],
        "load_balancer": "drained",
        "drain_timeout": 300,
        "drain_deadline": following["drain_deadline"],
        "drain_on_timeout": "fail",
    }


def test_a_recovery_puts_the_host_back_in_its_load_balancer(host):
    assert host.responds(shown("recover"), load_balancer=True)["load_balancer"] == "active"


def test_without_a_load_balancer_a_phase_changes_none(host):
    assert host.responds(shown("prepare"))["load_balancer"] == ""


def test_a_plan_goes_on_from_what_its_turn_before_has_planned(host):
    host.responds(shown("prepare", state="planned"), shown("done"), check_mode=True, prepare_tasks="")
    assert [asked["state"] for asked, _outcome in host.asked] == ["", "planned"]


def test_a_phase_forgets_first_what_has_failed_before_it(host):
    following = host.responds(shown("recover"), has_failed=True, load_balancer=True)
    files = ["forget.yml", "handlers.yml", "/return.yml", "handlers.yml", "load_balancer.yml"]
    assert [step["file"] for step in following["steps"]] == files


def test_the_next_task_of_the_play_learns_which_phase_the_play_has_run(host):
    host.responds(shown("recover"))
    assert host.kept("handed_out") == {"phase": "recover", "request_ids": ["1"], "events": [EVENT]}


def test_a_phase_for_which_the_play_has_nothing_to_run_leaves_no_outcome_to_the_next_task(host):
    host.responds(shown("started"), shown("done"), started_tasks="")
    assert host.kept("handed_out") is None


def test_a_hint_runs_its_tasks_and_leaves_the_load_balancer_alone(host):
    following = host.responds(shown("advised", events=[EVENT], request_ids=["1"]), load_balancer=True)
    assert [step["file"] for step in following["steps"]] == ["/checkpoint.yml"]
    assert following["load_balancer"] == ""


@pytest.mark.parametrize(
    ("phase", "seconds", "drain_timeout", "left"),
    [
        ("prepare", [100.0], 300, 90),
        ("prepare", [900.0, 100.0], 300, 90),
        ("prepare", [5.0], 300, -5),
        ("prepare", [-5000.0], 300, -1000),  # a moment before 1970 is none that the balancer knows
        ("prepare", [None], 300, None),
        ("started", [900.0], 0, None),
    ],
)
def test_a_drain_ends_before_not_before_and_not_before_does_not_shorten_the_time_of_connections(
    host, phase, seconds, drain_timeout, left
):
    events = [{**EVENT, "seconds_until_not_before": each} for each in seconds]
    following = host.responds(shown(phase, events=events), load_balancer=True)
    assert following["drain_timeout"] == drain_timeout
    assert following["drain_deadline"] == (0 if left is None else pytest.approx(host.now + left))


def test_a_phase_without_tasks_is_done_without_the_play(host):
    end = host.responds(shown("prepare"), shown("done"), prepare_tasks="")
    assert end["next"] == "done"
    assert (host.asked[1][1]["request_ids"], host.asked[1][1]["ok"]) == (["1"], True)


def test_a_host_without_anything_that_prepares_claims_nothing_and_says_so(host):
    host.tell(A1="prepared")
    nothing = shown(waiting=[waiting(condition="nothing prepares")])
    end = host.responds(shown("prepare"), nothing, shown("done", sight=[]), prepare_tasks="")
    assert [asked["acknowledge"] for asked, _outcome in host.asked] == [[], [], []]
    reason = "nothing is configured that prepares vm1 for it"
    assert end["respond_result"]["held"] == [{"event_id": "A1", "reason": reason}]


def test_nothing_is_acknowledged_by_other_hosts_while_a_host_is_put_back(host):
    host.tell(A1="prepared")
    assert host.responds(shown("recover", prepared=["A1"], sight=[sight("vm2")]))["next"] == "recover"
    assert not host.coordinator.claim("A1", SEEN)


def test_a_host_is_not_put_back_while_another_one_acknowledges_what_it_prepared_for(host):
    host.responds(shown("prepare"))
    host.tell(A1="prepared")
    assert host.coordinator.claim("A1", SEEN, assuming="web1")
    assert host.responds(shown("recover"), fresh=False, shares_fork=True) == {"next": "wait"}
    host.coordinator.release("A1")
    assert host.responds(shown("recover"), fresh=False, shares_fork=True)["next"] == "recover"


def test_what_a_rule_approves_on_all_hosts_is_acknowledged_without_a_preparation(host):
    host.tell(A1="prepared")  # as the other host says, for which a rule approves it, too
    approved = shown(ready=["A1"], waiting=[waiting(decision="approve")])
    end = host.responds(approved, shown(acknowledged=["A1"]), shown("done", sight=[]))
    assert (end["respond_result"]["acknowledged"], end["respond_result"]["prepared"]) == (["A1"], [])


@pytest.mark.parametrize("ready", [[], ["A1"]])
def test_what_a_rule_of_this_host_holds_no_host_acknowledges(host, ready):
    held = shown(ready=ready, prepared=["A1"], waiting=[waiting(decision="hold")])
    host.tell(A1="prepared")
    host.responds(held, shown("done", sight=[]))
    assert not host.coordinator.claim("A1", SEEN)
    assert host.coordinator.obstacle("A1", SEEN) == "the action of a rule is hold for vm1"


def test_an_outcome_of_an_event_that_a_rule_holds_claims_nothing(host):
    host.tell(A1="prepared")
    held = shown("prepare", waiting=[waiting(decision="hold")])
    host.responds(held)
    host.responding._notes.keep()
    host.responds(shown("done", sight=[]), fresh=False, outcome=prepared())
    assert [asked["acknowledge"] for asked, _outcome in host.asked] == [[]]


def test_the_host_that_completes_an_event_acknowledges_it(host):
    host.tell(A1="prepared")
    ready = shown(ready=["A1"], prepared=["A1"])
    end = host.responds(ready, shown(acknowledged=["A1"], prepared=["A1"]), shown("done"))
    assert [asked["acknowledge"] for asked, _outcome in host.asked] == [[], [CLAIM], []]
    assert end["respond_result"]["acknowledged"] == ["A1"]
    assert host.coordinator.status("A1") is ClaimStatus.ACCEPTED


def test_an_event_that_another_host_is_not_prepared_for_is_not_acknowledged(host):
    host.tell()
    end = host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done", sight=[]))
    assert host.acknowledges() == [[], []]
    assert end["respond_result"]["held"] == [{"event_id": "A1", "reason": "vm2 has not prepared"}]


def prepared(**more):
    """The outcome of a preparation."""
    return {"phase": "prepare", "request_ids": ["1"], "events": [EVENT], "ok": True, "reason": "", **more}


def test_the_last_host_to_prepare_acknowledges_in_the_turn_that_takes_its_outcome(host):
    host.responds(shown("prepare"))
    host.tell(A1="prepared")
    end = host.responds(shown(acknowledged=["A1"], prepared=["A1"]), shown("done"), fresh=False, outcome=prepared())
    assert [(asked["acknowledge"], bool(outcome)) for asked, outcome in host.asked] == [([CLAIM], True), ([], False)]
    assert host.asked[0][0]["slice"] == 0
    assert end["respond_result"]["acknowledged"] == ["A1"]
    assert host.coordinator.status("A1") is ClaimStatus.ACCEPTED


@pytest.mark.parametrize(
    ("neighbour", "outcome", "acknowledge"),
    [
        ({}, prepared(), "prepared"),
        ({"A1": "failed"}, prepared(), "prepared"),
        ({"A1": "prepared"}, prepared(ok=False), "prepared"),
        ({"A1": "prepared"}, prepared(phase="started"), "prepared"),
        ({"A1": "prepared"}, prepared(), "never"),
    ],
)
def test_an_outcome_that_completes_no_event_claims_none(host, neighbour, outcome, acknowledge):
    host.responds(shown("prepare"))
    host.tell(**neighbour)
    host.responds(shown("done"), fresh=False, outcome=outcome, acknowledge=acknowledge)
    assert host.acknowledges() == [[]]
    assert host.coordinator.status("A1") is ClaimStatus.FREE


@pytest.mark.parametrize(
    "now",
    [
        sight("vm1", "vm2", "vm3"),
        sight("vm1", "vm2", "vm99"),
        sight("vm1"),
        sight("vm1", "vm2", event_type="Redeploy"),
    ],
    ids=["grew", "grew beyond the play", "shrank", "another type"],
)
def test_what_is_claimed_is_what_the_hosts_have_prepared_for(host, now):
    """Not what the event has become since: the turn on the host compares, and shows the change."""
    host.responds(shown("prepare"))
    host.tell(A1="prepared")
    changed = shown(sight=[now], prepared=["A1"], ready=[])
    host.responds(changed, shown("done"), fresh=False, outcome=prepared())
    assert [asked["acknowledge"] for asked, _outcome in host.asked] == [[CLAIM], []]
    assert host.coordinator.status("A1") is ClaimStatus.FREE


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (sight("vm1"), [{**CLAIM, "names": ["vm1"]}]),
        (sight("vm1", "vm2", "vm99"), []),
        (sight("vm1", "vm2", event_type="Redeploy"), []),
    ],
)
def test_the_next_claim_is_for_what_the_event_has_become(host, now, expected):
    host.responds(shown("prepare"))
    host.tell(A1="prepared")
    known = [waiting(event_type=now["event_type"])]
    changed = shown(sight=[now], prepared=["A1"], ready=["A1"], waiting=known)
    host.responds(changed, shown("done"), fresh=False)
    assert [claim for asked, _outcome in host.asked for claim in asked["acknowledge"]] == expected


def test_a_preparation_for_another_type_than_the_last_document_shows_claims_nothing(host):
    host.responds(shown("prepare"))
    host.tell(A1="prepared")
    outcome = prepared(events=[{**EVENT, "event_type": "Freeze"}])
    host.responds(shown("done"), fresh=False, outcome=outcome)
    assert host.acknowledges() == [[]]


@pytest.mark.parametrize("answer", [shown(acknowledged=[]), {"failed": True, "msg": "no"}, HostLost("no connection")])
def test_a_claim_that_was_not_accepted_is_given_back(host, answer):
    host.tell(A1="prepared")
    host.responds(shown(ready=["A1"], prepared=["A1"]), answer, shown("done"))
    assert host.coordinator.status("A1") is ClaimStatus.FREE


def test_a_module_that_fails_ends_the_run_with_its_result_also_while_it_acknowledges(host):
    failed = {"failed": True, "msg": "no"}
    assert host.responds(failed) == failed
    host.tell(A1="prepared")
    assert host.responds(shown(ready=["A1"], prepared=["A1"]), failed, shown("done")) == failed


def test_with_respond_acknowledge_never_nothing_is_claimed_and_the_reason_says_so(host):
    host.tell(A1="prepared")
    end = host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done", sight=[]), acknowledge="never")
    assert len(host.asked) == 2
    assert end["respond_result"]["held"] == [{"event_id": "A1", "reason": "respond_acknowledge is never"}]


def test_a_host_that_could_take_an_acknowledgement_over_polls_in_short_slices(host):
    host.tell()
    host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done"))
    assert host.asked[1][0]["slice"] == 15.0
    host.tell(A1="prepared")
    host.tell(host="web1", vm_name="vm1", A1="prepared")
    assert host.coordinator.claim("A1", SEEN)
    host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done"))
    assert host.asked[1][0]["slice"] == 5.0
    host.coordinator.accept("A1")
    host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done"))
    assert host.asked[1][0]["slice"] == 60.0


@pytest.fixture
def prepared_host(host):
    """A host whose tasks have just ended, while those of the other host of its event run."""
    host.coordinator.twin("web2", "vm2")
    host.tell(busy=True)
    host.responds(shown("prepare"))
    return host


def after(host, seconds, happens):
    """Let something happen so many seconds from now, while the host waits."""
    at, sleep = host.now + seconds, host.sleep

    def wait(duration):
        sleep(duration)
        if host.now >= at:
            host.sleep = sleep
            happens()

    host.sleep = wait


def test_a_preparation_is_told_at_once_and_reported_to_the_host_with_the_acknowledgement(prepared_host):
    host, began = prepared_host, prepared_host.now
    after(host, 8, lambda: host.tell(A1="prepared"))
    host.responds(shown(acknowledged=["A1"], prepared=["A1"]), shown("done"), fresh=False, outcome=prepared())
    assert [(asked["acknowledge"], bool(outcome)) for asked, outcome in host.asked] == [([CLAIM], True), ([], False)]
    assert host.asked[0][0]["monotonic"] - began == 8


def test_what_is_told_counts_for_the_host_that_completes_the_event(prepared_host):
    host = prepared_host
    claims = []

    def complete():
        claims.append(host.coordinator.claim("A1", SEEN, assuming="web2"))
        host.coordinator.accept("A1")

    after(host, 8, complete)
    host.responds(shown(prepared=["A1"]), shown("done"), fresh=False, outcome=prepared())
    assert claims == [True]
    assert host.acknowledges() == [[], []]


def test_a_host_does_not_turn_while_another_one_acknowledges(prepared_host):
    host, began = prepared_host, prepared_host.now
    after(host, 5, lambda: host.coordinator.claim("A1", SEEN, assuming="web2"))
    host.responds(shown(prepared=["A1"]), shown("done"), fresh=False, outcome=prepared())
    assert host.asked[0][0]["monotonic"] - began == 10


@pytest.mark.parametrize(("phase_timeout", "seconds"), [(900.0, 10), (18.0, 9), (0.5, 0)])
def test_a_host_looks_for_changes_after_ten_seconds_or_half_of_its_lease(prepared_host, phase_timeout, seconds):
    host, began = prepared_host, prepared_host.now
    ready = shown(prepared=["A1"], ready=["A1"])
    more = {"outcome": prepared(), "phase_timeout": phase_timeout}
    host.responds(ready, ready, shown("done", sight=[]), fresh=False, **more)
    assert host.asked[0][0]["monotonic"] - began == pytest.approx(seconds, abs=0.5)
    assert [bool(outcome) for _asked, outcome in host.asked] == [True, False, False]


@pytest.mark.parametrize(("others", "seconds"), [(1, 10), (63, 32), (300, 60)])
def test_hosts_that_wait_for_others_look_for_changes_together_twice_a_second(prepared_host, others, seconds):
    prepared_host.active_hosts = ["web1", *(f"web{number + 2}" for number in range(others))]
    ready = shown(prepared=["A1"], ready=["A1"])
    prepared_host.responds(ready, ready, ready, shown("done", sight=[]), fresh=False, outcome=prepared())
    looks = [(asked["monotonic"], asked["slice"]) for asked, _outcome in prepared_host.asked]
    rests = [after - before - took for (before, took), (after, _took) in zip(looks, looks[1:])]
    assert rests == [pytest.approx(seconds, abs=0.5)] * 3


def test_a_host_that_waits_for_others_fails_when_its_wait_is_over(prepared_host):
    host, began = prepared_host, prepared_host.now
    end = host.responds(shown(prepared=["A1"]), fresh=False, outcome=prepared(), wait_timeout=9.0)
    assert len(end["respond_result"]["failures"]) == 1
    [(asked, outcome)] = host.asked
    assert (asked["monotonic"] - began, outcome) == (8, prepared())


@pytest.mark.parametrize(("sharing", "stays"), [({"shares_fork": True}, 0.25 + 0.5), ({"lockstep": True}, 0.0)])
def test_a_host_that_waits_for_others_gives_its_fork_back_and_keeps_its_outcome(prepared_host, sharing, stays):
    host, began = prepared_host, prepared_host.now
    assert host.responds(shown(), fresh=False, outcome=prepared(), **sharing) == {"next": "wait"}
    assert host.responds(shown(), fresh=False, **sharing) == {"next": "wait"}
    assert (host.asked, host.now - began) == ([], stays)
    host.tell(A1="prepared")
    host.responds(shown(acknowledged=["A1"], prepared=["A1"]), shown("done", sight=[]), fresh=False, **sharing)
    assert (host.asked[0][0]["acknowledge"], host.asked[0][1]) == ([CLAIM], prepared())


def returns(host, outcome, **how):
    """How often the host returns to the play, whose tasks take half a second, until its wait of half an hour ends."""
    count = 0
    while host.responds(
        shown(ready=["A1"], prepared=["A1"]), fresh=False, outcome=outcome, wait_timeout=1800.0, **how
    ) == {"next": "wait"}:
        count, outcome, host.now = count + 1, None, host.now + 0.5
    assert host.now - 1000.0 >= 1800
    return count


# Ansible-core ends a run whose inclusions nest some 290 deep.
MOST_RETURNS = 125


def test_in_lockstep_a_host_that_waits_for_a_lost_one_keeps_its_place(prepared_host):
    prepared_host.active_hosts = ["web1"]
    assert returns(prepared_host, prepared(), lockstep=True) == 0


@pytest.mark.parametrize("sharing", [{"shares_fork": True}, {"lockstep": True, "shares_fork": True}])
def test_a_host_that_waits_for_one_without_the_role_returns_seldom(host, sharing):
    host.responds(shown("prepare"))
    assert 0 < returns(host, prepared(), **sharing) < MOST_RETURNS


def test_in_lockstep_a_host_looks_itself_as_long_as_no_other_one_has_work(host):
    """One that returns looks at nothing until all others return, which see no reason for that."""
    assert host.responds(shown(waiting=[]), shown("prepare"), lockstep=True)["next"] == "prepare"
    assert len(host.asked) == 2


def test_in_lockstep_a_host_leaves_the_rescue_section_once_it_has_reported(host):
    host.tell()
    host.responds(shown("prepare"))
    failed = {"outcome": prepared(ok=False, reason="no"), "reached": False, "lockstep": True}
    assert host.responds(shown(unprepared=["A1"]), fresh=False, **failed) == {"next": "wait"}
    assert [bool(outcome) for _asked, outcome in host.asked] == [True]


def test_in_lockstep_a_host_gives_way_to_one_that_goes_on_in_a_rescue_section(prepared_host):
    prepared_host.active_hosts, prepared_host.rescued_hosts = ["web1"], ["web2"]
    assert prepared_host.responds(shown(), fresh=False, outcome=prepared(), lockstep=True) == {"next": "wait"}
    assert len(prepared_host.asked) == 1


def test_in_lockstep_a_host_returns_seldom_while_one_that_may_be_lost_has_work(prepared_host):
    prepared_host.active_hosts, prepared_host.rescued_hosts = ["web1"], ["web2"]
    assert 0 < returns(prepared_host, prepared(), lockstep=True) < MOST_RETURNS


def test_a_host_that_is_lost_after_its_tasks_has_no_work(prepared_host):
    host, found = prepared_host, []
    after(host, 3, lambda: found.append(host.coordinator.others_have_work("web2", ["web1", "web2"])))
    with pytest.raises(HostLost):
        host.responds(HostLost("no route"), fresh=False, outcome=prepared(), acknowledge="never")
    assert set(found) == {False}


def test_a_host_that_shares_its_fork_returns_seldom_while_another_one_prepares_for_long(prepared_host):
    assert 0 < returns(prepared_host, prepared(), shares_fork=True) < MOST_RETURNS


def test_in_lockstep_a_host_that_has_ended_returns_seldom_and_leaves_the_others_when_its_wait_is_over(host):
    host.tell()
    following = shown("done", waiting=[])
    count = 0
    while host.responds(following, fresh=count == 0, lockstep=True, wait_timeout=1800.0) == {"next": "wait"}:
        count, host.now = count + 1, host.now + 0.5
    assert 0 < count < MOST_RETURNS
    assert 1800 <= host.now - 1000.0 < 1900


@pytest.mark.parametrize(
    "happens", [lambda host: host.tell(busy=True), lambda host: host.coordinator._set("called", "vm2", True)]
)
def test_in_lockstep_a_host_that_stays_for_long_lets_a_busy_or_called_one_go_on_at_once(prepared_host, happens):
    host, began = prepared_host, prepared_host.now
    host.tell()
    notes = Notes(host.directory / "notes" / "web1", fresh=False, began=0.0)
    notes["returns"] = 200
    notes.keep()
    after(host, 7, lambda: happens(host))
    assert host.responds(shown(), fresh=False, outcome=prepared(), lockstep=True) == {"next": "wait"}
    assert host.now - began == pytest.approx(7, abs=0.5)


def test_a_host_whose_module_fails_is_waited_for_by_no_other_one_if_the_play_rescues_it(host):
    host.responds(shown("prepare"))
    assert host.responds({"failed": True, "msg": "no space"}, fresh=False, outcome=prepared())["failed"]
    assert not host.coordinator.others_respond("web2", ["web1", "web2"], silent=True)
    assert not host.coordinator.others_have_work("web2", ["web1", "web2"])


def test_a_host_that_keeps_a_fork_from_others_stays_longer_each_time_up_to_a_tenth_of_its_wait(prepared_host):
    host, stays = prepared_host, []
    host.active_hosts = [f"web{number + 1}" for number in range(120)]
    for turn in range(6):
        host.now += 22.0 if turn == 5 else 0.0
        began = host.now
        outcome = None if turn else prepared()
        assert host.responds(shown(), fresh=False, outcome=outcome, shares_fork=True) == {"next": "wait"}
        stays.append(host.now - began)
    assert stays == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    waited = host.now - 1000.0
    host.responds(shown(), fresh=False, shares_fork=True)
    assert host.now - 1000.0 - waited == pytest.approx(waited / 10)


def test_a_host_that_waits_for_others_keeps_its_fork_where_those_at_work_have_one_each(prepared_host):
    host = prepared_host
    host.active_hosts = ["web1", "web2", "web3", "web4"]
    host.coordinator, host.forks = PlayCoordinator(host.directory, play_hosts=host.active_hosts), 3
    # Three others need a fork each. A host that rests in its own needs no other.
    assert host.responds(shown(), fresh=False, outcome=prepared()) == {"next": "wait"}
    host.coordinator.rest("web3", rests=True, holds_fork=True)
    assert host.responds(shown(), fresh=False) == {"next": "wait"}
    # A host that rests and gave its fork back needs none.
    host.coordinator.rest("web3", rests=True)
    host.sleep = lambda seconds: (host.tell(A1="prepared"), Host.sleep(host, seconds))
    host.responds(shown(acknowledged=["A1"], prepared=["A1"]), fresh=False)
    assert host.asked[0][0]["acknowledge"] == [CLAIM]


def test_a_host_that_waits_for_others_gives_its_fork_back_now_and_then_for_the_looks_of_others(prepared_host):
    host, began = prepared_host, prepared_host.now
    host.coordinator.rest("web2", rests=True)
    assert host.responds(shown(), fresh=False, outcome=prepared(), shares_fork=True) == {"next": "wait"}
    assert (host.asked, host.now - began) == ([], pytest.approx(10, abs=0.5))


def test_a_host_that_gave_its_fork_back_or_rests_no_longer_is_not_one_that_keeps_a_fork(prepared_host):
    host, others = prepared_host, ["web2", "web3"]
    host.coordinator, host.forks = PlayCoordinator(host.directory, play_hosts=["web1", *others]), 2
    host.active_hosts = ["web1", *others]
    assert host.responds(shown(), fresh=False, outcome=prepared()) == {"next": "wait"}
    assert host.coordinator.forks_suffice(["web1", *others], 2)
    host.tell(A1="failed")
    host.responds(shown("done", sight=[]), fresh=False)
    assert host.coordinator.forks_suffice(others, 2)


@pytest.mark.parametrize(
    "change",
    [{"outcome": prepared(ok=False, reason="no disk")}, {"acknowledge": "never"}, {"check_mode": True}],
)
def test_a_host_that_others_do_not_wait_for_reports_at_once(prepared_host, change):
    host, began = prepared_host, prepared_host.now
    host.responds(shown("done"), fresh=False, **{"outcome": prepared(), **change})
    assert host.asked[0][0]["monotonic"] == began


def test_a_host_whose_event_no_other_host_of_the_play_prepares_for_reports_at_once(host):
    host.tell(A1="failed")
    host.responds(shown("prepare"))
    began = host.now
    host.responds(shown("done"), fresh=False, outcome=prepared())
    assert host.asked[0][0]["monotonic"] == began


def test_an_event_that_others_see_grown_is_not_acknowledged_before_each_host_has_looked_again(prepared_host):
    host = prepared_host
    host.responds(shown(), fresh=False, outcome=prepared(), lockstep=True)
    grown = SeenEvent("Reboot", ["vm1", "vm2", "vm3"])
    for number in (2, 3):
        host.coordinator.publish(
            HostReport(f"web{number}", f"vm{number}", {"A1": grown}, {"A1": Outcome("prepared", "Reboot")})
        )
    assert not host.coordinator.claim("A1", grown)
    assert host.coordinator.obstacle("A1", grown) == (
        "vm1 has prepared for other VMs, or another type, than the event has now"
    )
    now = {"sight": [sight("vm1", "vm2", "vm3")], "prepared": ["A1"]}
    host.responds(shown(ready=["A1"], **now), shown(acknowledged=["A1"], **now), shown("done"), fresh=False)
    # The turn on the host compares the first claim with the document, and refuses it.
    assert [asked["acknowledge"] for asked, _outcome in host.asked] == [
        [CLAIM],
        [{**CLAIM, "names": [*grown.names]}],
        [],
    ]


def test_a_host_that_waits_gives_its_fork_back_where_there_are_few(host):
    host.tell()
    assert host.responds(shown(), shares_fork=True) == {"next": "wait"}


@pytest.mark.parametrize(("later", "seconds"), [(9.0, 5.0), (399.0, 40.0), (3598.5, 1.0)])
def test_a_host_that_shares_its_fork_polls_for_a_tenth_of_its_wait_and_at_the_end_for_a_second(host, later, seconds):
    following = shown(waiting=[waiting(present=False)])
    assert host.responds(following, shares_fork=True) == {"next": "wait"}
    host.now = 1001.0 + later
    host.responds(following, shown("done"), fresh=False, shares_fork=True)
    assert host.asked[0][0]["slice"] == seconds


def test_an_event_that_all_have_prepared_for_is_held_for_its_own_reason(host):
    host.tell(A1="prepared")
    host.tell(host="web1", vm_name="vm1", A1="prepared")
    waits = [waiting(event_id="B2", detail="of another event"), waiting(detail=DETAIL)]
    end = host.responds(shown(waiting=waits, prepared=["A1"]), shown("done", waiting=waits, sight=[]), fresh=False)
    assert {"event_id": "A1", "reason": DETAIL} in end["respond_result"]["held"]


def test_in_lockstep_a_host_that_waits_lets_busy_hosts_go_on(host):
    host.tell(busy=True)
    assert host.responds(shown(), lockstep=True) == {"next": "wait"}
    host.tell()
    assert host.responds(shown(), shown("done", sight=[]), lockstep=True)["next"] == "done"
    assert [asked["slice"] for asked, _outcome in host.asked] == [0.0, 5.0], "all hosts wait as long as this one polls"


def test_a_wait_that_takes_too_long_fails_and_names_the_event(host):
    host.tell(last="has begun the phase prepare at 14:02")
    end = host.responds(shown(prepared=["A1"]), wait_timeout=62.0)
    waits_for = "vm2 has not prepared (web2 has begun the phase prepare at 14:02)"
    assert end["respond_result"]["failures"] == [
        f"not over after 62 s: Reboot A1 ({waits_for}). Run the role again to finish, "
        "or wait longer with respond_wait_timeout"
    ]
    assert host.now == 1062.0


def test_a_wait_that_takes_too_long_names_what_an_event_waits_for_that_may_not_be_acknowledged(host):
    started = waiting(impact=True, condition="started", detail="in progress since 14:02")
    (failure,) = host.responds(shown(waiting=[started]), wait_timeout=100.0)["respond_result"]["failures"]
    assert failure.startswith("not over after 100 s: Reboot A1 (in progress since 14:02). Run")


DETAIL = "waits until 2026-11-23T22:00:00Z (window Mon 22:00 to 05:00 Europe/Berlin)"


def test_a_plan_is_finished_however_long_the_play_was_busy(host):
    host.responds(shown("prepare"), check_mode=True)
    host.now += 4000.0
    end = host.responds(shown(), shown("done"), fresh=False, check_mode=True, outcome=prepared())
    assert (end["next"], end["respond_result"]["failures"]) == ("done", [])


@pytest.mark.parametrize(("check_mode", "moment"), [(False, 1000.0 + 3601), (True, 1000.0 + 2)])
def test_a_run_ends_well_before_a_moment_that_is_later_than_it_waits(host, check_mode, moment):
    waits = shown(waiting=[waiting(waits_until=moment, detail=DETAIL)])
    end = host.responds(waits, check_mode=check_mode)
    assert (end["next"], "failed" in end) == ("done", False)
    assert end["respond_result"]["held"] == [{"event_id": "A1", "reason": DETAIL}]
    assert len(host.asked) == 1


def test_in_lockstep_a_host_that_waits_for_a_later_moment_stays_for_a_host_that_reports_nothing(host):
    later = shown(waiting=[waiting(waits_until=1000.0 + 3601, detail=DETAIL)])
    assert host.responds(later, lockstep=True) == {"next": "wait"}


@pytest.mark.parametrize("seconds", [100, 3600])
def test_a_run_waits_for_a_moment_that_comes_in_time(host, seconds):
    waits = shown(waiting=[waiting(waits_until=1000.0 + seconds, detail=DETAIL)])
    assert host.responds(waits, shown("prepare"))["next"] == "prepare"


def test_a_run_with_another_event_goes_on_while_one_waits_for_a_later_moment(host):
    waits = shown(waiting=[waiting(waits_until=1000.0 + 9999, detail=DETAIL), waiting(event_id="B2")])
    assert host.responds(waits, shown("prepare"))["next"] == "prepare"


def test_the_outcome_of_a_phase_is_part_of_the_result(host):
    host.responds(shown("recover"))
    outcome = {"phase": "recover", "request_ids": ["1"], "events": [EVENT], "ok": True}
    end = host.responds(shown("done"), fresh=False, outcome=outcome)
    assert end["respond_result"]["recovered"] == ["A1"]


def test_a_host_of_the_event_that_had_not_started_before_it_was_over_fails_the_run(host):
    end = host.responds(shown(prepared=["A1"]), shown("done", sight=[]))
    assert end["failed"]
    assert end["respond_result"]["failures"] == [
        "A1 was over before web2 had started, and it may name this host: vm1, vm2. "
        "Run the role for all hosts of the play at the same time"
    ]


def test_each_host_that_had_not_started_before_an_event_was_over_is_named(host):
    host.active_hosts = ["web1", "web2", "web3"]
    host.coordinator, host.forks = PlayCoordinator(host.directory, play_hosts=host.active_hosts), 3
    end = host.responds(shown(prepared=["A1"]), shown("done", sight=[]))
    [failure] = end["respond_result"]["failures"]
    assert failure.startswith("A1 was over before web2, web3 had started, and it may name one of these hosts: vm1, vm2")


@pytest.mark.parametrize(
    "change",
    [
        {"prepare_tasks": ""},
        {"check_mode": True},
        {"within_maintenance": True},
    ],
)
def test_a_host_that_has_not_started_fails_no_plan_no_maintenance_and_no_run_that_prepares_nothing(host, change):
    end = host.responds(shown(prepared=["A1"]), shown("done", sight=[]), **change)
    assert end["respond_result"]["failures"] == []


def test_a_host_that_is_unreachable_fails_the_run_itself(host):
    host.active_hosts = ["web1"]
    end = host.responds(shown(prepared=["A1"]), shown("done", sight=[]))
    assert end["respond_result"]["failures"] == []


def test_a_host_that_has_started_or_is_not_named_does_not_fail_the_run(host):
    end = host.responds(shown(sight=[sight("vm1")], prepared=["A1"]), shown("done", sight=[]))
    assert end["respond_result"]["failures"] == []
    host.tell()
    end = host.responds(shown(prepared=["A1"]), shown("done", sight=[]))
    assert end["respond_result"]["failures"] == []


def test_a_failed_phase_is_reported_with_its_reason(host):
    host.responds(shown("prepare"))
    outcome = {"phase": "prepare", "request_ids": ["1"], "events": [EVENT], "ok": False, "reason": "no space left."}
    end = host.responds(shown("done"), fresh=False, outcome=outcome)
    assert end["respond_result"]["failures"] == ["prepare failed for Reboot A1: no space left"]


def test_others_do_not_wait_for_a_host_that_has_ended(host):
    host.responds(shown("prepare"))
    assert host.coordinator.others_have_work("web2", ["web1", "web2"])
    host.responds(shown(), fresh=False, wait_timeout=1.0)
    assert not host.coordinator.others_respond("web2", ["web1", "web2"], silent=True)


def test_others_learn_what_a_host_did_last(host):
    host.tell()
    host.responds(shown("prepare"))
    assert host.coordinator.obstacle("A1", SEEN, assuming="web2") == (
        "vm1 has not prepared (web1 has begun the phase prepare at 1970-01-01T00:16:41Z)"
    )
    host.responds(shown(), shown("done"), fresh=False)
    assert "(web1 last answered at 1970-01-01T00:1" in host.coordinator.obstacle("A1", SEEN, assuming="web2")


def test_a_phase_that_ended_without_a_failed_task_says_so(host):
    host.responds(shown("prepare"))
    reason = (
        "no task of this host failed. A tasks file could not be included, or another host failed "
        "(any_errors_fatal, run_once)"
    )
    end = host.responds(shown("done"), fresh=False, outcome=prepared(ok=False, reason=""))
    assert end["respond_result"]["failures"] == [f"prepare failed for Reboot A1: {reason}"]
    assert host.asked[0][1]["reason"] == reason  # which the state of the host holds


def test_a_host_that_had_ended_before_is_not_lost_with_another_one(host):
    host.coordinator.end("web2")
    host.responds(shown("prepare"))
    host.active_hosts = ["web1"]
    end = host.responds(shown("done"), fresh=False, outcome=prepared(ok=False, reason=""))
    [failure] = end["respond_result"]["failures"]
    assert "web2" not in failure


def test_a_run_whose_tags_may_leave_out_tasks_acknowledges_nothing_and_says_what_to_do(host):
    host.in_part = True
    host.tell(A1="prepared")
    host.responds(shown("prepare"))
    end = host.responds(shown(), shown("done", sight=[]), fresh=False, outcome=prepared())
    assert host.acknowledges() == [[], []]
    assert [asked["prepares"] for asked, _outcome in host.asked] == [False, False]
    [held] = end["respond_result"]["held"]
    assert held["reason"] == (
        "the tags of this run may leave out tasks that prepare vm1. Run the role without --skip-tags and "
        "--tags untagged, or set respond_allow_skip_tags to true"
    )
    assert held["reason"] in end["summary"]


def test_a_preparation_of_an_earlier_run_is_not_acknowledged_by_a_run_with_such_tags(host):
    host.in_part = True
    host.tell(A1="prepared")
    host.responds(shown(ready=["A1"], prepared=["A1"]), shown("done"))
    assert host.acknowledges() == [[], []]


@pytest.mark.parametrize("rule", ["approve", "prepare"])
def test_such_tags_hold_the_event_for_the_other_hosts_whatever_a_rule_says(host, rule):
    host.in_part = True
    host.tell(A1="prepared")
    host.responds(shown(waiting=[waiting(decision=rule)]), shown("done"))
    assert not host.coordinator.claim("A1", SEEN)


def test_such_tags_do_not_hide_from_the_other_hosts_that_a_preparation_failed(host):
    host.in_part = True
    host.tell(A1="prepared")
    host.responds(shown("recover", unprepared=["A1"]))
    assert host.coordinator.obstacle("A1", SEEN) == "vm1 failed to prepare"


@pytest.mark.parametrize("begun", [{"impact": True}, {"not_before": 1001.0}])  # when the answer comes
def test_a_named_host_that_was_not_prepared_fails_the_run_once_the_event_has_begun(host, begun):
    host.tell(last="last answered at 14:02")
    end = host.responds(shown(prepared=["A1"], waiting=[waiting(**begun)]), shown("done", sight=[]))
    assert end["failed"]
    assert end["respond_result"]["failures"] == [
        "A1 has begun, and was not acknowledged: vm2 has not prepared (web2 last answered at 14:02)"
    ]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"prepare_tasks": ""}, {}),
        ({"check_mode": True}, {}),
        ({"within_maintenance": True}, {}),
        ({}, {"A1": "failed"}),
        ({}, {"A1": "held"}),
        ({}, {"A1": "prepared"}),
    ],
)
def test_a_plan_a_rule_and_a_host_that_fails_itself_add_no_failure(host, change, outcome):
    host.tell(**outcome)
    end = host.responds(shown(prepared=["A1"], waiting=[waiting(impact=True)]), shown("done", sight=[]), **change)
    assert end["respond_result"]["failures"] == []


def test_an_event_whose_acknowledgement_the_service_has_accepted_adds_no_failure(host):
    host.tell(A1="prepared")
    host.tell(host="web1", vm_name="vm1", A1="prepared")
    assert host.coordinator.claim("A1", SEEN)
    host.coordinator.accept("A1")
    host.tell()  # of a later run of that host
    end = host.responds(shown(prepared=["A1"], waiting=[waiting(impact=True)]), shown("done", sight=[]))
    assert end["respond_result"]["failures"] == []


def test_a_vm_outside_the_play_fails_the_run_once_the_event_has_begun(host):
    host.tell()
    named = {"waiting": [waiting(impact=True)], "sight": [sight("vm1", "vm9")]}
    end = host.responds(shown(prepared=["A1"], **named), shown("done", sight=[]))
    [failure] = end["respond_result"]["failures"]
    assert failure.startswith("A1 has begun, and was not acknowledged: vm9 is not a host of this play; ")


def test_in_lockstep_a_host_that_has_ended_stays_and_is_called_back_when_an_event_grows_to_it(host):
    grown, ended = shown("done", sight=[sight("vm2")]), {"next": "wait"}
    host.coordinator.publish(HostReport("web2", "vm2", {"A1": SeenEvent("Reboot", ["vm2"])}))
    assert host.responds(grown, lockstep=True) == ended
    assert host.responds(grown, lockstep=True, fresh=False) == ended
    assert host.asked == []
    host.tell()  # names vm1, too
    assert host.responds(shown("prepare"), lockstep=True, fresh=False)["next"] == "prepare"


def test_in_lockstep_a_host_lets_others_go_on_when_its_event_has_grown_to_one_that_has_ended(host):
    host.coordinator.twin("web2", "vm2")
    host.coordinator.publish(HostReport("web2", "vm2"))
    host.coordinator.end("web2")
    assert host.responds(shown(), lockstep=True) == {"next": "wait"}


@pytest.mark.parametrize("more", [{"lockstep": False}, {"lockstep": True, "check_mode": True}])
def test_a_host_that_no_strategy_keeps_ends_at_once(host, more):
    host.coordinator.publish(HostReport("web2", "vm2", {"A1": SeenEvent("Reboot", ["vm2"])}))
    assert host.responds(shown("done", sight=[sight("vm2")]), **more)["next"] == "done"


def test_in_lockstep_a_host_ends_when_no_other_host_responds_any_more(host):
    host.coordinator.publish(HostReport("web2", "vm2", {"A1": SeenEvent("Reboot", ["vm2"])}))
    host.responds(shown("done", sight=[sight("vm2")]), lockstep=True)
    host.coordinator.end("web2")
    assert host.responds(shown("done"), lockstep=True, fresh=False)["next"] == "done"
    assert host.asked == []


def test_in_lockstep_a_host_that_has_ended_stays_one_turn_for_a_host_that_reports_nothing(host):
    assert host.responds(shown("done", sight=[sight("vm2")]), lockstep=True) == {"next": "wait"}
    assert host.responds(shown("done"), lockstep=True, fresh=False)["next"] == "done"
    assert host.asked == []


def test_a_host_that_is_lost_is_tried_again_with_the_same_outcome(host):
    host.responds(shown("prepare"))
    outcome = {"phase": "prepare", "request_ids": ["1"], "events": [EVENT], "ok": True}
    end = host.responds(HostLost("gone"), HostLost("gone"), shown("done"), fresh=False, outcome=outcome)
    assert end["next"] == "done"
    assert [asked for _controller, asked in host.asked] == [outcome] * 3


@pytest.mark.parametrize("sharing", ["shares_fork", "lockstep"])
def test_a_host_that_is_lost_lets_others_go_on_and_reports_its_outcome_once_it_is_back(host, sharing):
    sharing = {sharing: True}
    host.responds(shown("prepare"))
    host.tell(busy=True)
    assert host.responds(HostLost("gone"), fresh=False, outcome=prepared(), **sharing) == {"next": "wait"}
    assert host.responds(HostLost("gone"), fresh=False, **sharing) == {"next": "wait"}
    end = host.responds(HostLost("gone"), shown(), shown("done"), fresh=False, lockstep=False)
    assert end["next"] == "done"
    assert [outcome for _controller, outcome in host.asked] == [prepared(), prepared(), None]
    assert len([text for text in host.warned if "lost" in text]) == 1


def test_a_host_that_lets_others_go_on_while_it_is_lost_is_given_up_all_the_same(host):
    host.responds(shown("prepare"))
    host.responds(HostLost("gone"), fresh=False, shares_fork=True, outcome=prepared())
    turns = 1
    with pytest.raises(HostLost):  # noqa: PT012
        while True:
            assert host.responds(HostLost("gone"), fresh=False, shares_fork=True) == {"next": "wait"}
            turns += 1
    assert turns < 50  # inclusions that Ansible nests


def test_a_host_that_is_lost_keeps_others_from_their_work_for_five_seconds(host):
    host.responds(shown("prepare"))
    host.sleep = lambda _seconds: setattr(host, "now", host.now + 1.5)
    assert host.responds(HostLost("gone"), fresh=False, shares_fork=True) == {"next": "wait"}
    assert len(host.asked) == 2


def test_each_turn_has_a_bound_since_a_machine_that_is_off_leaves_its_connections_open(host):
    host.tell(A1="prepared")
    host.responds(shown(ready=["A1"], prepared=["A1"]), shown(acknowledged=["A1"]), shown(), shown("done"))
    slices = [asked["slice"] for asked, _outcome in host.asked]
    assert [bound - seconds for bound, seconds in zip(host.bounds, slices)] == [900.0, 120.0, 120.0, 120.0]


def test_a_host_that_does_not_come_back_is_given_up(host):
    host.responds(shown("prepare"))
    with pytest.raises(HostLost):
        host.responds(HostLost("gone"), fresh=False, reconnect_timeout=30.0)
    assert host.now == 1002.0 + 30.0
    end = host.responding.end_of_lost_host(HostLost("gone"))
    assert end["respond_result"]["failures"] == ["lost, and not reached again (gone). Run the role again to finish"]
    assert end["respond_result"]["held"][0]["event_id"] == "A1"
    assert end["failed"]


def test_a_host_that_was_never_reached_is_not_tried_again_and_has_no_result(host):
    with pytest.raises(HostLost):
        host.responds(HostLost("gone"))
    assert len(host.asked) == 1
    assert host.responding.end_of_lost_host(HostLost("gone")) == {}


@pytest.mark.parametrize("kind", ["Preempt", "Terminate"])
@pytest.mark.parametrize("sign", [{"impact": True, "not_before": None}, {"accepted": True, "not_before": None}, {}])
@pytest.mark.parametrize(("pause", "reconnect_timeout", "seconds"), [(4.0, 900.0, 10.0), (2.0, 9.0, 9.0)])
def test_a_vm_that_its_event_deletes_is_not_waited_for(host, kind, sign, pause, reconnect_timeout, seconds):
    host.sleep = lambda _seconds: setattr(host, "now", host.now + pause)
    gone = shown("wait", waiting=[waiting(**{"event_type": kind, "not_before": 1002.0 + seconds, **sign})])
    host.tell()
    end = host.responds(gone, HostLost("gone"), prepare_tasks="", reconnect_timeout=reconnect_timeout)
    assert (end["next"], end["respond_result"]["failures"]) == ("done", [])
    assert "has deleted the VM" in end["summary"]
    assert host.now == 1002.0 + seconds


def test_a_vm_whose_deletion_is_still_ahead_is_waited_for(host):
    ahead = shown("wait", waiting=[waiting(event_type="Terminate", not_before=9000.0)])
    with pytest.raises(HostLost):
        host.responds(ahead, HostLost("gone"), reconnect_timeout=60.0)


def published(status="Scheduled", event_id="a1", resources=("VM1", "vm2")):
    return {"event_id": event_id, "event_status": status, "resources": list(resources)}


QUIET = shown("done", sight=[], named=[])


def test_a_host_waits_until_its_document_shows_an_event_that_azure_has_published(host):
    host.published = Published([published()])
    assert host.responds(QUIET, QUIET, shown("prepare"))["next"] == "prepare"


def test_what_azure_has_published_is_not_acknowledged_while_the_document_does_not_show_it(host):
    host.published = Published([published("Started")])
    host.tell(A1="prepared")
    end = host.responds(QUIET)
    assert end["respond_result"]["held"] == [
        {"event_id": "a1", "reason": "Azure has published it, but the metadata service has not shown it"}
    ]
    assert host.acknowledges() == [[]] * len(host.asked)
    assert (end.get("failed"), host.coordinator.status("A1")) == (None, ClaimStatus.FREE)


def test_the_wait_for_what_azure_has_published_is_bounded(host):
    host.published = Published([published()])
    host.responds(QUIET, published_timeout=66)
    assert host.now == 1066.0  # after the first turn of a second, five seconds, and a turn of a minute


@pytest.mark.parametrize(
    "events",
    [
        [published(resources=["vm10"])],
        [published("Advisory")],
        [published("Completed")],
        [published(), published("Canceled", event_id="A1")],
    ],
    ids=["of another VM", "a hint", "completed", "canceled"],
)
def test_a_host_does_not_wait_for_an_event_that_is_over_or_does_not_concern_it(host, events):
    host.published = Published(events)
    assert host.responds(QUIET)["respond_result"]["held"] == []
    assert len(host.asked) == 1


def test_a_host_does_not_wait_for_an_event_that_its_document_has_shown_though_nothing_is_to_be_done(host):
    host.published = Published([published("Started")])
    assert host.responds(shown("done", sight=[], named=["A1"]))["respond_result"]["held"] == []
    assert len(host.asked) == 1


def test_a_plan_does_not_wait_for_what_azure_has_published(host):
    host.published = Published([published()])
    host.responds(QUIET, check_mode=True)
    assert len(host.asked) == 1


def test_in_lockstep_a_host_that_waits_for_an_event_lets_busy_hosts_go_on(host):
    host.published = Published([published()])
    host.tell(busy=True)
    assert host.responds(QUIET, lockstep=True) == {"next": "wait"}


@pytest.mark.parametrize(("status", "is_given_up"), [("Completed", True), ("Canceled", True), ("Started", False)])
def test_a_host_that_is_lost_is_given_up_at_once_if_azure_has_published_the_end_of_its_event(host, status, is_given_up):
    host.published = Published([published(status)])
    with pytest.raises(HostLost):
        host.responds(shown(), HostLost("no route"))
    assert (host.now < 1900) is is_given_up


def test_a_vm_that_its_event_has_deleted_is_not_a_failure_if_azure_has_published_the_end(host):
    host.published = Published([published("Completed")])
    deleting = waiting(event_type="Terminate", impact=True)
    host.tell()
    end = host.responds(shown(waiting=[deleting]), HostLost("no route"), prepare_tasks="")
    assert len(host.asked) == 2
    assert (end["next"], end["respond_result"]["failures"]) == ("done", [])


@pytest.mark.parametrize("broken", [{}, {"event_id": "a1"}, {**published(), "resources": "vm1"}, {"sweep": True}])
def test_what_is_not_an_event_of_the_filter_is_refused_with_its_place(broken):
    with pytest.raises(WrongValue, match=r"respond_published_events\[1\] is .*expected event_id"):
        Published([published(), broken])


def locked(owner, run="run2"):
    lease = {"run": run, "host": "web1", "owner": owner, "left": 900.0, "seconds": 900.0}
    return {"next": "locked", "lease": lease, "vm_name": "vm1", "story": [], "problems": []}


def test_a_run_that_is_dead_loses_its_host(host):
    dead = {**owner_of(os.getpid()), "began": "1"}
    end = host.responds(locked(dead), shown("done"))
    assert end["next"] == "done"
    assert [(asked["abandoned"], asked["slice"]) for asked, _outcome in host.asked] == [("", 0.0), ("run2", 0.0)]


def test_a_job_that_has_ended_according_to_its_controller_loses_its_host(host, monkeypatch):
    first = {"place": "elsewhere", "pid": 7, "node": "tower", "controller": "https://awx", "job": 7}
    monkeypatch.setattr(
        "plugins.plugin_utils._respond.responding.has_ended", lambda owner, _environment: owner == first
    )
    assert host.responds(locked(first), shown("done"))["next"] == "done"
    assert [asked["abandoned"] for asked, _outcome in host.asked] == ["", "run2"]


def test_a_run_that_may_be_alive_keeps_its_host_and_is_named(host):
    end = host.responds(locked({"place": "elsewhere", "pid": 7, "node": "tower"}), wait_timeout=60.0)
    assert end["respond_result"]["failures"] == [
        "another run (process 7 on tower) still has this host. Run the role again when that run has ended"
    ]
    assert [text for text in host.warned if "process 7 on tower" in text]
    assert [controller["slice"] for controller, _outcome in host.asked][:3] == [0.0, 15.0, 15.0]


def test_a_host_that_waits_for_another_run_in_many_tasks_warns_once(host):
    other = {"place": "elsewhere", "pid": 7, "node": "tower"}
    for number in range(3):
        answer = locked(other)
        answer["lease"]["left"] = 900.0 - number
        assert host.responds(answer, fresh=not number, shares_fork=True)["next"] == "wait"
    assert host.warned == [
        "web1: another run (process 7 on tower) has this host. Waiting until that run has ended, or 900 s if it was "
        "interrupted"
    ]


def test_an_event_that_still_waits_when_the_time_is_over_is_not_shown_as_over(host):
    host.tell(A1="prepared")
    ready = shown(ready=["A1"], prepared=["A1"], waiting=[waiting()])
    end = host.responds(ready, wait_timeout=5.0)
    assert end["respond_result"]["held"] == [{"event_id": "A1", "reason": "to be acknowledged"}]


def test_one_vm_under_two_names_is_a_failure_also_where_its_lease_shows_it_first(host):
    answer = locked(OWNER, run="run1")
    answer["lease"]["host"] = "web2"
    (failure,) = host.responds(answer)["respond_result"]["failures"]
    assert failure.startswith("web2 and web1 are the same VM")


def test_one_vm_under_two_names_is_a_failure_that_names_both(host):
    assert host.coordinator.twin("web2", "vm1") is None
    end = host.responds(shown("prepare"))
    assert end["respond_result"]["failures"] == [
        "web2 and web1 are the same VM, vm1, or two of this name, and web2 responds to its events. Leave one of them "
        "out, and run the role for each resource group separately"
    ]
    host.tell()
    assert not host.coordinator.others_have_work("web2", ["web1", "web2"]), (
        "web1 has answered, so no other host waits for it"
    )


def test_the_events_of_a_plan_are_taken_for_over_once_nothing_else_is_to_be_done(host):
    end = host.responds(shown(), shown("done"), check_mode=True)
    assert end["next"] == "done"
    assert [asked["assume_over"] for asked, _outcome in host.asked] == [False, True]


@pytest.mark.parametrize("following", ["recover", "done"])
def test_a_plan_that_takes_its_event_for_over_still_counts_as_prepared_for_the_other_hosts(host, following):
    host.responds(shown(prepared=["A1"], ready=["A1"]), shown(following, sight=[]), check_mode=True)
    host.tell(A1="prepared")
    assert host.coordinator.claim("A1", SEEN)


def test_the_end_shows_the_story_of_each_event_in_one_line(host):
    story = [{"event_id": "A1", "event_type": "Reboot", "text": text} for text in ("prepared", "over", "recovered")]
    end = host.responds(shown("done", story=story, sight=[]))
    assert end["summary"] == "web1: Reboot A1 prepared, over, recovered"


def test_the_result_says_when_each_thing_happened(host):
    line = {"event_id": "A1", "event_type": "Reboot", "text": "prepared"}
    end = host.responds(shown("done", sight=[], story=[line]))
    assert end["respond_result"]["story"] == [{**line, "at": "1970-01-01T00:16:41Z"}]


def test_the_result_has_the_facts_of_all_turns(host):
    first, second = {"kind": "seen", "event_id": "A1"}, {"kind": "over", "event_id": "A1"}
    host.responds(shown("prepare", facts=[first]))
    end = host.responds(shown("done", facts=[second], sight=[]), fresh=False, outcome=prepared())
    assert end["respond_result"]["history"] == [first, second]


TRACEBACK = 'Traceback (most recent call last):\n  File "/tmp/ansible_x_payload_1/ansible_x_payload.zip/y.py", line 1\n'


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"module_stdout": "", "module_stderr": "Shared connection to web1 closed.\n"}, True),
        (
            {
                "module_stdout": "",
                "module_stderr": "python3: can't open file '/home/azure/.ansible/tmp/AnsiballZ_x.py'",
            },
            True,
        ),
        (
            {
                "module_stdout": "",
                "module_stderr": f"{TRACEBACK}FileNotFoundError: [Errno 2] No such file or directory: "
                "'/tmp/ansible_x_payload_1/ansible_x_payload.zip'\n",
            },
            True,
        ),
        (  # the shell of a host that goes down adds a line
            {
                "module_stdout": "",
                "module_stderr": f"{TRACEBACK}FileNotFoundError: [Errno 2] No such file or directory: "
                "'/tmp/ansible_x_payload_1/ansible_x_payload.zip'\nTerminated\n",
                "rc": 143,
            },
            True,
        ),
        ({"module_stdout": "", "module_stderr": f"{TRACEBACK}KeyError: 'events'\n", "rc": 1}, False),
        ({"module_stdout": "", "module_stderr": f"{TRACEBACK}KeyError: 'events'\n", "rc": 128}, False),
        ({"module_stdout": "", "module_stderr": f"{TRACEBACK}KeyError: 'events'\n", "rc": 129}, True),  # SIGHUP
        ({"module_stdout": "", "module_stderr": f"{TRACEBACK}KeyError: 'events'\n"}, False),
        ({"module_stdout": f"{TRACEBACK}KeyError: 'events'\n", "module_stderr": ""}, False),
        ({"failed": True, "msg": "refused", "invocation": {}}, False),
        ({"failed": True, "msg": "an option is missing"}, False),
    ],
)
def test_a_module_that_was_cut_off_is_known_from_one_that_failed(answer, expected):
    assert looks_cut_off(answer) is expected
