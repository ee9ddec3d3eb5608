# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The receivers of webhooks, from a file that only root reads. No message holds a value that may be secret."""

import json
import re
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from _scheduled_events.runs import PHASES

from . import template
from .formats import DEFAULT_FORMAT, FORMATS

CONFIG_FILE = "/etc/scheduled-events/webhooks.json"

HEADER_PREFIX = "X-Scheduled-Events-"
# What HTTP itself needs, or what we set so that a receiver can rely on it.
_OWN_HEADERS = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "x-hub-signature-256")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?\Z")
_URL = re.compile(r"[\x21-\x7e]{1,4000}\Z")

MOST_RECEIVERS = 20
SHORTEST_SECRET_PART = 6  # characters of a part of a URL that is long enough to be a secret


class WebhookError(ValueError):
    """A receiver that cannot be used; the message says which key is wrong and what was expected."""


class Receiver(NamedTuple):
    """A receiver, its messages, and the way of delivery.

    ``template``: the body, in place of that of the format. ``secret``: signs each request. ``routing_key``: of
    PagerDuty. ``ca_file``: the CA certificates, ``None`` takes those of the system. ``timeout``: seconds for a request
    and its answer. ``max_messages`` and ``max_bytes``: what may wait.
    """

    name: str
    url: str
    phases: Tuple[str, ...] = PHASES
    format: str = DEFAULT_FORMAT
    template: Optional[Mapping[str, Any]] = None
    headers: Mapping[str, str] = MappingProxyType({})
    secret: Optional[str] = None
    routing_key: Optional[str] = None
    ca_file: Optional[str] = None
    proxy: Optional[str] = None
    timeout: float = 10.0
    max_messages: int = 1000
    max_bytes: int = 10 * 1024 * 1024

    def redact(self, text: str) -> str:
        """The text without anything of this receiver that may be secret."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> List[str]:
        found = [self.secret, self.routing_key, *self.headers.values()]
        found += [word for value in self.headers.values() for word in value.split()]  # a token after its scheme
        for url in filter(None, [self.url, self.proxy]):
            parts = urlsplit(url)
            userinfo = parts.netloc.rpartition("@")[0]
            found += [url, userinfo, userinfo.partition(":")[2], parts.query, parts.path.strip("/")]
            found += re.split(r"[/=&?]", f"{parts.path}?{parts.query}")
        return [text for text in found if text and len(text) >= SHORTEST_SECRET_PART]


def load(path: str) -> Tuple[Receiver, ...]:
    """Read the file; without one there are no receivers.

    :raises WebhookError: the file cannot be read, or the first mistake in it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            decoded = json.load(file)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise WebhookError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):  # whose text may quote the file
        raise WebhookError(f"{path} is not JSON: run the role poller again") from None
    return parse(decoded, place=path)


def parse(decoded: Any, *, place: str) -> Tuple[Receiver, ...]:
    """Check a decoded list of receivers; a key that is null has its default.

    :param place: what to call the list in a message.
    :raises WebhookError: the first mistake.
    """
    if not isinstance(decoded, list):
        raise WebhookError(f"{place} is {kind(decoded)}, expected a list of dictionaries: give it to -e as JSON")
    if len(decoded) > MOST_RECEIVERS:
        raise WebhookError(
            f"{place} has {len(decoded)} receivers, expected at most {MOST_RECEIVERS}: let one pass messages on"
        )
    receivers: List[Receiver] = []
    for index, raw in enumerate(decoded):
        receiver = _receiver(f"{place}[{index}]", raw)
        if receiver.name in [other.name for other in receivers]:
            raise WebhookError(f'{place}[{index}]: the name "{receiver.name}" is in the list already: rename one')
        receivers.append(receiver)
    return tuple(receivers)


def _receiver(place: str, raw: Any) -> Receiver:
    if not isinstance(raw, dict):
        raise WebhookError(f"{place} is {kind(raw)}, expected a dictionary with name and url: correct it")
    for key in raw:
        if key not in Receiver._fields:
            shown = json.dumps(key, default=str)[:100]
            raise WebhookError(f"{place}: {shown} is not a key, expected {', '.join(Receiver._fields)}: correct it")
    given = {key: value for key, value in raw.items() if value not in (None, "", {})}
    if "name" in given and _NAME.match(str(given["name"])):
        place = f"{place} ({given['name']})"
    wanted = given.get("format", DEFAULT_FORMAT)
    if isinstance(wanted, str) and wanted in FORMATS and FORMATS[wanted].url:
        given.setdefault("url", FORMATS[wanted].url)
    for key in ("name", "url"):
        if key not in given:
            raise WebhookError(f"{place} has no {key}: add it")
    receiver = Receiver(**{key: _CHECKS[key](f"{place}: {key}", value) for key, value in given.items()})
    chosen = FORMATS[receiver.format]
    if chosen.routing_key != (receiver.routing_key is not None):
        raise WebhookError(f"{place}: expected routing_key with {_formats('routing_key')}, and only there: correct one")
    if receiver.template is not None and not chosen.template:
        raise WebhookError(f"{place}: template replaces the body, expected {_formats('template')}: remove one")
    return receiver


