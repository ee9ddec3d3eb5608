# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API of a controller (AWX, Ansible Automation Platform): one request at a time, and the meaning of its answer."""

import contextlib
import json
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.exchange import Answer, HttpRequest
from _scheduled_events.text import excerpt

from .request import Declined, NotNow, Requests
from .settings import ControllerSettings, read_token, secrets_of

LONGEST_PAUSE = 60.0  # seconds that the controller may ask for
SHORTEST_SECRET = 6  # characters

ADVICE = {
    401: "its token is not valid, since it was revoked or has expired: give poller_controller a new one",
    403: "the user of its token has no permission: give the user the role Execute of the job template and make the "
    "user a member of the organization, with a token of the scope write",
    404: "expected an object that the user of its token may see: correct poller_controller",
}
NO_API = "this is not the API of a controller: correct poller_controller.url if it stays so"


class ApiObject(NamedTuple):
    """An object of the API."""

    id: int
    fields: Mapping[str, Any]


class Controller:
    """A controller. Each request can fail with ``Declined`` or ``NotNow``.

    :param left: the seconds after which no answer is of use any more.
    :ivar took: the seconds of the last answer to a GET.
    :raises WrongValue: the token or the authorities cannot be read.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        left: Callable[[], float] = lambda: float("inf"),
        clock: Clock = CLOCK,
    ) -> None:
        if settings.ca_file and not os.access(settings.ca_file, os.R_OK):
            raise WrongValue(
                f"{settings.ca_file}: it cannot be read, expected the authorities of poller_controller.ca_file: "
                f"correct its path"
            )
        token = read_token(settings)
        self._url = settings.url
        self._seconds = settings.request_timeout
        self._left = left
        self._clock = clock
        self.took = 0.0
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
        }
        self._requests = Requests(
            [token, *secrets_of(settings.proxy)],
            reads=True,
            longest_pause=LONGEST_PAUSE,
            quoted=_texts(settings.extra_vars),  # by the check of a survey, of which some may be passwords
            ca_file=settings.ca_file,
            proxy=settings.proxy,
            advice=ADVICE,
            foreign=self._foreign,
        )
        self.hide = self._requests.hide
        self._prefix = ""

    def get(self, path: str, **query: Union[str, int]) -> Dict[str, Any]:
        """The object at a path below the API."""
        return self._object("GET", self._base() + path, query=query)

    def list(self, path: str, **query: Union[str, int]) -> List[Dict[str, Any]]:
        """The objects at a path below the API, at most one page of them."""
        results = self.get(path, **query).get("results")
        if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            what = self.hide(f"GET {self._url}{self._base()}{path}")
            raise NotNow(f"{what}: expected a list of results: {NO_API}")
        return results

    def post(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        """The answer to a POST; empty if it has no body."""
        return self._object("POST", self._base() + path, body=body)

    def find(self, kind: str, wanted: Union[int, str]) -> ApiObject:
        """The one object of a kind that an id, a name or NAME++ORGANIZATION names."""
        if isinstance(wanted, int):
            return ApiObject(wanted, self.get(f"{kind}/{wanted}/"))
        name, separator, organization = wanted.rpartition("++")
        query = {"name": name, "organization__name": organization} if separator else {"name": wanted}
        found = self.list(f"{kind}/", page_size=2, **query)
        if len(found) != 1 or not isinstance(found[0].get("id"), int):
            how = "several" if found else "none"
            raise Declined(
                f"{self._url}: expected exactly one of {kind} with the name {excerpt(wanted)} that the user of the "
                f"token may see, found {how}: correct its name, add ++ORGANIZATION, or give the user the role Execute"
            )
        return ApiObject(found[0]["id"], found[0])

    def _base(self) -> str:
        """The path of the API, which differs behind a gateway."""
        if not self._prefix:
            about = self._object("GET", "/api/")
            apis = about.get("apis")
            place = apis.get("controller") if isinstance(apis, dict) else None
            place = f"{place}v2/" if isinstance(place, str) else about.get("current_version")
            if not isinstance(place, str) or not place.startswith("/api/") or urlsplit(place).path != place:
                said = excerpt(self.hide(json.dumps(about)))
                raise NotNow(f"GET {self._url}/api/: expected the path of the API, not {said}: {NO_API}")
            self._prefix = place
        return self._prefix

    def _foreign(self, answer: Answer) -> str:
        """What to correct if an answer comes from a proxy, or from what answers while the controller starts."""
        # The API sends no redirects.
        is_of_api = not 300 <= answer.status < 400 and isinstance(_decoded(answer), (dict, list))
        return "" if is_of_api and (self._prefix or answer.status in (401, 403)) else NO_API

    def _object(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]:
        what = f"{method} {self._url}{path}"  # a part of it comes from the controller
        seconds = min(self._seconds, self._left())
        if seconds <= 0:
            raise NotNow(f"{self.hide(what)}: there is no time left for it", sent=False)
        words = {key: str(value) for key, value in (query or {}).items()}
        text = None if body is None else json.dumps(body)
        began = self._clock.monotonic()
        answer = self._requests.send(
            HttpRequest(method, self._url + path, words, self._headers, text), seconds, what=what
        )
        if method == "GET":
            self.took = self._clock.monotonic() - began
        elif not answer.body:
            return {}
        decoded = _decoded(answer)
        if isinstance(decoded, dict):
            return decoded
        said = excerpt(self._requests.hide_in_answer(answer.body.decode("utf-8", "replace")))
        raise NotNow(f"{self.hide(what)}: expected JSON, not {said}: {NO_API}", sent=method == "POST")


def _texts(value: Any) -> List[str]:
    """The texts in variables that are long enough to be secrets."""
    if isinstance(value, (dict, list)):
        return [text for each in (value.values() if isinstance(value, dict) else value) for text in _texts(each)]
    return [value] if isinstance(value, str) and len(value) >= SHORTEST_SECRET else []


def _decoded(answer: Answer) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(answer.body.decode("utf-8"))
    return None
