# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One HTTP exchange, over a connection of this machine or through another program, and where it goes."""

import http
import re
from types import MappingProxyType
from typing import Mapping, NamedTuple, Optional

from .checks import converted, text, url
from .document import DEFAULT_API_VERSION, parse_not_before

MAX_BODY = 1024 * 1024

DEFAULT_ENDPOINT = "http://169.254.169.254"


def base_url(value: str) -> str:
    """A URL of a host, without the slash at its end.

    :raises ValueError: it is something else.
    """
    checked = str(url().read(value, ""))
    if "?" in checked:
        raise ValueError
    return checked.rstrip("/")


ENDPOINT = converted("http://HOST or http://HOST:PORT", base_url)
# The service refuses "latest" as well (docs/contract.md, section 3).
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
API_VERSION = text(f"a date, such as {DEFAULT_API_VERSION}", pattern=_DATE)
AUTO_VERSION = "auto"
API_VERSION_OR_AUTO = text(
    f"a date, such as {DEFAULT_API_VERSION}, or {AUTO_VERSION}", pattern=f"(?:{AUTO_VERSION}|{_DATE})"
)


class ExchangeFailed(Exception):
    """There is no answer; the message says why."""


class BadUrl(ExchangeFailed):
    """There is no way to ask for this URL."""


class NotConnected(ExchangeFailed):
    """No connection was made, so nothing was sent."""


class NotTrusted(NotConnected):
    """The certificate of the host is not one that may be trusted."""


class BrokenOff(ExchangeFailed):
    """The request was sent, and its answer did not come, or not whole, or not in time."""


class Malformed(ExchangeFailed):
    """The answer is not a plain HTTP answer of a moderate size."""


class HttpRequest(NamedTuple):
    """What to send. The ``query`` belongs to the URL."""

    method: str
    url: str
    query: Mapping[str, str] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    body: Optional[str] = None


class Answer(NamedTuple):
    """An answer. Its ``body`` is whole if the status is 200 and the body matters, else it can be cut, or empty."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class Exchanger:
    """Whatever sends requests to one host, one after the other; for one thread.

    :ivar connected: whether the last exchange had a connection.
    """

    connected = False

    def exchange(self, request: HttpRequest, seconds: float) -> Answer:
        """Send a request and read its answer, following no redirect.

        :param seconds: for all of it.
        :raises ExchangeFailed: there is no answer.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""


def phrase(answer: Answer) -> str:
    """The usual words of its status; its own ones if there are none."""
    try:
        return http.HTTPStatus(answer.status).phrase
    except ValueError:
        return answer.reason


def retry_after(header: Optional[str], *, now: float) -> float:
    """Seconds that the header Retry-After asks to wait, as a number or as a date; 0 if it does not.

    :param now: seconds since the epoch.
    """
    text = (header or "").strip()
    if re.match(r"[0-9]+\Z", text, re.ASCII):
        return float(text)
    date = parse_not_before(text)
    return max(0.0, date.timestamp() - now) if date else 0.0


def announced_length(header: Optional[str]) -> Optional[int]:
    """The length of the body by the header Content-Length; ``None`` if that does not say it."""
    return int(header) if header and re.match(r"[0-9]{1,18}\Z", header) else None
