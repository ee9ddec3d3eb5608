# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the service, each kind in a separate thread, so that a hanging request delays nothing else."""

import functools
import queue
import threading
from typing import Any, Callable, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from _scheduled_events import terms
from _scheduled_events.approval import acknowledge
from _scheduled_events.client import REQUEST_TIMEOUT, ImdsClient, ImdsError
from _scheduled_events.clock import Clock
from _scheduled_events.document import Document

from .config import Settings
from .endpoint_resolver import EndpointResolver

# Once the service is enabled it answers at once, so a request that takes longer is repeated rather than waited for.
SHORT_TIMEOUT = 2.5

# Seconds from the end of an attempt to acknowledge to the next one. Each takes two requests, and the service throttles
# at about five requests a second, polls included (docs/contract.md, section 5).
ACKNOWLEDGE_GAP = 0.5

NAME_GAP = 60.0  # seconds between two questions for the name of this VM, each of which can make a poll late


class Polled(NamedTuple):
    """A document and the name of this VM. ``misnamed``: a warning if the service gives it another name."""

    document: Document
    vm_name: str
    misnamed: str = ""


class Worker:
    """A thread that does one job at a time and hands over what it returned. A job raises nothing.

    :param deliver: called in that thread.
    """

    def __init__(self, name: str, deliver: Callable[[Any], None], clock: Clock) -> None:
        self._clock = clock
        self._jobs: queue.Queue[Callable[[], Any]] = queue.Queue()
        self._deliver = deliver
        self._busy_since: Optional[float] = None
        # A daemon, since a hanging request must not prevent the process from ending.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Callable[[], Any]) -> None:
        """Do the job. The caller waits for the end of the one before."""
        self._busy_since = self._clock.monotonic()
        self._jobs.put(job)

    def busy_for(self) -> float:
        """Seconds for which the present job has been going on; 0 without one."""
        since = self._busy_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def _work(self) -> None:
        while True:
            outcome = self._jobs.get()()
            self._busy_since = None
            self._deliver(outcome)


class Source(NamedTuple):
    """What all threads share: where the service is, and the directory in which a drill announces its event."""

    settings: Settings
    resolver: EndpointResolver
    drill: str


class Service:
    """The metadata service as the poller uses it: it never repeats a request by itself, since the poller does.

    One object for each thread, since each keeps its own connection.

    :param timeout: seconds for one answer.
    """

    def __init__(self, source: Source, clock: Clock, *, timeout: float = SHORT_TIMEOUT) -> None:
        self._source, self._clock = source, clock
        self._vm_name = source.settings.vm_name
        self._misnamed = None if self._vm_name else ""  # None: not known
        self._name_due = 0.0
        self._timeout = timeout
        self._client: Optional[ImdsClient] = None

    def connected(self) -> ImdsClient:
        """The client of the service, wherever that is now.

        :raises ImdsError: it cannot be found.
        """
        endpoint = self._source.resolver.endpoint()
        if self._client is None or self._client.endpoint != endpoint:
            if self._client is not None:
                self._client.close()
            self._client = ImdsClient(
                endpoint=endpoint,
                api_version=self._source.settings.api_version,
                request_timeout=self._timeout,
                retry_for=0,
                drill_directory=self._source.drill,
            )
        return self._client

    def poll(self) -> Polled:
        """Ask once.

        :raises ImdsError: there is no document, or the name of this VM is not known.
        """
        client = self.connected()
        try:
            document = client.poll()
            if self._vm_name is None:
                self._vm_name = client.poll_name()
            if self._misnamed is None and self._clock.monotonic() >= self._name_due:
                self._name_due = self._clock.monotonic() + NAME_GAP
                self._misnamed = client.other_name(self._vm_name, SHORT_TIMEOUT)
        except ImdsError:
            self._source.resolver.failed()
            raise
        self._source.resolver.succeeded()
        return Polled(document, self._vm_name, self._misnamed or "")


