# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the control API on the standard library: no proxy, no redirect, a timeout."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import quote, urlsplit

from scheduled_events_emulator.checks import shown

DEFAULT_CONTROL = "http://127.0.0.1:8170"
TIMEOUT = 10.0
WAIT = 10.0
PAUSE = 0.1


class ControlError(RuntimeError):
    """The control API refused a request or could not be reached."""


def url(host: str, port: int) -> str:
    """Return the base URL of an address."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{port}"


def quoted(part: str) -> str:
    """Return ``part`` as one segment of a path."""
    return quote(part, safe="", errors="surrogateescape")


def _host_and_port(control: str) -> tuple[str, int]:
    try:
        parts = urlsplit(control if "://" in control else f"http://{control}")
        if parts.scheme == "http" and parts.hostname:
            # What no resolver can be asked for is refused here.
            parts.hostname.encode("idna")
            return parts.hostname, parts.port or 80
    except ValueError:
        pass
    raise ControlError(f"--control {shown(control)} is not a URL such as {DEFAULT_CONTROL}")


def request(control: str, method: str, path: str, body: Any | None = None, *, wait: float) -> Any:
    """Return the JSON answer of the control API at ``control``: a URL, or HOST:PORT. Raises ControlError.

    While no program listens there, it tries again for ``wait`` seconds: an emulator may be about to start.
    """
    host, port = _host_and_port(control)
    where = f"{method} {url(host, port)}{path}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    payload = None if body is None else json.dumps(body)
    try:
        _connect_once_it_listens(connection, wait)
        connection.request(method, path, body=payload, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        status, text = response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise ControlError(
            f"{where}: {str(error) or type(error).__name__}, expected an emulator there: start one with the verb"
            " serve, or give the URL that it printed with --control"
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise strange(where, f"answered {status} without JSON") from None
    if status >= 400:
        reason = answer.get("error") if isinstance(answer, dict) else None
        raise ControlError(f"{where} answered {status}: {reason or text}")
    return answer


def _connect_once_it_listens(connection: http.client.HTTPConnection, wait: float) -> None:
    give_up_at = time.monotonic() + wait
    while True:
        try:
            return connection.connect()
        except ConnectionRefusedError:
            if time.monotonic() >= give_up_at:
                raise
        time.sleep(PAUSE)


def strange(where: str, what: str) -> ControlError:
    """Return the error for an answer that no emulator gives."""
    return ControlError(f"{where} {what}, which no emulator does: give the URL that serve printed with --control")
