# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to Azure Resource Manager, from the process of Ansible, and its ids. Private to the collection."""

from __future__ import annotations

import json
import math
import re
import string
import typing as t
import urllib.error
from urllib.parse import quote

from ansible.module_utils import urls

from ...module_utils._scheduled_events.clock import CLOCK, Clock, pause_after
from ...module_utils._scheduled_events.exchange import announced_length, retry_after
from ...module_utils._scheduled_events.hidden import hide
from ...module_utils._scheduled_events.text import shown
from .._ansible.run import refuse_ended_run

# The address of Azure Resource Manager by cloud_environment. It is also what a token is for.
CLOUDS = {
    "AzureCloud": "https://management.azure.com",
    "AzureUSGovernment": "https://management.usgovcloudapi.net",
    "AzureChinaCloud": "https://management.chinacloudapi.cn",
}
THROTTLED, UNAVAILABLE, CONFLICTS = (429,), (408, 500, 502, 503, 504), (409, 412)
CONFLICT_CODES = (
    "AnotherOperationInProgress",
    "PreconditionFailed",
    "PreconditionFailedEtagMismatch",
    "ReferencedResourceNotProvisioned",
    "RetryableError",
)
# Answered as conflicts, and lasting
REFUSALS = ("MissingSubscriptionRegistration", "ReadOnlyDisabledSubscription", "ScopeLocked")
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0  # seconds, where Azure asks for no other
LONGEST_SILENCE = 60.0  # seconds for which a request without an answer is repeated
LONGEST_ASKED_PAUSE = 3600.0  # seconds; the windows of Azure's limits are an hour at most
MAX_ANSWER = 64 * 1024 * 1024  # bytes
LONGEST_TEXT = 1000  # characters of Azure in a message
RENEWED_BEFORE = 120.0  # seconds before a token expires

# The types of resources.
VM = "microsoft.compute/virtualmachines"
SCALE_SET = "microsoft.compute/virtualmachinescalesets"
INSTANCE = f"{SCALE_SET}/virtualmachines"
AVAILABILITY_SET = "microsoft.compute/availabilitysets"
INTERFACE = "microsoft.network/networkinterfaces"
INSTANCE_INTERFACE = f"{INSTANCE}/networkinterfaces"

_ID = re.compile(
    r"(?P<group>/subscriptions/[^/\s?]+/resourceGroups/[^/\s?]+)/providers/(?P<namespace>[^/\s?]+)"
    r"(?P<path>(/[^/\s?]+/[^/\s?]+)+)",
    re.IGNORECASE,
)


class ArmError(Exception):
    """Azure Resource Manager refused, or gave no answer. ``status`` is 0 and ``code`` empty where they are unknown.

    ``problem``: the text without what to do. ``asked_pause``: seconds that Azure asks to wait. ``sent``: whether a
    change may have been carried out. ``unanswered``: whether the connection gave no answer.
    """

    def __init__(
        self,
        problem: str,
        what_to_do: str = "",
        *,
        status: int = 0,
        code: str = "",
        message: str = "",
        asked_pause: float = 0.0,
    ) -> None:
        super().__init__(problem + what_to_do)
        self.problem, self.status, self.code, self.message = problem, status, code, message
        self.asked_pause = asked_pause
        self.sent = self.unanswered = False

    @property
    def throttled(self) -> bool:
        """Whether the service refused the request because of too many requests, and did nothing."""
        return self.status in THROTTLED and not self.conflict

    @property
    def conflict(self) -> bool:
        """Whether another client changes the resource, or has changed it since it was read."""
        return self.code in CONFLICT_CODES or (self.status in CONFLICTS and self.code not in REFUSALS)

    @property
    def fleeting(self) -> bool:
        """Whether the service did not work for a moment. A write may have been carried out nevertheless."""
        return self.status in UNAVAILABLE or self.unanswered


class ArmAnswer(t.NamedTuple):
    """An answer with any status. ``pause``: seconds to wait before another request, 0 if Azure asks for none."""

    status: int
    pause: float
    body: bytes


