# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Delivers the messages of the spool: in order to each receiver, at least once, and no receiver waits for another."""

import email.utils
import http
import random
import re
import time
from enum import Enum
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Set

from _scheduled_events.clock import pause_after
from _scheduled_events.exchange import BadUrl, ExchangeFailed, Malformed
from _scheduled_events.transport import Transport

from .. import systemd
from . import request as webhook_request
from .config import Receiver
from .spool import REFUSED, UNREADABLE, Entry, Spool, SpoolError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds until the next attempt while a receiver is down
FIRST_REFUSED_PAUSE, LONGEST_REFUSED_PAUSE = 60.0, 900.0  # where an operator must correct something first
LONGEST_RETRY_AFTER = 3600.0
MOST_REFUSALS = 3  # of one message, after which it is given up
IDLE = 0.5  # seconds after which a receiver without messages looks again


class Verdict(Enum):
    """What follows from an attempt: nothing, another one, one after a correction, or none for this message."""

    DELIVERED = "delivered"
    RETRY = "retry"
    CORRECT = "correct"
    REFUSE = "refuse"


# What the same message gets again, and what another message may not get.
_OF_THE_MESSAGE = (400, 406, 411, 413, 414, 415, 416, 417, 422, 431)
_OF_THE_MOMENT = (408, 423, 425, 429)


class Outcome(NamedTuple):
    """The end of an attempt. ``text``: why it failed, for people. ``retry_after``: seconds that the receiver asks."""

    verdict: Verdict
    text: str = ""
    retry_after: float = 0.0


class Sender:
    """Sends messages to one receiver; for one thread.

    :param clock: seconds since the epoch.
    """

    def __init__(self, receiver: Receiver, *, clock: Callable[[], float] = time.time) -> None:
        self._receiver = receiver
        self._clock = clock
        self._transport = Transport(ca_file=receiver.ca_file or "", proxy=receiver.proxy or "", whole_bodies=False)

    def __call__(self, message: Mapping[str, Any]) -> Outcome:
        """Send a message once. Nothing of the answer but its status is shown, as it may repeat a secret."""
        request = webhook_request.build(self._receiver, message, now=self._clock())
        try:
            answer = self._transport.exchange(
                "POST",
                self._receiver.url,
                query={},
                headers=request.headers,
                body=request.body,
                seconds=self._receiver.timeout,
            )
        except BadUrl:
            return Outcome(Verdict.CORRECT, "its url cannot be used")
        except Malformed:  # whose text quotes the answer
            return Outcome(Verdict.RETRY, "its answer is not HTTP")
        except ExchangeFailed as error:
            return Outcome(Verdict.RETRY, self._receiver.redact(str(error)))
        return judge(answer.status, answer.headers, self._clock())


def judge(status: int, headers: Mapping[str, str], now: float) -> Outcome:
    """Return the meaning of an answer for the message.

    :param now: seconds since the epoch.
    """
    if 200 <= status < 300:
        return Outcome(Verdict.DELIVERED)
    retry_after = _retry_after(headers.get("Retry-After") or "", now)
    text = f"it answered {status} {_phrase(status)}".rstrip()
    if status in _OF_THE_MOMENT or status >= 500:
        return Outcome(Verdict.RETRY, text, retry_after)
    if status in _OF_THE_MESSAGE:
        return Outcome(Verdict.REFUSE, text, retry_after)
    if 300 <= status < 400:
        return Outcome(Verdict.CORRECT, f"{text}, a redirect, which is not followed")
    return Outcome(Verdict.CORRECT, text, retry_after)


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""


def _retry_after(value: str, now: float) -> float:
    """Seconds, from a number of them or a date; 0 if it is neither."""
    if re.match(r"[0-9]{1,9}\Z", value.strip(), re.ASCII):
        seconds = float(value)
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
        except (TypeError, ValueError, IndexError, OverflowError):
            return 0.0
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)


class Trouble(NamedTuple):
    """Why messages wait. Times are seconds since the epoch."""

    text: str
    since: float
    next_attempt: float


