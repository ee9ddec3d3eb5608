# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How to ask: one client of the metadata service, one retry policy, typed errors."""

import http
import json
import time
import traceback
from typing import Any, Callable, Dict, Optional, Sequence, TypeVar

from .document import Document, DocumentError, excerpt, parse
from .endpoint import DEFAULT_API_VERSION, DEFAULT_ENDPOINT, check_api_version, check_endpoint

try:
    import requests

    REQUESTS_IMPORT_ERROR: Optional[str] = None
except ImportError:
    REQUESTS_IMPORT_ERROR = traceback.format_exc()

EVENTS_PATH = "/metadata/scheduledevents"
NAME_PATH = "/metadata/instance/compute/name"
NAME_API_VERSION = "2017-08-01"

CONNECT_TIMEOUT = 5.0
REQUEST_TIMEOUT = 125.0  # the first request enables the service, which may take two minutes (contract: Enabling)
RETRY_FOR = 70.0  # "410: retry for at most 70 s" (contract: status codes)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between two attempts after a failure

Answer = TypeVar("Answer")


class ImdsError(Exception):
    """The service gave no usable answer. The message says what was asked, on which URL, and what came back.

    ``transient`` tells whether the contract says to ask again; ``status`` is the HTTP status, if there was one.
    """

    transient = False

    def __init__(self, message: str, *, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


class NoAnswer(ImdsError):
    """No connection, no answer in time, or an answer that broke off: nothing is known about the events."""

    transient = True


class Unavailable(ImdsError):
    """410, 429 or a 5xx status: the service asks to come back later."""

    transient = True


class NoDocumentYet(ImdsError):
    """200 with an empty body: the service is still being enabled."""

    transient = True


class Refused(ImdsError):
    """A status that the same request would get again: 400, 404, 405, a redirect, or any other one."""


class BadAnswer(ImdsError):
    """200 with a body that is no answer of this service: broken JSON, HTML, or no array of events."""


class ImdsClient:
    """A client of Scheduled Events that keeps one connection, uses no proxy and follows no redirect.

    :param endpoint: base URL of the service.
    :param api_version: a date.
    :param request_timeout: seconds to wait for one answer; connecting fails after 5 seconds at the latest.
    :param retry_for: seconds to go on asking after a transient failure; 0 asks once.
    :raises SettingError: a setting cannot be used.
    """

    def __init__(
        self,
        *,
        endpoint: str = DEFAULT_ENDPOINT,
        api_version: str = DEFAULT_API_VERSION,
        request_timeout: float = REQUEST_TIMEOUT,
        retry_for: float = RETRY_FOR,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = check_endpoint(endpoint)
        self.api_version = check_api_version(api_version)
        self._request_timeout = request_timeout
        self._retry_for = retry_for
        self._clock = clock
        self._sleep = sleep
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy variable, no .netrc: the address is link-local
        self._session.headers["Metadata"] = "true"

    def poll(self, *, request_timeout: Optional[float] = None) -> Document:
        """Ask once for the document.

        :param request_timeout: seconds for this answer, if not those of the client.
        :raises ImdsError: there is no document; nothing follows from that about the events.
        """
        response = self._request("GET", EVENTS_PATH, self._events_query, request_timeout=request_timeout)
        if not response.content.strip():
            raise NoDocumentYet(f"GET {response.url} answered 200 OK with an empty body: no document yet")
        try:
            return parse(response.content, api_version=self.api_version)
        except DocumentError as error:
            raise BadAnswer(
                f"GET {response.url} answered 200 OK, but not with a Scheduled Events document: {error}; "
                "check that the endpoint is the metadata service of this VM"
            ) from error

    def fetch(self) -> Document:
        """Ask for the document, again after transient failures.

        :raises ImdsError: as :meth:`poll`, after ``retry_for`` seconds at the latest for a transient failure.
        """
        return self._retry(self.poll)

    def ask_name(self) -> str:
        """Ask once for the name that this VM has in Azure, which is the one that Resources holds.

        :raises ImdsError: there is no usable answer.
        """
        response = self._request("GET", NAME_PATH, {"api-version": NAME_API_VERSION, "format": "text"})
        name = response.content.decode("utf-8", "replace").strip()
        if not name:
            raise NoDocumentYet(f"GET {response.url} answered 200 OK with an empty body: no name yet")
        if not name.isprintable() or "<" in name or len(name) > 256:
            raise BadAnswer(
                f"GET {response.url} answered 200 OK, but not with the name of a VM: {excerpt(name)}; "
                "check that the endpoint is the metadata service of this VM, or give vm_name"
            )
        return name

    def vm_name(self) -> str:
        """Ask for the name of this VM, again after transient failures.

        :raises ImdsError: as :meth:`ask_name`, after ``retry_for`` seconds at the latest for a transient failure.
        """
        return self._retry(self.ask_name)

    def approve(self, event_ids: Sequence[str]) -> None:
        """Acknowledge events, all in one request.

        :param event_ids: the ids verbatim as the document has them (contract: EventId).
        :raises ImdsError: the service did not accept the request.
        """
        body = json.dumps({"StartRequests": [{"EventId": event_id} for event_id in event_ids]})
        self._retry(lambda: self._request("POST", EVENTS_PATH, self._events_query, body=body))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    @property
    def _events_query(self) -> Dict[str, str]:
        return {"api-version": self.api_version}

    def _retry(self, attempt: Callable[[], Answer]) -> Answer:
        # urllib3's Retry counts attempts and sees no bodies; the contract gives seconds, and an empty body to retry.
        give_up_at = self._clock() + self._retry_for
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except ImdsError as error:
                remaining = give_up_at - self._clock()
                if not error.transient or remaining <= 0:
                    raise
            self._sleep(min(pause, remaining))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _request(
        self,
        method: str,
        path: str,
        query: Dict[str, str],
        *,
        body: Optional[str] = None,
        request_timeout: Optional[float] = None,
    ) -> "requests.Response":
        seconds = self._request_timeout if request_timeout is None else request_timeout
        url = self.endpoint + path
        try:
            response = self._session.request(
                method,
                url,
                params=query,
                data=body,
                headers={"Content-Type": "application/json"} if body else None,
                timeout=(min(CONNECT_TIMEOUT, seconds), seconds),
                allow_redirects=False,
            )
        except ValueError as error:  # requests' and urllib3's errors of a URL are such
            raise Refused(f"{method} {url} cannot be asked: {error}") from error
        except requests.exceptions.RequestException as error:
            raise NoAnswer(f"{method} {url} got no answer: {_cause(error, seconds)}") from error
        _require_whole_body(method, response)
        if response.status_code == http.HTTPStatus.OK:
            return response
        raise _status_error(method, response, query["api-version"])


def _require_whole_body(method: str, response: "requests.Response") -> None:
    """Older releases of requests take a body that breaks off for a whole one."""
    announced = response.headers.get("Content-Length", "")
    received = response.raw.tell()
    if announced.isdigit() and received < int(announced):
        raise NoAnswer(f"{method} {response.url} got no answer: it broke off after {received} of {announced} bytes")


def _cause(error: Exception, seconds: float) -> str:
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {min(CONNECT_TIMEOUT, seconds):g} seconds"
    if isinstance(error, requests.exceptions.ReadTimeout):
        return f"nothing within {seconds:g} seconds"
    # requests wraps urllib3's errors, which wrap the one of the operating system: the innermost says what happened.
    innermost: BaseException = error
    while innermost.__cause__ or innermost.__context__:
        innermost = innermost.__cause__ or innermost.__context__ or innermost
    return str(innermost) or type(innermost).__name__


def _status_error(method: str, response: "requests.Response", api_version: str) -> ImdsError:
    status = response.status_code
    answered = f"{method} {response.url} answered {status} {_phrase(response)}".rstrip()
    if status in (http.HTTPStatus.GONE, 429) or status >= 500:
        return Unavailable(f"{answered}: {_detail(response)}", status=status)
    if 300 <= status < 400:
        location = response.headers.get("Location", "nowhere")
        reason = f"a redirect to {location}, which the metadata service never sends and is not followed"
        return Refused(f"{answered}: {reason}; check the endpoint and what stands before it", status=status)
    version_detail = _version_detail(response, api_version)
    return Refused(f"{answered}: {version_detail or _detail(response)}", status=status)


def _phrase(response: "requests.Response") -> str:
    try:
        return http.HTTPStatus(response.status_code).phrase
    except ValueError:
        return response.reason or ""


def _version_detail(response: "requests.Response", api_version: str) -> Optional[str]:
    error = _json_object(response)
    if "newest-versions" not in error and "api-version" not in str(error.get("error")):
        if response.status_code == http.HTTPStatus.NOT_FOUND:
            return f"this host does not know the path, or not the api-version {api_version}: {_detail(response)}"
        return None
    message = f'api-version "{api_version}" is not known to this host'
    newest = error.get("newest-versions")
    if isinstance(newest, list) and newest:
        message += "; it names as its newest " + ", ".join(str(version) for version in newest)
    return message


def _detail(response: "requests.Response") -> str:
    error = _json_object(response).get("error")
    if isinstance(error, str) and error:
        return error
    return excerpt(response.content) if response.content.strip() else "without a body"


def _json_object(response: "requests.Response") -> Dict[str, Any]:
    try:
        decoded = json.loads(response.content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
