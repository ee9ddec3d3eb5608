# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the loop waits for: datagrams of the operator and of the root side, and what threads deliver."""

import collections
import contextlib
import os
import select
import socket
from typing import Any, Callable, Deque, Iterator, List, Tuple

from . import control


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

    def wait(self, seconds: float, take_command: Callable[[control.Command], str]) -> None:
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

    def _listen_to_messages(self, take_command: Callable[[control.Command], str]) -> None:
        with contextlib.suppress(BlockingIOError):
            for _message in range(100):
                message, sender = self._listener.recvfrom(control.LARGEST)
                command = control.parse(message)
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