class Courier:
    """Takes the messages of one receiver from the spool, one after the other; each step handles one message.

    :param monotonic: seconds that no clock change moves.
    :param spread: a factor by which a pause is stretched, so that many VMs do not come back at one moment.
    """

    def __init__(
        self,
        receiver: Receiver,
        spool: Spool,
        send: Callable[[Mapping[str, Any]], Outcome],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        spread: Callable[[], float] = lambda: random.uniform(1.0, 1.25),  # noqa: S311 - no secret
    ) -> None:
        self.receiver = receiver
        self.trouble: Optional[Trouble] = None
        self._spool = spool
        self._send = send
        self._clock = clock
        self._monotonic = monotonic
        self._spread = spread
        self._next = 0.0
        self._failures = 0
        self._refused = ("", 0)  # the id of the message that was refused last, and how often
        self._waiting: List[Entry] = []  # of the last look at the spool, the oldest at the end
        self._done: Set[str] = set()  # files that are done with, and cannot be removed

    def step(self) -> float:
        """Do what there is to do now; returns the seconds until there may be more."""
        left = self._next - self._monotonic()
        if left > 0:
            return left
        entry = self._oldest()
        if entry is None:
            self.trouble = None
            return IDLE
        try:
            message = self._spool.read(entry)
        except SpoolError as error:
            self._give_up(entry, UNREADABLE, str(error))
            return 0.0
        if message is None:  # dropped meanwhile
            self._waiting.pop()
            return 0.0
        return self._take(entry, message, self._attempt(message))

    def _oldest(self) -> Optional[Entry]:
        """The next message. What comes later has a higher number, so one look at the spool is enough for a while."""
        if not self._waiting:
            own = [entry for entry in self._spool.entries() if entry.receiver == self.receiver.name]
            self._done &= {entry.file for entry in own}
            self._waiting = [entry for entry in reversed(own) if entry.file not in self._done]
        return self._waiting[-1] if self._waiting else None

    def _remove(self, remove: Callable[[], None], entry: Entry) -> None:
        """Remove a message that is done with. It is never sent again, even if its file stays."""
        self._waiting.pop()
        try:
            remove()
        except OSError as error:
            self._done.add(entry.file)
            self._log(systemd.ERROR, f"a message, id {entry.id}, cannot be removed: {error.strerror}")

    def _attempt(self, message: Mapping[str, Any]) -> Outcome:
        try:
            return self._send(message)
        except Exception as error:  # a defect, whose text may hold a secret; the next receiver must not notice
            return Outcome(Verdict.REFUSE, f"it cannot be sent: {type(error).__name__}")

    def _take(self, entry: Entry, message: Mapping[str, Any], outcome: Outcome) -> float:
        name = f"{message.get('phase')} of {message['event'].get('event_id')}"
        if outcome.verdict is Verdict.DELIVERED:
            # A crash before this line delivers it again, with the same id.
            self._remove(lambda: self._spool.remove(entry), entry)
            self._log(systemd.INFO, f"delivered {name}, id {entry.id}")
            self._better()
            return 0.0
        if outcome.verdict is Verdict.REFUSE:
            self._refused = (entry.id, self._refused[1] + 1 if self._refused[0] == entry.id else 1)
            if self._refused[1] >= MOST_REFUSALS:
                self._give_up(entry, REFUSED, f"{name}, id {entry.id}, was refused {MOST_REFUSALS} times")
                return 0.0
        return self._worse(outcome)

    def _give_up(self, entry: Entry, reason: str, text: str) -> None:
        self._log(systemd.WARNING, f"a message is dropped: {text}")
        self._remove(lambda: self._spool.give_up(entry, reason), entry)

    def _better(self) -> None:
        if self._failures:
            self._log(systemd.INFO, f"works again, after {self._failures} failed attempts")
        self._failures = 0
        self.trouble = None

    def _worse(self, outcome: Outcome) -> float:
        self._failures += 1
        first, longest = FIRST_PAUSE, LONGEST_PAUSE
        if outcome.verdict is Verdict.CORRECT:
            first, longest = FIRST_REFUSED_PAUSE, LONGEST_REFUSED_PAUSE
        pause = pause_after(self._failures - 1, first=first, longest=longest)
        pause = max(pause * self._spread(), outcome.retry_after)
        self._next = self._monotonic() + pause
        now = self._clock()
        if self.trouble is None or self.trouble.text != outcome.text:
            todo = ": correct poller_webhooks and run the role again" if outcome.verdict is Verdict.CORRECT else ""
            self._log(systemd.WARNING, f"{outcome.text}{todo}; its messages wait")
        since = now if self.trouble is None else self.trouble.since
        self.trouble = Trouble(outcome.text, since, now + pause)
        return pause

    def _log(self, level: int, text: str) -> None:
        systemd.log(level, f"webhook {self.receiver.name}: {text}")
