# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A load probe: requests at a steady rate, of which it counts the lost and the slow ones. Private to the collection.

Half of the workers keep their connections open, the others open one for each request: a balancer treats them
differently.
"""

from __future__ import annotations

import re
import threading
import time
import typing as t

try:
    import requests
except ImportError as error:
    REQUESTS_IMPORT_ERROR: ImportError | None = error
else:
    REQUESTS_IMPORT_ERROR = None

WORKERS = 32
SETTLE_PAUSE = 0.05  # seconds
MOST_FAILURES = 20  # that are named
MOST_BYTES = 10 * 1024 * 1024  # of an answer
REDIRECTIONS = [str(status) for status in range(300, 400)]


class LostRequest(t.NamedTuple):
    """A lost request. ``at``: seconds since the epoch."""

    at: float
    url: str
    reason: str

    @property
    def text(self) -> str:
        """The request and why it was lost."""
        return f"{self.url}: {self.reason}"


class Counts(t.NamedTuple):
    """What became of the requests so far."""

    requests: int
    lost: int
    slow: int
    first_failures: tuple[LostRequest, ...]
    redirected: int = 0


class Options(t.NamedTuple):
    """How to ask.

    :param rate: requests per second, to all URLs together.
    :param timeout: seconds after which a request without a whole answer is lost. ``slow_after``: seconds.
    :param redirects: whether a redirection is an answer; otherwise the request is lost.
    """

    urls: t.Sequence[str]
    rate: float
    timeout: float = 10.0
    slow_after: float = 1.0
    workers: int = WORKERS
    validate_certs: bool = True
    redirects: bool = False


class Load:
    """The requests, from :meth:`start` until :meth:`stop`.

    An answer with a status of 300 or above, a reset, a refused connection, and no whole answer in time are lost
    requests. A redirection is not followed. Proxies are not used.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._requests = self._lost = self._slow = self._redirected = 0
        self._failures: list[LostRequest] = []
        self._failing_since: dict[str, float] = {}
        self._under_way: dict[int, tuple[str, float]] = {}  # by worker, the URL, and when the request began
        self._unheard = set(options.urls)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin."""
        workers = min(self._options.workers, max(2 * len(self._options.urls), round(self._options.rate)))
        self._threads = [
            threading.Thread(target=self._work, args=(number, workers), daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def settle(self) -> None:
        """Wait until each URL and each request of before have an answer, or a request is lost."""
        with self._lock:
            before = set(self._under_way.items())
        while True:
            with self._lock:
                self._count_overdue()
                if self._lost or not (self._unheard or before & set(self._under_way.items())):
                    return
            time.sleep(SETTLE_PAUSE)

    def stop(self) -> Counts:
        """End, and wait for the answers that are under way."""
        self._stop.set()
        until = time.monotonic() + 2 * self._options.timeout
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return self.counts()

    def counts(self) -> Counts:
        """The counts of now."""
        with self._lock:
            self._count_overdue()
            return Counts(self._requests, self._lost, self._slow, tuple(self._failures), self._redirected)

    def failing(self) -> tuple[str, float]:
        """The URL that has failed for the longest time without a success, without a password, and the seconds; 0
        seconds without one."""
        with self._lock:
            self._count_overdue()
            if not self._failing_since:
                return "", 0.0
            url = min(self._failing_since, key=lambda each: self._failing_since[each])
            return without_password(url), time.monotonic() - self._failing_since[url]

    def _work(self, number: int, workers: int) -> None:
        keeps, urls = number % 2 == 0, self._options.urls
        turn, pairs = number // 2, (workers + 1) // 2
        interval = workers / self._options.rate
        session = _session(self._options.validate_certs)
        due = time.monotonic() + interval * number / workers
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + interval, time.monotonic())
            self._ask(session, urls[turn % len(urls)])
            turn += pairs if len(urls) > pairs else 0
            if not keeps:
                session.close()
        session.close()

    def _ask(self, session: requests.Session, url: str) -> None:
        began, worker = time.monotonic(), threading.get_ident()
        with self._lock:
            self._under_way[worker] = url, began
        reason = _failure(session, url, self._options.timeout)
        taken, redirected = time.monotonic() - began, reason in REDIRECTIONS
        if redirected and self._options.redirects:
            reason = ""
        if taken > self._options.timeout:
            reason = reason or "timeout"
        with self._lock:
            if self._under_way.pop(worker, None) is None:  # it was overdue, and is counted
                return
            self._requests += 1
            self._redirected += redirected
            if reason:
                self._lose(url, began, reason)
                return
            self._failing_since.pop(url, None)
            self._unheard.discard(url)
            self._slow += taken > self._options.slow_after

    def _count_overdue(self) -> None:
        """Count what has no whole answer in time. requests limits each wait alone, so byte by byte it has no end."""
        now = time.monotonic()
        for worker, (url, began) in list(self._under_way.items()):
            if now - began > self._options.timeout:
                del self._under_way[worker]
                self._requests += 1
                self._lose(url, began, "timeout")

    def _lose(self, url: str, began: float, reason: str) -> None:
        self._lost += 1
        self._failing_since.setdefault(url, began)
        if len(self._failures) < MOST_FAILURES:
            self._failures.append(LostRequest(round(time.time(), 3), without_password(url), reason))


def _session(validate_certs: bool) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.verify = validate_certs
    return session


def _failure(session: requests.Session, url: str, timeout: float) -> str:
    """Why the request was lost; empty if it was not."""
    give_up_at, size = time.monotonic() + timeout, 0
    try:
        with session.get(url, timeout=timeout, allow_redirects=False, stream=True) as response:
            if response.status_code >= 300:
                return str(response.status_code)
            for chunk in response.iter_content(64 * 1024):
                size += len(chunk)
                if size > MOST_BYTES:
                    return f"more than {MOST_BYTES} bytes"
                if time.monotonic() > give_up_at:
                    return "timeout"
    except (requests.RequestException, OSError) as error:
        return "timeout" if isinstance(error, requests.Timeout) else type(error).__name__
    return ""


def without_password(url: str) -> str:
    """The URL as it can be shown."""
    return re.sub(r"//[^/?#\s]*@", "//***@", url)
