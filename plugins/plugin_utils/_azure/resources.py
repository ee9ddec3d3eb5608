# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resources of Azure that the hosts of a run read and write. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._load_balancer.record import DrainError
from . import pools
from .arm import INSTANCE, Arm, ArmError, azure_id
from .orders import OrderFailed, Orders
from .pools import Me, PoolMember

LOOK_AGAIN_AFTER = 5.0  # seconds; Azure takes many for a change
FRESH_FOR = 15.0  # seconds for which a resource that was read is fresh enough to be changed
KNOWN_FOR = 60.0  # seconds for which it is fresh enough to find the host in it
NEVER_STALE = 1e9  # seconds; the rules of a balancer are read once in a run
WRITTEN, FAILED_STATES = "Succeeded", ("Failed", "Canceled")

Body = t.Dict[str, t.Any]


def provisioning_state(body: Body) -> str:
    """The progress of Azure with the last change."""
    return str((body.get("properties") or {}).get("provisioningState") or WRITTEN)


def bring(
    arm: Arm,
    target: str,
    body: Body,
    change: t.Callable[[Body], Body | None],
    *,
    read: t.Callable[[], Body],
    timeout: float,
    setting: str,
) -> bool:
    """Write a resource until Azure has carried out the change; whether it was written.

    :param body: the resource as it was read last.
    :param change: ``change(body)`` is what to write, or None if that is not needed.
    :param read: reads it again.
    :param setting: the option of the user for ``timeout``; empty if that is not what decides it.
    :raises ArmError: it could not be done, or not within ``timeout`` seconds. Its ``sent`` is set.
    """
    api_version = pools.api_version_of(target)
    give_up_at, sent = arm.clock.monotonic() + timeout, False
    again_at = 0.0  # when to send a change once more that Azure has accepted; 0: it has accepted none
    try:
        while True:
            state, wanted = provisioning_state(body), change(body)
            problem, pause = f"its provisioning state is {state}", LOOK_AGAIN_AFTER
            if wanted is None and (state == WRITTEN or not sent):
                return sent
            if again_at and state in FAILED_STATES:
                raise ArmError(
                    f"Azure could not change {target}: its provisioning state is {state}. Check the activity log of "
                    "the resource, and run it again"
                )
            if wanted is not None and state in (WRITTEN, *FAILED_STATES):
                problem, now = "Azure accepted the change, which does not show", arm.clock.monotonic()
                try:
                    if now >= again_at:
                        # It has the etag that was read, so Azure refuses it if another client wrote in between.
                        arm.write("PUT", target, api_version, wanted)
                        pause = LOOK_AGAIN_AFTER if again_at else 0.0
                        sent, again_at = True, now + LOOK_AGAIN_AFTER
                except ArmError as error:
                    sent = sent or error.fleeting or not error.status  # Azure may have carried it out
                    if not (error.conflict or error.fleeting):
                        raise
                    problem, pause = error.problem, max(LOOK_AGAIN_AFTER, error.asked_pause)
            if arm.clock.monotonic() + pause >= give_up_at:
                raise ArmError(
                    f"{target} was not changed within {timeout:.0f} s: {problem}. Wait until the change has ended"
                    + (f", or raise {setting}" if setting else "")
                    + ", and run this task again"
                )
            arm.clock.sleep(pause)
            body = read()
    except ArmError as error:
        error.sent = sent
        raise


def check_instance(resource_id: str) -> str:
    """The id, if it is that of an instance of a scale set.

    :raises ArmError: it is not.
    """
    found = azure_id(resource_id)
    if not found or found.kind != INSTANCE:
        raise ArmError(
            f"resource_id is {resource_id!r}, expected /subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/"
            "virtualMachineScaleSets/…/virtualMachines/…. Give the id of an instance of a scale set"
        )
    return resource_id


def is_protected(instance: Body) -> bool:
    """Whether an instance of a scale set is protected from scale-in."""
    return bool(_policy(instance).get("protectFromScaleIn"))


def protect(arm: Arm, instance: str, body: Body, *, wanted: bool, timeout: float) -> bool:
    """Protect an instance from scale-in or not; whether that was changed.

    :raises ArmError: see :func:`bring`.
    """

    def change(body: Body) -> Body | None:
        if is_protected(body) is wanted:
            return None
        # Azure documents this request, which leaves the rest of the instance as it is.
        policy = {"properties": {"protectionPolicy": {**_policy(body), "protectFromScaleIn": wanted}}}
        return {**policy, "etag": body["etag"]} if body.get("etag") else policy

    def read() -> Body:
        return arm.read(instance, pools.api_version_of(instance))

    return bring(arm, instance, body, change, read=read, timeout=timeout, setting="operation_timeout")


def _policy(instance: Body) -> Body:
    return dict((instance.get("properties") or {}).get("protectionPolicy") or {})


