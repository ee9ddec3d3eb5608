# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API of a controller (AWX, Ansible Automation Platform): one request at a time, and the meaning of its answer."""

import json
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from _scheduled_events.checks import WrongValue
from _scheduled_events.exchange import HttpRequest
from _scheduled_events.text import excerpt

from .request import Declined, NotNow, Requests
from .settings import ControllerSettings, read_token

LONGEST_PAUSE = 60.0  # seconds that the controller may ask for

ADVICE = {
    401: "its token is not valid, since it was revoked or has expired: give poller_controller a new one",
    403: "the user of its token has no permission: give the user the role Execute of the job template and make the "
    "user a member of the organization, with a token of the scope write",
    404: "expected a controller there, and an object that the user of its token may see: correct poller_controller",
}


class ApiObject(NamedTuple):
    """An object of the API."""

    id: int
    fields: Mapping[str, Any]


class Controller:
    """A controller. Each request can fail with ``Declined`` or ``NotNow``.

    :param left: the seconds after which no answer is of use any more.
    :raises WrongValue: the token or the authorities cannot be read.
    """

    def __init__(self, settings: ControllerSettings, *, left: Callable[[], float] = lambda: float("inf")) -> None:
        if settings.ca_file and not os.access(settings.ca_file, os.R_OK):
            raise WrongValue(
                f"{settings.ca_file}: it cannot be read, expected the authorities of poller_controller.ca_file: "
                f"correct its path"
            )
        token = read_token(settings)
        self._url = settings.url
        self._seconds = settings.request_timeout
        self._left = left
        self._headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
        }
        self._requests = Requests(
            [token],
            reads=True,
            longest_pause=LONGEST_PAUSE,
            ca_file=settings.ca_file,
            proxy=settings.proxy,
            advice=ADVICE,
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
            raise Declined(f"{what}: expected a list of results: correct poller_controller.url")
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
                raise Declined(
                    f"GET {self._url}/api/: it is not the URL of a controller: correct poller_controller.url"
                )
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
        seconds = min(self._seconds, self._left())
        if seconds <= 0:
            raise NotNow(f"{what}: there is no time left for it", sent=False)
        words = {key: str(value) for key, value in (query or {}).items()}
        text = None if body is None else json.dumps(body)
        answer = self._requests.send(
            HttpRequest(method, self._url + path, words, self._headers, text), seconds, what=what
        )
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
            raise NotNow(f"{what}: expected JSON, not {said}", sent=method == "POST")
        raise Declined(f"{what}: expected JSON, not {said}: correct poller_controller.url")
