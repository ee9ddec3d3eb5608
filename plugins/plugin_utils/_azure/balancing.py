# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that leaves its pools of Azure and returns to them. Private to the collection."""

from __future__ import annotations

import math
import time
import typing as t

from ...module_utils._load_balancer.record import longest_wait
from .._provider.holding import Holding, Provider, Result
from . import pools
from .arm import Arm, ArmError
from .orders import OrderFailed, Orders
from .pools import Me, Member

LOOK_AGAIN_AFTER = 5.0  # seconds; Azure takes many for a change
FRESH_FOR = 15.0  # seconds for which a resource that was read is fresh enough to be changed
KNOWN_FOR = 60.0  # seconds for which it is fresh enough to find the host in it
NEVER_STALE = 1e9  # seconds; the rules of a balancer are read once in a run
RETURN_LEASE = 60.0  # seconds beyond the work, so that a run that lives keeps its lease
WRITTEN, FAILED_STATES = "Succeeded", ("Failed",)

Body = t.Dict[str, t.Any]


class BalancingError(Exception):
    """It could not be done. The message says what to do."""


class PoolSettings(t.NamedTuple):
    """The times are seconds; ``wait_at_most`` 0 means no limit.

    ``drain_time``: for connections to end, none for what Azure gives. ``operation_timeout``: for one change.
    ``finish_within``: for the whole drain, from this call on.
    """

    host: str
    pools: t.Sequence[str]
    me: Me
    holder: str
    drain_timeout: float
    drain_time: float | None
    on_timeout: str
    operation_timeout: float
    wait_at_most: float
    simulate: bool
    finish_within: float = math.inf


class Resources:
    """The resources of Azure, as all hosts of a run read and write them."""

    def __init__(self, arm: Arm, orders: t.Callable[[str], Orders], *, timeout: float) -> None:
        self._arm = arm
        self._orders = orders
        self._timeout = timeout

    def look(self, target: str, *, at_most: float) -> Body:
        """The resource, as it was ``at_most`` seconds ago or later."""
        return self._orders(target).recall(at_most, lambda: self._read(target))

    def place(self, host: str, desired: t.Mapping[str, t.Any]) -> None:
        for target, own in _by_target(desired).items():
            self._orders(target).place(host, own)

    def fulfil(self, host: str, desired: t.Mapping[str, t.Any]) -> bool:
        """Have the orders of the host carried out, on each of its resources; whether anything was changed.

        :raises BalancingError: some could not be carried out. The others were.
        """
        changed, problems = False, []
        for target, own in _by_target(desired).items():
            try:
                changed |= self._fulfil_one(host, target, own)
            except OrderFailed as failure:
                problems.append(str(failure))
        if problems:
            raise BalancingError("; ".join(problems))
        return changed

    def _fulfil_one(self, host: str, target: str, own: t.Mapping[str, t.Any]) -> bool:
        """Have the order for one resource carried out. If another host failed, it may only have had less time."""
        orders, give_up_at, was_here = self._orders(target), self._arm.clock() + self._timeout, False

        def bring(all_desired: t.Mapping[str, t.Any]) -> bool:
            nonlocal was_here
            was_here = True
            return self._bring(target, all_desired)

        while True:
            try:
                return orders.fulfil(host, bring, errors=ArmError)
            except OrderFailed:
                if was_here or self._arm.clock() >= give_up_at:
                    raise
            orders.place(host, dict(own))

    def _bring(self, target: str, desired: t.Mapping[str, t.Any]) -> bool:
        """Write the resource until it is as desired; whether it was written."""
        arm, orders = self._arm, self._orders(target)
        give_up_at = arm.clock() + self._timeout
        wrote, problem = False, "it is being changed"
        body = orders.recall(FRESH_FOR, lambda: self._read(target))
        while True:
            state = pools.provisioning_state(body)
            changed = pools.apply(target, body, desired)
            if state == WRITTEN and changed is None:
                orders.note(body)
                return wrote
            if wrote and state in FAILED_STATES:
                raise ArmError(
                    f"Azure could not change {target}: its provisioning state is {state}. Check the activity log of "
                    "the resource, and run it again"
                )
            if state in (WRITTEN, "Canceled", *FAILED_STATES):
                problem = self._write(target, changed or body)
                wrote = wrote or not problem
                pause = LOOK_AGAIN_AFTER if problem else 0.0
            else:
                problem, pause = f"its provisioning state is {state}", LOOK_AGAIN_AFTER
            if arm.clock() >= give_up_at:
                raise ArmError(
                    f"{target} was not changed within {self._timeout:g} s: {problem or 'another client changes it'}. "
                    "Wait until the change has ended, or raise load_balancer_azure_operation_timeout, and run this "
                    "task again"
                )
            arm.sleep(pause)
            body = self._read(target)

    def _read(self, target: str) -> Body:
        return self._arm.read(target, pools.api_version_of(target))

    def _write(self, target: str, body: Body) -> str:
        """Write; why it has to be written again, or nothing.

        The body holds the etag that was read, so that Azure refuses it if another client wrote in between.
        """
        try:
            self._arm.write("PUT", target, pools.api_version_of(target), body)
        except ArmError as error:
            if error.conflict or error.fleeting:
                return str(error)
            raise
        return ""


