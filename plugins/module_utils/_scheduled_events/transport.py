# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One HTTP exchange at a time, over a connection that is kept: whole within one deadline and one size limit, or failed.
A new connection to a name with several addresses can take longer: each address has its own time.

``requests`` limits each wait of a request, not their sum, nor what it reads. So its connections get a socket that
knows how much time and how many bytes are left. Nothing above that socket can wait longer or read more, whatever the
release of ``requests`` and urllib3. Proxies, redirects, cookies and compression have no part in it.
"""

import http.client
import io
import socket
import time
import traceback
from typing import Any, List, Optional, cast

from .exchange import (
    MAX_BODY,
    Answer,
    BadUrl,
    BrokenOff,
    ExchangeFailed,
    Exchanger,
    HttpRequest,
    Malformed,
    NotConnected,
    NotTrusted,
    announced_length,
)
from .text import in_words, shown

try:
    import requests
    from requests.adapters import HTTPAdapter

    REQUESTS_IMPORT_ERROR: Optional[str] = None
except ImportError:
    REQUESTS_IMPORT_ERROR = traceback.format_exc()

CONNECT_TIMEOUT = 5.0
MAX_RECEIVED = MAX_BODY + 256 * 1024  # with the status line, the headers, and the sizes of chunks
CHUNK = 64 * 1024
BROKE_OFF = "it broke off"


class _OutOfTime(Exception):
    """The deadline has passed. It is not an OSError on purpose: the layers above let it through as it is."""


class _TooLong(Exception):
    """More bytes came than are allowed; not an OSError either."""


class _Limits:
    """The limits of the present exchange. ``serial``: its number; a socket of an earlier one is reused."""

    def __init__(self) -> None:
        self.serial = 0
        self.start(0.0)

    def start(self, seconds: float) -> None:
        self.serial += 1
        self.received = 0
        self.sent = False
        self.reused = False
        self._deadline = time.monotonic() + seconds

    def remaining(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _OutOfTime
        return left

    def count(self, received: int) -> None:
        self.received += received
        if self.received > MAX_RECEIVED:
            raise _TooLong


class _Socket:
    """A connected socket, each of whose waits ends with the exchange. Everything else goes to the socket itself."""

    def __init__(self, connected: Any, limits: _Limits, *, opens_way: bool = False) -> None:
        self._connected = connected
        self._limits = limits
        self._made_for = limits.serial
        self._opens_way = opens_way  # for the proxy: the request itself is not sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def sendall(self, data: bytes) -> None:
        self._limits.sent = not self._opens_way
        self._limits.reused = self._made_for != self._limits.serial
        self._connected.settimeout(self._limits.remaining())
        try:
            self._connected.sendall(data)
        except socket.timeout:
            raise _OutOfTime from None

    def makefile(self, *_args: Any, **_options: Any) -> io.BufferedReader:
        return _Reader(_Stream(self._connected, self._limits))


class _Stream(io.RawIOBase):
    """Received bytes of a socket, in the form for ``http.client``."""

    def __init__(self, connected: Any, limits: _Limits) -> None:
        super().__init__()
        self._connected = connected
        self._limits = limits
        # The socket's own stream, so that the socket stays open until both are closed.
        self._received = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._connected.settimeout(self._limits.remaining())
        try:
            count: int = self._received.readinto(buffer)
        except socket.timeout:
            raise _OutOfTime from None
        self._limits.count(count)
        return count

    def close(self) -> None:
        self._received.close()
        super().close()


class _Reader(io.BufferedReader):
    """An answer whose lines are whole. http.client takes a head that breaks off for its end."""

    _begun = False

    def readline(self, size: Optional[int] = -1) -> bytes:
        line = super().readline(size)
        whole = line.endswith(b"\n") or (size is not None and 0 <= size <= len(line))
        # http.client names what does not begin, or is not HTTP.
        if not whole and (self._begun or (line and b"HTTP/".startswith(line[:5]))):
            raise ConnectionAbortedError(BROKE_OFF)
        self._begun = True
        return line


class _Response(http.client.HTTPResponse):
    """An answer, after any interim ones that a proxy may send, such as 103 Early Hints; http.client skips 100 alone."""

    def _read_status(self) -> Any:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        interim = 100 <= status < 200 and status != http.HTTPStatus.SWITCHING_PROTOCOLS
        return version, http.HTTPStatus.CONTINUE.value if interim else status, reason


def _bounded(pool: Any, limits: _Limits) -> Any:
    """A pool of urllib3 whose connections keep to the limits."""

    class Connection(pool.ConnectionCls):
        response_class = _Response
        sock: Any

        def connect(self) -> None:
            super().connect()
            self.sock = _Socket(self.sock, limits)

        def _tunnel(self) -> None:
            # What the proxy answers before there is a connection. TLS takes the socket itself.
            connected = self.sock
            self.sock = _Socket(connected, limits, opens_way=True)
            super()._tunnel()
            self.sock = connected

    return type("Pool", (pool,), {"ConnectionCls": Connection})


class Transport(Exchanger):
    """Exchanges over a connection of this machine. Each address of the host has up to 5 seconds for it.

    :param ca_file: of the authorities that may have signed the certificate of the host; empty: those of requests.
    :param proxy: URL of a proxy; empty: none, whatever the environment says.
    :param whole_bodies: whether an answer with the status 200 counts only if its body can be read whole.
    """

    def __init__(self, *, ca_file: str = "", proxy: str = "", whole_bodies: bool = True) -> None:
        self._limits = _Limits()
        self._whole_bodies = whole_bodies
        self._options = {"verify": ca_file or True, "proxies": {"http": proxy, "https": proxy} if proxy else None}
        # An adapter without a session: no proxy, no .netrc, no cookie, no redirect.
        self._adapter = cast(Any, HTTPAdapter(pool_connections=1, pool_maxsize=1))
        pools = self._adapter.poolmanager.pool_classes_by_scheme
        bounded = {scheme: _bounded(pool, self._limits) for scheme, pool in pools.items()}
        self._adapter.poolmanager.pool_classes_by_scheme = bounded
        manager_for = self._adapter.proxy_manager_for

        def proxy_manager_for(url: str, **options: Any) -> Any:  # requests may write the URL in another way
            manager = manager_for(url, **options)
            manager.pool_classes_by_scheme = bounded
            return manager

        self._adapter.proxy_manager_for = proxy_manager_for
        # Not the Response of requests: to build one, it reads cookies and decodes.
        self._adapter.build_response = lambda _request, response: response

    def exchange(self, request: HttpRequest, seconds: float) -> Answer:
        # A GET on a kept connection that the host closes without a word is sent again on a new one. Another request
        # may have been carried out, and only its sender knows whether a second one does harm.
        method, url, query, headers, body = request
        try:
            prepared = requests.Request(method, url, params=dict(query), data=body, headers=dict(headers)).prepare()
        except ValueError as error:  # requests' and urllib3's errors of a URL are such
            raise BadUrl(shown(str(error))) from error
        prepared.headers["Accept-Encoding"] = "identity"
        self._limits.start(seconds)
        try:
            return self._attempt(prepared, seconds)
        except BrokenOff as error:
            is_closed = isinstance(_causes(error)[-1], ConnectionError)
            if not (method == "GET" and self._limits.reused and self._limits.received == 0 and is_closed):
                raise
        return self._attempt(prepared, seconds)

    def close(self) -> None:
        self._adapter.close()

    def _attempt(self, request: "requests.PreparedRequest", seconds: float) -> Answer:
        kept = False
        try:
            left = self._limits.remaining()
            timeout = (min(CONNECT_TIMEOUT, left), left)
            raw: Any = self._adapter.send(request, stream=True, timeout=timeout, **self._options)
            try:
                body, kept = _read(raw, whole=self._whole_bodies)
            finally:
                if not kept:
                    raw.close()
            raw.release_conn()
            return Answer(request.url or "", raw.status, shown(raw.reason or "", 60), raw.headers, body)
        except ExchangeFailed:
            raise
        except _OutOfTime as error:
            came = "no whole answer" if self._limits.received else "nothing"
            kind = BrokenOff if self._limits.sent else NotConnected
            raise kind(f"{came} within {in_words(seconds)}") from error
        except _TooLong as error:
            raise Malformed(f"it is longer than {MAX_RECEIVED} bytes") from error
        except Exception as error:  # of http.client, urllib3 and requests, whose releases let different kinds escape
            if not self._limits.sent and not isinstance(error, (OSError, ValueError)):
                raise
            raise self._failure(error, seconds) from error
        finally:
            self.connected = self._limits.sent
            if not kept:
                self._adapter.close()

    def _failure(self, error: Exception, seconds: float) -> ExchangeFailed:
        causes = _causes(error)
        innermost = causes[-1]
        cause = shown(str(innermost)) or type(innermost).__name__
        if not self._limits.sent:
            # The innermost alone, since others quote the URL; with its type, for releases of urllib3 below 2.
            if isinstance(error, requests.exceptions.SSLError) and "certificate" in repr(innermost).lower():
                return NotTrusted(cause)
            if isinstance(error, requests.exceptions.ConnectTimeout):
                return NotConnected(f"no connection within {in_words(min(CONNECT_TIMEOUT, seconds))}")
            # ValueError: a host name that the resolver cannot even ask for.
            return (BadUrl if isinstance(innermost, ValueError) else NotConnected)(cause)
        if any(isinstance(each, http.client.IncompleteRead) for each in causes):
            return BrokenOff(BROKE_OFF)
        if isinstance(innermost, OSError):
            return BrokenOff(cause)
        return Malformed(f"it is not HTTP: {cause}")


def _causes(error: BaseException) -> List[BaseException]:
    """The error and those that it wraps. The last one says what happened: the operating system's, for example."""
    causes = [error]
    while True:
        below = causes[-1].__cause__ or (None if causes[-1].__suppress_context__ else causes[-1].__context__)
        if below is None or below in causes:
            return causes
        causes.append(below)


def _read(raw: Any, *, whole: bool) -> Any:
    """Read the body: its bytes, and whether the connection can serve another exchange.

    :param whole: whether the body matters.
    :raises ExchangeFailed: the status is 200, and the body matters and cannot be read whole.
    """
    if raw.status == http.HTTPStatus.OK and whole:
        return _read_whole(raw), True
    try:
        return _read_whole(raw), raw.status >= 200
    except Exception:  # the status is what matters, and it is known
        return b"", False


def _read_whole(raw: Any) -> bytes:
    length = announced_length(raw.headers.get("content-length"))
    parts = []
    received = 0
    while True:
        part = raw.read(CHUNK, decode_content=False)
        if not part:
            break
        received += len(part)
        if received > MAX_BODY:
            raise Malformed(f"its body is longer than {MAX_BODY} bytes")
        parts.append(part)
    if length is not None and received < length:
        # Older releases of requests take a body that breaks off for a whole one.
        raise BrokenOff(f"it broke off after {received} of {length} bytes")
    return b"".join(parts)
