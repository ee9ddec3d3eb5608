# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small hosts on loopback that give one fixed answer, and know what they were asked."""

import contextlib
import http.server
import threading
from typing import Any


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

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                names = {name.lower(): value for name, value in self.headers.items()}
                host.asked.append((self.command, self.path, names))
                matching = (other for start, other in (path_bodies or {}).items() if self.path.startswith(start))
                content = next(matching, body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):  # the other end was killed
                    self.wfile.write(content)

            do_GET = do_POST = _answer  # noqa: N815 - the names that http.server looks for

            def log_message(self, *_arguments: Any) -> None:
                """Keep the output of the tests free of it."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