class Polling:
    """Polls, and asks a second time with patience while there is no document.

    The first request can take two minutes (docs/contract.md, section 6). It must not make a poller blind that was only
    restarted, so short requests go on beside it.

    :param deliver: called in the thread of a worker with a :class:`PollEnded`.
    :ivar busy: whether a poll is under way.
    """

    def __init__(self, source: Source, deliver: Callable[[Any], None], clock: Clock) -> None:
        self._clock = clock
        self._worker = Worker("poll", deliver, clock)
        self._patient_worker = Worker("patient poll", deliver, clock)
        self.connect(source)

    def connect(self, source: Source) -> None:
        """Use these settings from now on. What older requests bring is not current."""
        self._service = Service(source, self._clock)
        self._patient_service = Service(source, self._clock, timeout=REQUEST_TIMEOUT)
        self.busy = self._asked_patiently = False

    def busy_for(self) -> float:
        """Seconds for which the present poll has been going on."""
        return self._worker.busy_for()

    def ask(self) -> None:
        """Poll."""
        self.busy = True
        self._worker.submit(functools.partial(_poll, self._service, self._clock))

    def ask_patiently(self) -> None:
        """Poll with patience beside the others, unless such a request is under way."""
        if self._asked_patiently or self._patient_worker.busy_for() > 0:
            return
        self._asked_patiently = True
        self._patient_worker.submit(functools.partial(_poll, self._patient_service, self._clock))

    def end(self, ended: "PollEnded") -> Optional[str]:
        """Note the end of a request; returns its kind, or ``None`` for one of earlier settings."""
        if ended.service is self._service:
            self.busy = False
            return "poll"
        if ended.service is self._patient_service:
            self._asked_patiently = False
            return "patient"
        return None


class PollEnded(NamedTuple):
    """The end of a poll that began at ``began``, in monotonic seconds. ``problem``: why nothing was read."""

    service: Service
    began: float
    polled: Optional[Polled]
    problem: str = ""


def _poll(service: Service, clock: Clock) -> PollEnded:
    began = clock.monotonic()
    try:
        return PollEnded(service, began, service.poll())
    except Exception as error:  # of the library's kinds; any other error is reported, and polling continues
        return PollEnded(service, began, None, str(error) or repr(error))


def _decisions(actions: Sequence[terms.Approve]) -> FrozenSet[Tuple[str, Optional[str], str]]:
    """Return the events that the actions acknowledge, with the decision for each."""
    return frozenset((action.key, action.event_type, action.decision) for action in actions)


class Acknowledger:
    """Acknowledges events: one attempt at a time, and no queue, since the engine repeats what it wants.

    :param deliver: called in the thread of the worker with the results of an attempt.
    """

    def __init__(self, source: Source, deliver: Callable[[Any], None], clock: Clock) -> None:
        self._clock = clock
        self._worker = Worker("acknowledge", deliver, clock)
        self._attempt: Optional[object] = None
        self._tried: FrozenSet[Tuple[str, Optional[str], str]] = frozenset()
        self._next = 0.0
        self.connect(source)

    def connect(self, source: Source) -> None:
        """Use these settings from now on."""
        self._service = Service(source, self._clock)
        self.drop()

    def drop(self) -> None:
        """Send nothing more of what was decided until now."""
        self._wanted: Optional[object] = None

    @property
    def next_attempt(self) -> Optional[float]:
        """Monotonic seconds at which an attempt is possible; ``None`` while one is under way."""
        return None if self._attempt is not None else self._next

    def busy_for(self) -> float:
        """Seconds for which the present attempt has been going on."""
        return self._worker.busy_for()

    def offer(self, actions: Sequence[terms.Approve], config: terms.Config) -> None:
        """Acknowledge all the events in one request, unless an attempt is under way or one has just ended.

        An attempt under way sends nothing any more if it is for an event that is not among the actions.

        :param actions: all that the engine's latest step wants, so none if it wants nothing.
        """
        if self._attempt is not None:
            if not self._tried <= _decisions(actions):
                self.drop()
            return
        if not actions or self._clock.monotonic() < self._next:
            return
        chosen = [action for action in actions if not action.alone] or actions[:1]
        attempt = object()
        self._attempt = self._wanted = attempt
        self._tried = _decisions(chosen)
        self._worker.submit(functools.partial(self._try, chosen, config, attempt))

    def _try(
        self, actions: Sequence[terms.Approve], config: terms.Config, attempt: object
    ) -> List[terms.ApprovalResult]:
        try:
            client = self._service.connected()
            return acknowledge(client, actions, config, still_wanted=lambda: self._wanted is attempt)[0]
        except Exception as error:  # reported like any failed attempt, and tried again
            problem = str(error) or repr(error)
            return [terms.ApprovalResult(action.key, accepted=False, error=problem) for action in actions]

    def end(self) -> None:
        """Note the end of the attempt."""
        self._attempt = None
        self._next = self._clock.monotonic() + ACKNOWLEDGE_GAP
