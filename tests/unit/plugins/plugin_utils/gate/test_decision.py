# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a batch of a rolling maintenance may begin."""

import math

import pytest

from plugins.plugin_utils._gate.decision import (
    GateError,
    GateSettings,
    Memory,
    Round,
    Seen,
    budget_of,
    decide,
    lost_hosts,
    pause,
    refuse_too_large,
)

FLEET = ["web1", "web2", "web3", "web4"]
NOW = 5000.0  # by the clock of the control node
NAME = "patch"
OWNER = "controller2/run/web1"
EARLIER, LATER = "controller1/run/web9", "controller3/run/web9"


def event(*names, event_id="ID", not_before="2026-11-21T09:00:00Z", status="Scheduled", mine=False):
    return {
        "event_id": event_id,
        "event_type": "Reboot",
        "event_status": status,
        "not_before": not_before,
        "resources": list(names),
        "affects_this_vm": mine,
    }


def record(round_id, age, *, hosts=tuple(FLEET), since_begin=10.0):
    """That the host was done so many seconds ago, in a round that had begun ``since_begin`` seconds before."""
    return {"round": round_id, "hosts": list(hosts), "since_begin": since_begin, "age": age}


def mark(owner=EARLIER, *, stage="held", age=1.0, live=True, by=None):
    known = {"node": "controller1", "pid": 7} if by is None else by
    return {"owner": owner, "by": known, "stage": stage, "age": age, "lease": 99.0, "live": live}


def host(name, *events, readable=True, problem="HTTP 500", done=None, names=(NAME,), **seen):
    """A host that sees these events.

    :param done: the record of it.
    :param names: of the maintenances that the record is for.
    """
    document = {"vm_name": name, "events": events} if seen.get("reached", True) and readable else None
    records = dict.fromkeys(names, done) if done else {}
    return Seen(name, problem="" if document else problem, document=document, records=records, **seen)


def fleet_with(*special):
    by_name = {seen.host: seen for seen in special}
    return [by_name.get(name, host(name)) for name in FLEET]


def decision(seen, *batch, budget=1, memory=None, now=NOW, play_hosts=tuple(FLEET), **settings):
    chosen = {
        "fleet": FLEET,
        "on_event": "wait",
        "settle": 60.0,
        "resume_within": 3600.0,
        "names": dict.fromkeys(play_hosts, NAME),
        "owner": OWNER,
        "new_round": "new",
        **settings,
    }
    wanted = GateSettings(play_hosts, batch=list(batch), budget=budget, **chosen)
    return decide(seen, wanted, memory=memory or Memory(), now=now)


def test_a_healthy_fleet_opens_the_gate():
    assert decision(fleet_with(), "web1").open


def test_a_hint_of_azure_keeps_no_maintenance_waiting():
    hint = event("web1", "web2", not_before=None, status="Advisory", mine=True)
    assert decision(fleet_with(host("web1", hint), host("web2", hint)), "web1").open


@pytest.mark.parametrize(
    ("neighbour", "reason"),
    [
        (host("web2", drained=True), "drained"),
        (host("web2", drained=True, returning_for="respond"), "is put back into its load balancer for respond"),
        (host("web2", reached=False), "cannot be reached"),
        (host("web2", readable=False), "its events cannot be read: HTTP 500"),
        (host("web2", event("WEB2", mine=True)), "Reboot Scheduled, NotBefore 2026-11-21T09:00:00Z"),
        (host("web2", event("web2", not_before=None, status="Started")), "Reboot Started"),
    ],
)
def test_an_unavailable_neighbour_shuts_it_unless_the_budget_allows_two(neighbour, reason):
    seen = fleet_with(neighbour)
    shut = decision(seen, "web1")
    assert not shut.open
    assert shut.waits_for == [f"web2 ({reason})"]
    assert decision(seen, "web1", budget=2).open
    assert not decision(seen, "web1", "web3", budget=2).open


def test_an_event_without_an_id_counts_and_settles_as_any_other():
    nameless = event("web1", event_id=None, mine=True)
    seen = fleet_with(host("web1", nameless), host("web2", event("web2", event_id="B", mine=True)))
    shut = decision(seen, "web1", budget=2)
    assert (shut.waits_for, shut.own) == (["web1 (Reboot Scheduled, NotBefore 2026-11-21T09:00:00Z)"], {"web1": [""]})
    assert decision(fleet_with(), "web1", memory=shut.memory, now=NOW + 9).settle_left == 60
    assert not decision(fleet_with(host("web2", event("web1", event_id=None))), "web1").open


