# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet: its VMs, the scope of each VM, and the addresses that identify each VM."""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import json
import re
from collections.abc import Sequence
from typing import Any, Optional

from scheduled_events_emulator.checks import REQUIRED, Fields, InputError, shown

KINDS = ("single", "availability_set", "scale_set_uniform", "scale_set_flexible", "cloud_service")

# Of scheduledEventsPolicy.
APPROVALS = ("userInitiatedReboot", "userInitiatedRedeploy", "allInstancesDown")
APPROVES, TARGETS = "automaticallyApprove", "scheduledEventsAdditionalPublishingTargets"

# One key of a scope: everyone in the scope sees the scope's events.
Scope = tuple[Optional[str], ...]


@dataclasses.dataclass(frozen=True)
class Machine:
    """One virtual machine as declared. ``address`` is what it calls to, ``sources`` what it calls from.

    ``policy`` and ``profile`` are ``scheduledEventsPolicy`` and ``scheduledEventsProfile`` of Azure.
    """

    name: str
    resource_name: str
    hostname: str
    kind: str
    set_name: str | None
    placement_group: str | None
    zone: str | None
    fault_domain: int
    gpu: bool
    spot: bool
    address: str | None
    sources: tuple[str, ...]
    policy: dict[str, Any]
    profile: dict[str, Any]


KEYS = ("set", "from", *(each.name for each in dataclasses.fields(Machine) if each.name not in ("set_name", "sources")))


class Fleet:
    """The VMs by name, by address and by scope. Raises InputError for a fleet that contradicts itself."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = tuple(machines)
        self._by_name: dict[str, Machine] = {}
        self._by_address: dict[str, Machine] = {}
        self._by_source: dict[str, Machine] = {}
        for index, machine in enumerate(self.machines):
            self._claim(self._by_name, machine.name.lower(), machine, f"vms[{index}].name")
            if machine.address:
                self._claim(self._by_address, machine.address, machine, f"vms[{index}].address")
            for source in machine.sources:
                self._claim(self._by_source, source, machine, f"vms[{index}].from")
        self._scopes = {machine.name: self._scope_of(machine) for machine in self.machines}

    @staticmethod
    def _claim(table: dict[str, Machine], key: str, machine: Machine, path: str) -> None:
        if key in table:
            raise InputError(
                f"{path}: {shown(key)} is taken by VM {table[key].name}, expected a value that no other VM has"
            )
        table[key] = machine

    def _scope_of(self, machine: Machine) -> Scope:
        if machine.kind == "single":
            return ("single", machine.name)
        family = "scale_set" if machine.kind.startswith("scale_set") else machine.kind
        siblings = [
            other for other in self.machines if (other.kind, other.set_name) == (machine.kind, machine.set_name)
        ]
        # GPU VMs in a set with one fault domain see only their own events (docs/contract.md, section 9).
        if machine.gpu and len({other.fault_domain for other in siblings}) == 1:
            return (family, machine.set_name, machine.name)
        return (family, machine.set_name, machine.placement_group)

    def scope(self, machine: Machine) -> Scope:
        """Return the scope whose events ``machine`` sees."""
        return self._scopes[machine.name]

    def find(self, name: str) -> Machine:
        """Return the VM ``name``, in any case. Raises InputError when there is none."""
        machine = self._by_name.get(name.lower())
        if machine is None:
            known = ", ".join(other.name for other in self.machines[:20])
            raise InputError(f"vm {shown(name)}: not in the fleet, expected one of {known}")
        return machine

    def caller(self, called: str, calling: str) -> Machine | None:
        """Return the VM with the address called to or, if there is none, with the address called from."""
        return self._by_address.get(called) or self._by_source.get(calling)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that the VMs call to."""
        return tuple(self._by_address)


def _text(fields: Fields, key: str, default: Any = None) -> Any:
    """Return the string ``key``, which people see in lists and paths."""
    value = fields.text(key, default)
    if value is not None and not value.isprintable():
        raise fields.fail(key, "a text without control characters")
    return value


def _address(fields: Fields, key: str, value: Any) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise InputError(f"{fields.where(key)}: {shown(value)} is not an IP address such as 127.0.10.1") from None


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits.rjust(6, "0")