def _formats(need: str) -> str:
    names = [name for name, each in FORMATS.items() if getattr(each, need)]
    return f"the format {' or '.join(names)}"


def _name(place: str, value: Any) -> str:
    if not _NAME.match(str(value)) or isinstance(value, bool):
        shown = json.dumps(value, default=str)[:100]
        raise WebhookError(
            f'{place} is {shown}, expected at most 50 lower-case letters, digits, "_" and "-", with a letter or digit '
            f"first: rename it"
        )
    return str(value)


def _url(place: str, value: Any) -> str:
    if _is_url(value) and not urlsplit(value).username:
        return str(value)
    raise WebhookError(
        f"{place} is not usable (it is not shown, as it may be secret), expected https://HOST/PATH or http://HOST/PATH "
        f"without a user and a fragment: correct it, and give credentials as a header"
    )


def _proxy(place: str, value: Any) -> str:
    if _is_url(value):
        return str(value)
    raise WebhookError(f"{place} is not usable (it is not shown), expected http://HOST:PORT: correct it")


def _is_url(value: Any) -> bool:
    if not isinstance(value, str) or not _URL.match(value):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except ValueError:
        return False


def _phases(place: str, value: Any) -> Tuple[str, ...]:
    if not isinstance(value, list) or not value or any(phase not in PHASES for phase in value):
        shown = json.dumps(value, default=str)[:100]
        raise WebhookError(f"{place} is {shown}, expected a list of some of {', '.join(PHASES)}: correct it")
    return tuple(phase for phase in PHASES if phase in value)


def _format(place: str, value: Any) -> str:
    if not isinstance(value, str) or value not in FORMATS:
        shown = json.dumps(value, default=str)[:100]
        raise WebhookError(f"{place} is {shown}, expected one of {', '.join(FORMATS)}: correct it")
    return value


def _template(place: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WebhookError(f"{place} is {kind(value)}, expected a dictionary, which is the body: correct it")
    try:
        template.check(value)
    except ValueError as error:
        raise WebhookError(f"{place}: {error}") from error
    return value


def _headers(place: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise WebhookError(f"{place} is {kind(value)}, expected a dictionary of texts: correct it")
    checked = {}
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.match(name):
            raise WebhookError(f"{place}: a name is not one of a header, expected such as Authorization: correct it")
        if name.lower() in _OWN_HEADERS or name.lower().startswith(HEADER_PREFIX.lower()):
            raise WebhookError(f"{place}: {name} is set by the polling unit itself: remove it")
        checked[name] = _text(f"{place}: the value of {name}", text)
    return checked


def _text(place: str, value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _PRINTABLE.match(value) or len(value) > 4000:
        raise WebhookError(
            f"{place} is not usable (it is not shown), expected a text of printable ASCII on one line, without blanks "
            f"around it: correct it"
        )
    return value


def _path(place: str, value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        shown = json.dumps(value, default=str)[:200]
        raise WebhookError(f"{place} is {shown}, expected the absolute path of a file on the host: correct it")
    return value


def _number(least: int, most: int, what: str, to: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    def check(place: str, value: Any) -> Any:
        right = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
        if not right or to(value) != value:
            shown = json.dumps(value, default=str)[:100]
            raise WebhookError(f"{place} is {shown}, expected {what} from {least} to {most}: correct it")
        return to(value)

    return check


_CHECKS: Dict[str, Callable[[str, Any], Any]] = {
    "name": _name,
    "url": _url,
    "phases": _phases,
    "format": _format,
    "template": _template,
    "headers": _headers,
    "secret": _text,
    "routing_key": _text,
    "ca_file": _path,
    "proxy": _proxy,
    "timeout": _number(1, 120, "seconds", float),
    "max_messages": _number(1, 10000, "a whole number", int),
    "max_bytes": _number(256 * 1024, 1024 * 1024 * 1024, "a whole number of bytes", int),
}


def kind(value: Any) -> str:
    """Return the kind of a value, in the place of a value that may be secret."""
    kinds = {str: "a text", dict: "a dictionary", list: "a list", bool: "true or false", type(None): "empty"}
    return kinds.get(type(value), "a number")