class Looks(t.Protocol):
    """Shows resources."""

    def look(self, target: str, *, at_most: float) -> Body:
        """The resource, as it was ``at_most`` seconds ago or later."""


class Snapshot:
    """Resources as they are now: each is read once, however many hosts are looked for in it."""

    def __init__(self, resources: Looks) -> None:
        self._resources = resources
        self._bodies: dict[str, Body] = {}

    def look(self, target: str, *, at_most: float) -> Body:
        """The resource, as it was ``at_most`` seconds before the first look or later."""
        if target not in self._bodies:
            self._bodies[target] = self._resources.look(target, at_most=at_most)
        return self._bodies[target]


class LoadBalancer:
    """Pools of load balancers. A host is out if its members have the admin state Down."""

    out = pools.DOWN

    def __init__(self, resources: Looks) -> None:
        self._resources = resources

    def find(self, pool: str, me: Me, *, at_most: float) -> dict[str, t.Any]:
        """What the host is in the pool, by the keys of its members."""
        self._check_rules(pool)
        return pools.in_load_balancer_pool(pool, self._resources.look(pool, at_most=at_most), me)

    def drain_time(self, pool: str) -> float:
        """The seconds that connections of the pool get to end."""
        return pools.load_balancer_drain(self._resources.look(pool, at_most=KNOWN_FOR))

    def _check_rules(self, pool: str) -> None:
        balancer = self._resources.look(pools.owner_of(pool, pools.BALANCERS), at_most=NEVER_STALE)
        without = pools.rules_without_probe(balancer, pool)
        if without:
            raise BalancingError(
                f"the rules {', '.join(without)} of {pool} have no health probe, so they send connections to every "
                "member in any admin state. Give them a probe"
            )


class ApplicationGateway:
    """Pools of gateways. A host is out if it is removed from them."""

    out = pools.REMOVED

    def __init__(self, resources: Looks) -> None:
        self._resources = resources

    def find(self, pool: str, me: Me, *, at_most: float) -> dict[str, t.Any]:
        """What the host is in the pool, by the keys of its members."""
        return pools.in_gateway_pool(pool, self._gateway(pool, at_most), me)

    def drain_time(self, pool: str) -> float:
        """The seconds that requests to the pool get to end."""
        return pools.gateway_drain(self._gateway(pool, KNOWN_FOR), pool)

    def _gateway(self, pool: str, at_most: float) -> Body:
        return self._resources.look(pools.owner_of(pool, pools.GATEWAYS), at_most=at_most)


