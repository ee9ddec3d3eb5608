# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API of a controller (AWX, Ansible Automation Platform): one request at a time, and the meaning of its answer."""

import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from _scheduled_events.exchange import Answer, BadUrl, ExchangeFailed, NotConnected, NotTrusted
from _scheduled_events.text import excerpt, shown
from _scheduled_events.transport import Transport

from . import secret

LONGEST_RETRY_AFTER = 60.0  # seconds
_TRY_LATER = (408, 425, 429)
_NOT_DONE = (408, 425, 429)  # the request itself was not carried out

Query = Dict[str, Union[str, int]]

ADVICE = {
    401: "its token is not valid, since it was revoked or has expired: give poller_controller a new one",
    403: "the user of its token has no permission: give the user the role Execute of the job template and make the "
    "user a member of the organization, with a token of the scope write",
    404: "expected a controller there, and an object that the user of its token may see: correct poller_controller",
}


class Refused(Exception):
    """The controller does not do it, and will not if asked again; the message says what to do."""


class Rejected(Refused):
    """The controller found fault with the request itself (400)."""


class Unavailable(Exception):
    """There is no answer, or none that says anything; asked again, there may be.

    :param sent: the request may have been carried out nevertheless.
    :param pause: seconds after which the controller wants to be asked again.
    """

    def __init__(self, message: str, *, sent: bool, pause: float = 0.0) -> None:
        super().__init__(message)
        self.sent = sent
        self.pause = pause


class Found(NamedTuple):
    """An object of the API."""

    id: int
    fields: Mapping[str, Any]


class Controller:
    """A controller.

    :param url: without the path.
    :param seconds: for each answer.
    :param left: the seconds after which no answer is of use any more.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str = "",
        proxy: str = "",
        seconds: float = 15.0,
        left: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._url = url
        self._token = token
        self._seconds = seconds
        self.left = left
        self._transport = Transport(ca_file=ca_file, proxy=proxy)
        self._prefix = ""

    def get(self, path: str, **query: Union[str, int]) -> Dict[str, Any]:
        """The object at a path below the API.

        :raises Refused: the controller refuses it.
        :raises Unavailable: it cannot do it now. A later attempt may succeed.
        """
        return self._object("GET", self._base() + path, query=query)

    def list(self, path: str, **query: Union[str, int]) -> List[Dict[str, Any]]:
        """The objects at a path below the API, at most one page of them.

        :raises Refused: the controller refuses it.
        :raises Unavailable: it cannot do it now. A later attempt may succeed.
        """
        results = self.get(path, **query).get("results")
        if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            raise Refused(f"GET {self._base()}{path}: expected a list of results: correct poller_controller.url")
        return results

    def post(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        """The answer to a POST; empty if it has no body.

        :raises Refused: the controller refuses it.
        :raises Unavailable: it cannot do it now. A later attempt may succeed.
        """
        return self._object("POST", self._base() + path, body=body)

    def find(self, kind: str, wanted: Union[int, str]) -> Found:
        """The one object of a kind that an id, a name or NAME++ORGANIZATION names.

        :raises Refused: there is none, or more than one.
        :raises Unavailable: it cannot do it now. A later attempt may succeed.
        """
        if isinstance(wanted, int):
            fields = self.get(f"{kind}/{wanted}/")
            return Found(wanted, fields)
        name, separator, organization = wanted.rpartition("++")
        query = {"name": name, "organization__name": organization} if separator else {"name": wanted}
        found = self.list(f"{kind}/", page_size=2, **query)
        if len(found) != 1 or not isinstance(found[0].get("id"), int):
            how = "several" if found else "none"
            raise Refused(
                f"{self._url}: expected exactly one of {kind} with the name {excerpt(wanted)} that the user of the "
                f"token may see, found {how}: correct its name, add ++ORGANIZATION, or give the user the role Execute"
            )
        return Found(found[0]["id"], found[0])

    def _base(self) -> str:
        """The path of the API, which differs behind a gateway."""
        if not self._prefix:
            about = self._object("GET", "/api/")
            apis = about.get("apis")
            place = apis.get("controller") if isinstance(apis, dict) else None
            place = f"{place}v2/" if isinstance(place, str) else about.get("current_version")
            if not isinstance(place, str) or not place.startswith("/api/") or urlsplit(place).path != place:
                raise Refused(f"GET {self._url}/api/: it is not the URL of a controller: correct poller_controller.url")
            self._prefix = place
        return self._prefix

    def _object(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]:
        what = self.hide(f"{method} {self._url}{path}")  # its beginning comes from the controller
        answer = self._exchange(what, method, path, query or {}, body)
        if not 200 <= answer.status < 300:
            raise self._failure(what, answer)
        if not answer.body and method == "POST":
            return {}
        try:
            decoded = json.loads(answer.body.decode("utf-8"))
        except (ValueError, RecursionError):
            decoded = None
        if isinstance(decoded, dict):
            return decoded
        said = excerpt(self.hide(answer.body.decode("utf-8", "replace")))
        if self._prefix:  # so there is a controller, and what came in between, or cut its answer, may go away
            raise Unavailable(f"{what}: expected JSON, not {said}", sent=method == "POST")
        raise Refused(f"{what}: expected JSON, not {said}: correct poller_controller.url")

    def _exchange(
        self, what: str, method: str, path: str, query: Mapping[str, Any], body: Optional[Mapping[str, Any]]
    ) -> Answer:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        seconds = min(self._seconds, self.left())
        if seconds <= 0:
            raise Unavailable(f"{what}: there is no time left for it", sent=False)
        try:
            return self._transport.exchange(
                method,
                self._url + path,
                query={key: str(value) for key, value in query.items()},
                headers=headers,
                body=None if body is None else json.dumps(body),
                seconds=seconds,
            )
        except NotTrusted as error:
            raise Refused(
                f"{what}: its certificate is not trusted: {self.hide(str(error))}: name its authority in "
                f"poller_controller.ca_file"
            ) from None
        except BadUrl as error:
            raise Refused(f"{what}: {self.hide(str(error))}: correct poller_controller.url") from None
        except ExchangeFailed as error:
            sent = not isinstance(error, NotConnected)
            raise Unavailable(f"{what}: {self.hide(str(error))}", sent=sent) from None

    def _failure(self, what: str, answer: Answer) -> Exception:
        said = shown(self.hide(_detail(answer.body)))
        reason = self.hide(answer.reason)
        message = f"{what} answered {answer.status} {reason}".rstrip() + (f": {said}" if said else "")
        if answer.status in _TRY_LATER or answer.status >= 500:
            return Unavailable(message, sent=answer.status not in _NOT_DONE, pause=_retry_after(answer.headers))
        if 300 <= answer.status < 400:
            there = shown(self.hide(answer.headers.get("location", "")))
            return Refused(f"{message}: it leads to {there}, which is not followed: correct poller_controller.url")
        if answer.status in ADVICE:
            return Refused(f"{message}: {ADVICE[answer.status]}")
        return Rejected(message) if answer.status == 400 else Refused(message)

    def hide(self, text: str) -> str:
        """A text that may repeat the token, without it."""
        return secret.hide(text, self._token)


def _detail(body: bytes) -> str:
    try:
        decoded = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
    detail = decoded.get("detail") if isinstance(decoded, dict) else None
    return detail if isinstance(detail, str) else json.dumps(decoded)


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(float(text), LONGEST_RETRY_AFTER) if text.isdigit() and len(text) < 10 else 0.0