def test_an_event_counts_that_another_host_of_the_set_saw_first():
    assert decision(fleet_with(host("web4", event("web2"))), "web1").waits_for[0].startswith("web2 (Reboot")


def test_a_vm_whose_name_only_begins_alike_is_not_named():
    assert decision(fleet_with(host("web4", event("web22", "web"))), "web1").open


@pytest.mark.parametrize(
    ("of_batch", "reason"),
    [
        (host("web1", reached=False), "cannot be reached"),
        (host("web1", unmarked="disk full"), "cannot be marked as under maintenance: disk full"),
        (host("web1", readable=False), "its events cannot be read: HTTP 500"),
        (host("web1", drained=True, returning_for="respond"), "is put back into its load balancer for respond"),
    ],
)
def test_a_host_of_the_batch_of_which_nothing_certain_is_known_shuts_the_gate(of_batch, reason):
    result = decision(fleet_with(of_batch), "web1", budget=4)
    assert (result.open, result.waits_for) == (False, [f"web1 ({reason})"])


def test_a_return_that_an_earlier_run_of_the_role_did_not_end_is_finished_by_this_one():
    assert decision(fleet_with(host("web1", drained=True, returning_for="rolling_maintenance")), "web1").open


def test_a_host_of_the_batch_counts_once_however_unavailable_it_is():
    assert decision(fleet_with(host("web1", drained=True)), "web1").open


@pytest.mark.parametrize(("on_event", "is_open", "batch"), [("wait", False, ["web1"]), ("skip", True, [])])
def test_an_event_of_the_batch_itself(on_event, is_open, batch):
    result = decision(fleet_with(host("web1", event("web1", mine=True))), "web1", budget=4, on_event=on_event)
    assert (result.open, result.batch, result.own) == (is_open, batch, {"web1": ["ID"]})


def test_a_batch_larger_than_the_budget_is_refused():
    message = (
        "The batch has 2 hosts of the fleet (web1, web2), but rolling_maintenance_max_unavailable allows 1 of 4. "
        "Make serial smaller, or rolling_maintenance_max_unavailable larger"
    )
    with pytest.raises(GateError) as refused:
        refuse_too_large(["web1", "web2", "db1"], FLEET, 1)
    assert str(refused.value) == message
    refuse_too_large(["web1", "db1"], FLEET, 1)


def test_one_vm_under_two_names_is_refused():
    twins = [host("web1", boot_id="b"), host("alias", boot_id="b")]
    twins[1] = twins[1]._replace(document={"vm_name": "WEB1", "events": []})
    with pytest.raises(GateError, match="web1 and alias are the same VM, WEB1"):
        decision(twins, "web1")


def test_a_host_whose_document_cannot_be_read_is_not_taken_for_another_one():
    unreadable = [host(name, readable=False, boot_id="b") for name in ("web1", "alias")]
    shut = decision(unreadable, "web1", fleet=["web1", "alias"], play_hosts=("web1", "alias"))
    assert any("HTTP 500" in reason for reason in shut.waits_for)


def test_two_machines_that_are_called_alike_are_two():
    alike = [host("web1", boot_id="a"), host("other", boot_id="b")]
    alike[1] = alike[1]._replace(document={"vm_name": "web1", "events": []})
    assert decision(alike, "web1").open


def test_hosts_outside_the_fleet_do_not_count():
    assert decision(fleet_with(host("web4", drained=True)), "web1", fleet=FLEET[:3]).open


def test_the_gate_stays_shut_until_the_fleet_has_settled():
    first = decision(fleet_with(host("web2", event("web2"))), "web1")
    gone = decision(fleet_with(), "web1", memory=first.memory, now=NOW + 10)
    assert (gone.open, gone.settle_left, gone.only_settling) == (False, 60.0, True)
    later = decision(fleet_with(), "web1", memory=gone.memory, now=NOW + 69)
    assert (later.open, later.settle_left) == (False, 1.0)
    assert decision(fleet_with(), "web1", memory=later.memory, now=NOW + 70).open


def test_an_event_has_not_left_while_a_host_cannot_be_read():
    first = decision(fleet_with(host("web2", event("web2"))), "web1")
    blind = decision(fleet_with(host("web2", readable=False)), "web1", memory=first.memory, budget=2)
    assert blind.memory == first.memory


