# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages that wait for their receivers: a file each, in a directory of root, in the order of their names.

The hook of a phase puts them in, and the delivery takes them out. They hold the event, and no secret: what a receiver
is sent is made of them at the time of sending. A name is NUMBER.RECEIVER.ID.json, so nothing has to be read to know
what waits for whom.
"""

import contextlib
import json
import os
import re
from typing import Any, ContextManager, Dict, List, NamedTuple, Optional

from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.files import LACKING, locked, read_status, write_atomically

STATE_DIRECTORY = "/var/lib/scheduled-events-webhooks"
MARK = "spooled"  # in the runtime directory: as old as the newest message
LOST = "lost"  # there, too: why the newest message is lost that could not be kept, such as on a full disk

# Why messages are lost, as the counts of losses have it.
DROPPED, REFUSED, UNREADABLE = REASONS = ("dropped", "refused", "unreadable")

LOCK_PATIENCE = 5.0  # seconds that a hook waits for another one that writes

_NAME = re.compile(r"([0-9]{20})\.([a-z0-9][a-z0-9_-]{0,49})\.([0-9a-f-]{36})\.json\Z")


class SpoolError(Exception):
    """A message cannot be kept; the message of the exception says why."""


class Entry(NamedTuple):
    """A message that waits: the name of its file, and its parts."""

    file: str
    number: int
    receiver: str
    id: str


class MessageSpool:
    """The messages of all receivers."""

    def __init__(self, directory: str = STATE_DIRECTORY, *, clock: Clock = CLOCK) -> None:
        self.directory = os.path.join(directory, "messages")
        self._lock = os.path.join(directory, "lock")
        self._losses = os.path.join(directory, "losses.json")
        self._clock = clock

    def put(self, content: bytes, message_id: str, receiver: str, *, max_messages: int) -> int:
        """Keep a message, unless one with its id waits already; returns how many older ones had to make room.

        :raises SpoolError: it cannot be kept.
        """
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            with self._locked():
                entries = self.entries()
                waiting = [entry for entry in entries if entry.receiver == receiver]
                if any(entry.id == message_id for entry in waiting):
                    return 0
                last = entries[-1].number if entries else 0
                number = max(last + 1, int(self._clock.wall() * 1e6))  # numbers grow even where the clock is set back
                path = os.path.join(self.directory, f"{number:020d}.{receiver}.{message_id}.json")
                write_atomically(path, content, mode=0o600, durable=True)
                # After the new one is written: a crash in between leaves one too many, and loses none.
                too_many = waiting[: max(0, len(waiting) + 1 - max_messages)]
                for entry in too_many:
                    self.remove(entry)
                if too_many:
                    with contextlib.suppress(OSError):  # the message itself is kept
                        self._count(receiver, DROPPED, len(too_many))
                return len(too_many)
        except OSError as error:
            raise SpoolError(str(error.strerror or error)) from error

    def entries(self) -> List[Entry]:
        """All messages in their order.

        :raises OSError: the directory cannot be read; one that does not exist holds none.
        """
        try:
            found = map(_NAME.match, sorted(os.listdir(self.directory)))
        except FileNotFoundError:
            return []
        return [Entry(each.string, int(each.group(1)), each.group(2), each.group(3)) for each in found if each]

    def is_empty(self) -> bool:
        """Whether systemd takes the directory for empty, and so does not start the delivery."""
        try:
            return all(name.startswith(".") for name in os.listdir(self.directory))
        except (FileNotFoundError, NotADirectoryError):
            return True

    def read(self, entry: Entry) -> Optional[Dict[str, Any]]:
        """A message; ``None`` if it is gone.

        :raises SpoolError: it cannot be read.
        :raises OSError: it cannot be read now.
        """
        try:
            with open(os.path.join(self.directory, entry.file), encoding="utf-8") as file:
                message = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, OSError) and error.errno in LACKING:
                raise
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
        """Remove a message, and count it as lost if that can be written.

        :raises OSError: it cannot be removed.
        """
        self.remove(entry)
        with contextlib.suppress(OSError), self._locked():
            self._count(entry.receiver, reason, 1)

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
        """By receiver, how many messages were lost for which reason, and when the last one was (``last``).

        :raises SpoolError: it is not known.
        """
        try:
            return {name: dict(found) for name, found in read_status(self._losses).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            raise SpoolError(f"{self._losses} cannot be read: {error}. Remove it") from error

    def _count(self, receiver: str, reason: str, number: int) -> None:
        counts: Dict[str, Dict[str, Any]] = {}
        with contextlib.suppress(SpoolError):  # the new loss is shown at least
            counts = self.losses()
        known = counts.setdefault(receiver, {})
        known[reason] = int(known.get(reason, 0)) + number
        known["last"] = self._clock.wall()
        write_atomically(self._losses, json.dumps(counts).encode(), mode=0o600, durable=True)

    def _locked(self) -> ContextManager[int]:
        return locked(self._lock, patience=LOCK_PATIENCE, clock=self._clock)
