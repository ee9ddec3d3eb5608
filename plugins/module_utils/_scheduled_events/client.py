# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the metadata service: one client, one retry policy, typed errors."""

import http
import json
import os
import pwd
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, TypeVar

from . import transport
from .announced import announced
from .checks import check
from .clock import CLOCK, Clock, pause_after
from .document import API_VERSIONS, DEFAULT_API_VERSION, Document, DocumentError, parse
from .exchange import (
    API_VERSION_OR_AUTO,
    AUTO_VERSION,
    DEFAULT_ENDPOINT,
    ENDPOINT,
    Answer,
    BadUrl,
    BrokenOff,
    Exchanger,
    HttpRequest,
    Malformed,
    NotConnected,
    phrase,
)
from .text import excerpt, parse_number, shown

REQUESTS_IMPORT_ERROR = transport.REQUESTS_IMPORT_ERROR
WITHOUT_REQUESTS = (
    f"the Python library requests is missing for {sys.executable}. Install the package python3-requests of your "
    "distribution"
)

CHECK_ENDPOINT = "check that the endpoint is the metadata service of this VM"

EVENTS_PATH = "/metadata/scheduledevents"
NAME_PATH = "/metadata/instance/compute/name"
NAME_API_VERSION = "2017-08-01"
COMPUTE_PATH = "/metadata/instance/compute"
COMPUTE_API_VERSION = "2017-12-01"  # the first that names the scale set

REQUEST_TIMEOUT = 125.0  # the first request can take two minutes (docs/contract.md, section 6)
POLL_TIMEOUT = 30.0  # seconds for an answer after the first one, since a connection can be dead without a sign
RETRY_FOR = 70.0  # after status 410 (docs/contract.md, section 5)

# Seconds for which to look for a service that nothing was ever heard of; the last attempt may take 5 seconds more.
FIRST_CONTACT = 4.0

# Why the guest proxy of the Metadata Security Protocol does not pass a request on (docs/contract.md, section 5).
_NOT_ALLOWED = {
    403: "does not let this user or program ask",
    421: "cannot identify the program that asks, such as one in a container",
}

MAX_JSON = 64 * 1024  # bytes of an answer other than the document

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between two attempts after a failure

Result = TypeVar("Result")