class Resources:
    """The resources of Azure, as all hosts of a run read and write them.

    :param timeout: seconds for a change, if this host has as many.
    """

    def __init__(self, arm: Arm, orders: t.Callable[[str], Orders], *, timeout: float) -> None:
        self._arm = arm
        self._orders = orders
        self._timeout = timeout

    def look(self, target: str, at_most: float) -> Body:
        """The resource, as it was ``at_most`` seconds ago or later."""
        return self._orders(target).recall(at_most, self._reading(target))

    def place(self, host: str, desired: t.Mapping[str, t.Any]) -> None:
        for target, own in _by_target(desired).items():
            self._orders(target).place(host, own)

    def withdraw(self, host: str, keys: t.Iterable[str]) -> None:
        for target in _by_target(dict.fromkeys(keys)):
            self._orders(target).withdraw(host)

    def fulfil(self, host: str, desired: t.Mapping[str, t.Any]) -> bool:
        """Have the orders of the host carried out, on each of its resources; whether anything was changed.

        :raises OrderFailed: some could not be carried out. The others were.
        """
        changed, sent, problems = False, False, []
        for target, own in _by_target(desired).items():
            try:
                changed |= self._fulfil_one(host, target, own)
            except OrderFailed as failure:
                problems.append(str(failure))
                sent |= failure.sent
        if problems:
            raise OrderFailed("; ".join(problems), sent=changed or sent)
        return changed

    def without_place(self, keys: t.Iterable[str]) -> list[str]:
        """The members for which their resource has no place any more; see :func:`pools.without_place`."""
        targets = _by_target(dict.fromkeys(keys))
        bodies = {target: self.look(target, FRESH_FOR) for target in targets}
        return [key for target, own in targets.items() for key in pools.without_place(target, bodies[target], own)]

    def _fulfil_one(self, host: str, target: str, own: t.Mapping[str, t.Any]) -> bool:
        """Have the order for one resource carried out. If another host failed, it may only have had less time."""
        orders, give_up_at = self._orders(target), self._arm.clock.monotonic() + self._seconds()
        was_here = sent = False

        def bring(all_desired: t.Mapping[str, t.Any]) -> bool:
            nonlocal was_here
            was_here = True
            return self._bring(target, all_desired)

        while True:
            try:
                return orders.fulfil(host, bring)
            except OrderFailed as failure:
                failure.sent = sent = failure.sent or sent  # another host may have sent it before
                if was_here or self._arm.clock.monotonic() >= give_up_at:
                    raise
            orders.place(host, dict(own))

    def _bring(self, target: str, desired: t.Mapping[str, t.Any]) -> bool:
        """Write the resource until it is as desired; whether it was written."""
        orders = self._orders(target)

        def change(body: Body) -> Body | None:
            changed = pools.apply(target, body, desired)
            if changed and not body.get("etag") and pools.api_version_of(target) == pools.NETWORK_API:
                raise ArmError(f"{target} was read without the etag that a change needs. Run it again")
            return None if changed is None and provisioning_state(body) == WRITTEN else changed or body

        read = self._reading(target)
        body, left = orders.recall(FRESH_FOR, read), self._arm.left()
        return bring(
            self._arm,
            target,
            body,
            change,
            read=lambda: orders.read(read),
            timeout=max(0.0, min(self._timeout, left)),
            setting="load_balancer_azure_operation_timeout" if self._timeout <= left else "",
        )

    def _seconds(self) -> float:
        return max(0.0, min(self._timeout, self._arm.left()))

    def _reading(self, target: str) -> t.Callable[[], Body]:
        return lambda: self._arm.read(target, pools.api_version_of(target))


class LoadBalancer:
    """Pools of load balancers. A host is out if its members have the admin state Down."""

    out = pools.DOWN

    def __init__(self, look: t.Callable[[str, float], Body]) -> None:
        self._look = look

    def find(self, pool: str, me: Me, *, at_most: float) -> dict[str, t.Any]:
        """What the host is in the pool, by the keys of its members."""
        self._check_rules(pool)
        return pools.in_load_balancer_pool(pool, self._look(pool, at_most), me)

    def is_own(self, member: PoolMember, value: t.Any, me: Me) -> bool:
        """Whether it is of the host, as far as the pool shows."""
        return pools.is_own_address(member, value, self._look(member.pool, KNOWN_FOR), me)

    def drain_time(self, pool: str) -> float:
        """The seconds that connections of the pool get to end."""
        return pools.load_balancer_drain(self._look(pool, KNOWN_FOR))

    def _check_rules(self, pool: str) -> None:
        balancer = self._look(pools.owner_of(pool, pools.BALANCERS), NEVER_STALE)
        without = pools.rules_without_probe(balancer, pool)
        if without:
            raise DrainError(
                f"the rules {', '.join(without)} of {pool} have no health probe, so they send connections to every "
                "member in any admin state. Give them a probe"
            )


class ApplicationGateway:
    """Pools of gateways. A host is out if it is removed from them."""

    out = pools.REMOVED

    def __init__(self, look: t.Callable[[str, float], Body]) -> None:
        self._look = look

    def find(self, pool: str, me: Me, *, at_most: float) -> dict[str, t.Any]:
        """What the host is in the pool, by the keys of its members."""
        return pools.in_gateway_pool(pool, self._gateway(pool, at_most), me)

    def is_own(self, member: PoolMember, value: t.Any, me: Me) -> bool:
        """Whether it is of the host."""
        return pools.is_own_entry(member, value, me)

    def drain_time(self, pool: str) -> float:
        """The seconds that requests to the pool get to end."""
        return pools.gateway_drain(self._gateway(pool, KNOWN_FOR), pool)

    def _gateway(self, pool: str, at_most: float) -> Body:
        return self._look(pools.owner_of(pool, pools.GATEWAYS), at_most)


def _by_target(desired: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """What is wanted, by target. The case of an id does not matter: its first spelling counts."""
    targets: dict[str, dict[str, t.Any]] = {}
    spelled: dict[str, str] = {}
    for key, value in desired.items():
        target = PoolMember.of(key).target
        targets.setdefault(spelled.setdefault(target.lower(), target), {})[key] = value
    return targets
