# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small hosts on loopback that give one fixed answer, and know what they were asked."""

import contextlib

from web_servers import Handler, WebServer


class WebHost:
    """Answers every request alike, on a thread.

    :param path_bodies: other bodies for the paths that start so.
    """

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        path_bodies: dict[str, bytes] | None = None,
    ) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []  # method, target, headers in lower case
        host = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.content()
                names = {name.lower(): value for name, value in self.headers.items()}
                host.asked.append((self.command, self.path, names))
                matching = (other for start, other in (path_bodies or {}).items() if self.path.startswith(start))
                with contextlib.suppress(OSError):  # the other end was killed
                    self.reply(status, next(matching, body), headers or {})

            do_GET = do_POST = _answer

        self._server = WebServer(Answer)
        self.endpoint = self._server.url
        self.stop = self._server.stop