class TestMarksOfOthers:
    @pytest.mark.parametrize(
        ("of_other", "reason"),
        [
            (mark(), "under maintenance by another run (controller1, process 7)"),
            (mark(stage="asking"), "another run (controller1, process 7) asks for it"),
            (mark(by={}), "under maintenance by a run that is not known"),
            (mark(OWNER.replace("web1", "web3")), "under maintenance by this run"),
        ],
    )
    def test_a_marked_neighbour_is_unavailable(self, of_other, reason):
        seen = fleet_with(host("web2", mark=of_other))
        assert decision(seen, "web1").waits_for == [f"web2 ({reason})"]
        assert decision(seen, "web1", budget=2).open

    def test_what_a_run_began_and_did_not_end_keeps_its_slot(self):
        left = {"owner": EARLIER, "by": {"node": "controller1", "pid": 7}}
        seen = fleet_with(host("web2", unfinished=left))
        reason = (
            "its maintenance by another run (controller1, process 7) did not end. Run it again on this host, or look "
            "at the host and name it in rolling_maintenance_checked_hosts"
        )
        assert decision(seen, "web1").waits_for == [f"web2 ({reason})"]
        assert decision(seen, "web1", budget=2).open
        assert decision(seen, "web2").open

    def test_a_gate_does_not_insist_on_a_host_where_a_maintenance_did_not_end(self):
        left = {"owner": EARLIER, "by": {}}
        seen = fleet_with(host("web2", mark=mark(LATER, stage="asking"), unfinished=left))
        assert not decision(seen, "web1").insists

    def test_a_stale_mark_counts_for_nothing(self):
        assert decision(fleet_with(host("web2", mark=mark(live=False))), "web1").open

    def test_a_host_of_the_batch_that_another_run_has_marked_shuts_the_gate_whatever_the_budget(self):
        result = decision(fleet_with(host("web1", mark=mark())), "web1", budget=4)
        assert result.waits_for == ["web1 (under maintenance by another run (controller1, process 7))"]

    def test_a_marked_host_counts_once_although_it_is_drained(self):
        assert decision(fleet_with(host("web2", mark=mark(), drained=True)), "web1", budget=2).open

    @pytest.mark.parametrize(
        ("of_other", "insists"),
        [
            (mark(LATER, stage="asking"), True),
            (mark(EARLIER, stage="asking"), False),
            (mark(LATER, stage="held"), False),
            (mark(LATER, stage="asking", age=30.0), False),
        ],
    )
    def test_of_two_gates_that_see_each_other_exactly_one_insists(self, of_other, insists):
        result = decision(fleet_with(host("web2", mark=of_other)), "web1")
        assert (result.open, result.insists) == (False, insists)

    @pytest.mark.parametrize(
        "other", [host("web3", drained=True), host("web3", event("web3")), host("web3", mark=mark())]
    )
    def test_a_gate_does_not_insist_when_more_is_in_the_way(self, other):
        seen = fleet_with(host("web2", mark=mark(LATER, stage="asking")), other)
        assert not decision(seen, "web1").insists

    def test_a_gate_does_not_insist_on_a_host_that_is_drained_besides(self):
        seen = fleet_with(host("web2", mark=mark(LATER, stage="asking"), drained=True))
        assert not decision(seen, "web1").insists


