# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to what is outside, a receiver of webhooks or a controller: what follows from each, without secrets."""

import json
import random
from typing import Callable, Iterable, Mapping, Optional

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.exchange import (
    Answer,
    BadUrl,
    ExchangeFailed,
    HttpRequest,
    NotConnected,
    NotTrusted,
    phrase,
    retry_after,
)
from _scheduled_events.hidden import hide
from _scheduled_events.text import shown
from _scheduled_events.transport import REQUESTS_IMPORT_ERROR, Transport

_NOT_NOW = (408, 423, 425, 429)  # the request was not carried out
_OF_THE_REQUEST = (400, 406, 411, 413, 414, 415, 416, 417, 422, 431)  # the same request gets it again


def spread() -> float:
    """A factor by which a pause is stretched. Many VMs fail at one moment, and must not come back at one moment."""
    return random.uniform(1.0, 2.0)  # noqa: S311 - no secret


class Failed(Exception):
    """A request that did not succeed.

    :ivar sent: it may have been carried out nevertheless.
    :ivar pause: seconds for which the other side wants to be left alone.
    :ivar status: that of the answer, or 0.
    """

    def __init__(self, message: str, *, sent: bool = True, pause: float = 0.0, status: int = 0) -> None:
        super().__init__(message)
        self.sent = sent
        self.pause = pause
        self.status = status


class NotNow(Failed):
    """There is no answer, or none that says anything. The same request may succeed later."""


class Declined(Failed):
    """The answer stays the same until the owner corrects what the message names."""


class Rejected(Declined):
    """The other side does not accept this request. It may accept another one."""


class Requests:
    """Sends requests, each once.

    :param secrets: what no message may show; ``quoted``: what an answer may quote, and no message may show then.
    :param reads: whether the bodies of answers are of use. Otherwise no message quotes an answer.
    :param advice: by status, what to correct.
    :param longest_pause: seconds.
    :param foreign: what to correct where an answer comes from something in between, which may go away; else empty.
    :raises WrongValue: requests cannot be sent.
    """

    def __init__(
        self,
        secrets: Iterable[str],
        *,
        reads: bool,
        longest_pause: float,
        quoted: Iterable[str] = (),
        ca_file: str = "",
        proxy: str = "",
        advice: Optional[Mapping[int, str]] = None,
        foreign: Callable[[Answer], str] = lambda _answer: "",
        clock: Clock = CLOCK,
    ) -> None:
        if REQUESTS_IMPORT_ERROR:
            raise WrongValue("the Python library requests is missing: run the role poller again")
        self._secrets = list(secrets)
        self._quoted = [*self._secrets, *quoted]
        self._reads = reads
        self._longest_pause = longest_pause
        self._advice = advice or {}
        self._foreign = foreign
        self._clock = clock
        self._transport = Transport(ca_file=ca_file, proxy=proxy, whole_bodies=reads)

    def hide(self, text: str) -> str:
        return hide(text, self._secrets)

    def hide_in_answer(self, text: str) -> str:
        return hide(text, self._quoted)

    def send(self, request: HttpRequest, seconds: float, *, what: str = "") -> Answer:
        """The answer, which has a status from 200 to 299.

        :param what: the name of the request in messages, which hide the secrets in it.
        :raises Failed: there is no such answer.
        """
        try:
            answer = self._transport.exchange(request, seconds)
        except ExchangeFailed as error:
            raise self._not_exchanged(f"{self.hide(what)}: " if what else "", error) from None
        if not 200 <= answer.status < 300:
            raise self._failure(self.hide(what) or "it", answer)
        return answer

    def _not_exchanged(self, place: str, error: ExchangeFailed) -> Failed:
        text = self.hide(str(error))
        if isinstance(error, NotTrusted):
            advice = "correct the url, the certificate of the server, or ca_file"
            return Declined(f"{place}its certificate is not trusted: {text}: {advice}")
        if isinstance(error, BadUrl):
            return Declined(f"{place}its url cannot be used: {text}: correct it")
        return NotNow(place + text, sent=not isinstance(error, NotConnected))

    def _failure(self, what: str, answer: Answer) -> Failed:
        status = answer.status
        words = phrase(answer._replace(reason=""))  # its own ones could hold a secret
        message = f"{what} answered {status} {words}".rstrip()
        if 300 <= status < 400:
            place = f" to {shown(self.hide_in_answer(answer.headers.get('location') or ''))}" if self._reads else ""
            message += f", a redirect{place}, which is not followed"
        elif self._reads:
            said = shown(self.hide_in_answer(_detail(answer.body)))
            message += f": {said}" if said else ""
        pause = min(retry_after(answer.headers.get("retry-after"), now=self._clock.wall()), self._longest_pause)
        if status in _NOT_NOW or status >= 500:
            return NotNow(message, sent=status not in _NOT_NOW, pause=pause)
        foreign = self._foreign(answer)
        if foreign:
            return NotNow(f"{message}: {foreign}", sent=False, pause=pause)
        message += f": {self._advice[status]}" if status in self._advice else ""
        return (Rejected if status in _OF_THE_REQUEST else Declined)(message, pause=pause, status=status)


def _detail(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return text
    detail = decoded.get("detail") if isinstance(decoded, dict) else None
    return detail if isinstance(detail, str) else json.dumps(decoded)
