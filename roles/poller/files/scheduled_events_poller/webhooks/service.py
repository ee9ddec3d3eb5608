# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit that delivers webhooks: runs as long as a message waits, and shows its progress."""

import contextlib
import json
import os
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from _scheduled_events.files import write_atomically
from _scheduled_events.transport import REQUESTS_IMPORT_ERROR

from .. import systemd
from . import status
from .config import CONFIG_FILE, Receiver, WebhookError, load
from .delivery import Courier, Outcome, Sender
from .spool import RUNTIME_DIRECTORY, STATE_DIRECTORY, Spool

PAUSE = 0.5  # seconds between two looks at spool and configuration
HEARTBEAT = 10.0  # seconds between two status files when nothing changes
DEFECT_PAUSE = 5.0
GRACE = 8.0  # seconds for which a request that runs may end when the unit stops

MakeSender = Callable[[Receiver], Callable[[Mapping[str, Any]], Outcome]]


class Service:
    """Delivers until nothing waits, the configuration changes, or it is stopped; systemd starts it again.

    :param make_sender: what sends to a receiver.
    """

    def __init__(
        self,
        config: str = CONFIG_FILE,
        state: str = STATE_DIRECTORY,
        runtime: str = RUNTIME_DIRECTORY,
        *,
        make_sender: MakeSender = Sender,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._spool = Spool(state)
        self._make_sender = make_sender
        self._stop = threading.Event()
        self._couriers: List[Courier] = []
        self._threads: List[threading.Thread] = []
        self._shown: Dict[str, Any] = {}
        self._shown_at: Optional[float] = None

    def run(self) -> int:
        """Deliver; returns an exit status."""
        before = [signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            mark = self._mark()
            error = self._start()
            while not self._stop.is_set():
                self._spool.count_losses()
                self._show(error)
                if self._mark() != mark or self._spool.is_empty():
                    break
                self._stop.wait(PAUSE)
            self._end()
            self._show(error, force=True)
        finally:
            for number, handler in zip((signal.SIGTERM, signal.SIGINT), before):
                signal.signal(number, handler)
        return 0

    def _on_signal(self, _number: int, _frame: Any) -> None:
        self._stop.set()

    def _mark(self) -> Optional[Tuple[int, int]]:
        """Something that differs when the configuration does."""
        with contextlib.suppress(OSError):
            found = os.stat(self._config)
            return found.st_ino, found.st_mtime_ns
        return None

    def _start(self) -> str:
        """Start a thread for each receiver; returns why that cannot be done, or an empty text.

        Then the unit stays active, so that systemd does not start it again and again, until something is corrected.
        """
        try:
            if REQUESTS_IMPORT_ERROR:
                raise WebhookError("the Python library requests is missing: run the role poller again")
            receivers = load(self._config)
            self._spool.tidy()
            self._drop_orphans(receivers)
        except (WebhookError, OSError) as error:
            systemd.log(systemd.ERROR, f"no webhook is delivered: {error}")
            return str(error)
        for receiver in receivers:
            courier = Courier(receiver, self._spool, self._make_sender(receiver))
            thread = threading.Thread(target=self._serve, args=(courier,), name=receiver.name, daemon=True)
            self._couriers.append(courier)
            self._threads.append(thread)
            thread.start()
        return ""

    def _drop_orphans(self, receivers: Sequence[Receiver]) -> None:
        names = [receiver.name for receiver in receivers]
        orphans = [entry for entry in self._spool.entries() if entry.receiver not in names]
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

    def _end(self) -> None:
        self._stop.set()
        until = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _show(self, error: str, *, force: bool = False) -> None:
        """Write the status file, when it says something new, and from time to time."""
        try:
            shown = status.describe(self._couriers, self._spool, error=error)
            now = time.monotonic()
            due = self._shown_at is None or now - self._shown_at > HEARTBEAT
            if force or due or shown != self._shown:
                text = json.dumps({**shown, "time": time.time()}).encode()
                path = os.path.join(self._runtime, status.FILE_NAME)
                write_atomically(path, text, mode=0o644)
                self._shown, self._shown_at = shown, now
        except OSError as problem:
            systemd.log(systemd.WARNING, f"the status of the webhooks cannot be written: {problem.strerror}")
