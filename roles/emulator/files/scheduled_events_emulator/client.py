# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the control API on the standard library: no proxy, no redirect, a time-out."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

DEFAULT_CONTROL = "http://127.0.0.1:8170"
TIMEOUT = 10.0


class ControlError(RuntimeError):
    """The control API refused a request or could not be reached."""


def quoted(part: str) -> str:
    """Return ``part`` as one segment of a path."""
    return quote(part, safe="")


class ControlClient:
    """Talks to the control API at ``control``: a URL, or HOST:PORT."""

    def __init__(self, control: str = DEFAULT_CONTROL) -> None:
        parts = urlsplit(control if "://" in control else f"http://{control}")
        if parts.scheme != "http" or not parts.hostname:
            raise ControlError(f"--control {control}: expected a URL such as {DEFAULT_CONTROL}")
        self._url = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.hostname
        self._port = parts.port or 80

    def request(self, method: str, path: str, body: Any | None = None) -> Any:
        """Return the JSON answer of ``method`` on ``path``. Raises ControlError with the reason."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        where = f"{method} {self._url}{path}"
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, body=payload, headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise ControlError(f"{where}: {error or type(error).__name__}; is the emulator running there?") from None
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            raise ControlError(f"{where} answered {response.status} without JSON; is this an emulator?") from None
        if response.status >= 400:
            reason = answer.get("error") if isinstance(answer, dict) else None
            raise ControlError(f"{where} answered {response.status}: {reason or text}")
        return answer
