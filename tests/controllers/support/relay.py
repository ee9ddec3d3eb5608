# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A TCP relay before a server that must keep running. Clients of the relay see the server stop."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Relay:
    """A relay to the server at ``url`` (http), on a separate port that stays the same, of the address ``host``.

    While it is stopped, connections are refused; those that were open are reset.
    """

    def __init__(self, url: str, host: str = "127.0.0.1") -> None:
        parts = urlsplit(url)
        assert parts.scheme == "http", f"{url}: a relay cannot stand before a server with TLS"
        self._target = (parts.hostname, parts.port or 80)
        self._address = (host, 0)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where the server is found through the relay."""
        return f"http://{self._address[0]}:{self._address[1]}"

    def start(self) -> None:
        """Accept connections, again or for the first time."""
        listener = socket.create_server(self._address)  # reuses the address
        self._address = listener.getsockname()
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and reset those that are open."""
        if self._listener is None:
            return
        # A close alone does not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(listener, client), daemon=True).start()

    def _serve(self, listener: socket.socket, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            with self._lock:
                if self._listener is not listener:
                    return
                self._open |= {client, server}
            back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
            back.start()
            self._copy(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
