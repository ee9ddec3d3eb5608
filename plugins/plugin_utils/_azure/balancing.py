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
from .arm import ArmError
from .pools import Me, Member
from .resources import FRESH_FOR, KNOWN_FOR, ApplicationGateway, BalancingError, LoadBalancer, Resources

RETURN_LEASE = 60.0  # seconds beyond the work, so that a run that lives keeps its lease


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


def _names(keys: t.Iterable[str]) -> str:
    """The pools, as people call them."""
    shown = dict.fromkeys("/".join(Member.of(key).pool.split("/")[-3::2]) for key in keys)
    return ", ".join(shown)
