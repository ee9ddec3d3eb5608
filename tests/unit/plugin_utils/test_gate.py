# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a batch of a rolling maintenance may begin."""

import pytest

from plugins.plugin_utils._gate import (
    Seen,
    Settings,
    budget_of,
    decide,
    pause,
)

FLEET = ["web1", "web2", "web3", "web4"]
NOW = 1_800_000_000.0


def event(*names, event_id="ID", not_before="2026-11-21T09:00:00Z", status="Scheduled", mine=False):
    return {
        "event_id": event_id,
        "event_type": "Reboot",
        "event_status": status,
        "not_before": not_before,
        "resources": list(names),
        "affects_this_vm": mine,
    }


def host(name, *events, reached=True, unmarked="", drained=False, readable=True, finished=None):
    """A host that sees these events."""
    document = {"vm_name": name, "events": events} if reached and readable else None
    record = {"round": finished[0], "finished_at": finished[1]} if finished else None
    return Seen(name, reached, unmarked, drained, document, "HTTP 500", record)


def fleet_with(*special):
    by_name = {seen.host: seen for seen in special}
    return [by_name.get(name, host(name)) for name in FLEET]


def decision(seen, *batch, budget=1, memory=None, now=NOW, **settings):
    chosen = {"on_event": "wait", "settle": 60.0, "resume_within": 3600.0, "fleet": FLEET, **settings}
    return decide(seen, Settings(FLEET, batch=list(batch), budget=budget, **chosen), memory=memory or {}, now=now)


def test_a_healthy_fleet_opens_the_gate():
    assert decision(fleet_with(), "web1").open


@pytest.mark.parametrize(
    ("neighbour", "reason"),
    [
        (host("web2", drained=True), "drained"),
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
    ],
)
def test_a_host_of_the_batch_of_which_nothing_certain_is_known_shuts_the_gate(of_batch, reason):
    result = decision(fleet_with(of_batch), "web1", budget=4)
    assert (result.open, result.waits_for) == (False, [f"web1 ({reason})"])


def test_a_host_of_the_batch_counts_once_however_unavailable_it_is():
    assert decision(fleet_with(host("web1", drained=True)), "web1").open


@pytest.mark.parametrize(("on_event", "is_open", "batch"), [("wait", False, ["web1"]), ("skip", True, [])])
def test_an_event_of_the_batch_itself(on_event, is_open, batch):
    result = decision(fleet_with(host("web1", event("web1", mine=True))), "web1", budget=4, on_event=on_event)
    assert (result.open, result.batch, result.own) == (is_open, batch, ["web1"])


def test_a_batch_larger_than_the_budget_can_never_begin_and_says_so():
    assert decision(fleet_with(), "web1", "web2").waits_for == [
        "2 of at most 1 unavailable hosts would be the batch: make serial smaller"
    ]


def test_hosts_outside_the_fleet_do_not_count():
    assert decision(fleet_with(host("web4", drained=True)), "web1", fleet=FLEET[:3]).open


def test_the_gate_stays_shut_until_the_fleet_has_settled():
    first = decision(fleet_with(host("web2", event("web2"))), "web1")
    gone = decision(fleet_with(), "web1", memory=first.memory, now=NOW + 10)
    assert (gone.open, gone.settle_left) == (False, 60.0)
    later = decision(fleet_with(), "web1", memory=gone.memory, now=NOW + 69)
    assert (later.open, later.settle_left) == (False, 1.0)
    assert decision(fleet_with(), "web1", memory=later.memory, now=NOW + 70).open


def test_an_event_has_not_left_while_somebody_cannot_be_read():
    first = decision(fleet_with(host("web2", event("web2"))), "web1")
    blind = decision(fleet_with(host("web2", readable=False)), "web1", memory=first.memory, budget=2)
    assert blind.memory == first.memory


class TestRounds:
    def test_the_first_round_takes_all(self):
        result = decision(fleet_with(), "web1", "web2", budget=2)
        assert (result.round, result.batch, result.done) == (1, ["web1", "web2"], [])

    def test_a_round_that_stopped_goes_on_with_the_hosts_that_lack_it(self):
        result = decision(
            fleet_with(host("web1", finished=(3, NOW - 60)), host("web2", finished=(2, NOW - 99))), "web1", "web2"
        )
        assert (result.round, result.batch, result.done) == (3, ["web2"], ["web1"])

    def test_after_a_full_round_comes_the_next(self):
        result = decision([host(name, finished=(3, NOW - 60)) for name in FLEET], "web1")
        assert (result.round, result.batch) == (4, ["web1"])

    def test_an_old_round_is_not_taken_up(self):
        result = decision(fleet_with(host("web1", finished=(3, NOW - 3601))), "web1")
        assert (result.round, result.batch) == (4, ["web1"])

    def test_hosts_that_are_done_wait_for_nothing(self):
        seen = fleet_with(host("web1", finished=(1, NOW)), host("web2", drained=True))
        assert decision(seen, "web1").open


@pytest.mark.parametrize(("wish", "hosts", "budget"), [(2, 4, 2), ("2", 4, 2), ("50%", 5, 2), ("100%", 3, 3)])
def test_the_budget_is_a_number_or_a_percentage_rounded_down(wish, hosts, budget):
    assert budget_of(wish, hosts) == budget


@pytest.mark.parametrize("wish", ["0", "-1", "half", "", "20%", "1.5", "%"])
def test_a_budget_that_allows_nothing_or_is_none_is_refused_by_name(wish):
    with pytest.raises(ValueError, match=f"maintenance_max_unavailable is {wish}, "):
        budget_of(wish, 4)


def test_looks_become_rarer_the_longer_it_waits():
    assert [pause(waited, settle_left=0, only_settling=False) for waited in (0, 80, 3600)] == [2.0, 10.0, 60.0]
    assert pause(0, settle_left=7.5, only_settling=True) == 7.5
