# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wait until events are there, or gone, through failing polls."""

import time
from typing import Callable, NamedTuple, Optional, Tuple

from .client import LONGEST_PAUSE, REQUEST_TIMEOUT, ImdsClient, ImdsError, Refused
from .document import Document, Filter, ScheduledEvent, format_time

SHORTEST_REQUEST_TIMEOUT = 1.0  # so that the last poll before the time-out has a chance


class Waited(NamedTuple):
    """What a wait saw last: a document, the events in it that were asked for, and after how many seconds."""

    document: Document
    events: Tuple[ScheduledEvent, ...]
    elapsed: float


class WaitTimeout(Exception):
    """The state did not come about, or did not hold for long enough, in time."""

    def __init__(self, message: str, *, last: Optional[Waited], elapsed: float) -> None:
        super().__init__(message)
        self.last = last
        self.elapsed = elapsed


def wait(
    client: ImdsClient,
    wanted: Callable[[], Filter],
    *,
    present: bool,
    timeout: float,
    sleep: float = 1.0,
    stable_for: float = 0.0,
    request_timeout: float = REQUEST_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Waited:
    """Poll until there is an event that ``wanted`` selects, or until there is none.

    A failed poll says nothing about the events: it neither brings the state about nor ends it.

    :param wanted: gives the filter; called at each poll, since it may have to ask the service for the VM's name.
    :param present: whether to wait for an event; otherwise for none.
    :param timeout: seconds after which to give up.
    :param sleep: seconds between two polls; after failing ones it grows up to 5 seconds.
    :param stable_for: seconds for which the state must hold, from one successful poll to another.
    :param request_timeout: seconds for one answer, never beyond the time-out of the wait.
    :raises WaitTimeout: the state does not hold in time.
    :raises Refused: the service refuses the first request, as it would all others.
    """
    started = clock()
    gap = sleep
    last: Optional[Waited] = None
    failure: Optional[ImdsError] = None
    held_since: Optional[float] = None
    while True:
        remaining = started + timeout - clock()
        try:
            document = client.poll(request_timeout=min(request_timeout, max(remaining, SHORTEST_REQUEST_TIMEOUT)))
            events = wanted().select(document)
        except ImdsError as error:
            if isinstance(error, Refused) and last is None:
                raise
            failure, gap = error, min(gap * 2, max(sleep, LONGEST_PAUSE))
        else:
            failure, gap = None, sleep
            last = Waited(document, events, clock() - started)
            if bool(events) != present:
                held_since = None
            elif held_since is None:
                held_since = clock()
            if held_since is not None and clock() - held_since >= stable_for:
                return last
        elapsed = clock() - started
        if elapsed >= timeout:
            held = None if held_since is None else clock() - held_since
            message = _complaint(last, failure, held=held, present=present, timeout=timeout, stable_for=stable_for)
            raise WaitTimeout(message, last=last, elapsed=elapsed)
        pause(min(gap, timeout - elapsed))


def _complaint(
    last: Optional[Waited],
    failure: Optional[ImdsError],
    *,
    held: Optional[float],
    present: bool,
    timeout: float,
    stable_for: float,
) -> str:
    if last is None:
        seen = "no document could be read"
    elif held is not None:
        state = "present" if present else "absent"
        seen = f"the events asked for are {state} for {held:.0f} of {stable_for:g} seconds only"
    elif present:
        seen = f"no such event; the document {last.document.incarnation} holds {_list(last.document.events)}"
    else:
        seen = f"still there: {_list(last.events)}"
    ending = f"; the last poll failed: {failure}" if failure else ""
    return f"Time-out after {timeout:g} seconds: {seen}{ending}"


def _list(events: Tuple[ScheduledEvent, ...]) -> str:
    return "; ".join(_line(event) for event in events) or "no events"


def _line(event: ScheduledEvent) -> str:
    not_before = f", NotBefore {format_time(event.not_before)}" if event.not_before else ""
    resources = ", ".join(event.resources) or "no VM"
    return f"{event.event_type} {event.event_id} ({event.event_status}{not_before}) of {resources}"
