# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wait until events are present, or gone, through failing polls."""

from typing import Callable, NamedTuple, Optional, Tuple

from .client import (
    FIRST_CONTACT,
    LONGEST_PAUSE,
    POLL_TIMEOUT,
    REQUEST_TIMEOUT,
    ImdsClient,
    ImdsError,
    NoAnswer,
    NotAllowed,
    Refused,
    without_service,
)
from .clock import CLOCK, Clock, pause_after
from .document import Document, Filter, ScheduledEvent, format_time

SHORTEST_REQUEST_TIMEOUT = 1.0  # so that the last poll before the timeout has a chance
SHORTEST_NAME_TIMEOUT = 0.1  # for the name, after a poll that used up all of it


class Waited(NamedTuple):
    """The last view of a wait: a document, the matching events in it, and the seconds since the start."""

    document: Document
    events: Tuple[ScheduledEvent, ...]
    elapsed: float


class WaitTimeout(Exception):
    """The state did not come about, or did not hold for long enough, in time."""

    def __init__(self, message: str, *, last: Optional[Waited], elapsed: float) -> None:
        super().__init__(message)
        self.last = last
        self.elapsed = elapsed


class Wait:
    """Polls until there is an event that ``wanted`` selects, or until there is none.

    A failed poll says nothing about the events: it neither brings the state about nor ends it.

    :param wanted: gives the filter; called at each poll with the seconds that it may take, since it may have to ask
        the service for the VM's name.
    :param present: whether to wait for an event; otherwise for none.
    :param timeout: seconds after which to give up.
    :param sleep: seconds between two polls; after failing ones it grows up to 5 seconds.
    :param stable_for: seconds for which the state must hold, from one successful poll to another.
    :param request_timeout: seconds for one answer, at most a second beyond the timeout of the wait.
    :param retry_for: seconds for which polls may fail in a row; by default until the timeout.
    """

    def __init__(
        self,
        client: ImdsClient,
        wanted: Callable[[float], Filter],
        *,
        present: bool,
        timeout: float,
        sleep: float = 1.0,
        stable_for: float = 0.0,
        request_timeout: float = REQUEST_TIMEOUT,
        retry_for: Optional[float] = None,
        clock: Clock = CLOCK,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._present = present
        self._timeout = timeout
        self._sleep = sleep
        self._stable_for = stable_for
        self._request_timeout = request_timeout
        self._retry_for = timeout if retry_for is None else retry_for
        self._clock = clock
        self._started = clock.monotonic()
        self._failing_since: Optional[float] = None
        self._failure: Optional[ImdsError] = None
        self._failures = 0  # in a row
        self._cut_short = False
        self._document_read = False
        self._held_since: Optional[float] = None
        self._gap = sleep  # seconds until the next poll
        self._last: Optional[Waited] = None  # what the last poll that succeeded saw

    def run(self) -> Waited:
        """Wait.

        :raises WaitTimeout: the state does not hold in time, or polls fail for longer than ``retry_for``.
        :raises Refused, NotAllowed: the service refuses a request before any succeeded, as it would all others.
        :raises Unreachable: there never was a connection, for a few seconds.
        """
        while True:
            waited = self._poll()
            if waited:
                return waited
            elapsed = self._elapsed()
            limit = self._limit_reached()
            if limit:
                ending = f"; the last request failed: {self._failure}" if self._failure else ""
                raise WaitTimeout(f"{limit}: {self._seen()}{ending}", last=self._last, elapsed=elapsed)
            self._clock.sleep(min(self._gap, self._timeout - elapsed))

    def _elapsed(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._started

    def _poll(self) -> Optional[Waited]:
        """Ask once; return what was seen if the state holds, for as long as it has to.

        :raises ImdsError: waiting cannot help.
        """
        began = self._clock.monotonic()
        try:
            document, events = self._ask()
        except ImdsError as error:
            if self._failing_since is None:
                self._failing_since = began
            self._fail(error)
            return None
        self._failing_since, self._failure, self._failures, self._gap = None, None, 0, self._sleep
        self._last = Waited(document, events, self._elapsed())
        if bool(events) != self._present:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = self._clock.monotonic()
        holds = self._held_since is not None and self._clock.monotonic() - self._held_since >= self._stable_for
        return self._last if holds else None

    def _ask(self) -> Tuple[Document, Tuple[ScheduledEvent, ...]]:
        # One limit for both requests, so that the second one does not carry the wait further beyond its timeout.
        available = max(self._timeout - self._elapsed(), SHORTEST_REQUEST_TIMEOUT)
        ends = self._clock.monotonic() + available
        patience = min(POLL_TIMEOUT, self._request_timeout) if self._document_read else self._request_timeout
        self._cut_short = available < patience
        document = self._client.poll(request_timeout=min(patience, available))
        self._document_read = True
        left = max(ends - self._clock.monotonic(), SHORTEST_NAME_TIMEOUT)
        return document, self._wanted(min(patience, left)).select(document)

    def _fail(self, error: ImdsError) -> None:
        if isinstance(error, (NotAllowed, Refused)) and self._last is None:
            raise error
        # Silence within the rest of the wait says less about the service than the failure before it.
        if not (self._failure and self._cut_short and isinstance(error, NoAnswer)):
            self._failure = error
        self._failures += 1
        self._gap = pause_after(self._failures, first=self._sleep, longest=LONGEST_PAUSE)
        if self._client.is_missing(error):
            left = min(FIRST_CONTACT, self._timeout, self._retry_for) - self._elapsed()
            if left <= 0:
                raise without_service(error) from error
            self._gap = min(self._gap, left)
        self._gap = min(self._gap, max(self._retry_for - self._failing_for(), 0))

    def _failing_for(self) -> float:
        return 0.0 if self._failing_since is None else self._clock.monotonic() - self._failing_since

    def _limit_reached(self) -> Optional[str]:
        """The limit that ends the wait now, if any."""
        if self._elapsed() >= self._timeout:
            return f"Timeout after {self._timeout:g} seconds"
        if self._failing_for() >= self._retry_for:
            return f"Polls failed for {self._retry_for:g} seconds, the limit that retry_for sets"
        return None

    def _seen(self) -> str:
        """Why the wait ends without its state."""
        if self._last is None:
            return "the name of this VM could not be read" if self._document_read else "no document could be read"
        if self._held_since is not None:
            state, held = "present" if self._present else "absent", self._clock.monotonic() - self._held_since
            return f"the events asked for are {state} for {held:.0f} of {self._stable_for:g} seconds only"
        if self._present:
            held_by = self._last.document
            return f"no such event; the document {held_by.incarnation} holds {_list(held_by.events)}"
        return f"still there: {_list(self._last.events)}"


def _list(events: Tuple[ScheduledEvent, ...]) -> str:
    return "; ".join(_line(event) for event in events) or "no events"


def _line(event: ScheduledEvent) -> str:
    not_before = f", NotBefore {format_time(event.not_before)}" if event.not_before else ""
    resources = ", ".join(event.resources) or "no VM"
    return f"{event.event_type} {event.event_id} ({event.event_status}{not_before}) of {resources}"
