# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that leave their pools of Azure and return to them. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._load_balancer.drain import Answer, Drain, not_put_back
from ...module_utils._load_balancer.record import DrainError
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.text import shown
from .._azure.arm import ArmError
from .._azure.orders import OrderFailed
from .._azure.pools import Me, PoolMember
from .._azure.resources import FRESH_FOR, ApplicationGateway, LoadBalancer, Resources
from .membership import Place, refuse_same_servers


class Pooled(Drain):
    """A host as a member of all its pools.

    :param host: its name in the inventory.
    """

    ORDERS_LATE = True  # Azure refuses them while another change is carried out
    FOLLOWS_OTHERS = True  # so one write is for all hosts, also for those that wait for a fork

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        record: t.Callable[[dict[str, t.Any]], Answer],
        host: str,
        product: LoadBalancer | ApplicationGateway,
        resources: Resources,
        *,
        simulate: bool,
        clock: Clock = CLOCK,
    ) -> None:
        super().__init__(options, record, simulate=simulate, clock=clock)
        self._host = host
        self._product = product
        self._resources = resources
        self._pools = list(dict.fromkeys(options["pools"]))
        self._me = Me(options["network_interfaces"], options["addresses"])
        self._began = clock.monotonic()
        self._was_in: list[str] = []  # what a return found as it was before the drain

    def look(self) -> dict[str, t.Any]:
        # An operator may have taken it out since another host of the run has read the pool.
        return self._look(self.clock.monotonic() - self._began if self.seen is None else 0)

    def is_untouched(self) -> bool:
        seen = self.seen or {}
        return self._product.out not in seen.values() and self.is_complete(seen)

    def is_complete(self, found: t.Mapping[str, t.Any]) -> bool:
        return not self._pools_without(found)

    def planned(self) -> tuple[bool, str]:
        desired, seen = self._desired(), self.seen or {}
        todo = [key for key in desired if key in seen and seen[key] != self._product.out]
        return bool(todo), f"would take it out of {_names(todo)}" if todo else ""

    def take_out(self) -> None:
        self.stage.update(desired=self._desired(), first=bool(self.noted["first"]))
        self._resources.place(self._host, self.stage["desired"])

    def notice(self) -> None:
        try:
            self.changed |= self._resources.fulfil(self._host, self.stage["desired"])
        except OrderFailed as failure:
            if self.stage["first"] and not failure.sent:
                self._forget_drain()
            raise
        drain_time = self.options["drain_time"]
        if drain_time is None:
            drain_time = max(self._product.drain_time(pool) for pool in self._pools)
        self.stage.update(drain_time=drain_time, ends=self.clock.wall() + drain_time)

    def connections(self, seconds: float) -> float:
        """Only Azure knows the connections: give them their time."""
        left = min(self.stage["ends"] - self.clock.wall(), self.stage["drain_time"])  # also if the clock is set
        self.clock.sleep(max(0.0, min(seconds, left)))
        return float(max(0.0, left - seconds))

    def check_out(self) -> None:
        settled_at = self.stage["ends"] - self.stage["drain_time"]
        seen = self._look(min(FRESH_FOR, max(0.0, self.clock.wall() - settled_at)))
        back = [key for key, state in seen.items() if state != self._product.out]
        if back:
            raise DrainError(
                f"Another program put it back into {_names(back)} while it was taken out. Prevent that, and "
                "run it again"
            )

    def describe(self, left: float) -> str:
        drain_time, timeout = self.stage["drain_time"], self.options["drain_timeout"]
        had = max(0.0, drain_time - left)
        limit = f"load_balancer_drain_timeout is {timeout:g} s"
        if timeout >= drain_time:
            limit = "NotBefore or load_balancer_deadline left no more"
        return f"it gets no new connections, but its connections had {had:.0f} s of {drain_time:g} s to end. {limit}"

    def return_seconds(self) -> float:
        return float(self.options["operation_timeout"])

    def planned_return(self) -> str:
        return f"would put it back into {_names(self._in_pools(self.found))}"

    def put_back(self) -> None:
        own, problems = self._in_readable_pools()
        self._resources.place(self._host, own)
        if problems:  # the next call would not know what is ordered
            self._return_to(own, problems)

    def withdraw(self) -> None:
        self._resources.withdraw(self._host, self.found)

    def wait_until_back(self) -> Exception | None:
        try:
            self._return_to(*self._in_readable_pools())
        except (ArmError, DrainError) as error:
            return error
        return None

    def _return_to(self, own: t.Mapping[str, t.Any], problems: list[str]) -> None:
        """Return to pools.

        :raises DrainError: there are problems already, or the host is not back.
        """
        try:
            changed = self._resources.fulfil(self._host, own)
            left = [key for key, value in own.items() if value != self._product.out]
            lost = self._resources.without_place(left)
            problems = [*problems, *self._not_back(lost)]
            self._was_in = [] if changed else [key for key in left if key not in lost]
        except (ArmError, DrainError) as error:
            problems = [*problems, str(error)]
        if problems:
            raise DrainError("; ".join(dict.fromkeys(problems)))

    def _not_back(self, lost: t.Iterable[str]) -> t.Iterator[str]:
        """Where the host is not back since a pool does not have the member any more that left it."""
        for key in lost:
            member, states = PoolMember.of(key), set[t.Any]()
            if member.target == member.pool:  # it may have been added again, under another name
                states = {*self._product.find(member.pool, self._me, at_most=FRESH_FOR).values()}
            if not states:
                what = "does not have it any more. Add it there"
            elif states == {self._product.out}:
                what = "has it as another member that is Down. Set its admin state to None there"
            else:
                continue
            yield f"{self._host} cannot return to {_names([key])}, which {what}, and run it again"

    def remark(self) -> str:
        own = self._in_pools(self.found)
        kept_out = [key for key, value in own.items() if value == self._product.out]
        others = [key for key in self.found if key not in own]
        remarks = [f"stays out of {_names(kept_out)}, as it was before"] if kept_out else []
        if self._was_in:
            remarks.append(
                f"was in {_names(self._was_in)} already. If its drain got no answer from Azure, look there again "
                "later: Azure may still carry the drain out"
            )
        return "; ".join([*remarks, *not_put_back(_names(others), "load_balancer_azure_pools")])

    def _look(self, at_most: float) -> dict[str, t.Any]:
        noted = {key.lower(): key for key in self.noted.get("found", {})}  # the case of an id does not matter
        return {
            noted.get(key.lower(), key): value
            for pool in self._pools
            for key, value in self._product.find(pool, self._me, at_most=at_most).items()
        }

    def _desired(self) -> dict[str, t.Any]:
        members = list(self._in_pools({**(self.seen or {}), **self.noted["found"]}))
        missing = self._pools_without(members)
        if missing:
            if self.noted["first"]:
                self._forget_drain()
            raise DrainError(
                f"{self._host} is not a member of {', '.join(missing)}: correct load_balancer_azure_pools, or "
                "set load_balancer_azure_network_interfaces and load_balancer_azure_addresses to what it has there"
            )
        return dict.fromkeys(members, self._product.out)

    def _forget_drain(self) -> None:
        """Remove this holder, since nothing was changed: what an operator orders from now on must not be undone."""
        self._ask("returning", lease=0)
        self._ask("released")

    def _in_readable_pools(self) -> tuple[dict[str, t.Any], list[str]]:
        """What a return writes, and the problems of pools that cannot be read: they keep it out of no other pool."""
        own, problems = dict[str, t.Any](), list[str]()
        for pool in self._pools:
            try:
                own.update(self._in_pools(self.found, [pool]))
            except ArmError as error:
                problems.append(str(error))
        return own, problems

    def _in_pools(self, found: t.Mapping[str, t.Any], only: t.Sequence[str] = ()) -> dict[str, t.Any]:
        """What a record has of the host in its pools.

        :raises DrainError: it has a member that is not the host. The host keeps the record, and can write anything.
        """
        pools = [pool.lower() for pool in only or self._pools]  # the case of an id does not matter
        own = {key: value for key, value in found.items() if PoolMember.of(key).pool.lower() in pools}
        for key, value in own.items():
            member = PoolMember.of(key)
            if not self._product.is_own(member, value, self._me):
                raise DrainError(
                    f"The record of {self._host} names {shown(member.name)} in {shown(member.target)}, which is not "
                    "what this host was there. Correct load_balancer_azure_network_interfaces and "
                    "load_balancer_azure_addresses, or remove the record, and put the host back yourself"
                )
        return own

    def _pools_without(self, members: t.Iterable[str]) -> list[str]:
        known = {PoolMember.of(key).pool.lower() for key in members}
        return [pool for pool in self._pools if pool.lower() not in known]


