# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that a Windows host sends with ansible.windows.win_uri. Private to the collection.

The host carries the bytes and nothing else. What they mean is read on the control node, by the same library that reads
them on other hosts.
"""

from __future__ import annotations

import math
import typing as t
from urllib.parse import urlencode

from ...module_utils._scheduled_events.exchange import (
    MAX_BODY,
    Answer,
    BrokenOff,
    Exchanger,
    HttpRequest,
    Malformed,
    NotConnected,
    announced_length,
)
from ...module_utils._scheduled_events.text import excerpt, shown

WIN_URI = "ansible.windows.win_uri"

# With any status in this list, an answer that has it is a result and not a failure, and its body is returned.
STATUSES = list(range(200, 600))

# win_uri gives the words of .NET, which are in the language of Windows. One in another language counts as BrokenOff,
# which only means that the library goes on asking for longer.
NOT_CONNECTED = (
    "unable to connect",
    "actively refused",
    "no connection could be made",
    "could not be resolved",
    "no such host is known",
)
PREFIX = "Unhandled exception occurred when sending web request. Exception: "


class WinUriError(Exception):
    """The module did not get as far as a request. The message says why."""


class WinUri(Exchanger):
    """Exchanges of a Windows host.

    :param execute: runs win_uri with these arguments on the host, for so many seconds at most, and returns its result.
    """

    def __init__(self, execute: t.Callable[[dict[str, t.Any], float], t.Mapping[str, t.Any]]) -> None:
        self._execute = execute

    def exchange(self, request: HttpRequest, seconds: float) -> Answer:
        target = f"{request.url}?{urlencode(request.query)}" if request.query else request.url
        arguments = {
            "url": target,
            "method": request.method,
            "headers": dict(request.headers),
            "return_content": True,
            "status_code": STATUSES,
            "use_proxy": False,
            "follow_redirects": "none",
            "url_timeout": max(1, math.ceil(seconds)),  # 0 would be for ever
        }
        if request.body is not None:
            arguments["body"] = request.body
        self.connected = False
        result = self._execute(arguments, seconds)
        if "url" not in result:  # which win_uri returns always, once it understood its arguments
            raise WinUriError(shown(str(result.get("msg") or "it gave no reason"), 1000))
        status = result.get("status_code")
        if not isinstance(status, int):
            raise self._failure(result)
        self.connected = True
        reason = shown(str(result.get("status_description") or ""), 60)
        location = {"location": str(result["location"])} if result.get("location") else {}
        return Answer(target, status, reason, location, _body(result, status))

    def _failure(self, result: t.Mapping[str, t.Any]) -> Exception:
        reason = _reason(result)
        if any(words in reason.lower() for words in NOT_CONNECTED):
            return NotConnected(reason)
        self.connected = True
        return BrokenOff(reason)


def _reason(result: t.Mapping[str, t.Any]) -> str:
    message = str(result.get("msg") or "win_uri failed and gave no reason")
    return shown(message[len(PREFIX) :] if message.startswith(PREFIX) else message)


def _body(result: t.Mapping[str, t.Any], status: int) -> bytes:
    """The body as it came.

    :raises ExchangeFailed: the status is 200, and the body is not there whole.
    """
    content = result.get("content")
    body = str(content or "").encode("utf-8", "replace")
    if status != 200:
        return body[:MAX_BODY]
    if content is None or result.get("failed"):
        raise BrokenOff(_reason(result))
    length = announced_length(str(result.get("content_length")))
    if len(body) > MAX_BODY:
        raise Malformed(f"its body is longer than {MAX_BODY} bytes")
    # win_uri puts U+FFFD in place of what is not UTF-8, which the service never sends itself.
    if "\ufffd" in str(content):
        raise Malformed(f"it is not text in UTF-8: {excerpt(body)}")
    if length not in (None, len(body)):
        raise BrokenOff(f"it broke off after {len(body)} of {length} bytes")
    return body
