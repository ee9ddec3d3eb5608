# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages that wait for their receivers: a file each, in a directory of root, in the order of their names.

The hook of a phase puts them in, and the delivery takes them out. They hold the event, and no secret: what a receiver
is sent is made of them at the time of sending. A name is NUMBER.RECEIVER.ID.json, so nothing has to be read to know
what waits for whom.
"""

import contextlib
import fcntl
import json
import os
import re
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from _scheduled_events.files import write_atomically

from ..spool import WEBHOOKS_RUNTIME_DIRECTORY

STATE_DIRECTORY = "/var/lib/scheduled-events-webhooks"
RUNTIME_DIRECTORY = WEBHOOKS_RUNTIME_DIRECTORY
MARK = "spooled"  # in the runtime directory: as old as the newest message

# Why messages are lost, as the counts of losses have it.
DROPPED, REFUSED, UNREADABLE = REASONS = ("dropped", "refused", "unreadable")

LOCK_PATIENCE = 5.0  # seconds that a hook waits for another one that writes
LOCK_PAUSE = 0.05

MTIME_TICK = 1.0  # seconds, more than the resolution of the time of a directory

_NAME = re.compile(r"([0-9]{20})\.([a-z0-9][a-z0-9_-]{0,49})\.([0-9a-f-]{36})\.json\Z")


class SpoolError(Exception):
    """A message cannot be kept; the message of the exception says why."""


class Entry(NamedTuple):
    """A message that waits: the name of its file and what that says, and its size in bytes."""

    file: str
    number: int
    receiver: str
    id: str
    size: int


class Spool:
    """The messages of all receivers.

    :param clock: seconds since the epoch. Numbers grow even where it is set back.
    """

    def __init__(
        self,
        directory: str = STATE_DIRECTORY,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.directory = os.path.join(directory, "messages")
        self._lock = os.path.join(directory, "lock")
        self._losses = os.path.join(directory, "losses.json")
        self._clock = clock
        self._sleep = sleep
        self._cache = threading.Lock()  # for all below: the delivery has a thread for each receiver
        self._known: Dict[str, Entry] = {}
        self._sorted: List[Entry] = []
        self._mark: Optional[Tuple[int, int]] = None  # of the directory when it was listed; None: list it again
        self._uncounted: List[Tuple[str, str]] = []  # losses that could not be written down

    def put(self, content: bytes, message_id: str, receiver: str, *, max_messages: int, max_bytes: int) -> int:
        """Keep a message, unless one with its id waits already; returns how many older ones had to make room.

        :raises SpoolError: it cannot be kept.
        """
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            with self._locked():
                if len(content) > max_bytes:
                    self._count(receiver, DROPPED, 1)
                    raise SpoolError(f"it has {len(content)} bytes, and max_bytes allows {max_bytes}")
                everything = self._matches()
                own = [match for match in everything if match.group(2) == receiver]
                waiting = [entry for entry in map(self._entry, own) if entry is not None]
                if any(entry.id == message_id for entry in waiting):
                    return 0
                last = int(everything[-1].group(1)) if everything else 0
                number = max(last + 1, int(self._clock() * 1e6))
                path = os.path.join(self.directory, f"{number:020d}.{receiver}.{message_id}.json")
                write_atomically(path, content, mode=0o600, durable=True)
                dropped = self._make_room(waiting, len(content), max_messages, max_bytes)
                if dropped:
                    with contextlib.suppress(OSError):  # the message itself is kept
                        self._count(receiver, DROPPED, dropped)
                return dropped
        except OSError as error:
            raise SpoolError(str(error.strerror or error)) from error

    def _make_room(self, waiting: List[Entry], size: int, max_messages: int, max_bytes: int) -> int:
        # After the new one is written: a crash in between leaves one too many, and loses none.
        total = size + sum(entry.size for entry in waiting)
        dropped = 0
        for entry in waiting:
            if len(waiting) - dropped < max_messages and total <= max_bytes:
                break
            self.remove(entry)
            total -= entry.size
            dropped += 1
        return dropped

    def entries(self) -> List[Entry]:
        """All messages in their order.

        :raises OSError: the directory cannot be read; one that does not exist holds none.
        """
        # A file never changes, so only new names need a look, and none as long as the directory is as it was.
        with self._cache:
            try:
                found = os.stat(self.directory)
            except FileNotFoundError:
                return []
            mark = (found.st_ino, found.st_mtime_ns)
            if mark != self._mark:
                known = [self._known.get(match.string) or self._entry(match) for match in self._matches()]
                self._sorted = [entry for entry in known if entry is not None]
                self._known = {entry.file: entry for entry in self._sorted}
                # A change in the same tick of the clock would have the same time, so the next look lists it again.
                self._mark = mark if time.time() - found.st_mtime > MTIME_TICK else None
            return self._sorted

    def _matches(self) -> "List[re.Match[str]]":
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return [match for match in map(_NAME.match, sorted(names)) if match is not None]

    def _entry(self, match: "re.Match[str]") -> Optional[Entry]:
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(os.path.join(self.directory, match.string)).st_size
            return Entry(match.string, int(match.group(1)), match.group(2), match.group(3), size)
        return None

    def is_empty(self) -> bool:
        """Whether systemd takes the directory for empty, and so does not start the delivery."""
        try:
            with os.scandir(self.directory) as found:
                return not any(not each.name.startswith(".") for each in found)
        except FileNotFoundError:
            return True

    def read(self, entry: Entry) -> Optional[Dict[str, Any]]:
        """A message; ``None`` if it is gone.

        :raises SpoolError: it cannot be read.
        """
        try:
            with open(os.path.join(self.directory, entry.file), encoding="utf-8") as file:
                message = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise SpoolError(f"the file {entry.file} cannot be read: {type(error).__name__}") from error
        if not isinstance(message, dict) or not isinstance(message.get("event"), dict):
            raise SpoolError(f"the file {entry.file} holds no message")
        return message

    def remove(self, entry: Entry) -> None:
        """Remove a message that was delivered, or that is given up.

        :raises OSError: it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.directory, entry.file))

    def give_up(self, entry: Entry, reason: str) -> None:
        """Remove a message, and count it as lost; in memory as long as that cannot be written, as to a full disk.

        :raises OSError: it cannot be removed.
        """
        self.remove(entry)
        with self._cache:
            self._uncounted.append((entry.receiver, reason))
        self.count_losses()

    def count_losses(self) -> None:
        """Write down the losses that could not be written down before, if that is possible now."""
        with contextlib.suppress(OSError):
            while self._uncounted:
                with self._locked(), self._cache:
                    if self._uncounted:
                        self._count(*self._uncounted[0], 1)
                        del self._uncounted[0]

    def tidy(self) -> None:
        """Remove all files that are not messages: incomplete files after a crash, and files of others.

        :raises OSError: that cannot be done.
        """
        with contextlib.suppress(FileNotFoundError), self._locked():
            for name in os.listdir(self.directory):
                if not _NAME.match(name):
                    with contextlib.suppress(IsADirectoryError, PermissionError):
                        os.unlink(os.path.join(self.directory, name))

    def losses(self) -> Dict[str, Dict[str, Any]]:
        """By receiver, how many messages were lost for which reason, and when the last one was (``last``)."""
        try:
            with open(self._losses, encoding="utf-8") as file:
                raw = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return {name: found for name, found in raw.items() if isinstance(found, dict)} if isinstance(raw, dict) else {}

    def _count(self, receiver: str, reason: str, number: int) -> None:
        counts = self.losses()
        known = counts.setdefault(receiver, {})
        known[reason] = int(known.get(reason, 0)) + number
        known["last"] = self._clock()
        write_atomically(self._losses, json.dumps(counts).encode(), mode=0o600, durable=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            waited = 0.0
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if waited >= LOCK_PATIENCE:
                        raise
                    self._sleep(LOCK_PAUSE)
                    waited += LOCK_PAUSE
            yield
        finally:
            os.close(descriptor)
