# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the owner for the job of a controller: a file that only root can read, checked whole."""

import json
import os
import re
import stat
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ..unit.config import ConfigError

CONTROLLER_FILE = "/etc/scheduled-events/controller.json"
EVENT_VARIABLE = "scheduled_event"  # the event among the extra variables of the job

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = ("name", "lower", "set", "instance")
# Nothing that a pattern of Ansible gives a meaning to: the name of a VM comes from outside.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}\Z")
_LOOPBACK = re.compile(r"127(\.[0-9]{1,3}){3}\Z")
_GROUPS = ("all", "ungrouped")  # that every inventory has
_MOST_TOKEN = 4096  # bytes


class ControllerSettings(NamedTuple):
    """The settings of the owner. Times are in seconds.

    ``job_template`` and ``inventory``: an id, a name, or NAME++ORGANIZATION. ``grace``: this long before NotBefore the
    VM acknowledges without the controller; 0 is never.
    """

    url: str
    job_template: Union[int, str]
    token: str = ""
    token_file: str = ""
    ca_file: str = ""
    proxy: str = ""
    host_pattern: str = "{name}"
    host_map: Mapping[str, str] = {}
    inventory: Union[int, str] = ""
    extra_vars: Mapping[str, Any] = {}
    cancel_on_cancelled: bool = False
    request_timeout: float = 15.0
    interval: float = 3.0
    grace: float = 0.0
    allow_http: bool = False


class UnmappedHost(ValueError):
    """A VM that has no name in the inventory; the message says why and what to do."""


def load(path: str) -> ControllerSettings:
    """Read the file.

    :raises ConfigError: it cannot be read, or the first mistake found in it.
    """
    text = _read_private(path, 1024 * 1024)
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:  # whose own words may quote the token
        raise ConfigError(f"{path}: it is not JSON: run the role again") from error
    return parse(decoded)


def parse(decoded: Any) -> ControllerSettings:
    """Check decoded settings. No message shows the token.

    :raises ConfigError: the first mistake found.
    """
    if not isinstance(decoded, dict):
        raise ConfigError("controller: expected a dictionary with url, job_template and token: correct it")
    checked: Dict[str, Any] = {}
    for key, value in decoded.items():
        if key not in _CHECKS:
            allowed = ", ".join(_CHECKS)
            raise ConfigError(f"controller.{str(key)[:100]}: unknown key; allowed are {allowed}: correct it")
        if value is not None:
            checked[key] = _CHECKS[key](f"controller.{key}", value)
    for key in ("url", "job_template"):
        if not checked.get(key):
            raise ConfigError(f"controller.{key}: it is missing, and has no default: add it")
    if bool(checked.get("token")) == bool(checked.get("token_file")):
        raise ConfigError("controller: expected exactly one of token and token_file: add or remove one")
    if not checked.get("allow_http") and not _hides_the_token(checked["url"]):
        raise ConfigError(
            f"controller.url: expected https://, since http sends the token in clear text, "
            f"not {_show(checked['url'])}: correct it, or set allow_http"
        )
    return ControllerSettings(**checked)


def read_token(settings: ControllerSettings) -> str:
    """The token.

    :raises ConfigError: its file cannot be read, or holds something else.
    """
    if settings.token:
        return settings.token
    return _token(settings.token_file, _read_private(settings.token_file, _MOST_TOKEN).strip())


def _read_private(path: str, most: int) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o077:
                raise ConfigError(f"{path}: expected a file that only root can read: chown root and chmod 0600 it")
            return file.read(most).decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not text in UTF-8: replace it") from None


# The hosts of an event


def hosts_of(resources: Sequence[str], settings: ControllerSettings) -> List[str]:
    """The names that the VMs of an event have in the inventory of the controller.

    :raises UnmappedHost: one of them has no name there.
    """
    known = {name.lower(): host for name, host in settings.host_map.items()}
    hosts = [known.get(name.lower()) or _by_pattern(name, settings.host_pattern) for name in resources]
    for name, host in zip(resources, hosts):
        if not _is_host(host):
            raise UnmappedHost(
                f'the VM {_show(name)} would be the host {_show(host)}, expected letters, digits, ".", "_" and "-", '
                f"and no group of every inventory: add it to poller_controller.host_map"
            )
    return hosts


