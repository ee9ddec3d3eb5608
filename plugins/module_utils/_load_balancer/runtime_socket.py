# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runtime socket of HAProxy: one command, one complete answer."""

import errno
import os
import re
import socket
from typing import Tuple, Union

from .._scheduled_events.clock import CLOCK, Clock

MAX_ANSWER = 64 * 1024 * 1024  # bytes; "show stat" needs about 500 for each server
FLEETING = (errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.EAGAIN)  # while HAProxy restarts
RETRY_FOR = 5.0  # seconds for which to try again while HAProxy seems to restart
LONGEST_PATH = 107  # bytes of the path of a Unix socket, in Linux


class HAProxyError(Exception):
    """HAProxy gave no complete answer, or refused the command. The message says what to do."""


class Fleeting(HAProxyError):
    """As happens while HAProxy restarts: a little later it may work."""


class RuntimeSocket:
    """Commands for one HAProxy, each over a separate connection.

    :param address: path of a Unix socket, or HOST:PORT.
    :param timeout: seconds for each step of a command.
    """

    def __init__(self, address: str, *, timeout: float = 10.0, clock: Clock = CLOCK) -> None:
        self.address = address
        self._timeout = timeout
        self._clock = clock

    def ask(self, command: str) -> str:
        """The answer to a command, without the empty line at its end.

        :raises HAProxyError: there is none, even after some seconds, or HAProxy refuses the command.
        """
        give_up_at = self._clock.monotonic() + RETRY_FOR
        while True:
            try:
                answer = self._exchange(command)
                break
            except Fleeting:
                if self._clock.monotonic() >= give_up_at:
                    raise
                self._clock.sleep(0.5)
        text = re.sub(r"^\[\d\]:", "", answer)  # with "set severity-output number"
        if text.startswith("Permission denied"):
            raise HAProxyError(
                f'HAProxy refused "{command}" on {self.address}: {text.strip()}. Give the socket "level admin" in '
                "haproxy.cfg"
            )
        if text.startswith("Unknown command"):
            raise HAProxyError(
                f'HAProxy does not know "{command}" (answer on {self.address}: {text.splitlines()[0]}). '
                "Expected HAProxy 1.6 or newer, and the socket of a worker, not of the master process"
            )
        return text

    def send(self, command: str) -> None:
        """Send a command that has no answer when it succeeds.

        :raises HAProxyError: it did not succeed.
        """
        answer = self.ask(command).strip()
        if answer:
            raise HAProxyError(f'HAProxy refused "{command}" on {self.address}: {answer}')

    def _exchange(self, command: str) -> str:
        family, where = _target(self.address)
        with socket.socket(family) as connection:
            connection.settimeout(self._timeout)
            try:
                connection.connect(where)
                connection.sendall(command.encode() + b"\n")
                answer = self._read(connection)
            except socket.timeout:
                raise Fleeting(
                    f'"{command}" on {self.address} got no answer within {self._timeout:g} s. Check that HAProxy runs'
                ) from None
            except OSError as error:
                raise self._explained(error, command) from None
        # An empty line ends each answer. What is cut may look like an answer with fewer servers.
        if answer != b"\n" and not answer.endswith(b"\n\n"):
            raise Fleeting(
                f'The answer to "{command}" on {self.address} was cut off after {len(answer)} bytes. '
                "Check that HAProxy runs, and that this is its runtime socket"
            )
        return answer[:-1].decode("utf-8", "replace")

    def _read(self, connection: socket.socket) -> bytes:
        answer = bytearray()
        while True:
            part = connection.recv(65536)
            if not part:
                return bytes(answer)
            answer += part
            if len(answer) > MAX_ANSWER:
                raise HAProxyError(
                    f"{self.address} sent more than {MAX_ANSWER} bytes. "
                    "Check that this is the runtime socket of HAProxy"
                )

    def _explained(self, error: OSError, command: str) -> HAProxyError:
        kind = Fleeting if error.errno in FLEETING else HAProxyError
        advice = {
            errno.ENOENT: 'Check that HAProxy runs, and that this is the path in its "stats socket"',
            errno.ECONNREFUSED: "No program listens there. Check that HAProxy runs",
            errno.EACCES: "Become root, or change the mode of the socket",
            errno.EPERM: "Become root, or change the mode of the socket",
        }.get(error.errno or 0, "Check that HAProxy runs, and that this is its runtime socket")
        reason = error.strerror or str(error)
        return kind(f'"{command}" could not be sent to {self.address}: {reason}. {advice}')


def _target(address: str) -> Tuple[int, Union[str, Tuple[str, int]]]:
    if address.startswith("/"):
        length = len(os.fsencode(address))
        if length > LONGEST_PATH:
            raise HAProxyError(
                f"{address} is not a socket: its path has {length} bytes, expected {LONGEST_PATH} at most. "
                "Use a shorter path or HOST:PORT"
            )
        return socket.AF_UNIX, address
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and re.match(r"[0-9]{1,5}\Z", port) and int(port) < 65536):
        raise HAProxyError(f"{address} is not a socket: expected an absolute path or HOST:PORT")
    return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, int(port))