class TestRounds:
    def test_the_first_round_takes_all(self):
        result = decision(fleet_with(), "web1", "web2", budget=2)
        assert (result.memory.round, result.batch, result.done) == (Round("new", FLEET, NOW), ["web1", "web2"], [])

    def test_a_stopped_round_continues_with_the_hosts_that_lack_it(self):
        seen = fleet_with(host("web1", done=record("r", 60.0)), host("web2", done=record("q", 9999.0)))
        result = decision(seen, "web1", "web2", budget=2)
        assert (result.memory.round, result.batch, result.done) == (Round("r", FLEET, NOW - 70), ["web2"], ["web1"])

    def test_after_a_full_round_comes_the_next(self):
        result = decision([host(name, done=record("r", 60.0)) for name in FLEET], "web1")
        assert (result.memory.round.id, result.batch) == ("new", ["web1"])

    @pytest.mark.parametrize(("age", "round_id", "batch"), [(3599.0, "r", []), (3600.0, "new", ["web1"])])
    def test_an_old_round_is_not_taken_up(self, age, round_id, batch):
        result = decision(fleet_with(host("web1", done=record("r", age))), "web1")
        assert (result.memory.round.id, result.batch) == (round_id, batch)

    def test_a_full_round_of_which_a_part_is_old_is_not_taken_up(self):
        seen = [host(name, done=record("r", 3600.0 - 9 * number)) for number, name in enumerate(FLEET)]
        assert decision(seen, "web1").memory.round.id == "new"

    def test_another_maintenance_takes_all_hosts(self):
        seen = fleet_with(host("web1", done=record("r", 60.0), names=["urgent", "patches"]))
        assert decision(seen, "web1").batch == ["web1"]

    def test_a_host_with_other_tasks_has_a_separate_name(self):
        seen = fleet_with(host("web1", done=record("r", 60.0), names=["patch-old-system"]))
        assert decision(seen, "web1", names={**dict.fromkeys(FLEET, NAME), "web1": "patch-old-system"}).done == ["web1"]

    def test_a_canary_that_got_through_does_not_count_for_the_fleet(self):
        seen = fleet_with(host("web1", done=record("canary", 60.0, hosts=["web1"])))
        result = decision(seen, "web1")
        assert (result.memory.round.id, result.batch) == ("new", ["web1"])

    def test_a_part_of_a_stopped_round_continues_with_that_part(self):
        seen = [host("web1", done=record("r", 60.0)), host("web2")]
        result = decision(seen, "web1", "web2", budget=2, play_hosts=["web1", "web2"])
        assert (result.memory.round.id, list(result.memory.round.hosts), result.done) == ("r", FLEET, ["web1"])

    def test_what_a_canary_did_after_the_round_had_begun_is_done_in_it(self):
        canary = record("canary", 30.0, hosts=["web1"], since_begin=5.0)
        seen = fleet_with(host("web1", done=canary), host("web2", done=record("r", 60.0, since_begin=40.0)))
        result = decision(seen, "web1", "web2", "web3", budget=3)
        assert (result.memory.round.id, result.batch) == ("r", ["web3"])
        went_on = decision(seen, "web1", budget=3, memory=result.memory, now=NOW - 70.0)  # just 30 s after it began
        assert went_on.done == ["web1"]

    def test_a_new_host_after_a_full_round_begins_a_round_of_all(self):
        seen = [host(name, done=record("r", 60.0, hosts=FLEET[:3])) for name in FLEET[:3]]
        result = decision([*seen, host("web4")], "web1")
        assert (result.memory.round.id, result.batch) == ("new", ["web1"])

    def test_a_new_host_joins_a_round_that_stopped(self):
        seen = fleet_with(host("web1", done=record("r", 60.0, hosts=FLEET[:3])))
        result = decision(seen, "web1", "web4", budget=2)
        assert (list(result.memory.round.hosts), result.batch) == (FLEET, ["web4"])

    def test_a_host_that_left_the_inventory_does_not_keep_a_round_open(self):
        seen = [host(name, done=record("r", 60.0)) for name in FLEET[:3]]
        result = decision(seen, "web1", play_hosts=FLEET[:3], fleet=FLEET[:3])
        assert result.memory.round.id == "new"

    def test_a_round_lasts_from_batch_to_batch(self):
        first = decision(fleet_with(), "web1")
        seen = fleet_with(host("web1", done=record("new", 1.0)), host("web2", done=record("old", 900.0)))
        second = decision(seen, "web2", memory=first.memory, now=NOW + 20)
        assert (second.memory.round, second.batch) == (first.memory.round, ["web2"])

    def test_what_was_done_before_the_time_of_a_resumption_is_done_again_in_a_later_batch_too(self):
        stopped = record("r", 60.0, since_begin=9000.0)
        seen = fleet_with(host("web1", done=stopped), host("web2", done=record("r", 3600.0, since_begin=5460.0)))
        first = decision(seen, "web1")
        assert (first.done, decision(seen, "web2", memory=first.memory).batch) == (["web1"], ["web2"])

    @pytest.mark.parametrize("since_begin", [1e9, math.inf, math.nan])
    def test_a_host_that_lies_of_the_begin_of_a_round_ends_no_maintenance_of_others(self, since_begin):
        forged = record("forged", 0.0, hosts=["web1", "web4"], since_begin=since_begin)
        seen = fleet_with(host("web1", done=forged), host("web2", done=record("last month", 2.6e6)))
        first = decision(seen, "web1")
        assert decision(seen, "web2", memory=first.memory).batch == ["web2"]

    def test_a_round_began_when_the_host_says_that_says_the_latest(self):
        seen = fleet_with(
            host("web1", done=record("r", 50.0, since_begin=1e9)),
            host("web2", done=record("r", 60.0, since_begin=40.0)),
            host("web3", done=record("before", 900.0, hosts=["web3"])),
        )
        result = decision(seen, "web1", "web2", "web3", budget=3)
        assert (result.memory.round, result.batch) == (Round("r", FLEET, NOW - 100), ["web3"])

    def test_hosts_that_are_done_wait_for_nothing(self):
        seen = fleet_with(host("web1", done=record("r", 1.0)), host("web2", drained=True))
        assert decision(seen, "web1").open