class ImdsError(Exception):
    """The service gave no usable answer. The message says what was asked, on which URL, and what came back.

    ``transient`` is true if asking again can help (docs/contract.md, section 5). ``status`` is the HTTP status, if
    there was one.
    """

    transient = False

    def __init__(self, message: str, *, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


class NoAnswer(ImdsError):
    """No connection, no answer in time, or an answer that broke off: nothing is known about the events."""

    transient = True


class Unreachable(NoAnswer):
    """No connection: refused, no route, no such host, or nothing in time."""


class Unavailable(ImdsError):
    """410, 429 or a 5xx status: the service asks to come back later."""

    transient = True


class NoDocumentYet(ImdsError):
    """200 with an empty body: the service is still being enabled."""

    transient = True


class Refused(ImdsError):
    """A status that the same request would get again: 400, 404, 405, a redirect, or any other one. Or a wrong URL."""


class UnknownVersion(Refused):
    """400 or 404: the host does not know the api-version. ``named`` are versions that it names as its newest."""

    def __init__(self, message: str, *, status: int, named: Sequence[str]) -> None:
        super().__init__(message, status=status)
        self.named = named


class NotAllowed(ImdsError):
    """403 or 421: a guest proxy does not let this process ask (docs/contract.md, section 5). Asking again does not
    help, and nothing is known about the events."""


class BadAnswer(ImdsError):
    """An answer that is not one of this service: broken HTTP, too large, or 200 with HTML, broken JSON, no events."""


class ImdsClient:
    """A client of Scheduled Events that keeps one connection, uses no proxy and follows no redirect.

    ``poll…`` asks once, ``fetch…`` again after transient failures. Use one client for each thread.

    :param endpoint: base URL of the service.
    :param api_version: a date; ``auto`` asks for the newest version that this library and the host know.
    :param request_timeout: seconds for one answer, from connecting to its last byte; connecting fails after 5 seconds
        at the latest.
    :param retry_for: seconds to go on asking after a transient failure; 0 asks once.
    :param drill_directory: where a drill adds an event to the documents of this machine; ``None``: nowhere.
    :param exchanger: what carries the requests; by default a connection of this machine.
    :raises WrongValue: a setting cannot be used.
    :raises ImdsError: the library requests is missing on this machine, and no exchanger is given.
    """

    def __init__(
        self,
        *,
        endpoint: str = DEFAULT_ENDPOINT,
        api_version: str = DEFAULT_API_VERSION,
        request_timeout: float = REQUEST_TIMEOUT,
        retry_for: float = RETRY_FOR,
        drill_directory: Optional[str] = None,
        exchanger: Optional[Exchanger] = None,
        clock: Clock = CLOCK,
    ) -> None:
        if exchanger is None and REQUESTS_IMPORT_ERROR is not None:
            raise ImdsError(WITHOUT_REQUESTS)
        self.endpoint = check(endpoint, ENDPOINT, "endpoint")
        self._wanted = check(api_version, API_VERSION_OR_AUTO, "api_version")
        self._versions = self._known_versions()
        self.reached = False  # whether there ever was a connection
        self._request_timeout = request_timeout
        self._retry_for = retry_for
        self._drill_directory = drill_directory
        self._ended_drills: Set[str] = set()
        self._clock = clock
        self._exchanger = exchanger or transport.Transport()
        self._user = "that Ansible connects as" if exchanger else user_name(os.geteuid())

    def poll(self, *, request_timeout: Optional[float] = None) -> Document:
        """Ask once for the document, with the event of a drill.

        :param request_timeout: seconds for this answer, if not those of the client.
        :raises ImdsError: there is no document; nothing follows from that about the events.
        """
        answer = self._request_events("GET", request_timeout=request_timeout)
        if not answer.body.strip():
            raise NoDocumentYet(f"GET {answer.url} answered 200 OK with an empty body: no document yet", status=200)
        try:
            document = parse(answer.body, api_version=self.api_version)
            return announced(document, self._drill_directory, self._ended_drills)
        except DocumentError as error:
            raise _not_the_service("GET", answer, f"with a Scheduled Events document: {error}") from error

    def fetch(self) -> Document:
        """Ask for the document, again after transient failures.

        :raises ImdsError: as :meth:`poll`, once :meth:`retry` gives up.
        """
        return self.retry(self.poll)

    def poll_name(self, *, request_timeout: Optional[float] = None) -> str:
        """Ask once for the name that this VM has in Azure, which is the one that Resources holds.

        :param request_timeout: seconds for this answer, if not those of the client.
        :raises ImdsError: there is no usable answer.
        """
        query = {"api-version": NAME_API_VERSION, "format": "text"}
        answer = self._request("GET", NAME_PATH, query, request_timeout=request_timeout)
        name = answer.body.decode("utf-8-sig", "replace").strip()
        if not name:
            raise NoDocumentYet(f"GET {answer.url} answered 200 OK with an empty body: no name yet", status=200)
        if len(name) > 256 or not name.isprintable() or "<" in name or "\ufffd" in name:
            raise _not_the_service("GET", answer, f"with the name of a VM: {excerpt(name)}", ", or give vm_name")
        return name

    def fetch_name(self) -> str:
        """Ask for the name of this VM, again after transient failures.

        :raises ImdsError: as :meth:`poll_name`, once :meth:`retry` gives up.
        """
        return self.retry(self.poll_name)

    def other_name(self, given: str, seconds: float) -> Optional[str]:
        """A warning if the service gives this VM another name; empty if not, ``None`` without an answer in time."""
        try:
            named = self.poll_name(request_timeout=seconds)
        except ImdsError:
            return None
        if named.lower() == given.lower():
            return ""
        return (
            f'vm_name: "{given}" is not the name that the metadata service gives this VM, which is "{named}"; '
            "events of this VM are not found under another name"
        )

    def poll_compute(self, seconds: float) -> Dict[str, Any]:
        """Ask once for what the service says about this VM, such as its ``resourceGroupName``.

        :param seconds: for this answer.
        :raises ImdsError: there is no usable answer.
        """
        answer = self._request("GET", COMPUTE_PATH, {"api-version": COMPUTE_API_VERSION}, request_timeout=seconds)
        found = _decode_json(answer.body)
        if not isinstance(found, dict):
            raise _not_the_service("GET", answer, f"with a JSON object: {excerpt(answer.body)}")
        return found

    def approve(self, event_ids: Sequence[str]) -> None:
        """Acknowledge events, all in one request, which is sent once to a host that knows the version.

        :param event_ids: the ids verbatim as the document has them (docs/contract.md, section 4).
        :raises ImdsError: the service did not accept the request.
        """
        body = json.dumps({"StartRequests": [{"EventId": event_id} for event_id in event_ids]})
        answer = self._request_events("POST", body=body)
        if answer.body.strip() and _decode_json(answer.body) is _NOT_JSON:
            what = f"as the metadata service does, with an empty body: {excerpt(answer.body)}"
            raise _not_the_service("POST", answer, what)

    def retry(self, attempt: Callable[[], Result]) -> Result:
        """Do something that asks the service, again after transient failures.

        :raises ImdsError: as ``attempt``. A transient failure after ``retry_for`` seconds, or after a few seconds if
            there never was a connection.
        """
        # urllib3's Retry counts attempts and sees no bodies. Here seconds count, and an empty body is repeated
        # (docs/contract.md, section 5).
        started, failures = self._clock.monotonic(), 0
        while True:
            try:
                return attempt()
            except ImdsError as error:
                # A caller that asks only once repeats its work itself, and outages are nothing new to it.
                missing = self._retry_for > 0 and self.is_missing(error)
                patience = min(FIRST_CONTACT, self._retry_for) if missing else self._retry_for
                remaining = started + patience - self._clock.monotonic()
                if missing and remaining <= 0:
                    raise without_service(error) from error
                if not error.transient or remaining <= 0:
                    raise
            self._clock.sleep(min(pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE), remaining))
            failures += 1

    def is_missing(self, error: ImdsError) -> bool:
        """Whether the error means that there never was a service: nothing could be reached, from the first attempt."""
        return isinstance(error, Unreachable) and not self.reached

    def close(self) -> None:
        """Close the connection."""
        self._exchanger.close()

    @property
    def api_version(self) -> str:
        """The version of the last request for events; with ``auto``, what the host has not refused."""
        return self._versions[0]

    def _known_versions(self) -> Sequence[str]:
        return API_VERSIONS if self._wanted == AUTO_VERSION else (self._wanted,)

    def _request_events(
        self, method: str, *, body: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> Answer:
        """Ask for an older version after a refusal alone. An answer that is not available says nothing of versions."""
        while True:
            query = {"api-version": self.api_version}
            try:
                return self._request(method, EVENTS_PATH, query, body=body, request_timeout=request_timeout)
            except UnknownVersion as error:
                if method == "POST" and not error.named:
                    raise  # a document was read with this version, so the event is gone
                older = self._versions[1:]
                # It names only its newest ones, and can know others.
                self._versions = [version for version in older if version in error.named] or older
                if not self._versions:
                    self._versions = self._known_versions()
                    raise

    def _request(
        self,
        method: str,
        path: str,
        query: Dict[str, str],
        *,
        body: Optional[str] = None,
        request_timeout: Optional[float] = None,
    ) -> Answer:
        url = self.endpoint + path
        headers = {"Metadata": "true"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        seconds = self._request_timeout if request_timeout is None else request_timeout
        try:
            answer = self._exchanger.exchange(HttpRequest(method, url, query, headers, body), seconds)
        except BadUrl as error:
            raise Refused(f"{method} {url} cannot be asked: {error}; {CHECK_ENDPOINT}") from error
        except NotConnected as error:
            raise Unreachable(f"{method} {url} got no answer: {error}") from error
        except BrokenOff as error:
            raise NoAnswer(f"{method} {url} got no answer: {error}") from error
        except Malformed as error:
            raise BadAnswer(f"{method} {url} got an answer that cannot be read: {error}; {CHECK_ENDPOINT}") from error
        finally:
            self.reached = self.reached or self._exchanger.connected
        if answer.status == http.HTTPStatus.OK:
            return answer
        if answer.status in _NOT_ALLOWED:
            raise NotAllowed(
                f"{method} {answer.url} answered {answer.status} {phrase(answer)}: {_detail(answer)}. Most likely the "
                f"Metadata Security Protocol of this VM {_NOT_ALLOWED[answer.status]}. Allow the user {self._user} the "
                f"paths {EVENTS_PATH} and {NAME_PATH} in its InVMAccessControlProfile",
                status=answer.status,
            )
        raise _status_error(method, answer, query["api-version"])


def _not_the_service(method: str, answer: Answer, expected: str, more: str = "") -> BadAnswer:
    """The error for an answer with the status 200 whose body is not what the service sends."""
    return BadAnswer(f"{method} {answer.url} answered 200 OK, but not {expected}; {CHECK_ENDPOINT}{more}", status=200)


def user_name(uid: int) -> str:
    """The name of a user; its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def without_service(error: ImdsError) -> Unreachable:
    """The error for a machine that most likely has no such service."""
    return Unreachable(
        f"{error}. Is this an Azure VM? The metadata service answers only inside one: "
        "run this on the VM itself, or set endpoint, of roles scheduled_events_endpoint, to where it is"
    )


def _status_error(method: str, answer: Answer, api_version: str) -> ImdsError:
    status = answer.status
    answered = f"{method} {answer.url} answered {status} {phrase(answer)}".rstrip()
    if status in (http.HTTPStatus.GONE, 429) or status >= 500:
        return Unavailable(f"{answered}: {_detail(answer)}", status=status)
    if 300 <= status < 400:
        location = shown(answer.headers.get("location") or "nowhere")
        reason = f"a redirect to {location}, which the metadata service never sends and is not followed"
        return Refused(f"{answered}: {reason}; check the endpoint and any proxy in front of it", status=status)
    detail, named = _version_detail(answer, api_version)
    if detail and status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.NOT_FOUND):
        return UnknownVersion(f"{answered}: {detail}", status=status, named=named)
    expected = ", where the metadata service answers 200 OK" if status < 300 else ""
    return Refused(f"{answered}: {detail or _detail(answer)}{expected}", status=status)


def _version_detail(answer: Answer, api_version: str) -> Tuple[str, List[str]]:
    """What a refusal says of the version, and the versions that it names; empty if it is about something else."""
    refusal = _json_object(answer)
    error = refusal.get("error")
    if "newest-versions" not in refusal and not (isinstance(error, str) and "api-version" in error):
        if answer.status == http.HTTPStatus.NOT_FOUND:
            return f"this host does not know the path, or not the api-version {api_version}: {_detail(answer)}", []
        return "", []
    message = f'api-version "{api_version}" is not known to this host'
    newest = refusal.get("newest-versions")
    names = [name for name in newest if isinstance(name, str)][:20] if isinstance(newest, list) else []
    return message + ("; it names as its newest " + shown(", ".join(names)) if names else ""), names


def _detail(answer: Answer) -> str:
    error = _json_object(answer).get("error")
    if isinstance(error, str) and error:
        return shown(error)
    return excerpt(answer.body) if answer.body.strip() else "without a body"


def _json_object(answer: Answer) -> Dict[str, Any]:
    decoded = _decode_json(answer.body)
    return decoded if isinstance(decoded, dict) else {}


_NOT_JSON = object()


def _decode_json(body: bytes) -> Any:
    if len(body) > MAX_JSON:
        return _NOT_JSON
    try:
        return json.loads(body.decode("utf-8-sig", "replace"), parse_int=parse_number)
    except (ValueError, RecursionError):
        return _NOT_JSON
