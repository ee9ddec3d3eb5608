# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_hosts
short_description: Return the inventory hosts of the VMs that an event names
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - An event contains the names of VMs in Azure, such as C(web1), C(pool_13) for an instance of a uniform scale set, or
    C(pool_1a2b3c4d) for an instance of a flexible scale set. In the inventory and in the guest, the same VM can have
    the name C(pool_13_8fe2), or its computer name C(pool00000D), which ends in the instance number with base 36.
  - The filter compares whole names and ignores case. It searches the names in Azure first, which the inventory plugin
    P(azure.azcollection.azure_rm#inventory) provides in C(name) and C(id). It then searches the computer names
    (C(computer_name)), and then the inventory names.
  - If a name is not found, the filter also searches for C(pool_13) as the computer name C(pool00000D), among hosts
    whose name in Azure the inventory does not contain, and for C(pool00000D) as C(pool_13). This finds instances whose
    computer names begin with the name of the scale set, as in AKS.
positional: _input, hostvars
options:
  _input:
    description: Names of VMs.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of each host, as in the variable C(hostvars).
    type: dict
    required: true
  unknown:
    description: What to do with a name that belongs to no host of the inventory. With V(skip) the name is left out.
    type: str
    choices: [fail, skip]
    default: fail
notes:
  - Do not use this filter to decide whether an event names a host. The modules ask the service for the name of the VM.
seealso:
  - plugin: azure.azcollection.azure_rm
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Read the events of all VMs of the scale set
  maintops.scheduled_events.scheduled_events_info:
    scope: all
  register: maintenance

- name: Show the inventory hosts that the first event names
  ansible.builtin.debug:
    msg: "{{ maintenance.events[0].resources | maintops.scheduled_events.inventory_hosts(hostvars, unknown='skip') }}"
  when: maintenance.events | length > 0
"""

RETURN = r"""
_value:
  description: The inventory names of the hosts, in the order of the given names, without duplicates.
  type: list
  elements: str
"""

import contextlib
import re
import typing as t

from ansible.errors import AnsibleError, AnsibleFilterError

from ..plugin_utils._azure.arm import INSTANCE, VM, azure_id

_UNIFORM = re.compile(r"(?P<set>.+)_(?P<number>[0-9]{1,18})")
_COMPUTER = re.compile(r"(?P<set>.+?)(?P<number>[0-9a-z]{6})")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

Variables = t.Mapping[str, t.Any]


def computer_name(name: str) -> str | None:
    """What the guest of an instance is called, if its computer name begins with the name of the scale set."""
    found = _UNIFORM.fullmatch(name.lower())
    if not found:
        return None
    number, digits = int(found["number"]), ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return f"{found['set']}{digits:0>6}"


def instance_name(name: str) -> str | None:
    """What Azure calls the instance with this computer name."""
    found = _COMPUTER.fullmatch(name.lower())
    return f"{found['set']}_{int(found['number'], 36)}" if found else None


def _read(variables: Variables, name: str) -> str:
    """A variable in lower case, which can be of another meaning; empty if its template needs what is unknown."""
    with contextlib.suppress(AnsibleError):
        return str(variables.get(name) or "").lower()
    return ""


def azure_names(variables: Variables) -> set[str]:
    """What Azure calls the VM."""
    names = {_read(variables, "name")}
    found = azure_id(_read(variables, "id"))
    if found and found.kind in (VM, INSTANCE):
        names.add("_".join(found.names))  # an instance is called after its scale set and its number
    return names - {""}


def inventory_hosts(names: t.Any, hostvars: t.Any, unknown: str = "fail") -> list[str]:
    """The hosts of the inventory that are the VMs with these names."""
    if isinstance(names, str) or not isinstance(names, t.Sequence):
        raise AnsibleFilterError(
            f"inventory_hosts was given {names!r}, expected a list of names of VMs. Put it in a list"
        )
    if unknown not in ("fail", "skip"):
        raise AnsibleFilterError(f"unknown is {unknown!r}, expected fail or skip. Give one of these")
    known = _Inventory(_variables_of_hosts(hostvars))
    hosts = {str(name): known.host_of(str(name)) for name in names}
    missing = [name for name, host in hosts.items() if host is None]
    if missing and unknown == "fail":
        raise AnsibleFilterError(
            f"no host of the inventory is the VM {', '.join(missing)}. Add it to the inventory, or leave it out with "
            "unknown='skip'"
        )
    return list(dict.fromkeys(host for host in hosts.values() if host is not None))


def _variables_of_hosts(hostvars: t.Any) -> dict[str, Variables]:
    """The variables of each host, each asked once, since Ansible computes them for every question."""
    found = {host: hostvars[host] for host in hostvars} if isinstance(hostvars, t.Mapping) else {"hostvars": hostvars}
    for name, variables in found.items():
        if not isinstance(variables, t.Mapping):
            raise AnsibleFilterError(
                f"{name} is of type {type(variables).__name__}, expected the variables of each host. Give it hostvars"
            )
    return found


class _Inventory:
    """The hosts by each kind of name."""

    def __init__(self, hostvars: t.Mapping[str, Variables]) -> None:
        own, azure, computer = _Index(), _Index(), _Index()
        guessed_computer, guessed_azure = _Index(), _Index()
        for host in hostvars:
            names = azure_names(hostvars[host])
            computer_names = {_read(hostvars[host], "computer_name")} - {""}
            own.add({host.lower()}, host)
            azure.add(names, host)
            computer.add(computer_names, host)
            if not names:
                guessed_computer.add(computer_names or {host.lower()}, host)
            if not computer_names:
                guessed_azure.add(names or {host.lower()}, host)
        self._exact = (azure, computer, own)
        self._guessed_computer, self._guessed_azure = guessed_computer, guessed_azure

    def host_of(self, name: str) -> str | None:
        searches: list[tuple[str | None, _Index]] = [(name.lower(), index) for index in self._exact]
        searches += [(computer_name(name), self._guessed_computer), (instance_name(name), self._guessed_azure)]
        for form, index in searches:
            hosts = index.get(form or "", [])
            if len(hosts) > 1:
                raise AnsibleFilterError(
                    f"{name} is the name of several hosts of the inventory: {', '.join(sorted(hosts))}. Restrict "
                    "hostvars to one subscription and resource group"
                )
            if hosts:
                return hosts[0]
        return None


class _Index(t.Dict[str, t.List[str]]):
    def add(self, names: t.Iterable[str], host: str) -> None:
        for name in names:
            self.setdefault(name, []).append(host)


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"inventory_hosts": inventory_hosts}
