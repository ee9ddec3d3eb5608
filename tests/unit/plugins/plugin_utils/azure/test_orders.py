# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import contextlib
import threading

import pytest
from fake_clock import FakeClock

from plugins.plugin_utils._azure import orders as orders_module
from plugins.plugin_utils._azure.arm import ArmError
from plugins.plugin_utils._azure.orders import HURRY, LONGEST_GATHERING, QUIET, OrderFailed, Orders


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def orders(tmp_path, clock):
    """Return a function that gives the orders of one resource, as a host of a batch of ten has them."""
    return lambda hosts=10: Orders(tmp_path, "/pool", hosts=hosts, clock=clock)


@pytest.fixture
def carried_out():
    return []


@pytest.fixture
def carry_out(carried_out):
    return lambda desired: carried_out.append(desired) or True


def test_a_host_alone_waits_no_longer_than_the_quiet_time(orders, carry_out, carried_out, clock):
    orders().place("web1", {"a": "Down"})
    began = clock.now
    assert orders().fulfil("web1", carry_out)
    assert carried_out == [{"a": "Down"}]
    assert clock.now - began == pytest.approx(QUIET, abs=0.2)


def test_no_host_waits_once_all_hosts_have_ordered(orders, carry_out, carried_out, clock):
    began = clock.now
    for number in range(10):
        orders().place(f"web{number}", {str(number): "Down"})
    orders().fulfil("web0", carry_out)
    assert (len(carried_out[0]), clock.now) == (10, began)


def test_hosts_that_go_on_coming_do_not_hold_up_the_first_for_ever(orders, carry_out, carried_out, clock):
    orders(1000).place("web0", {"0": "Down"})
    began = clock.now
    clock.at = [(began + n, lambda n=n: orders().place(f"web{n}", {str(n): "Down"})) for n in range(1, 500)]
    orders(1000).fulfil("web0", carry_out)
    assert clock.now - began == pytest.approx(LONGEST_GATHERING + QUIET, abs=0.2)
    assert len(carried_out[0]) > QUIET


def test_a_host_in_a_hurry_does_not_wait_for_the_orders_of_others(tmp_path, carry_out, clock):
    began = clock.now
    orders = Orders(tmp_path, "/pool", hosts=10, left=lambda: HURRY - 1, clock=clock)
    orders.place("web1", {"a": "Down"})
    assert (orders.fulfil("web1", carry_out), clock.now) == (True, began)


def test_a_host_waits_for_another_one_that_reads_or_writes_no_longer_than_it_has_time(tmp_path, orders):
    late = Orders(tmp_path, "/pool", hosts=10, left=lambda: 0.0)

    def wait_for_the_other(_desired=None):
        with pytest.raises(ArmError, match="was still writing the resource after the 0 s that this host had"):
            late.fulfil("web2", lambda _desired: True)
        with pytest.raises(ArmError, match="was still reading the resource"):
            late.recall(0, dict)
        return True

    orders(1).place("web1", {"a": "Down"})
    late.place("web2", {"b": "Down"})
    assert orders(1).fulfil("web1", lambda _desired: orders().recall(0, wait_for_the_other))


def test_the_orders_of_a_host_that_died_are_carried_out_by_the_next(orders, carry_out, carried_out):
    orders().place("dead", {"d": "Down"})
    orders(2).place("web1", {"a": "Down"})
    orders(2).fulfil("web1", carry_out)
    assert carried_out == [{"d": "Down", "a": "Down"}]


def test_a_host_whose_order_was_carried_out_finds_the_answer(orders, carry_out, carried_out):
    for host in ("web1", "web2"):
        orders(2).place(host, {host: "Down"})
    assert orders(2).fulfil("web1", carry_out)
    assert orders(2).fulfil("web2", carry_out)
    assert len(carried_out) == 1


def test_a_failure_is_the_answer_to_all(orders):
    def fail(_desired):
        raise ArmError("no permission")

    for host in ("web1", "web2"):
        orders(2).place(host, {host: "Down"})
    for host in ("web1", "web2"):
        with pytest.raises(OrderFailed, match="no permission"):
            orders(2).fulfil(host, fail)


def test_a_second_order_of_a_host_is_carried_out_after_the_first(orders, carry_out, carried_out):
    for state in ("Down", "None"):
        orders(1).place("web1", {"a": state})
        orders(1).fulfil("web1", carry_out)
    assert carried_out == [{"a": "Down"}, {"a": "None"}]


