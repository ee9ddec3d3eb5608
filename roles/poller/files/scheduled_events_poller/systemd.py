# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the service for systemd: the protocol of sd_notify, and priorities in the journal.

No function raises, and of those that the poller calls none waits: a report must neither end nor delay it.
"""

import contextlib
import os
import select
import socket
import sys
import time
from typing import Dict, Optional

from _scheduled_events.clock import Clock

ERROR, WARNING, INFO = 3, 4, 6

LONGEST_LINE = 4000  # bytes; more than a page could wait for a reader
REPEAT_COMPLAINT = 60.0  # seconds after which a lasting trouble is reported again


def notify(message: str) -> bool:
    """Send a message such as ``READY=1``, without waiting for systemd to read.

    :returns: false if systemd does not read now, so that the message is dropped and may be sent again. True also where
        systemd did not ask for messages or cannot be reached, since another attempt would change nothing.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return True
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode("utf-8", "replace"), address)
    except BlockingIOError:
        return False
    except (OSError, ValueError) as error:
        first = (message.splitlines() or [""])[0]
        log(WARNING, f"systemd cannot be notified of {first[:200]}: {error}")
    return True


def notify_reloading() -> None:
    """Report that a reload begins; ``READY=1`` ends it."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={int(time.monotonic() * 1e6)}")


def watchdog_interval() -> Optional[float]:
    """Seconds between two signs of life, a third of what systemd allows; ``None`` if it requires none."""
    with contextlib.suppress(ValueError):
        allowed = int(os.environ.get("WATCHDOG_USEC", ""))
        return allowed / 3e6 if allowed > 0 else None
    return None


def log(priority: int, message: str) -> None:
    """Write to standard error, each line with its priority where the journal reads it.

    Lines are dropped if no process reads them.
    """
    prefix = f"<{priority}>" if "JOURNAL_STREAM" in os.environ else ""
    for line in message.splitlines():
        text = f"{prefix}{line}".encode("utf-8", "backslashreplace")[:LONGEST_LINE].decode("utf-8", "ignore")
        # The reader has ended, or the stream is closed or missing.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if _is_writable():
                sys.stderr.write(text + "\n")
                sys.stderr.flush()


def say(line: str) -> None:
    """Write a line of a hook to standard output, whatever the locale is. The line is lost if its reader has ended."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # Not kept in a buffer, which Python writes once more at its end, and that would change the exit status.
        os.write(sys.stdout.fileno(), line.encode("utf-8", "replace") + b"\n")


def _is_writable() -> bool:
    """Whether a line can be written without waiting for the reader."""
    try:
        return bool(select.select([], [sys.stderr.fileno()], [], 0)[1])
    except (OSError, ValueError):
        return True  # not a file of the system


class Journal:
    """Each trouble is reported once a minute at most, however often it comes and goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next: Dict[str, float] = {}
        self._open: Dict[str, bool] = {}

    def complain(self, about: str, message: str) -> None:
        """Report a trouble."""
        now = self._clock.monotonic()
        if now >= self._next.get(about, 0.0):
            self._next[about] = now + REPEAT_COMPLAINT
            self._open[about] = True
            log(WARNING, message)

    def better(self, about: str, message: str) -> None:
        """Report the end of a trouble, if the trouble itself was reported."""
        if self._open.pop(about, False):
            log(INFO, message)
