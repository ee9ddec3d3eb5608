# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file of the polling unit, checked whole before any of it is used."""

import json
import re
from types import MappingProxyType
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events.checks import WrongValue
from _scheduled_events.endpoint import (
    DEFAULT_API_VERSION,
    DEFAULT_ENDPOINT,
    DEFAULT_NETWORKS,
    SettingError,
    check_api_version,
    check_endpoint_or_auto,
    check_networks,
)
from _scheduled_events.rules import HOLD, Rule, parse_rules
from _scheduled_events.runs import PHASES
from _scheduled_events.terms import ACKNOWLEDGE_POLICIES, ALONE, CONTROLLER, ON_FAILURE

from ..spool import LONGEST_TIMEOUT

CONFIG_FILE = "/etc/scheduled-events/poller.json"

_HOOK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_LONGEST_SHOWN = 200  # characters of a wrong value in a message


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names its place, the value and what was expected."""

    def __init__(self, message: str) -> None:
        # A key or a value may hold what no stream can encode, and a message must be printable whatever it quotes.
        super().__init__(message.encode("utf-8", "backslashreplace").decode("utf-8"))


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


def load(path: str) -> Settings:
    """Read the file.

    :raises ConfigError: the file cannot be read, or the first mistake found in it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            decoded = json.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
    try:
        return parse(decoded)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(decoded: Any) -> Settings:
    """Check a decoded configuration; a key that it lacks, or that is null, has its default.

    :raises ConfigError: the first mistake found.
    """
    if not isinstance(decoded, dict):
        raise ConfigError(f"{_show(decoded)} is not an object: write the keys and values between braces")
    checked: Dict[str, Any] = {}
    for key, value in decoded.items():
        if key not in _CHECKS:
            raise ConfigError(f"{key[:_LONGEST_SHOWN]}: unknown key; allowed are {', '.join(_CHECKS)}")
        if value is not None:
            checked[key] = _CHECKS[key](key, value)
    settings = Settings(**checked)
    _check_grace(settings)
    return settings


def _check_grace(settings: Settings) -> None:
    grace = settings.controller_grace
    if grace and settings.acknowledge != CONTROLLER:
        raise ConfigError(
            f"controller_grace: expected 0 unless acknowledge is {CONTROLLER}, not {grace:g}: set acknowledge"
        )
    if grace and grace <= settings.margin:
        raise ConfigError(
            f"controller_grace: expected more seconds than margin, {settings.margin:g}, not {grace:g}: by then the "
            f"prepare hooks must have ended, so raise it"
        )


def _endpoint(key: str, value: Any) -> str:
    return _library_check(check_endpoint_or_auto, key, value)


def _networks(key: str, value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each.isprintable() for each in value):
        raise ConfigError(f"{key}: expected a list of IPv4 networks, not {_show(value)}")
    try:
        return tuple(str(network) for network in check_networks(value))
    except SettingError as error:
        raise ConfigError(f"{key}: {error}") from error


def _api_version(key: str, value: Any) -> str:
    return _library_check(check_api_version, key, value)


def _library_check(check: Callable[[str], str], key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"{key}: expected a text, not {_show(value)}")
    try:
        return check(value)
    except SettingError as error:
        raise ConfigError(f"{key}: {error}") from error


def _rules(key: str, value: Any) -> Tuple[Rule, ...]:
    try:
        return parse_rules(value, place=key)
    except WrongValue as error:
        raise ConfigError(str(error)) from error
    except RecursionError as error:  # a value too deep to be shown
        raise ConfigError(f"{key}: expected a list of rules, not a value nested that deep") from error


def _hooks(key: str, value: Any) -> Mapping[str, Tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: expected an object with a list of names by phase, not {_show(value)}")
    return MappingProxyType({phase: names for phase in value for names in [_hooks_of(key, phase, value)] if names})


def _hooks_of(key: str, phase: str, value: Dict[str, Any]) -> Tuple[str, ...]:
    if phase not in PHASES:
        raise ConfigError(f"{key}.{phase[:_LONGEST_SHOWN]}: unknown phase; allowed are {', '.join(PHASES)}")
    names = value[phase]
    if not isinstance(names, list):
        raise ConfigError(f"{key}.{phase}: expected a list of names, not {_show(names)}")
    for name in names:
        if not is_hook_name(name):
            raise ConfigError(f'{key}.{phase}: expected a name of letters, digits, ".", "_" and "-", not {_show(name)}')
        if names.count(name) > 1:
            raise ConfigError(f"{key}.{phase}: expected each name once, not {_show(name)} twice")
    return tuple(sorted(names))


def is_hook_name(value: Any) -> bool:
    """Whether the role gives a hook such a name: one that is a file name, and never hidden or a backup."""
    return isinstance(value, str) and bool(_HOOK_NAME.match(value))


def _vm_name(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not re.match(r"[^\s]{1,256}\Z", value):
        raise ConfigError(f"{key}: expected the name of a VM in Azure, or null to ask the service, not {_show(value)}")
    return value


def _directory(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ConfigError(f"{key}: expected the absolute path of a directory, or null, not {_show(value)}")
    return value


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: expected true or false, not {_show(value)}")
    return value


def _seconds(least: float, most: float) -> Callable[[str, Any], float]:
    def check(key: str, value: Any) -> float:
        # A NaN is not between them either.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ConfigError(f"{key}: expected seconds from {least:g} to {most:g}, not {_show(value)}")
        return float(value)

    return check


def _one_of(allowed: Tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(key: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{key}: expected one of {', '.join(allowed)}, not {_show(value)}")
        return str(value)

    return check


_CHECKS: Dict[str, Callable[[str, Any], Any]] = {
    "endpoint": _endpoint,
    "endpoint_networks": _networks,
    "api_version": _api_version,
    "vm_name": _vm_name,
    # The service throttles at about 5 requests a second, shared by all agents of the VM (docs/contract.md, section 5).
    "interval": _seconds(0.25, 5),
    "rules": _rules,
    "hooks": _hooks,
    "hook_timeout": _seconds(1, LONGEST_TIMEOUT),
    "margin": _seconds(0, 86400),
    "on_failure": _one_of(ON_FAILURE),
    "acknowledge": _one_of(ACKNOWLEDGE_POLICIES),
    "controller_grace": _seconds(0, 86400),
    "dry_run": _flag,
    "metrics_directory": _directory,
}


def _show(value: Any) -> str:
    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):  # a number of thousands of digits, a value nested too deep
        text = f"this {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