class Token(t.NamedTuple):
    """It must never be shown. ``expires_on``: seconds since the epoch."""

    text: str
    expires_on: float


def send(method: str, url: str, headers: dict[str, str], data: bytes | None, *, timeout: float) -> ArmAnswer:
    """Send a request. No redirect is followed, since the token is for this host only.

    :raises OSError: there is no answer.
    """
    try:
        try:
            response = urls.open_url(
                url,
                data=data,
                headers=headers,
                method=method,
                timeout=timeout,
                follow_redirects="none",
                use_netrc=False,  # which would replace the token
            )
        except urllib.error.HTTPError as error:
            response = error
        with response:
            pause = retry_after(response.headers.get("Retry-After"), now=CLOCK.wall())
            body = response.read(MAX_ANSWER)
            announced = announced_length(response.headers.get("Content-Length"))
            if announced not in (None, len(body)) and not response.headers.get("Content-Encoding"):
                raise OSError(f"the answer broke off after {len(body)} of {announced} bytes")
            return ArmAnswer(response.status, pause, body)
    except Exception as error:  # open_url raises many kinds, each of which means that there is no answer
        raise OSError(str(getattr(error, "reason", "") or error)) from error


class Arm:
    """Reads and writes resources, and waits as long as Azure asks when it was asked too often.

    :param host: one of :data:`CLOUDS`.
    :param token: ``token(subscription)`` gets a new one; raises :class:`ArmError`.
    :param patience: seconds after which a request that is refused for the moment fails.
    :ivar left: the seconds after which nothing may be sent any more.
    """

    def __init__(
        self,
        host: str,
        token: t.Callable[[str], Token],
        send: t.Callable[[str, str, dict[str, str], bytes | None], ArmAnswer],
        *,
        patience: float,
        left: t.Callable[[], float] = lambda: math.inf,
        clock: Clock = CLOCK,
    ) -> None:
        self._host = host
        self._get_token = token
        self._token: Token | None = None
        self._send = send
        self._patience = patience
        self.left = left
        self.clock = clock

    def read(self, url: str, api_version: str) -> dict[str, t.Any]:
        """The resource.

        :raises ArmError: it does not exist, or cannot be read.
        """
        resource = self._ask("GET", url, api_version, None, repeat_fleeting=True)
        if not isinstance(resource, dict) or not isinstance(resource.get("properties"), dict):
            raise ArmError(f"GET {url} was answered without the properties of a resource. Run it again")
        return resource

    def write(self, method: str, url: str, api_version: str, body: t.Any, *, harmless: bool = False) -> t.Any:
        """Send a request that changes something; returns the answer, or None if it is empty.

        A request that was refused because there were too many is repeated, since it was not carried out. A request that
        failed temporarily may have been carried out.

        :param harmless: whether to repeat that one, too.
        :raises ArmError: it was refused, or whether it was carried out is unknown.
        """
        return self._ask(method, url, api_version, body, repeat_fleeting=harmless)

    def _ask(self, method: str, url: str, api_version: str, body: t.Any, *, repeat_fleeting: bool) -> t.Any:
        began, failures, has_new_token = self.clock.monotonic(), 0, False
        while True:
            try:
                return self._exchange(method, url, api_version, body)
            except ArmError as error:
                if error.status == 401 and not has_new_token:  # revoked, or expired by the clock of Azure
                    self._token, has_new_token = None, True
                    continue
                passes = error.fleeting or error.code in CONFLICT_CODES
                if not (error.throttled or (repeat_fleeting and passes)):
                    raise
                pause = error.asked_pause or pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                patience = min(self._patience, LONGEST_SILENCE) if error.unanswered else self._patience
                if pause > began + patience - self.clock.monotonic() or pause >= self.left():
                    raise
            self.clock.sleep(pause)
            failures += 1

    def _exchange(self, method: str, url: str, api_version: str, body: t.Any) -> t.Any:
        if self._token is None or self.clock.wall() > self._token.expires_on - RENEWED_BEFORE:
            self._token = self._get_token(url.split("/")[2])
        headers = {"Authorization": f"Bearer {self._token.text}", "Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
            resource = azure_id(url)
            if resource and resource.kind == INSTANCE and body.get("etag"):
                headers["If-Match"] = body["etag"]  # resources of Microsoft.Network compare that of the body
        request = f"{method} {url}"
        if not url.startswith("/"):  # it would go to another host, with the token
            raise ArmError(f"{request}: expected a path. Correct the id of the resource")
        refuse_ended_run()  # the next run may have put the host back
        try:
            path = quote(url, safe=string.punctuation)  # Azure allows all letters in the name of a resource group
            answer = self._send(method, f"{self._host}{path}?api-version={api_version}", headers, data)
        except OSError as error:
            unanswered = ArmError(f"{request}: {self._host} gave no answer: {self._shown(str(error))}")
            unanswered.unanswered = True
            raise unanswered from error
        try:
            content = json.loads(answer.body) if answer.body else None
        except (ValueError, RecursionError):
            content = answer.body[:300].decode("utf-8", "replace")
            if answer.status < 300:
                raise ArmError(
                    f"{request} was answered {answer.status}, and with {self._shown(content)!r}, expected JSON"
                ) from None
        if 200 <= answer.status < 300 and answer.status != 207:  # some of several parts failed
            return content
        raise _error_of(answer, content, request, self._shown)

    def _shown(self, text: str) -> str:
        """A text from outside, which may quote the request, for a message. It has no part of the token."""
        return shown(hide(text, [self._token.text] if self._token else []), LONGEST_TEXT)


def _error_of(answer: ArmAnswer, content: t.Any, request: str, show: t.Callable[[str], str]) -> ArmError:
    error = content.get("error", content) if isinstance(content, dict) else {"message": content}
    error = error if isinstance(error, dict) else {}
    details = error.get("details")
    details = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    code, messages = show(str(error.get("code") or "")), [str(error.get("message") or "")]
    messages += [f"{each.get('code', '')}: {each.get('message', '')}" for each in details]
    message = show(" ".join(filter(None, messages)))
    what_to_do = ". Remove the cause, and run it again"
    if answer.status == 401:
        what_to_do = ". Check the identity of the control node, its tenant and its cloud_environment"
    elif answer.status == 403 and code.endswith("AuthorizationFailed"):
        what_to_do = ". Give the identity of the control node the role that the guide shows"
    elif answer.status == 404:
        what_to_do = ". Correct the id of the resource"
    elif answer.status in (*THROTTLED, *CONFLICTS) and code not in REFUSALS:
        what_to_do = ". Run it again later"
        if answer.pause:
            what_to_do = f". Azure asks for {answer.pause:.0f} s without requests. Run it again after that time"
    elif answer.status in UNAVAILABLE:
        what_to_do = ". Run it again when Azure works again"
    return ArmError(
        f"{request} was answered {answer.status}: {f'{code} {message}'.strip()}".rstrip(" .:"),
        what_to_do,
        status=answer.status,
        code=code,
        message=message,
        asked_pause=min(answer.pause, LONGEST_ASKED_PAUSE),
    )


class AzureId(t.NamedTuple):
    """An id of a resource.

    ``kind``: its type in lower case, such as :data:`INSTANCE`; ``names``: one for each part of the type.
    """

    text: str
    kind: str
    names: tuple[str, ...]

    @property
    def parent(self) -> AzureId:
        """The resource that this one is a part of. A resource of its own has none."""
        return AzureId(self.text.rsplit("/", 2)[0], self.kind.rpartition("/")[0], self.names[:-1])


def azure_id(text: str) -> AzureId | None:
    """The id, or None if the text is not the id of a resource in a resource group."""
    found = _ID.fullmatch(text)
    if not found:
        return None
    parts = found["path"].split("/")[1:]
    kind = "/".join([found["namespace"], *parts[::2]]).lower()
    return AzureId(text, kind, tuple(parts[1::2]))
