# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host on loopback that sends bytes as scripted, whatever HTTP says about them."""

import itertools
import socket
import struct
import threading

DRIP_PAUSE = 0.1
PATIENCE = 120.0  # seconds after which it gives up on a client that does not


class Endless:
    """The same bytes over and over, as fast as the client takes them."""

    def __init__(self, data):
        self.data = data * (1 + 65536 // len(data))

    def play(self, connection, _stop):
        while True:
            connection.sendall(self.data)


class Hold:
    """Nothing, until the test says ``go_on``."""

    def play(self, _connection, stop):
        stop.go_on.wait(PATIENCE)


class Mark:
    """Lets the test know that the script has come so far."""

    def __init__(self):
        self.reached = threading.Event()

    def play(self, _connection, _stop):
        self.reached.set()


class Drip:
    """One byte at a time, slower than any client that has a limit should wait for; with ``repeat`` for ever."""

    def __init__(self, data, repeat=False):
        self.data, self.repeat = data, repeat

    def play(self, connection, stop):
        bytes_to_send = itertools.cycle(self.data) if self.repeat else self.data
        for count, each in enumerate(bytes_to_send):
            connection.sendall(bytes([each]))
            if stop.wait(DRIP_PAUSE) or count * DRIP_PAUSE > PATIENCE:
                return


class Hang:
    """Nothing, until the client goes."""

    def play(self, connection, _stop):
        connection.settimeout(PATIENCE)
        while connection.recv(4096):
            pass


class Reset:
    """The end of the connection by RST."""

    def play(self, connection, _stop):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


class Request:
    """The next request of the client on this connection, before going on."""

    def play(self, connection, _stop):
        receive_request(connection)


def receive_request(connection):
    """Read a request; its bytes, or as much as came of it."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            return received
        received += more
    head, _end, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        more = connection.recv(65536)
        if not more:
            break
        body += more
    return head + b"\r\n\r\n" + body


class RawService:
    """``scripts``: what to send on each connection after its first request, the last one again and again.

    A script is a list of bytes and of the classes above; at its end the connection is closed.
    """

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.requests = []
        self.connections = 0
        self._stop = threading.Event()
        self._stop.go_on = threading.Event()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def go_on(self):
        """Let the scripts go on that hold."""
        self._stop.go_on.set()

    def stop(self):
        self._stop.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the service did not stop"

    def _accept(self):
        while True:
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            script = self.scripts[min(self.connections, len(self.scripts) - 1)]
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, script), daemon=True).start()

    def _serve(self, connection, script):
        connection.settimeout(PATIENCE)
        with connection:
            try:
                self.requests.append(receive_request(connection))
                for step in script:
                    if isinstance(step, bytes):
                        connection.sendall(step)
                    else:
                        step.play(connection, self._stop)
                self._close(connection)
            except OSError:
                pass  # the client went, as it may

    @staticmethod
    def _close(connection):
        """Close in order: a mere close() resets the connection if the client has sent more."""
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(5)
        while connection.recv(65536):
            pass
