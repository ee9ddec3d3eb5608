# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to what is outside, a receiver of webhooks or a controller: what follows from each, without secrets."""

import http
import json
from typing import Iterable, Mapping, Optional

from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.exchange import Answer, BadUrl, ExchangeFailed, NotConnected, NotTrusted, retry_after
from _scheduled_events.text import shown
from _scheduled_events.transport import Transport

from . import secret

_NOT_NOW = (408, 423, 425, 429)  # the request was not carried out
_OF_THE_REQUEST = (400, 406, 411, 413, 414, 415, 416, 417, 422, 431)  # the same request gets it again


class Failed(Exception):
    """A request that did not succeed.

    :ivar sent: it may have been carried out nevertheless.
    :ivar pause: seconds for which the other side wants to be left alone.
    """

    def __init__(self, message: str, *, sent: bool = True, pause: float = 0.0) -> None:
        super().__init__(message)
        self.sent = sent
        self.pause = pause


class Unavailable(Failed):
    """There is no answer, or none that says anything. The same request may succeed later."""


class Refused(Failed):
    """The answer stays the same until the owner corrects what the message names."""


class Rejected(Refused):
    """The other side does not accept this request. It may accept another one."""


class Requests:
    """Sends requests, each once.

    :param secrets: what no message may show.
    :param reads: whether the bodies of answers are of use. Otherwise no message quotes an answer.
    :param advice: by status, what to correct.
    :param longest_pause: seconds.
    """

    def __init__(
        self,
        secrets: Iterable[str],
        *,
        reads: bool,
        longest_pause: float,
        ca_file: str = "",
        proxy: str = "",
        advice: Optional[Mapping[int, str]] = None,
        clock: Clock = CLOCK,
    ) -> None:
        self._secrets = list(secrets)
        self._reads = reads
        self._longest_pause = longest_pause
        self._advice = advice or {}
        self._clock = clock
        self._transport = Transport(ca_file=ca_file, proxy=proxy, whole_bodies=reads)

    def hide(self, text: str) -> str:
        return secret.hide(text, self._secrets)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        seconds: float,
        body: Optional[str] = None,
        query: Optional[Mapping[str, str]] = None,
        what: str = "",
    ) -> Answer:
        """The answer, which has a status from 200 to 299.

        :param what: the name of the request in messages.
        :raises Failed: there is no such answer.
        """
        place = f"{what}: " if what else ""
        try:
            answer = self._transport.exchange(
                method, url, query=query or {}, headers=headers, body=body, seconds=seconds
            )
        except NotTrusted as error:
            text = self.hide(str(error))
            raise Refused(f"{place}its certificate is not trusted: {text}: name its authority in ca_file") from None
        except BadUrl as error:
            raise Refused(f"{place}its url cannot be used: {self.hide(str(error))}: correct it") from None
        except ExchangeFailed as error:
            raise Unavailable(place + self.hide(str(error)), sent=not isinstance(error, NotConnected)) from None
        if not 200 <= answer.status < 300:
            raise self._failure(what or "it", answer)
        return answer

    def _failure(self, what: str, answer: Answer) -> Failed:
        status = answer.status
        message = f"{what} answered {status} {_phrase(status)}".rstrip()
        if 300 <= status < 400:
            place = f" to {shown(self.hide(answer.headers.get('location') or ''))}" if self._reads else ""
            return Refused(f"{message}, a redirect{place}, which is not followed: correct its url")
        said = shown(self.hide(_detail(answer.body))) if self._reads else ""
        message += f": {said}" if said else ""
        pause = min(retry_after(answer.headers.get("retry-after"), now=self._clock.wall()), self._longest_pause)
        if status in _NOT_NOW or status >= 500:
            return Unavailable(message, sent=status not in _NOT_NOW, pause=pause)
        message += f": {self._advice[status]}" if status in self._advice else ""
        return (Rejected if status in _OF_THE_REQUEST else Refused)(message, pause=pause)


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""


def _detail(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return text
    detail = decoded.get("detail") if isinstance(decoded, dict) else None
    return detail if isinstance(detail, str) else json.dumps(decoded)
