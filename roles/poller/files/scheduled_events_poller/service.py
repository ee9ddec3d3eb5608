# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the service, each in a thread of its own kind, so that one that hangs holds nothing else up."""

import queue
import threading
import time
from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

from _scheduled_events.approval import ApprovalFailed, approve
from _scheduled_events.client import REQUEST_TIMEOUT, ImdsClient, ImdsError, Refused
from _scheduled_events.document import Document

from . import engine
from .config import Settings

# Once the service is enabled it answers at once. Two of these (to connect, to read) still keep polls frequent.
SHORT_TIMEOUT = 2.5


class Polled(NamedTuple):
    """A document and the name of this VM."""

    document: Document
    vm_name: str


Outcome = Union[Polled, ImdsError, engine.ApprovalResult]


class Worker:
    """A thread that does one job after the other and hands the outcomes over.

    :param deliver: called in that thread with what a job returned or raised.
    """

    def __init__(self, name: str, deliver: Callable[[Any], None]) -> None:
        self._jobs: queue.Queue[Callable[[], Any]] = queue.Queue()
        self._deliver = deliver
        self._busy_since: Optional[float] = None
        # A daemon: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Callable[[], Any]) -> None:
        """Do the job as soon as those before it are done."""
        self._jobs.put(job)

    def busy_for(self) -> float:
        """Seconds for which the present job has been going on; 0 without one."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            self._busy_since = time.monotonic()
            try:
                outcome = job()
            except Exception as error:  # whatever it is, the thread lives on and the poller decides
                outcome = error
            self._busy_since = None
            self._deliver(outcome)


class Service:
    """The metadata service as the poller uses it: never asks again by itself, since the poller does.

    One object for each thread, since each keeps its own connection.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = ImdsClient(
            endpoint=settings.endpoint, api_version=settings.api_version, request_timeout=SHORT_TIMEOUT, retry_for=0
        )
        self._vm_name = settings.vm_name
        self.timeout = REQUEST_TIMEOUT

    def poll(self) -> Polled:
        """Ask once, with the patience that the enabling takes until there was a first answer.

        :raises ImdsError: there is no document, or the name of this VM is not known.
        """
        document = self._client.poll(request_timeout=self.timeout)
        self.timeout = SHORT_TIMEOUT
        if self._vm_name is None:
            self._vm_name = self._client.poll_name()
        return Polled(document, self._vm_name)

    def acknowledge(self, action: engine.Approve, config: engine.Config) -> engine.ApprovalResult:
        """Acknowledge an event if a fresh document still allows it, and tell what became of that."""
        try:
            outcome = approve(
                self._client, [action.event_id], may_approve=lambda event: engine.may_approve(event, config)
            )
        except ApprovalFailed as error:
            return _not_accepted(action, error, refused=isinstance(error.__cause__, Refused))
        except ImdsError as error:
            return _not_accepted(action, error, refused=isinstance(error, Refused))
        if outcome.approved:
            return engine.ApprovalResult(action.key, accepted=True)
        reasons: Tuple[Tuple[Any, str], ...] = (
            (outcome.already_started, "it has started already"),
            (outcome.absent, "it is gone already"),
            (outcome.skipped, "it is no longer one that may be acknowledged"),
        )
        reason = next(reason for ids, reason in reasons if ids)
        return engine.ApprovalResult(action.key, accepted=False, error=reason)


def _not_accepted(action: engine.Approve, error: Exception, *, refused: bool) -> engine.ApprovalResult:
    return engine.ApprovalResult(action.key, accepted=False, error=str(error), refused=refused)
