# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Delivers the messages of the spool: in order to each receiver, at least once, and no receiver waits for another.

The unit runs as long as a message waits, and shows its progress in a file.
"""

import contextlib
import json
import os
import signal
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock, pause_after
from _scheduled_events.files import write_atomically

from .. import systemd
from . import delivery_status
from .formats import build
from .messages import REFUSED, UNREADABLE, Entry, MessageSpool, SpoolError
from .request import Declined, Failed, Rejected, Requests, spread
from .settings import Receiver, load_receivers

# Seconds until the next attempt while a receiver is down, and where an operator must correct something first.
PAUSES = (1.0, 300.0)
PAUSES_REFUSED = (60.0, 900.0)
LONGEST_RETRY_AFTER = 3600.0
MOST_REFUSALS = 3  # of one message, after which it is given up
IDLE = 0.5  # seconds after which a receiver without messages looks again

PAUSE = 0.5  # seconds between two looks at spool and configuration
HEARTBEAT = 10.0  # seconds between two status files when nothing changes
DEFECT_PAUSE = 5.0
GRACE = 8.0  # seconds for which a request that runs may end when the unit stops


class Trouble(NamedTuple):
    """Why messages wait. Times are seconds since the epoch."""

    text: str
    since: float
    next_attempt: float


class Courier:
    """Takes the messages of one receiver from the spool, one after the other; each step handles one message.

    :param spread: see :func:`.request.spread`.
    """

    def __init__(
        self,
        receiver: Receiver,
        spool: MessageSpool,
        *,
        clock: Clock = CLOCK,
        spread: Callable[[], float] = spread,
    ) -> None:
        self.receiver = receiver
        self.trouble: Optional[Trouble] = None
        self._spool = spool
        self._clock = clock
        self._spread = spread
        self._requests = Requests(
            receiver.secrets(),
            reads=False,
            longest_pause=LONGEST_RETRY_AFTER,
            ca_file=receiver.ca_file,
            proxy=receiver.proxy,
            clock=clock,
        )
        self._next = 0.0
        self._failures = 0
        self._refusals: Dict[str, int] = {}  # of the message that was refused last, by its id
        self._waiting: List[Entry] = []  # of the last look at the spool, the oldest at the end
        self._done: Set[str] = set()  # files that are done with, and cannot be removed

    def step(self) -> float:
        """Do what there is to do now; returns the seconds until there may be more."""
        left = self._next - self._clock.monotonic()
        if left > 0:
            return left
        entry = self._oldest()
        if entry is None:
            self.trouble = None
            return IDLE
        try:
            message = self._spool.read(entry)
        except SpoolError as error:
            return self._give_up(entry, UNREADABLE, str(error))
        if message is None:  # dropped meanwhile
            self._waiting.pop()
            return 0.0
        name = f"{message.get('phase')} of {message['event'].get('event_id')}, id {entry.id}"
        try:
            self._send(message)
        except Failed as error:
            failure = error
        except Exception as error:  # a defect, whose text may hold a secret; the next receiver must not notice
            failure = Rejected(f"it cannot be sent: {type(error).__name__}")
        else:
            # A crash before this line delivers it again, with the same id.
            self._remove(lambda: self._spool.remove(entry), entry)
            self._log(systemd.INFO, f"delivered {name}")
            return self._better()
        if isinstance(failure, Rejected):
            self._refusals = {entry.id: self._refusals.get(entry.id, 0) + 1}
            if self._refusals[entry.id] >= MOST_REFUSALS:
                return self._give_up(entry, REFUSED, f"{name}, was refused {MOST_REFUSALS} times")
        return self._worse(failure)

    def _oldest(self) -> Optional[Entry]:
        """The next message. What comes later has a higher number, so one look at the spool is enough for a while."""
        if not self._waiting:
            own = [entry for entry in self._spool.entries() if entry.receiver == self.receiver.name]
            for entry in own:
                if entry.file in self._done:
                    with contextlib.suppress(OSError):  # the disk may work again
                        self._spool.remove(entry)
            self._done &= {entry.file for entry in own}
            self._waiting = [entry for entry in reversed(own) if entry.file not in self._done]
        return self._waiting[-1] if self._waiting else None

    def _send(self, message: Mapping[str, Any]) -> None:
        request = build(self.receiver, message, now=self._clock.wall())
        self._requests.send(request, self.receiver.request_timeout)

    def _remove(self, remove: Callable[[], None], entry: Entry) -> None:
        """Remove a message that is done with. It is never sent again, even if its file stays."""
        self._waiting.pop()
        try:
            remove()
        except OSError as error:
            self._done.add(entry.file)
            self._log(systemd.ERROR, f"a message, id {entry.id}, cannot be removed: {error.strerror}")

    def _give_up(self, entry: Entry, reason: str, text: str) -> float:
        self._log(systemd.WARNING, f"a message is dropped: {text}")
        self._remove(lambda: self._spool.give_up(entry, reason), entry)
        return 0.0

    def _better(self) -> float:
        if self._failures:
            self._log(systemd.INFO, f"works again, after {self._failures} failed attempts")
        self._failures = 0
        self.trouble = None
        return 0.0

    def _worse(self, failure: Failed) -> float:
        self._failures += 1
        must_correct = isinstance(failure, Declined) and not isinstance(failure, Rejected)
        first, longest = PAUSES_REFUSED if must_correct else PAUSES
        pause = pause_after(self._failures - 1, first=first, longest=longest)
        pause = max(pause, failure.pause) * self._spread()
        self._next = self._clock.monotonic() + pause
        now, text = self._clock.wall(), str(failure)
        if self.trouble is None or self.trouble.text != text:
            todo = ": correct poller_webhooks and run the role again" if must_correct else ""
            self._log(systemd.WARNING, f"{text}{todo}; its messages wait")
        since = now if self.trouble is None else self.trouble.since
        self.trouble = Trouble(text, since, now + pause)
        return pause

    def _log(self, level: int, text: str) -> None:
        systemd.log(level, f"webhook {self.receiver.name}: {text}")


class Delivery:
    """Delivers until nothing waits, the configuration changes, or it is stopped; systemd starts it again."""

    def __init__(self, config: str, state: str, runtime: str) -> None:
        self._config = config
        self._status_file = os.path.join(runtime, delivery_status.FILE_NAME)
        self._spool = MessageSpool(state)
        self._stop = threading.Event()
        self._couriers: List[Courier] = []
        self._threads: List[threading.Thread] = []
        self._shown: Dict[str, Any] = {}
        self._shown_at = float("-inf")
        self._journal = systemd.Journal(CLOCK)

    def run(self) -> int:
        """Deliver; returns an exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._stop.set())
        mark = self._mark()
        error = self._start("")
        while not self._stop.is_set():
            self._show(error)
            if self._mark() != mark or self._spool.is_empty():
                break
            self._stop.wait(PAUSE)
            if error:
                error = self._start(error)
        self._stop.set()
        until = CLOCK.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, until - CLOCK.monotonic()))
        self._shown_at = float("-inf")
        self._show(error)
        return 0

    def _mark(self) -> Optional[Tuple[int, int]]:
        """Something that differs when the configuration does."""
        with contextlib.suppress(OSError):
            found = os.stat(self._config)
            return found.st_ino, found.st_mtime_ns
        return None

    def _start(self, before: str) -> str:
        """Start a thread for each receiver; returns why that cannot be done, or an empty text.

        Then the unit stays active, so that systemd does not start it again and again, and tries it from time to time: a
        disk that was full gets room again.

        :param before: why the last attempt failed.
        """
        try:
            entries = self._spool.entries()  # before the configuration: a later one can have more receivers
            receivers = load_receivers(self._config)
            couriers = [Courier(receiver, self._spool) for receiver in receivers]
            self._spool.tidy()
            self._drop_orphans(entries, {receiver.name for receiver in receivers})
        except (WrongValue, OSError) as error:
            if str(error) != before:
                systemd.log(systemd.ERROR, f"no webhook is delivered: {error}")
            return str(error)
        self._couriers = couriers
        self._threads = [threading.Thread(target=self._serve, args=(courier,), daemon=True) for courier in couriers]
        for thread in self._threads:
            thread.start()
        return ""

    def _drop_orphans(self, entries: List[Entry], names: Set[str]) -> None:
        orphans = [entry for entry in entries if entry.receiver not in names]
        for entry in orphans:
            self._spool.remove(entry)
        for name in sorted({entry.receiver for entry in orphans}):
            count = sum(entry.receiver == name for entry in orphans)
            systemd.log(systemd.WARNING, f"webhook {name}: not configured any more; its {count} messages are removed")

    def _serve(self, courier: Courier) -> None:
        while not self._stop.is_set():
            try:
                pause = courier.step()
            except Exception as error:  # a defect, or a disk that fails; other receivers must not notice
                systemd.log(systemd.ERROR, f"webhook {courier.receiver.name}: {type(error).__name__}, tried again")
                pause = DEFECT_PAUSE
            self._stop.wait(pause)

    def _show(self, error: str) -> None:
        """Write the status file, when it says something new, and from time to time."""
        try:
            shown = delivery_status.describe(self._couriers, self._spool, error=error)
            now = CLOCK.monotonic()
            if shown != self._shown or now - self._shown_at > HEARTBEAT:
                text = json.dumps({**shown, "time": CLOCK.wall()}).encode()
                write_atomically(self._status_file, text, mode=0o644)
                self._shown, self._shown_at = shown, now
        except OSError as problem:
            self._journal.complain("status", f"the status of the webhooks cannot be written: {problem.strerror}")