class Traffic(t.NamedTuple):
    """``out``: the hosts that get no traffic through some pool; ``unknown``: those that cannot be looked for."""

    out: list[str]
    unknown: list[str]


def survey(product: LoadBalancer | ApplicationGateway, hosts: t.Mapping[str, tuple[t.Sequence[str], Me]]) -> Traffic:
    """Find the hosts that are not in one of their pools, or that this role or an operator took out there.

    :param hosts: by name, the pools that a host belongs to, and its identity there.
    :raises ArmError: a pool cannot be read.
    :raises DrainError: a pool does not say whether its members get traffic, or two hosts are the same member.
    """
    traffic, places = Traffic([], []), dict[str, list[Place]]()
    for host, (own, me) in hosts.items():
        if not own or not (me.interfaces or me.addresses):
            traffic.unknown.append(host)
            continue
        members = [product.find(pool, me, at_most=FRESH_FOR) for pool in own]
        keys = [PoolMember.of(key) for found in members for key in found]
        places[host] = [Place([member.pool.lower()], member.name, []) for member in keys]
        if any(not found or product.out in found.values() for found in members):
            traffic.out.append(host)
    refuse_same_servers(places, "load_balancer_azure_network_interfaces and load_balancer_azure_addresses")
    return traffic


def _names(keys: t.Iterable[str]) -> str:
    """The pools, as people call them."""
    shown = dict.fromkeys("/".join(PoolMember.of(key).pool.split("/")[-3::2]) or key for key in keys)
    return ", ".join(shown)