class TestLostHosts:
    @pytest.mark.parametrize(
        ("active", "batch", "progress", "lost"),
        [
            (FLEET, ["web1", "web2"], {}, []),
            (["web3", "web4"], ["web3"], {"web1": "failed", "web2": "done"}, ["web1", "web2"]),
            (["web2", "web3", "web4"], ["web3"], {"web1": "began", "web2": "done"}, ["web1"]),
            (FLEET, ["web2"], {"web1": "began"}, ["web1"]),
            (["web2", "web3", "web4"], ["web2"], {}, []),
            (["web2", "web3", "web4"], ["web3"], {"web2": "done"}, ["web1"]),
        ],
        ids=[
            "nobody",
            "a host that failed, and one that failed after its maintenance",
            "a host that was lost during its maintenance",
            "a host that left the play during its maintenance",
            "not a host that left the play before the gate of its batch",
            "a host that failed before the gate of an earlier batch",
        ],
    )
    def test_who_is_lost(self, active, batch, progress, lost):
        assert lost_hosts(FLEET, active, batch, progress) == lost


@pytest.mark.parametrize(("value", "hosts", "budget"), [(2, 4, 2), ("2", 4, 2), ("50%", 5, 2), ("100%", 3, 3)])
def test_the_budget_is_a_number_or_a_percentage_rounded_down(value, hosts, budget):
    assert budget_of(value, hosts) == budget


@pytest.mark.parametrize("value", ["0", "-1", "half", "", "20%", "1.5", "%", "nan", "²"])
def test_a_budget_that_allows_nothing_or_is_invalid_is_refused_by_name(value):
    with pytest.raises(GateError, match=f"rolling_maintenance_max_unavailable is {value}, "):
        budget_of(value, 4)


@pytest.mark.parametrize(("value", "allowed"), [("1", 1), ("25%", 1), ("49%", 1), ("50%", 2)])
def test_a_budget_is_a_number_of_hosts_or_a_percentage_that_is_rounded_down(value, allowed):
    assert budget_of(value, 4) == allowed


def test_a_budget_of_5000_digits_is_refused_and_not_shown_as_a_whole():
    with pytest.raises(GateError, match=r"rolling_maintenance_max_unavailable is 9{59}…, expected a number such as 2"):
        budget_of("9" * 5000, 4)


def test_looks_become_rarer_the_longer_it_waits():
    shut = decision(fleet_with(host("web2", drained=True)), "web1")
    assert [pause(waited, shut) for waited in (0, 80, 3600)] == [2.0, 10.0, 60.0]


def test_a_gate_that_only_settles_looks_when_that_is_over():
    assert pause(0, decision(fleet_with(), "web1", memory=Memory(["ID"], None, None))) == 60.0
    assert pause(0, decision(fleet_with(), "web1", memory=Memory(["ID"], None, None), settle=0.5)) == 1.0


def test_a_gate_that_insists_looks_again_soon():
    assert pause(900, decision(fleet_with(host("web2", mark=mark(LATER, stage="asking"))), "web1")) == 1.0


# Windows, and events that wait for a moment


def test_no_batch_begins_outside_of_the_windows():
    closed = "the window Mon 22:00 to 05:00 UTC, which opens at 2026-11-23T22:00:00Z"
    found = decision(fleet_with(), "web1", closed=closed)
    assert (found.open, found.waits_for, found.insists) == (False, [closed], False)


def test_without_a_host_to_maintain_no_window_is_waited_for():
    done = host("web1", done=record("new", 1.0))
    memory = Memory(round=Round("new", FLEET, NOW - 5))
    assert decision([done, *fleet_with()[1:]], "web1", memory=memory, closed="the window").open


@pytest.mark.parametrize(("waiting", "opens"), [(["ID"], True), (["OTHER"], False), ([], False)])
def test_a_host_that_waits_in_service_for_the_moment_of_its_event_leaves_the_budget_to_others(waiting, opens):
    seen = fleet_with(host("web2", event("web2", mine=True), waiting=waiting))
    assert decision(seen, "web1").open is opens


def test_a_host_of_the_batch_is_announced_while_it_waits_for_the_moment_of_its_event():
    seen = fleet_with(host("web1", event("web1", mine=True), waiting=["ID"]))
    assert not decision(seen, "web1").open