def _by_pattern(name: str, pattern: str) -> str:
    scale_set, _underscore, instance = name.rpartition("_")
    values = {"name": name, "lower": name.lower(), "set": scale_set, "instance": instance}
    for wanted in _PLACEHOLDER.findall(pattern):
        if wanted in ("set", "instance") and not (scale_set and instance):
            raise UnmappedHost(
                f"the VM {_show(name)} is not SET_INSTANCE of a scale set, which poller_controller.host_pattern "
                f"{_show(pattern)} expects: add it to poller_controller.host_map"
            )
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], pattern)


def _is_host(host: str) -> bool:
    return bool(_HOST.match(host)) and host not in _GROUPS


# The checks


def _url(key: str, value: Any) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) and value.isprintable() and " " not in value else None
        usable = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an impossible port or IPv6 address
        usable = False
    if not usable or parts is None or parts.query or parts.fragment:
        raise ConfigError(f"{key}: expected https://HOST or https://HOST:PORT, not {_show(value)}: correct it")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{key}: expected a URL without user and password: remove them")
    return str(value).rstrip("/")


def _hides_the_token(url: str) -> bool:
    """Whether no network sees the token in clear text."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host in ("localhost", "::1") or bool(_LOOPBACK.match(host))


def _optional_url(key: str, value: Any) -> str:
    return "" if value == "" else _url(key, value)


def _reference(key: str, value: Any) -> Union[int, str]:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    text = _text(key, value).strip()
    return int(text) if re.match(r"[0-9]{1,18}\Z", text) else text


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 512 or not value.isprintable():
        raise ConfigError(f"{key}: expected a text of at most 512 characters, not {_show(value)}: correct it")
    return value


def _token(key: str, value: Any) -> str:
    if not isinstance(value, str) or not re.match(r"[!-~]{0,4096}\Z", value):
        raise ConfigError(f"{key}: expected a token of ASCII letters, digits and signs without a blank: replace it")
    return value


def _path(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or (value and not value.startswith("/")):
        raise ConfigError(f"{key}: expected the absolute path of a file on the VM, not {_show(value)}: correct it")
    return value


def _pattern(key: str, value: Any) -> str:
    text = _text(key, value)
    left = _PLACEHOLDER.sub("", text)
    if set(_PLACEHOLDER.findall(text)) - set(_PLACEHOLDERS) or "{" in left or "}" in left or left == text:
        allowed = ", ".join(f"{{{each}}}" for each in _PLACEHOLDERS)
        raise ConfigError(f"{key}: expected a text with some of {allowed}, not {_show(value)}: correct it")
    return text


def _map(key: str, value: Any) -> Dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}: expected a dictionary of hosts by names of VMs, not {_show(value)}: correct it")
    for name, host in value.items():
        if not isinstance(name, str) or not isinstance(host, str) or not _is_host(host):
            raise ConfigError(
                f'{key}: expected the name of one host for {_show(name)}, of letters, digits, ".", "_" and "-", '
                f"not {_show(host)}: correct it"
            )
    return value


def _variables(key: str, value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict) or EVENT_VARIABLE in value:
        raise ConfigError(f"{key}: expected a dictionary without {EVENT_VARIABLE}, which is the event: correct it")
    return value


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: expected true or false, not {_show(value)}: correct it")
    return value


def _seconds(least: float, most: float) -> Callable[[str, Any], float]:
    def check(key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ConfigError(f"{key}: expected seconds from {least:g} to {most:g}, not {_show(value)}: correct it")
        return float(value)

    return check


_CHECKS: Dict[str, Callable[[str, Any], Any]] = {
    "url": _url,
    "job_template": _reference,
    "token": _token,
    "token_file": _path,
    "ca_file": _path,
    "proxy": _optional_url,
    "host_pattern": _pattern,
    "host_map": _map,
    "inventory": _reference,
    "extra_vars": _variables,
    "cancel_on_cancelled": _flag,
    "request_timeout": _seconds(1, 60),
    "interval": _seconds(1, 60),
    "grace": _seconds(0, 86400),
    "allow_http": _flag,
}

KEYS: Tuple[str, ...] = tuple(_CHECKS)


def _show(value: Any) -> str:
    return json.dumps(value, default=str)[:200]