def test_an_order_that_comes_while_the_one_before_is_answered_is_carried_out(
    orders, carry_out, carried_out, clock, monkeypatch
):
    second = threading.Thread(target=orders(1).place, args=("web1", {"a": "Down"}))
    keep_file = orders_module.keep_file

    def keep(path, content):
        if "changed" in content and second.ident is None:
            second.start()
            second.join(0.2)  # as long as it can if nothing keeps it out
        keep_file(path, content)

    orders(2).place("web1", {"a": "None"})
    clock.now += 1  # it is answered first
    orders(2).place("web2", {"b": "None"})
    monkeypatch.setattr(orders_module, "keep_file", keep)
    orders(2).fulfil("web2", carry_out)
    second.join()
    orders(1).fulfil("web1", carry_out)
    assert carried_out == [{"a": "None", "b": "None"}, {"a": "Down"}]


def test_an_order_that_is_withdrawn_is_not_carried_out(orders, carry_out, carried_out):
    for host in ("web1", "web2"):
        orders(2).place(host, {host: "None"})
    orders(2).withdraw("web1")
    orders(1).fulfil("web2", carry_out)
    assert carried_out == [{"web2": "None"}]


def test_an_order_that_is_withdrawn_while_it_is_sent_gets_no_answer(orders):
    orders(1).place("web1", {"a": "None"})
    orders(1).place("web2", {"b": "None"})
    assert orders(1).fulfil("web2", lambda _desired: orders(1).withdraw("web1") or True)
    orders(1).withdraw("web1")
    orders(1).place("web1", {"a": "Down"})
    assert not orders(1).fulfil("web1", lambda _desired: False)


def test_the_last_order_wins_for_the_same_member(orders, carry_out, carried_out, clock):
    orders().place("dead", {"a": "Down"})
    clock.now += 1
    orders().place("web1", {"a": "None"})
    orders(2).fulfil("web1", carry_out)
    assert carried_out == [{"a": "None"}]


def test_what_was_read_is_shared_as_long_as_it_is_fresh(orders, clock):
    reads = []

    def read():
        reads.append(1)
        return {"number": len(reads)}

    assert {orders().recall(60, read)["number"] for _number in range(3)} == {1}
    clock.now += 61
    assert orders().recall(60, read) == {"number": 2}
    assert orders().recall(0, read) == {"number": 2}
    clock.now += 0.1
    assert orders().recall(0, read) == {"number": 3}


@pytest.fixture
def waiting(orders, clock, monkeypatch):
    """Return a function that gives the orders of a host that waits while others read."""

    def make(read_by_others):
        second = orders()
        locked = second._locked

        @contextlib.contextmanager
        def locked_late(what):
            clock.now += 1
            read_by_others()
            with locked(what):
                yield

        monkeypatch.setattr(second, "_locked", locked_late)
        return second

    return make


@pytest.fixture
def reads():
    return []


@pytest.fixture
def fail(clock, reads):
    def fail():
        reads.append(1)
        clock.now += 900
        raise ArmError("Azure does not answer")

    return fail


def test_what_another_host_reads_meanwhile_is_not_read_again(orders, clock, waiting, reads, fail):
    def read_by_others():
        with pytest.raises(ArmError):
            orders().recall(0, fail)
        assert orders().recall(0, lambda: {"number": 1})
        clock.now += 30

    assert waiting(read_by_others).recall(0, fail) == {"number": 1}
    assert len(reads) == 1


def test_what_was_read_before_the_clock_began_again_is_read_again(orders, clock):
    orders().recall(0, lambda: {"number": 1})
    clock.now = 5.0
    assert orders().recall(60, lambda: {"number": 2}) == {"number": 2}


def test_what_was_read_is_as_old_as_its_request(orders, clock):
    def read_slowly():
        clock.now += 30
        return {"number": 1}

    orders().recall(0, read_slowly)
    assert orders().recall(20, lambda: {"number": 2}) == {"number": 2}


def test_hosts_that_wait_while_a_read_fails_do_not_repeat_it_one_after_the_other(orders, waiting, reads, fail):
    def read_by_others():
        with pytest.raises(ArmError, match="does not answer"):
            orders().recall(0, fail)

    second = waiting(read_by_others)
    with pytest.raises(ArmError, match="does not answer"):
        second.recall(0, fail)
    assert len(reads) == 1
    assert orders().recall(0, lambda: {"number": 2}) == {"number": 2}
