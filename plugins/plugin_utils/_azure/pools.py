# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of backend pools, in the resources of Azure that hold them. Private to the collection: bodies in, bodies out.

A pool of an Azure Load Balancer lists its members, however they came into it, each with an admin state. A host is out
when that is Down: there are no new connections, and those of TCP go on.

A pool of an Application Gateway has members of three kinds. IP addresses and names stand in the gateway. A network
interface of a VM and an instance of a scale set point to the pool themselves. A host is out when it is removed.
"""

from __future__ import annotations

import copy
import typing as t

from .arm import INSTANCE_INTERFACE, INTERFACE, ArmError, azure_id

Body = t.Dict[str, t.Any]

BALANCERS, GATEWAYS = "loadBalancers", "applicationGateways"
BALANCER_POOL, GATEWAY = "microsoft.network/loadbalancers/backendaddresspools", "microsoft.network/applicationgateways"
NETWORK_API, COMPUTE_API = "2024-05-01", "2024-07-01"
DOWN, NO_STATE, REMOVED = "Down", "None", "removed"
STATES = (DOWN, NO_STATE, "Up")
LOAD_BALANCER_DRAIN = 60.0  # seconds, where the pool has no own drain period
GATEWAY_DRAIN = 30.0  # seconds that Application Gateway gives where draining is not enabled


class Me(t.NamedTuple):
    """The identity of the host in pools: ids of its network interfaces, and its private IP addresses or names."""

    interfaces: t.Sequence[str]
    addresses: t.Sequence[str]


class PoolMember(t.NamedTuple):
    """A host in a pool. ``target``: the resource that is written to take it out; ``name``: what it is called there."""

    target: str
    pool: str
    name: str

    @property
    def key(self) -> str:
        """Its name in the record. No id of Azure has a blank."""
        return " ".join(self)

    @classmethod
    def of(cls, key: str) -> PoolMember:
        """The member with this key. Where another provider has noted another place, it is in no pool."""
        words = key.split(" ", 2)
        return cls(*words) if len(words) == len(cls._fields) else cls(key, "", "")


def api_version_of(target: str) -> str:
    """The version of the API to ask for."""
    return COMPUTE_API if _kind(target).startswith("microsoft.compute/") else NETWORK_API


def _kind(target: str) -> str:
    found = azure_id(target)
    return found.kind if found else ""


def owner_of(pool: str, kind: str) -> str:
    """The load balancer or the gateway of a pool.

    :param kind: ``BALANCERS`` or ``GATEWAYS``.
    :raises ArmError: it is not a pool of one.
    """
    found = azure_id(pool)
    if not found or found.kind != f"microsoft.network/{kind}/backendaddresspools".lower():
        raise ArmError(
            f"{pool!r} is not the id of a backend pool, expected "
            f"/subscriptions/…/resourceGroups/…/providers/Microsoft.Network/{kind}/…/backendAddressPools/…. "
            "Correct load_balancer_azure_pools"
        )
    return found.parent.text


# Pools of a load balancer


def in_load_balancer_pool(pool: str, body: Body, me: Me) -> dict[str, t.Any]:
    """The admin state of the host, by the key of each of its members."""
    states = {}
    for address in _properties(body).get("loadBalancerBackendAddresses") or []:
        if _is_me(_properties(address), me):
            states[PoolMember(pool, pool, address["name"]).key] = _properties(address).get("adminState") or NO_STATE
    return states


def _is_me(properties: Body, me: Me) -> bool:
    configuration = (properties.get("networkInterfaceIPConfiguration") or {}).get("id")
    if configuration and me.interfaces:
        return any(_is_below(configuration, interface) for interface in me.interfaces)
    return str(properties.get("ipAddress") or "") in [*me.addresses]


# A record with another value would let a request fail that is for all hosts of a run.
def is_own_address(member: PoolMember, state: t.Any, body: Body, me: Me) -> bool:
    """Whether a record may have the member with the state: the host, or one that the pool does not have any more."""
    addresses = _properties(body).get("loadBalancerBackendAddresses") or []
    others = [address["name"] for address in addresses if not _is_me(_properties(address), me)]
    return _is_same(member.target, member.pool) and member.name not in others and state in STATES


def _set_admin_states(body: Body, desired: t.Mapping[PoolMember, t.Any]) -> None:
    wanted = {member.name: state for member, state in desired.items()}
    for address in _properties(body).get("loadBalancerBackendAddresses") or []:
        state, now = wanted.get(address["name"]), _properties(address).get("adminState") or NO_STATE
        if state not in (None, now) and DOWN in (state, now):  # else another client has put it back in its own way
            address["properties"]["adminState"] = state


def load_balancer_drain(body: Body) -> float:
    """The seconds that connections get to end."""
    return float(_properties(body).get("drainPeriodInSeconds") or LOAD_BALANCER_DRAIN)


def rules_without_probe(balancer: Body, pool: str) -> list[str]:
    """The rules of a pool that have no health probe; they go on sending connections whatever the admin state."""
    without = []
    for rule in _properties(balancer).get("loadBalancingRules") or []:
        properties = _properties(rule)
        pools = [*(properties.get("backendAddressPools") or []), properties.get("backendAddressPool") or {}]
        if not properties.get("probe") and any(_is_same(each.get("id", ""), pool) for each in pools):
            without.append(rule["name"])
    return without


# Pools of an Application Gateway


def in_gateway_pool(pool: str, gateway: Body, me: Me) -> dict[str, t.Any]:
    """Return the members of the host in the pool, by their keys: an entry of the gateway, or True."""
    own = next((each for each in _pools(gateway) if _is_same(each["id"], pool)), None)
    if own is None:
        raise ArmError(f"{pool} does not exist. Correct load_balancer_azure_pools")
    found: dict[str, t.Any] = {}
    addresses = [address.lower() for address in me.addresses]
    for entry in _properties(own).get("backendAddresses") or []:
        name = entry.get("ipAddress") or entry.get("fqdn") or ""
        if name.lower() in addresses:
            found[PoolMember(owner_of(pool, GATEWAYS), pool, name).key] = entry
    for configuration in _properties(own).get("backendIPConfigurations") or []:
        if any(_is_below(configuration["id"], interface) for interface in me.interfaces):
            found[PoolMember(_holder_of(configuration["id"]), pool, configuration["id"]).key] = True
    return found


def is_own_entry(member: PoolMember, value: t.Any, me: Me) -> bool:
    """Whether a record may have the member as ``value``: an entry with an address of the host, or a configuration of
    its network interfaces.
    """
    if _is_same(member.target, owner_of(member.pool, GATEWAYS)):
        own = [address.lower() for address in me.addresses]
        names = list(value.values()) if isinstance(value, dict) and {*value} <= {"ipAddress", "fqdn"} else []
        named = names.count(member.name) == 1 and all(name in (member.name, None, "") for name in names)
        return named and member.name.lower() in own
    below = any(_is_below(member.name, interface) for interface in me.interfaces)
    return below and _is_same(member.target, _holder_of(member.name))


def _holder_of(configuration: str) -> str:
    """The resource that points to a pool: the instance of a scale set, or the network interface of a VM."""
    found = azure_id(configuration)
    interface = found.parent if found else None
    if interface and interface.kind == INSTANCE_INTERFACE:
        return interface.parent.text
    if interface and interface.kind == INTERFACE:
        return interface.text
    raise ArmError(f"{configuration} is not an IP configuration of a VM or of an instance of a scale set")


def _set_addresses(gateway: Body, desired: t.Mapping[PoolMember, t.Any]) -> None:
    for pool in _pools(gateway):
        for member, value in desired.items():
            if not _is_same(member.pool, pool["id"]):
                continue
            entries = _properties(pool).get("backendAddresses") or []
            names = [str(entry.get("ipAddress") or entry.get("fqdn") or "") for entry in entries]
            if value == REMOVED and member.name in names:
                pool["properties"]["backendAddresses"] = [
                    entry for entry, name in zip(entries, names) if name != member.name
                ]
            elif value != REMOVED and member.name not in names:
                pool["properties"]["backendAddresses"] = [*entries, value]


def _set_references(body: Body, desired: t.Mapping[PoolMember, t.Any]) -> None:
    """Set or remove the references to pools of a network interface or of an instance."""
    for member, value in desired.items():
        for configuration in _configurations(body, member.name):
            pools = _properties(configuration).get("applicationGatewayBackendAddressPools") or []
            others = [each for each in pools if not _is_same(each["id"], member.pool)]
            wanted = others if value == REMOVED else [*others, {"id": member.pool}]
            if len(wanted) != len(pools):
                configuration["properties"]["applicationGatewayBackendAddressPools"] = wanted


def _configurations(body: Body, name: str) -> list[Body]:
    """The IP configuration with this id."""
    parts = name.split("/")
    interface, configuration = parts[-3], parts[-1]
    interfaces = [body]
    if "networkProfileConfiguration" in _properties(body):
        interfaces = _properties(body)["networkProfileConfiguration"].get("networkInterfaceConfigurations") or []
        interfaces = [each for each in interfaces if _is_same(each["name"], interface)]
    return [
        each
        for owner in interfaces
        for each in _properties(owner).get("ipConfigurations") or []
        if _is_same(each["name"], configuration)
    ]


def gateway_drain(gateway: Body, pool: str) -> float:
    """The seconds that requests get to end: the longest of the backend settings that are used with the pool."""
    properties = _properties(gateway)
    rules = [*(properties.get("requestRoutingRules") or []), *(properties.get("routingRules") or [])]
    used = []
    for path_map in properties.get("urlPathMaps") or []:
        default = _properties(path_map)
        used.append((default.get("defaultBackendAddressPool"), default.get("defaultBackendHttpSettings")))
        rules += default.get("pathRules") or []
    used += [(_properties(rule).get("backendAddressPool"), _settings_of(rule)) for rule in rules]
    names = {str(settings["id"]).lower() for own, settings in used if own and settings and _is_same(own["id"], pool)}
    every = [
        *(properties.get("backendHttpSettingsCollection") or []),
        *(properties.get("backendSettingsCollection") or []),
    ]
    times = []
    for settings in every:
        if settings["id"].lower() in names:
            draining = _properties(settings).get("connectionDraining") or {}
            times.append(float(draining["drainTimeoutInSec"]) if draining.get("enabled") else GATEWAY_DRAIN)
    return max(times, default=GATEWAY_DRAIN)


def _settings_of(rule: Body) -> Body | None:
    return _properties(rule).get("backendHttpSettings") or _properties(rule).get("backendSettings")


# Both


def apply(target: str, body: Body, desired: t.Mapping[str, t.Any]) -> Body | None:
    """The body to be written that has the desired values; None if it has them already.

    :param desired: by the key of a member what it is to be: an admin state, an entry of a gateway, True or ``removed``.
    """
    members = {PoolMember.of(key): value for key, value in desired.items()}
    changed = copy.deepcopy(body)
    if _kind(target) == BALANCER_POOL:
        _set_admin_states(changed, members)
    elif _kind(target) == GATEWAY:
        _set_addresses(changed, members)
    else:
        _set_references(changed, members)
    return changed if changed != body else None


def without_place(target: str, body: Body, keys: t.Iterable[str]) -> list[str]:
    """The members for which the resource has no place, so that nothing can be written for them."""
    members = {key: PoolMember.of(key) for key in keys}
    if _kind(target) == BALANCER_POOL:
        names = [address["name"] for address in _properties(body).get("loadBalancerBackendAddresses") or []]
        return [key for key, member in members.items() if member.name not in names]
    if _kind(target) == GATEWAY:
        pools = [pool["id"].lower() for pool in _pools(body)]
        return [key for key, member in members.items() if member.pool.lower() not in pools]
    return [key for key, member in members.items() if not _configurations(body, member.name)]


def _pools(gateway: Body) -> list[Body]:
    return _properties(gateway).get("backendAddressPools") or []


def _properties(body: Body) -> Body:
    return body.get("properties") or {}


def _is_same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _is_below(what: str, above: str) -> bool:
    return bool(above) and what.lower().startswith(above.lower().rstrip("/") + "/")
