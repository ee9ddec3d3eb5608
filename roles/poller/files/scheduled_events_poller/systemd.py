# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell systemd how the service is: the protocol of sd_notify, and of priorities in the journal."""

import os
import socket
import sys
import time
from typing import Optional

ERROR, WARNING, INFO = 3, 4, 6


def notify(message: str) -> None:
    """Send a message such as ``READY=1``; does nothing where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(message.encode(), address)
        except OSError as error:
            log(WARNING, f"systemd could not be told {message.splitlines()[0]}: {error}")


def notify_reloading() -> None:
    """Tell that a reload begins; ``READY=1`` ends it."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={int(time.monotonic() * 1e6)}")


def watchdog_interval() -> Optional[float]:
    """Seconds between two signs of life, a third of what systemd allows; ``None`` if it asks for none."""
    allowed = os.environ.get("WATCHDOG_USEC", "")
    return int(allowed) / 3e6 if allowed.isdigit() and int(allowed) > 0 else None


def log(priority: int, message: str) -> None:
    """Write to standard error, each line with its priority where the journal reads it."""
    prefix = f"<{priority}>" if "JOURNAL_STREAM" in os.environ else ""
    sys.stderr.write("".join(f"{prefix}{line}\n" for line in message.splitlines()))
    sys.stderr.flush()
