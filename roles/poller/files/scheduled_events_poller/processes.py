# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes that are started fast and waited for at once; the standard library's subprocess does neither.

It takes longer to import than a hook may wait, and with a timeout looks for the end only every 50 ms.
"""

import contextlib
import fcntl
import os
import signal
import time
from typing import Mapping, Optional, Sequence, Union

Text = Union[str, bytes]


class Process:
    """A program in its own session. Use it as a context manager; one thread at a time.

    :param stdin: ``None`` is /dev/null.
    :param output: where its standard output and error go; ``None`` is where ours go.
    :raises OSError: it cannot be started.
    """

    def __init__(
        self,
        arguments: Sequence[Text],
        *,
        environment: Optional[Mapping[bytes, bytes]] = None,
        stdin: Optional[int] = None,
        output: Optional[int] = None,
    ) -> None:
        self._status: Optional[int] = None
        # Blocked, so that an end between looking and waiting is not missed.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
        try:
            self.pid = self._start(arguments, os.environb if environment is None else environment, stdin, output)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_error: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _start(
        self,
        arguments: Sequence[Text],
        environment: Mapping[bytes, bytes],
        stdin: Optional[int],
        output: Optional[int],
    ) -> int:
        failed, fail = os.pipe()  # closed by the start of the program
        pid = os.fork()
        if pid == 0:
            try:
                fail = fcntl.fcntl(fail, fcntl.F_DUPFD_CLOEXEC, 3)
                self._connect(stdin, output, fail)
                self._become(arguments, environment)
            except OSError as error:
                os.write(fail, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(fail)
        with os.fdopen(failed, "rb") as pipe:
            number = pipe.read()
        if number:
            os.waitpid(pid, 0)
            raise OSError(int(number), os.strerror(int(number)))
        return pid

    def _connect(self, stdin: Optional[int], output: Optional[int], fail: int) -> None:
        """Have the three standard streams, and no other descriptor but the last."""
        if stdin is None:
            stdin = os.open(os.devnull, os.O_RDONLY)
        # Out of the way first: where ours are closed, one of them may have the number of another.
        sources = [fcntl.fcntl(stdin, fcntl.F_DUPFD_CLOEXEC, 3)]
        if output is not None:
            sources += [fcntl.fcntl(output, fcntl.F_DUPFD_CLOEXEC, 3)] * 2
        for target, source in enumerate(sources):
            os.dup2(source, target)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2 and descriptor != fail:
                with contextlib.suppress(OSError):  # that of the list itself
                    os.close(descriptor)

    def _become(self, arguments: Sequence[Text], environment: Mapping[bytes, bytes]) -> None:
        os.setsid()
        os.chdir("/")
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        os.execvpe(arguments[0], list(arguments), dict(environment))  # noqa: S606 - no shell on purpose

    def wait(self, seconds: float) -> Optional[int]:
        """Its exit status, negative for a signal, or ``None`` if it has not ended within so many seconds."""
        until = time.monotonic() + seconds
        while self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                break
            left = until - time.monotonic()
            if left <= 0:
                break
            signal.sigtimedwait((signal.SIGCHLD,), left)
        return self._status

    def end(self, grace: float) -> None:
        """End it and all of its process group: SIGTERM, and SIGKILL so many seconds later."""
        self._signal(signal.SIGTERM)
        self.wait(grace)
        self._signal(signal.SIGKILL)
        self.wait(grace)  # longer only if the kernel itself does not let go of it

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
