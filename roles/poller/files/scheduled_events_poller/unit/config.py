# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file of the polling unit, checked whole before any of it is used."""

import json
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events import checks
from _scheduled_events.checks import Kind, WrongValue
from _scheduled_events.discovery import DEFAULT_NETWORKS, ENDPOINT_OR_AUTO, NETWORKS, VM_NAME
from _scheduled_events.document import DEFAULT_API_VERSION
from _scheduled_events.exchange import API_VERSION_OR_AUTO, DEFAULT_ENDPOINT
from _scheduled_events.rules import HOLD, Rule, parse_rules
from _scheduled_events.runs import PHASES
from _scheduled_events.terms import ACKNOWLEDGE_POLICIES, ALONE, CONTROLLER, ON_FAILURE

from ..spool import LONGEST_TIMEOUT

CONFIG_FILE = "/etc/scheduled-events/poller.json"


class Settings(NamedTuple):
    """The settings of the owner. Times are in seconds.

    ``hooks``: by phase, the names of the hooks that must be there, in their order; a phase without any is absent.
    ``hook_timeout``: what the hooks of one phase may take together. ``margin``: how long before NotBefore the prepare
    hooks must have ended. ``endpoint`` "auto": found, and where DHCP names it, only in one of ``endpoint_networks``.
    ``vm_name`` ``None``: asked of the service. ``metrics_directory`` ``None``: no metrics.
    """

    endpoint: str = DEFAULT_ENDPOINT
    endpoint_networks: Tuple[str, ...] = DEFAULT_NETWORKS
    api_version: str = DEFAULT_API_VERSION
    vm_name: Optional[str] = None
    interval: float = 1.0
    rules: Tuple[Rule, ...] = ()
    hooks: Mapping[str, Tuple[str, ...]] = MappingProxyType({})
    hook_timeout: float = 600.0
    margin: float = 10.0
    on_failure: str = HOLD
    acknowledge: str = ALONE
    controller_grace: float = 0.0
    dry_run: bool = False
    metrics_directory: Optional[str] = None


def read_json(path: str) -> Any:
    """The decoded content of a file; "-" is standard input.

    :raises WrongValue: it cannot be read.
    """
    try:
        with open(0 if path == "-" else path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise WrongValue(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise WrongValue(f"{path}: cannot be read as JSON: {error}") from error


def load(path: str) -> Settings:
    """Read the file.

    :raises WrongValue: the file cannot be read, or the first mistake found in it.
    """
    decoded = read_json(path)
    try:
        return parse(decoded)
    except WrongValue as error:
        raise WrongValue(f"{path}: {error}") from error


def parse(decoded: Any) -> Settings:
    """Check a decoded configuration; a key that it lacks, or that is null, has its default.

    :raises WrongValue: the first mistake found.
    """
    settings = Settings(**checks.check_fields(decoded, _KINDS))
    grace = settings.controller_grace
    if grace and settings.acknowledge != CONTROLLER:
        raise WrongValue(
            f"controller_grace: expected 0 unless acknowledge is {CONTROLLER}, not {grace:g}: set acknowledge"
        )
    if grace and grace <= settings.margin:
        raise WrongValue(
            f"controller_grace: expected more seconds than margin, {settings.margin:g}, not {grace:g}: by then the "
            f"prepare hooks must have ended, so raise it"
        )
    return settings


def _hooks(value: Any, place: str) -> Mapping[str, Tuple[str, ...]]:
    found = checks.check_fields(value, dict.fromkeys(PHASES, Kind("a list of names", _hook_names)), place=place)
    return MappingProxyType({phase: names for phase, names in found.items() if names})


def _hook_names(value: Any, place: str) -> Tuple[str, ...]:
    names = checks.list_of(_HOOK_NAME, "names").read(value, place)
    for name in names:
        if names.count(name) > 1:
            raise WrongValue(f"{place}: expected each name once, not {checks.show(name)} twice")
    return tuple(sorted(names))


# A file name, and never that of a hidden file or of a backup.
_HOOK_NAME = checks.text(
    'a name of letters, digits, ".", "_" and "-"', longest=200, pattern="[A-Za-z0-9][A-Za-z0-9._-]*"
)

_KINDS = {
    "endpoint": ENDPOINT_OR_AUTO,
    "endpoint_networks": NETWORKS,
    "api_version": API_VERSION_OR_AUTO,
    "vm_name": VM_NAME,
    # The service throttles at about 5 requests a second, shared by all agents of the VM (docs/contract.md, section 5).
    "interval": checks.number(0.25, 5, "seconds"),
    "rules": Kind("a list of rules", lambda value, place: parse_rules(value, place=place)),
    "hooks": Kind("lists of names by phase", _hooks),
    "hook_timeout": checks.number(1, LONGEST_TIMEOUT, "seconds"),
    "margin": checks.number(0, 86400, "seconds"),
    "on_failure": checks.choice(*ON_FAILURE),
    "acknowledge": checks.choice(*ACKNOWLEDGE_POLICIES),
    "controller_grace": checks.number(0, 86400, "seconds"),
    "dry_run": checks.FLAG,
    "metrics_directory": checks.PATH,
}