def _hostname(name: str, kind: str, set_name: str | None) -> str:
    """Return the guest's hostname that Azure would give: not the VM's name in a scale set."""
    if kind == "scale_set_uniform":
        return f"{set_name}{_base36(int(name.rsplit('_', 1)[1]))}"
    if kind == "scale_set_flexible":
        return f"{set_name}{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return name


def _check_name(fields: Fields, name: str, kind: str, set_name: str | None) -> None:
    """Refuse a name that Azure would not give to a VM of this kind."""
    if not name:
        raise fields.fail("name", "a VM name")
    patterns = {
        "scale_set_uniform": (rf"{re.escape(set_name or '')}_[0-9]+", f"{set_name}_ and a decimal id"),
        "scale_set_flexible": (rf"{re.escape(set_name or '')}_[0-9A-Za-z]{{8}}", f"{set_name}_ and 8 characters"),
        "cloud_service": (r".+_IN_[0-9]+", "a role, _IN_ and a number, such as Web_IN_0"),
    }
    if kind in patterns and not re.fullmatch(patterns[kind][0], name):
        raise fields.fail("name", f"a name of kind {kind}: {patterns[kind][1]}")


def _policy(fields: Fields) -> dict[str, Any]:
    policy = fields.mapping("policy")
    parts = Fields(policy, fields.where("policy"), (*APPROVALS, TARGETS))
    for name in [each for each in APPROVALS if each in policy]:
        of_part = Fields(parts.mapping(name), parts.where(name), (APPROVES,))
        policy[name] = {APPROVES: of_part.boolean(APPROVES, False)}
    return policy


def _machine(value: Any, path: str) -> Machine:
    fields = Fields(value, path, KEYS)
    kind = fields.text("kind", "single", choices=KINDS)
    name = _text(fields, "name", REQUIRED)
    set_name = _text(fields, "set")
    if (set_name is None) != (kind == "single"):
        raise fields.fail("set", f"right for kind {kind}: every kind but single has a set, single has none")
    _check_name(fields, name, kind, set_name)
    address = fields.text("address", None)
    if address is not None:
        address = _address(fields, "address", address)
        if ipaddress.ip_address(address).is_unspecified:
            raise fields.fail("address", "an address of one VM. Use from, and --listen")
    sources = fields.texts("from", [])
    resource_name = _text(fields, "resource_name", name)
    if resource_name.lower() != name.lower():
        raise fields.fail("resource_name", f"the name {name} in the case that Resources shows")
    placement_group = _text(fields, "placement_group")
    if placement_group is not None and not kind.startswith("scale_set"):
        raise fields.fail("placement_group", "for this kind: only scale sets have placement groups")
    if address is None and not sources:
        raise InputError(f"{path}: VM {name} has neither address nor from, expected at least one of them")
    return Machine(
        name=name,
        resource_name=resource_name,
        hostname=_text(fields, "hostname") or _hostname(name, kind, set_name),
        kind=kind,
        set_name=set_name,
        placement_group=placement_group,
        zone=_text(fields, "zone"),
        fault_domain=fields.integer("fault_domain", 0),
        gpu=fields.boolean("gpu", False),
        spot=fields.boolean("spot", False),
        address=address,
        sources=tuple(_address(fields, "from", source) for source in sources),
        policy=_policy(fields),
        profile=fields.mapping("profile"),
    )


def parse_fleet(document: Any) -> Fleet:
    """Return the fleet of a parsed fleet file. Raises InputError."""
    values = Fields(document, "", ("vms",)).objects("vms")
    return Fleet([_machine(value, f"vms[{index}]") for index, value in enumerate(values)])


def load_fleet(path: str) -> Fleet:
    """Return the fleet of the JSON file ``path``. Raises InputError, naming the file."""
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
    except OSError as error:
        raise InputError(f"fleet file {path}: {error.strerror}, expected a readable JSON file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f'fleet file {path}: not JSON ({error}), expected {{"vms": [...]}}') from None
    try:
        return parse_fleet(document)
    except InputError as error:
        raise InputError(f"fleet file {path}: {error}") from None
