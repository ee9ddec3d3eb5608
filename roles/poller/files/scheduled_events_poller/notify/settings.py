# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the owner for webhooks and for the job of a controller: files that only root can read.

No message shows a value that may be secret.
"""

import base64
import json
import os
import re
import stat
from types import MappingProxyType
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import unquote, urlsplit

from _scheduled_events import checks
from _scheduled_events.checks import Kind, WrongValue
from _scheduled_events.runs import PHASES

from . import template
from .formats import DEFAULT_FORMAT, FORMATS, HEADER_PREFIX

WEBHOOKS_FILE = "/etc/scheduled-events/webhooks.json"
CONTROLLER_FILE = "/etc/scheduled-events/controller.json"
MOST_RECEIVERS = 20
MOST_BYTES = 1024 * 1024
EVENT_VARIABLE = "scheduled_event"  # the event among the extra variables of the job

# What HTTP itself needs, or what we set so that a receiver can rely on it.
_OWN_HEADERS = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "x-hub-signature-256")
_SHORTEST_SECRET = 6  # characters of a part of a URL that is long enough to be a secret

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = ("name", "lower", "set", "instance")
_LOOPBACK = re.compile(r"(localhost|::1|127(\.[0-9]{1,3}){3})\Z")


def secrets_of(address: str) -> List[str]:
    """The parts of a URL that may be secret, and its user and password as a request sends them."""
    parts = urlsplit(address)
    user = [unquote(each or "") for each in (parts.username, parts.password)]
    basic = base64.b64encode(":".join(user).encode("utf-8")).decode("ascii") if any(user) else ""
    return _long_enough([*user, basic, *re.split(r"[/=&?]", f"{parts.path}?{parts.query}")])


def _long_enough(texts: Iterable[Optional[str]]) -> List[str]:
    return [each for each in texts if each and len(each) >= _SHORTEST_SECRET]


class Receiver(NamedTuple):
    """A receiver, its messages, and the way of delivery.

    ``template``: the body, in place of that of the format. ``secret``: signs each request. ``routing_key``: of
    PagerDuty. ``ca_file``: the CA certificates, empty takes those of the system. ``request_timeout``: seconds for a
    request and its answer. ``max_messages``: how many may wait.
    """

    name: str
    url: str
    phases: Tuple[str, ...] = PHASES
    format: str = DEFAULT_FORMAT
    template: Optional[Mapping[str, Any]] = None
    headers: Mapping[str, str] = MappingProxyType({})
    secret: Optional[str] = None
    routing_key: Optional[str] = None
    ca_file: str = ""
    proxy: str = ""
    request_timeout: float = 10.0
    max_messages: int = 1000

    def secrets(self) -> List[str]:
        """What no message may show."""
        words = (word for value in self.headers.values() for word in value.split())  # a token after its scheme
        found = _long_enough([self.secret, self.routing_key, *words])
        return found + [part for address in (self.url, self.proxy) for part in secrets_of(address)]


class ControllerSettings(NamedTuple):
    """How a job is launched. Times are in seconds.

    ``job_template`` and ``inventory``: an id, a name, or NAME++ORGANIZATION. ``grace``: this long before NotBefore the
    VM continues without the controller; 0 is never. ``allow_http``: the token may cross a network in clear text.
    """

    url: str
    job_template: Union[int, str]
    token: str = ""
    token_file: str = ""
    ca_file: str = ""
    proxy: str = ""
    host_pattern: str = "{name}"
    host_names: Mapping[str, str] = MappingProxyType({})
    inventory: Union[int, str] = ""
    extra_vars: Mapping[str, Any] = MappingProxyType({})
    cancel_on_cancelled: bool = False
    request_timeout: float = 15.0
    interval: float = 3.0
    grace: float = 0.0
    allow_http: bool = False


def load_receivers(path: str) -> Tuple[Receiver, ...]:
    """The receivers of a file; none without the file.

    :raises WrongValue: the file cannot be read, or the first mistake in it.
    """
    return parse_receivers(_read_json(path), place=path) if os.path.lexists(path) else ()


def load_controller(path: str) -> ControllerSettings:
    """The settings of a file.

    :raises WrongValue: the file cannot be read, or the first mistake in it.
    """
    return parse_controller(_read_json(path))


def read_token(settings: ControllerSettings) -> str:
    """The token.

    :raises WrongValue: its file cannot be read, or holds something else.
    """
    path = settings.token_file
    return settings.token or str(checks.check(_read_private(path).strip(), _TOKEN, path))


def _read_json(path: str) -> Any:
    text = _read_private(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # whose own words may quote a secret
        raise WrongValue(f"{path}: it is not JSON: run the role poller again") from None


def _read_private(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o077:
                raise WrongValue(f"{path}: expected a file that only root can read: chown root and chmod 0600 it")
            return file.read(MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise WrongValue(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise WrongValue(f"{path}: it is not text in UTF-8: replace it") from None


def parse_receivers(decoded: Any, *, place: str) -> Tuple[Receiver, ...]:
    """Check a decoded list of receivers.

    :param place: the name of the list in messages.
    :raises WrongValue: the first mistake.
    """
    if not isinstance(decoded, list) or len(decoded) > MOST_RECEIVERS:
        raise WrongValue(f"{place}: expected a list of at most {MOST_RECEIVERS} dictionaries: give it to -e as JSON")
    receivers: List[Receiver] = []
    for index, raw in enumerate(decoded):
        receiver = _receiver(raw, f"{place}[{index}]")
        if receiver.name in [other.name for other in receivers]:
            raise WrongValue(f'{place}[{index}]: the name "{receiver.name}" is in the list already: rename one')
        receivers.append(receiver)
    return tuple(receivers)


def _receiver(raw: Any, place: str) -> Receiver:
    given = _given(raw, place)
    wanted = checks.check(given.get("format", DEFAULT_FORMAT), _RECEIVER["format"], f"{place}.format")
    chosen = FORMATS[wanted]
    if chosen.url:
        given.setdefault("url", chosen.url)
    receiver = Receiver(**checks.check_fields(given, _RECEIVER, place=place, required=("name", "url")))
    if chosen.routing_key != (receiver.routing_key is not None):
        raise WrongValue(f"{place}: expected routing_key with {_formats('routing_key')}, and only there: correct one")
    if receiver.template is not None and not chosen.template:
        raise WrongValue(f"{place}: template replaces the body, expected {_formats('template')}: remove one")
    return receiver


def _given(raw: Any, place: str) -> Dict[str, Any]:
    """A dictionary without the keys that have the value of an option that is not set."""
    if not isinstance(raw, dict):
        raise WrongValue(f"{place}: expected a dictionary: give it to -e as JSON")
    # Without a secret, messages have no signature.
    return {key: value for key, value in raw.items() if value not in (None, {}) and (value != "" or key == "secret")}


def _formats(need: str) -> str:
    return f"the format {' or '.join(name for name, each in FORMATS.items() if getattr(each, need))}"


def parse_controller(decoded: Any) -> ControllerSettings:
    """Check decoded settings.

    :raises WrongValue: the first mistake.
    """
    given = _given(decoded, "controller")
    settings = ControllerSettings(
        **checks.check_fields(given, _CONTROLLER, place="controller", required=("url", "job_template"))
    )
    if bool(settings.token) == bool(settings.token_file):
        raise WrongValue("controller: expected exactly one of token and token_file: add or remove one")
    parts = urlsplit(settings.url)
    if parts.scheme == "http" and not _LOOPBACK.match(parts.hostname or "") and not settings.allow_http:
        raise WrongValue(
            f"controller.url: expected https://, since http sends the token in clear text, "
            f"not {checks.show(settings.url)}: correct it, or set allow_http"
        )
    return settings


# The kinds of values


def _controller_url(value: Any, place: str) -> str:
    if isinstance(value, str) and "@" in value:
        raise WrongValue(f"{place}: expected a URL without user and password: remove them")
    return str(checks.url().read(value, place)).rstrip("/")


def _proxy(value: Any) -> str:
    """A URL that can have a user and a password. The errors of requests quote them. A backslash means ``/`` to some."""
    parts = urlsplit(value) if isinstance(value, str) and re.match(r"https?://[!-[\]-~]{1,4000}\Z", value) else None
    if parts is None or parts.port == 0 or not re.match(r"[a-z0-9._:-]+\Z", parts.hostname or ""):
        raise ValueError
    unquote(f"{parts.username}{parts.password}").encode("latin-1")  # as requests does, whose error ends all webhooks
    return str(value)


def _reference(value: Any) -> Union[int, str]:
    if isinstance(value, str) and 0 < len(value) <= 512 and value.isprintable():
        return int(value) if re.match(r"[0-9]{1,18}\Z", value) else value
    return int(checks.whole(1).read(value, ""))


def _pattern(value: Any) -> str:
    left = _PLACEHOLDER.sub("", value)
    if set(_PLACEHOLDER.findall(value)) - set(_PLACEHOLDERS) or "{" in left or "}" in left or left == value:
        raise ValueError
    return str(value)


def _variables(value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict) or EVENT_VARIABLE in value:
        raise ValueError
    return value


_LINE = checks.text(
    "printable ASCII on one line, without blanks around it",
    longest=4000,
    pattern="[!-~]([ -~]*[!-~])?",
    secret=True,
)
_HEADER_NAME = checks.text(
    "the name of a header that the polling unit does not set itself, such as Authorization",
    pattern=rf"(?i:(?!(?:{'|'.join(_OWN_HEADERS)})\Z|{HEADER_PREFIX})[A-Z0-9!#$%&'*+.^_`|~-]{{1,100}})",
)
_TOKEN = checks.text(
    "a token of ASCII letters, digits and signs without a blank", longest=4096, pattern="[!-~]+", secret=True
)
_PROXY = checks.converted("http://HOST:PORT, with a user and a password in Latin-1 at most", _proxy, secret=True)
_REFERENCE = checks.converted("an id, a name, or NAME++ORGANIZATION", _reference)
# Nothing that a pattern of Ansible gives a meaning to: the name of a VM comes from outside. Every inventory has the
# groups all and ungrouped.
_HOST = checks.text(
    'the name of one host, of letters, digits, ".", "_" and "-"',
    pattern=r"(?!(all|ungrouped)\Z)[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}",
)

_RECEIVER = {
    "name": checks.text(
        'at most 50 lower-case letters, digits, "_" and "-", with a letter or digit first',
        pattern="[a-z0-9][a-z0-9_-]{0,49}",
    ),
    "url": checks.url("https://HOST/PATH or http://HOST/PATH without a user and a fragment", secret=True),
    "phases": checks.list_of(checks.choice(*PHASES), "phases", least=1),
    "format": checks.choice(*FORMATS),
    "template": Kind("a dictionary, which is the body", template.read, secret=True),
    "headers": checks.map_of(_LINE, "texts", keys=_HEADER_NAME)._replace(secret=True),
    "secret": _LINE,
    "routing_key": _LINE,
    "ca_file": checks.PATH,
    "proxy": _PROXY,
    "request_timeout": checks.number(1, 120, "seconds"),
    "max_messages": checks.whole(1, 10000),
}

_CONTROLLER = {
    "url": Kind("https://HOST or https://HOST:PORT", _controller_url),
    "job_template": _REFERENCE,
    "token": _TOKEN,
    "token_file": checks.PATH,
    "ca_file": checks.PATH,
    "proxy": _PROXY,
    "host_pattern": checks.converted("a text with some of {name}, {lower}, {set}, {instance}", _pattern),
    "host_names": checks.map_of(_HOST, "hosts by names of VMs"),
    "inventory": _REFERENCE,
    "extra_vars": checks.converted(
        f"a dictionary without {EVENT_VARIABLE}, which is the event", _variables, secret=True
    ),
    "cancel_on_cancelled": checks.FLAG,
    "request_timeout": checks.number(1, 60, "seconds"),
    "interval": checks.number(1, 60, "seconds"),
    "grace": checks.number(0, 86400, "seconds"),
    "allow_http": checks.FLAG,
}

# The hosts of an event


def vms_of(event: Mapping[str, Any]) -> List[str]:
    """The VMs that an event names, which may be none."""
    names = event.get("resources")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def hosts_of(resources: Sequence[str], settings: ControllerSettings) -> List[str]:
    """The names that the VMs of an event have in the inventory of the controller.

    :raises WrongValue: one of them has no name there.
    """
    known = {name.lower(): host for name, host in settings.host_names.items()}
    return [known.get(name.lower()) or _by_pattern(name, settings.host_pattern) for name in resources]


def _by_pattern(name: str, pattern: str) -> str:
    scale_set, _underscore, instance = name.rpartition("_")
    values = {"name": name, "lower": name.lower(), "set": scale_set, "instance": instance}
    if not (scale_set and instance) and {"set", "instance"} & set(_PLACEHOLDER.findall(pattern)):
        raise WrongValue(
            f"the VM {checks.show(name)} is not SET_INSTANCE of a scale set, which poller_controller.host_pattern "
            f"{checks.show(pattern)} expects: add it to poller_controller.host_names"
        )
    host = _PLACEHOLDER.sub(lambda found: values[found.group(1)], pattern)
    try:
        return str(_HOST.read(host, ""))
    except ValueError:
        raise WrongValue(
            f"the VM {checks.show(name)} would be the host {checks.show(host)}, expected {_HOST.expected}: add it to "
            f"poller_controller.host_names"
        ) from None
