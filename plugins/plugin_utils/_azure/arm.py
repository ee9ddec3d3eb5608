# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Resource Manager, through the modules of azure.azcollection. Private to the collection.

The modules C(azure_rm_resource) and C(azure_rm_resource_info) return the body of an answer and neither its status nor
its headers, and what they do not expect ends them with the exception SendRequestException, which shows both body and
status. So this reads status and code of an error from what the module said, and the pause that Azure asks for from the
message of the answer, which repeats the header Retry-After.
"""

from __future__ import annotations

import ast
import json
import re
import time
import typing as t

from ...module_utils._scheduled_events.clock import pause_after

READ, WRITE = "azure.azcollection.azure_rm_resource_info", "azure.azcollection.azure_rm_resource"
INSTALL = (
    "the collection azure.azcollection is not installed on the control node. Install it with "
    '"ansible-galaxy collection install azure.azcollection", and the Python packages that it needs'
)
THROTTLED, UNAVAILABLE, CONFLICTS = (429,), (408, 500, 502, 503, 504), (409, 412)
CONFLICT_CODES = (
    "AnotherOperationInProgress",
    "PreconditionFailed",
    "PreconditionFailedEtagMismatch",
    "ReferencedResourceNotProvisioned",
    "RetryableError",
)
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0  # seconds, where Azure asks for no other
LONGEST_ASKED_PAUSE = 3600.0  # seconds; the windows of Azure's limits are an hour at most

_BEGIN, _END = re.compile(r"\(['\"]"), re.compile(r"['\"], (\d{3})\)")
_PAUSE = re.compile(
    r"(?:try again after|retry after|retry-after\W+)\s*'?(\d+)'?\s*(second|minute|hour)?", re.IGNORECASE
)


class ArmError(Exception):
    """Azure Resource Manager refused, or gave no answer. ``status`` is 0 and ``code`` empty where they are unknown."""

    def __init__(self, text: str, *, status: int = 0, code: str = "", message: str = "") -> None:
        super().__init__(text)
        self.status, self.code, self.message = status, code, message

    @property
    def throttled(self) -> bool:
        """Whether the service refused the request because of too many requests, and did nothing."""
        return self.status in THROTTLED and not self.conflict

    @property
    def conflict(self) -> bool:
        """Whether another client changes the resource, or has changed it since it was read."""
        return self.status in CONFLICTS or self.code in CONFLICT_CODES

    @property
    def fleeting(self) -> bool:
        """Whether the service did not work for a moment. A write may have been carried out nevertheless."""
        return self.status in UNAVAILABLE

    @property
    def asked_pause(self) -> float | None:
        """The seconds that Azure asks to wait."""
        found = _PAUSE.search(self.message)
        if not found:
            return None
        unit = {"minute": 60, "hour": 3600}.get((found[2] or "").lower(), 1)
        return min(float(found[1]) * unit, LONGEST_ASKED_PAUSE)


class Arm:
    """Reads and writes resources, and waits as long as Azure asks when it was asked too often.

    :param run: ``run(module, arguments)`` gives the result of a module, or raises an error of ``errors`` with what the
        module said.
    :param credentials: options that every module of azure.azcollection has.
    :param patience: seconds after which a request that is refused for the moment fails.
    """

    def __init__(
        self,
        run: t.Callable[[str, dict[str, t.Any]], dict[str, t.Any]],
        *,
        errors: type[Exception],
        credentials: t.Mapping[str, t.Any],
        patience: float,
        clock: t.Callable[[], float] = time.monotonic,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run
        self._errors = errors
        self._credentials = dict(credentials)
        self._patience = patience
        self.clock = clock
        self.sleep = sleep

    def read(self, url: str, api_version: str) -> dict[str, t.Any]:
        """The resource.

        :raises ArmError: it does not exist, or cannot be read.
        """
        result = self._ask(READ, f"GET {url}", {"url": url, "api_version": api_version}, repeat_fleeting=True)
        found = result.get("response") or [{}]
        body = found[0] if isinstance(found, list) else found
        if result.get("status_code", 200) == 404 or "error" in body:
            raise _error_of(body, int(result.get("status_code", 0)), f"GET {url}")
        return dict(body)

    def write(
        self,
        method: str,
        url: str,
        api_version: str,
        body: t.Any,
        *,
        statuses: t.Sequence[int] = (200, 201, 202),
        harmless: bool = False,
    ) -> t.Any:
        """Send a request that changes something; returns the answer.

        A request that was refused because there were too many is repeated, since it was not carried out. A request that
        failed temporarily may have been carried out.

        :param harmless: whether to repeat that one, too.
        :raises ArmError: it was refused, or whether it was carried out is unknown.
        """
        arguments = {"url": url, "api_version": api_version, "method": method, "status_code": list(statuses)}
        return self._ask(WRITE, f"{method} {url}", {**arguments, "body": body}, repeat_fleeting=harmless).get(
            "response"
        )

    def _ask(
        self, module: str, request: str, arguments: dict[str, t.Any], *, repeat_fleeting: bool
    ) -> dict[str, t.Any]:
        give_up_at, failures = self.clock() + self._patience, 0
        while True:
            try:
                return self._run(module, {**self._credentials, **arguments})
            except self._errors as failure:
                error = error_in(str(failure), request)
            rest = give_up_at - self.clock()
            if not (error.throttled or (repeat_fleeting and error.fleeting)):
                raise error
            pause = pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            if error.asked_pause is not None:
                pause = max(1.0, error.asked_pause)
            if pause > rest:
                raise error
            self.sleep(pause)
            failures += 1


def error_in(text: str, request: str) -> ArmError:
    """The error that a module of azure.azcollection ended with."""
    answer = _answer_in(text)
    if answer:
        raw, status = answer
        try:
            return _error_of(json.loads(raw), status, request)
        except ValueError:
            return ArmError(f"{request} was answered {status}: {raw[:300]}", status=status)
    if "was not found in configured module paths" in text or "couldn't resolve module" in text:
        return ArmError(INSTALL)
    return ArmError(f"{request}: {text}")


def _answer_in(text: str) -> tuple[str, int] | None:
    """The body and the status with which SendRequestException was raised. A traceback may stand before.

    The modules give the status nowhere else. With each status in the option ``status_code``, azure_rm_resource would
    return the body of an error without its status, which 429 and 503 need not repeat in the body.
    """
    for end in reversed(list(_END.finditer(text))):
        for begin in _BEGIN.finditer(text, 0, end.start()):
            try:
                raw, status = ast.literal_eval(text[begin.start() : end.end()])
            except (ValueError, SyntaxError, TypeError):
                continue
            if isinstance(raw, str) and isinstance(status, int):
                return raw, status
    return None


def _error_of(body: t.Any, status: int, request: str) -> ArmError:
    error = body.get("error", body) if isinstance(body, dict) else {}
    error = error if isinstance(error, dict) else {}
    details = [each for each in error.get("details") or [] if isinstance(each, dict)]
    code, messages = str(error.get("code") or ""), [str(error.get("message") or "")]
    messages += [f"{each.get('code', '')}: {each.get('message', '')}" for each in details]
    message = " ".join(filter(None, messages))
    what_to_do = ""
    if status in (401, 403):
        what_to_do = ". Give the identity of the control node the role that the guide shows"
    elif status == 404:
        what_to_do = ". Correct the id of the resource"
    return ArmError(
        f"{request} was answered {status or 'with an error'}: {code} {message}".strip().rstrip(".") + what_to_do,
        status=status,
        code=code,
        message=message,
    )
