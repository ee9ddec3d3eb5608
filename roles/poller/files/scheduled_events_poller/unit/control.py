# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The socket of the unit: the operator's requests and their answers, and what else the loop waits for."""

import collections
import contextlib
import json
import os
import select
import socket
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple, Union

from _scheduled_events.terms import Clear, Retry

Command = Union[Retry, Clear]

VERBS: Dict[str, Callable[[str], Command]] = {"retry": Retry, "clear": Clear}
ANSWER_TIMEOUT = 10.0  # seconds
LARGEST = 256 * 1024  # bytes of a request or of an answer; a datagram of Linux has fewer


class NoUnit(Exception):
    """No polling unit accepts the request. The message contains the reason."""


def parse(message: bytes) -> Optional[Command]:
    """The request in a datagram; ``None`` for other content, such as the sign that hooks have ended."""
    try:
        raw = json.loads(message.decode("utf-8"))
        return VERBS[raw["verb"]](str(raw["event_id"]).lower())  # without an id: see terms.Clear
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def send(path: str, verb: str, event_id: str) -> str:
    """Send a request to the unit; returns why it cannot be fulfilled, or an empty text.

    :param path: the socket of the unit, which only root and the unit's own user can reach.
    :raises NoUnit: the unit does not accept the request, or does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.bind("")  # the kernel chooses a name, so that the unit can answer
        sender.settimeout(ANSWER_TIMEOUT)
        try:
            sender.connect(path)  # the kernel then refuses an answer of any other process
            sender.send(json.dumps({"verb": verb, "event_id": event_id}).encode())
            return sender.recv(LARGEST).decode("utf-8", "replace")
        except PermissionError as error:
            raise NoUnit("only root can do this. Run the command with sudo") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoUnit("the polling unit does not run. Start scheduled-events-poller.service") from error
        except OSError as error:
            raise NoUnit(f"the polling unit does not answer: {error}. See its journal") from error


class Inbox:
    """The socket of the unit, and the outcomes of its threads. It also wakes the loop after a signal.

    :param path: of the socket.
    :raises OSError: the socket cannot be made.
    """

    def __init__(self, path: str, stack: contextlib.ExitStack) -> None:
        self._listener = stack.enter_context(_listen(path))
        self._wake_end, self.wake_start = _wake_pipe(stack)
        self._outcomes: Deque[Any] = collections.deque()

    def deliver(self, outcome: Any) -> None:
        """Hand over an outcome, from any thread."""
        self._outcomes.append(outcome)
        with contextlib.suppress(BlockingIOError):
            os.write(self.wake_start, b"\0")

    def outcomes(self) -> Iterator[Any]:
        """What was delivered since the last look, the oldest first."""
        while self._outcomes:
            yield self._outcomes.popleft()

    def wait(self, seconds: float, take_command: Callable[[Command], str]) -> None:
        """Wait until something comes, or so many seconds.

        :param take_command: takes a request of the operator; returns the answer.
        """
        ends: List[Any] = [self._listener, self._wake_end]
        ready = select.select(ends, [], [], seconds)[0]
        if self._wake_end in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._wake_end, 4096):
                    pass
        if self._listener in ready:
            self._listen_to_messages(take_command)

    def _listen_to_messages(self, take_command: Callable[[Command], str]) -> None:
        with contextlib.suppress(BlockingIOError, MemoryError):
            for _message in range(100):
                message, sender = self._listener.recvfrom(LARGEST)
                command = parse(message)
                if command is None:
                    continue
                answer = take_command(command)
                if sender:  # else a socket without a name, which waits for no answer
                    with contextlib.suppress(OSError):
                        self._listener.sendto(answer.encode("utf-8", "replace"), sender)


@contextlib.contextmanager
def _listen(path: str) -> Iterator[socket.socket]:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        try:
            listener.bind(path)
        except OSError as error:
            if error.errno is None:  # "AF_UNIX path too long", without the path
                raise OSError(f"{path}: {error}") from error
            raise
        listener.setblocking(False)
        yield listener


def _wake_pipe(stack: contextlib.ExitStack) -> Tuple[int, int]:
    end, start = os.pipe()
    for descriptor in (end, start):
        os.set_blocking(descriptor, False)
        stack.callback(os.close, descriptor)
    return end, start