class Places(t.NamedTuple):
    """The pools that a host belongs to, and its identity there."""

    pools: t.Sequence[str]
    me: Me


class Traffic(t.NamedTuple):
    """``out``: the hosts that get no traffic through some pool; ``unknown``: those that cannot be looked for."""

    out: list[str]
    unknown: list[str]


def survey(product: LoadBalancer | ApplicationGateway, hosts: t.Mapping[str, Places]) -> Traffic:
    """Find the hosts that are not in one of their pools, or that this role or an operator took out there.

    :raises ArmError: a pool cannot be read.
    :raises BalancingError: a pool does not say whether its members get traffic.
    """
    traffic = Traffic([], [])
    for host, (own, me) in hosts.items():
        if not own or not (me.interfaces or me.addresses):
            traffic.unknown.append(host)
        elif any(_is_out(product, product.find(pool, me, at_most=FRESH_FOR)) for pool in own):
            traffic.out.append(host)
    return traffic


def _is_out(product: LoadBalancer | ApplicationGateway, members: t.Mapping[str, t.Any]) -> bool:
    return not members or product.out in members.values()


class Balancing(Provider):
    """A host and all its pools.

    :param record: ``record(options)`` runs the module load_balancer_record on the host.
    """

    def __init__(
        self,
        product: LoadBalancer | ApplicationGateway,
        resources: Resources,
        settings: PoolSettings,
        *,
        record: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
        clock: t.Callable[[], float] = time.time,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._product = product
        self._resources = resources
        self._settings = settings
        self._holding = Holding(record, settings.holder)
        self._finish_at = clock() + settings.finish_within
        self._clock = clock
        self._sleep = sleep

    def drain(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Take the host out of all pools. A result with ``resume`` is to be followed by another call with it."""
        if resume.get("stage") == "out":
            return self._wait_for_connections(dict(resume))
        if resume.get("stage") == "ordered":
            return self._carry_out(dict(resume))
        seen = self._look(KNOWN_FOR)
        record = self._hold(seen)
        members = [key for key in {**seen, **record["found"]} if Member.of(key).pool in self._settings.pools]
        missing = self._pools_without(members)
        if missing:
            if record["first"]:
                self._holding.let_go()
            raise BalancingError(
                f"{self._settings.host} is not a member of {', '.join(missing)}: correct load_balancer_azure_pools, or "
                "set load_balancer_azure_network_interfaces and load_balancer_azure_addresses to what it has there"
            )
        desired = dict.fromkeys(members, self._product.out)
        changed = bool(record["changed"])
        if self._settings.simulate:
            return self._plan(seen, desired)
        self._resources.place(self._settings.host, desired)
        stage = {"stage": "ordered", "desired": desired, "changed": changed}
        # So the hosts that wait for a fork place their orders, too, before the first writes.
        return _again(changed, stage) if self._settings.wait_at_most else self._carry_out(stage)

    def restore(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Put the host back into all pools, as it was found, if no other holder needs it drained."""
        settings = self._settings
        record, must_return = self._holding.begin_return(lease=settings.operation_timeout + RETURN_LEASE)
        if not must_return:
            return {"changed": record["changed"], "msg": record["msg"], "resume": {}}
        desired = {key: value for key, value in record["found"].items() if Member.of(key).pool in settings.pools}
        if settings.simulate:
            return {"changed": True, "msg": f"would put it back into {_names(desired)}", "resume": {}}
        if not resume:
            self._resources.place(settings.host, desired)
            if settings.wait_at_most:
                return _again(bool(record["changed"]), {"stage": "ordered"})
        problem = None
        try:
            self._resources.fulfil(settings.host, desired)
        except (ArmError, BalancingError) as error:
            problem = error
        msg = self._holding.end_return(problem)
        if msg:
            return {"changed": True, "msg": msg, "resume": {}}
        kept_out = [key for key, value in desired.items() if value == self._product.out]
        msg = f"stays out of {_names(kept_out)}, as it was before" if kept_out else ""
        return {"changed": True, "msg": msg, "resume": {}}

    def _look(self, at_most: float) -> dict[str, t.Any]:
        settings = self._settings
        return {
            key: value
            for pool in settings.pools
            for key, value in self._product.find(pool, settings.me, at_most=at_most).items()
        }

    def _hold(self, seen: dict[str, t.Any]) -> dict[str, t.Any]:
        return self._holding.hold(
            seen,
            wait=longest_wait(self._settings.finish_within),
            is_untouched=self._product.out not in seen.values() and not self._pools_without(seen),
            look=lambda: self._look(0),
            is_complete=lambda found: not self._pools_without(found),
        )

    def _pools_without(self, members: t.Iterable[str]) -> list[str]:
        known = {Member.of(key).pool for key in members}
        return [pool for pool in self._settings.pools if pool not in known]

    def _carry_out(self, stage: dict[str, t.Any]) -> Result:
        settings = self._settings
        changed = self._resources.fulfil(settings.host, stage["desired"]) or stage["changed"]
        drain_time = settings.drain_time
        if drain_time is None:
            drain_time = max(self._product.drain_time(pool) for pool in settings.pools)
        now = self._clock()
        until = now + max(0.0, min(settings.drain_timeout, self._finish_at - now))
        out = {"stage": "out", "ends": now + drain_time, "until": until, "seconds": drain_time, "changed": changed}
        return self._wait_for_connections({**stage, **out})

    def _wait_for_connections(self, stage: dict[str, t.Any]) -> Result:
        settings, now = self._settings, self._clock()
        until = min(stage["ends"], stage["until"], self._finish_at)
        longest = max(stage["seconds"], settings.drain_timeout)  # also if the clock is set meanwhile
        stretch = rest = min(max(0.0, until - now), longest)
        if settings.wait_at_most:
            stretch = min(rest, settings.wait_at_most)
        self._sleep(stretch)
        changed = bool(stage["changed"])
        if stretch < rest:
            return _again(changed, {**stage, "changed": False})
        self._check_that_it_is_out(stage["ends"] - stage["seconds"])
        left = stage["ends"] - until
        if left <= 0:
            return {"changed": changed, "msg": "", "resume": {}}
        msg = (
            f"it gets no new connections, but its connections had {max(0.0, stage['seconds'] - left):.0f} s of "
            f"{stage['seconds']:g} s to end. load_balancer_drain_timeout is {settings.drain_timeout:g} s"
        )
        return {"changed": changed, "msg": msg, "resume": {}, "failed": settings.on_timeout == "fail"}

    def _check_that_it_is_out(self, settled_at: float) -> None:
        seen = self._look(min(FRESH_FOR, max(0.0, self._clock() - settled_at)))
        back = [key for key, state in seen.items() if state != self._product.out]
        if back:
            raise BalancingError(
                f"Another program put it back into {_names(back)} while it was taken out. Prevent that, and "
                "run it again"
            )

    def _plan(self, seen: t.Mapping[str, t.Any], desired: t.Mapping[str, t.Any]) -> Result:
        todo = [key for key in desired if key in seen and seen[key] != self._product.out]
        return {"changed": bool(todo), "msg": f"would take it out of {_names(todo)}" if todo else "", "resume": {}}


def _again(changed: bool, stage: dict[str, t.Any]) -> Result:
    return {"changed": changed, "msg": "", "resume": stage}


def _by_target(desired: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    targets: dict[str, dict[str, t.Any]] = {}
    for key, value in desired.items():
        targets.setdefault(Member.of(key).target, {})[key] = value
    return targets


def _names(keys: t.Iterable[str]) -> str:
    """The pools, as people call them."""
    shown = dict.fromkeys("/".join(Member.of(key).pool.split("/")[-3::2]) for key in keys)
    return ", ".join(shown)
