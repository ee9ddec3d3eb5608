# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holders that drain a host and put it back at the same time, in every order, each killed at any step.

Only one thread runs at a time: a step hands over to the test, which decides who is next. The clock moves when no
thread can go on, and when the test wants it to. HOLDERS_EXAMPLES makes a run longer.
"""

import contextlib
import os
import threading

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memory_folder import MemoryFolder

from plugins.module_utils._load_balancer import health_probe
from plugins.module_utils._load_balancer.call import OPTIONS
from plugins.module_utils._load_balancer.record import DrainError, Record, take_note
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._ansible.other_host import OtherHostError
from plugins.plugin_utils._azure.pools import PoolMember
from plugins.plugin_utils._balancers import azure, membership

EXAMPLES = int(os.environ.get("HOLDERS_EXAMPLES", "60"))
HOLDERS = ("respond", "rolling_maintenance", "operator")
RETURN_TIMEOUT = 120.0
LEADS = "leads"
DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}
POOL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb/backendAddressPools/www"
FLAG = "/var/lib/maintops/drained"


class Killed(BaseException):
    """The process has ended: nothing that handles errors sees this."""


class ModuleFailed(OtherHostError):
    pass


EXPECTED = (DrainError,)


class Folder(MemoryFolder):
    """It must not be left locked at a step."""

    is_here = True

    def __init__(self, world):
        super().__init__()
        self.is_locked = False
        self._world = world

    @contextlib.contextmanager
    def guarded(self, **_how):
        assert not self.is_locked
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False

    def write(self, name, content, **how):
        self._world.may_end()
        super().write(name, content, **how)
        self._world.may_end()

    def remove(self, name):
        self.read(name)
        self._world.may_end()
        super().remove(name)
        self._world.may_end()


class Actor(threading.Thread):
    """One run for a holder."""

    def __init__(self, world, holder, states, ends_after):
        super().__init__(daemon=True)
        self.world, self.holder, self.states, self.ends_after = world, holder, states, ends_after
        self.go, self.wakes_at = threading.Semaphore(0), 0.0
        self.has_ended, self.is_back, self.error = False, False, None

    def run(self):
        self.go.acquire()
        try:
            for state in self.states:
                self.world.drained.discard(self.holder)
                self.world.bring(self.holder, state)
                if state == "drained":
                    self.world.drained.add(self.holder)
                self.is_back = state == "active"
        except Killed:
            pass
        except EXPECTED as error:
            self.error = error
        except Exception as error:
            self.error = error
            self.world.surprises.append(error)
        self.has_ended = True
        self.world.handed_over.release()


class World:
    """A host with its record, and a service that starts to answer at a time."""

    def __init__(self, service_answers_at):
        self.now, self.service_answers_at = 1000.0, service_answers_at
        self.folder = Folder(self)
        self.drained, self.actor, self.surprises, self.only_the_end_counts = set(), None, [], False
        self.handed_over = threading.Semaphore(0)

    # what the code under test gets

    def clock(self):
        return self.now

    @property
    def clocks(self):
        return Clock(self.clock, self.clock, self.sleep, lambda: "boot")

    def options(self, holder, state, **more):
        return {**DEFAULTS, "holder": holder, "state": state, "return_timeout": RETURN_TIMEOUT, **more}

    def sleep(self, seconds):
        assert not self.folder.is_locked
        self.actor.wakes_at = self.now + seconds
        self.step()

    def step(self):
        """Let others go on."""
        actor = self.actor
        self.handed_over.release()
        actor.go.acquire()
        self.may_end()

    def may_end(self):
        if self.actor.ends_after is not None:
            if self.actor.ends_after == 0:
                raise Killed
            self.actor.ends_after -= 1

    def record(self, options=None):
        made = Record(self.folder, clock=self.clocks)
        return made if options is None else take_note(made, {**DEFAULTS, **options})

    @property
    def service_answers(self):
        return self.now >= self.service_answers_at

    # what the test does

    def run(self, actors, choose=lambda _actors: 0):
        """Run the actors to their ends. ``choose(actors)`` is the number of the next one."""
        for actor in actors:
            actor.start()
        while True:
            left = [actor for actor in actors if not actor.has_ended]
            if not left:
                return
            self.now = max(self.now, min(actor.wakes_at for actor in left))
            awake = [actor for actor in left if actor.wakes_at <= self.now]
            self.actor = awake[choose(awake)]
            self.actor.go.release()
            assert self.handed_over.acquire(timeout=60)
            assert self.surprises == []
            for holder in () if self.only_the_end_counts else self.drained:
                assert self.is_out(), f"{holder} needs the host out"


class ProbedWorld(World):
    def __init__(self, *args):
        super().__init__(*args)
        self.flag = False

    def is_out(self):
        return self.flag

    def bring(self, holder, state):
        world = self

        class Flag:
            def is_up(self):
                return world.flag

            def raise_(self):
                world.may_end()
                world.flag = True
                world.may_end()

            def lower(self):
                world.may_end()
                world.flag = False
                world.may_end()

        def probe():
            world.step()
            return health_probe.ProbeAnswer(200 if world.service_answers and not world.flag else 503)

        host = health_probe.Probed(
            self.options(holder, state, flag=FLAG, ports=[80], drain_timeout=10, on_timeout="continue"),
            self.record(),
            probe=probe,
            peers=list,
            flag=Flag(),
            simulate=False,
            clock=self.clocks,
        )
        host.bring()


class HAProxyWorld(World):
    def __init__(self, *args):
        super().__init__(*args)
        self.servers = {"lb1": "ready", "lb2": "ready"}

    def is_out(self):
        return "ready" not in self.servers.values()

    def ask(self, name, module, options):
        self.step()
        sent = []
        if module == membership.CHANGE:
            self.may_end()
            wanted = "MAINT" if options["state"] == "drained" else options["found"].get("www", "ready")
            sent = [] if self.servers[name] == wanted else [f"www/web1: {wanted}"]
            self.servers[name] = wanted
            self.sleep(1)
            if options["state"] == "drained" and self.servers[name] == "ready":
                raise ModuleFailed(f"Another program put www/web1 back on {name}")
        give_up_at = self.now + options.get("timeout", 0)
        while sent and wanted == "ready" and not self.is_served(name) and self.now < give_up_at:
            self.sleep(10)
        found = {"www": self.servers[name]}
        server = {
            "backend": "www",
            "server": "web1",
            "status": "?",
            "check": "",
            "gets_no_new_sessions": not self.is_served(name),
        }
        left = [server] if options.get("state") == "active" and not self.is_served(name) else []
        server["gets_no_new_sessions"] = not self.is_served(name)
        answer = {"changed": bool(sent), "servers": [server], "found": found}
        return {**answer, "sent": sent, "unfinished": left} if module == membership.CHANGE else {**answer, "down": left}

    def is_served(self, name):
        return self.servers[name] == "ready" and self.service_answers

    def bring(self, holder, state):
        balancers = membership.Balancers(["lb1", "lb2"], ask=self.ask, clock=self.clocks)
        options = self.options(holder, state, server="web1")
        result = membership.Membership(options, self.record, balancers, simulate=False, clock=self.clocks).bring()
        assert not result.get("failed"), result


class AzureWorld(World):
    """The pool and the resources at once, as the code under test sees them. Each holder is a run.

    :ivar wait_at_most: seconds of a call, if there are several for a drain or a return.
    :ivar slow: seconds until Azure carries out an order, by holder.
    """

    out = "Down"
    drain_time = staticmethod(lambda _pool: 30.0)
    is_own = staticmethod(lambda _member, _value, _me: True)

    def __init__(self, *args):
        super().__init__(*args)
        self.members, self.orders, self.wait_at_most = {PoolMember(POOL, POOL, "a").key: "None"}, {}, 0.0
        self.slow = dict.fromkeys(HOLDERS, 20)

    def is_out(self):
        return set(self.members.values()) == {"Down"}

    def find(self, _pool, _me, *, at_most):  # noqa: ARG002
        self.step()
        return dict(self.members)

    def place(self, holder, desired):
        self.orders[holder] = dict(desired)

    def withdraw(self, holder, _keys):
        self.orders.pop(holder, None)

    def fulfil(self, holder, _desired):
        self.sleep(self.slow[holder])
        self.may_end()
        if not self.service_answers and self.now % 2:
            raise DrainError("Azure could not change it")
        before = dict(self.members)
        self.members.update(self.orders.pop(holder, {}))
        self.sleep(20)
        return self.members != before

    def without_place(self, keys):
        self.step()
        return [key for key in keys if key not in self.members]

    def bring(self, holder, state):
        if state == LEADS:  # another host of the run carries out the order
            self.sleep(self.slow[holder] + 50)
            self.members.update(self.orders.pop(holder, {}))
            return
        own = {"pools": [POOL], "drain_time": -1, "on_timeout": "continue", "operation_timeout": RETURN_TIMEOUT}
        result = {"resume": {}}
        while True:
            options = self.options(holder, state, wait_at_most=self.wait_at_most, resume=result["resume"], **own)
            result = azure.Pooled(options, self.record, holder, self, self, simulate=False, clock=self.clocks).bring()
            assert not result.get("failed"), result
            if not result["resume"]:
                return
            self.sleep(self.slow[holder])  # until it gets a fork again


ENDS_AFTER = st.one_of(st.none(), st.none(), st.integers(0, 40))
MOVES = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.integers(0, 5)), min_size=10, max_size=60)


@pytest.mark.parametrize("kind", [ProbedWorld, HAProxyWorld, AzureWorld])
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    holders=st.permutations(HOLDERS),
    ends_after=st.tuples(ENDS_AFTER, ENDS_AFTER),
    begins=st.sampled_from([["active"], ["drained", "active"]]),
    moves=MOVES,
    service_answers_at=st.sampled_from([0, 1000, 1040, 1200]),
)
def test_the_host_is_out_while_it_is_needed_out_and_back_when_all_have_ended(
    kind, holders, ends_after, begins, moves, service_answers_at
):
    first, second, _third = holders
    world = kind(service_answers_at)
    longest = 400 if kind is ProbedWorld else 5  # there, orders that were sent late would undo those of others
    if begins == ["active"]:
        world.run([Actor(world, first, ["drained"], None)])
    moves = iter(moves)

    def choose(actors):
        seconds, number = next(moves, (0, 0))
        world.now += (0, 1, longest)[seconds]
        return number % len(actors)

    actors = [Actor(world, first, begins, ends_after[0]), Actor(world, second, ["drained", "active"], ends_after[1])]
    world.run(actors, choose)
    world.drained.clear()
    world.now = max(world.now, service_answers_at)
    for holder in sorted({actor.holder for actor in actors if not actor.is_back}):
        again = Actor(world, holder, ["active"], None)
        world.run([again])
        assert again.error is None, again.error
    assert not world.is_out()
    assert world.folder.files == {}


@pytest.mark.parametrize("kind", [ProbedWorld, HAProxyWorld, AzureWorld])
@pytest.mark.parametrize("ends_after", range(40))
def test_a_holder_that_is_killed_while_it_puts_the_host_back_leaves_that_to_the_next_one(kind, ends_after):
    world = kind(0)
    world.run([Actor(world, "respond", ["drained"], None)])
    world.drained.clear()
    world.run([Actor(world, "respond", ["active"], ends_after)])
    was_returning = world.record().is_returning("respond")
    second = Actor(world, "rolling_maintenance", ["drained", "active"], None)
    world.run([second])
    assert second.error is None, second.error
    assert world.is_out() == (world.record().read().holders == ["respond"])
    assert not (was_returning and world.is_out())


@pytest.mark.parametrize("kind", [HAProxyWorld, AzureWorld])
@pytest.mark.parametrize("ends_after", range(60))
def test_what_another_holder_was_about_to_undo_is_never_noted_as_the_order_of_an_operator(kind, ends_after):
    world = kind(0)
    world.run([Actor(world, "respond", ["drained"], None)])
    world.drained.clear()
    # The second holder looks, and waits until the first one has put the host back.
    world.run([Actor(world, "respond", ["active"], None), Actor(world, "operator", ["drained"], ends_after)])
    world.drained.clear()
    world.run([Actor(world, "operator", ["active"], None)])
    assert not world.is_out()
    assert world.folder.files == {}


@pytest.mark.parametrize("kind", [HAProxyWorld, AzureWorld])
@pytest.mark.parametrize("ends_after", range(20))
def test_the_order_of_an_operator_stays_wherever_a_holder_is_killed(kind, ends_after):
    world = kind(0)
    orders = world.servers if kind is HAProxyWorld else world.members
    before = dict.fromkeys(orders, "MAINT" if kind is HAProxyWorld else "Down")
    orders.update(before)
    world.run([Actor(world, "respond", ["drained"], ends_after)])
    world.drained.clear()
    world.run([Actor(world, "respond", ["active"], None)])
    assert orders == before


@pytest.mark.parametrize(("kind", "wait_at_most"), [(HAProxyWorld, 0.0), (AzureWorld, 0.0), (AzureWorld, 10.0)])
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    moves=MOVES,
    service_answers_at=st.sampled_from([0, 1000, 1200, 1800]),
    returns=st.booleans(),
    slow=st.sampled_from([20, 3000]),
)
def test_a_return_whose_orders_come_too_late_leaves_the_host_as_the_record_says(
    kind, wait_at_most, moves, service_answers_at, returns, slow
):
    world = kind(service_answers_at)
    world.wait_at_most, world.slow = wait_at_most, {"respond": slow, "operator": 20}
    world.run([Actor(world, "respond", ["drained"], None)])
    world.drained.clear()
    world.only_the_end_counts = True
    moves = iter(moves)

    def choose(actors):
        seconds, number = next(moves, (0, 0))
        world.now += (0, 60, 400)[seconds]
        return number % len(actors)

    second = ["drained", "active"] if returns else ["drained"]
    actors = [Actor(world, "respond", ["active"], None), Actor(world, "operator", second, None)]
    leader = [Actor(world, "respond", [LEADS], None)] if wait_at_most else []
    world.run([*actors, *leader], choose)
    assume(not any(actor.error for actor in actors))  # else the user knows
    assert not getattr(world, "orders", {})
    holders = world.record().read().holders
    assert world.is_out() == bool(holders), holders
