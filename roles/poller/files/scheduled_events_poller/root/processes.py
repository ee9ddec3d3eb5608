# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that this process starts: each in its own session, and with no descriptor of ours."""

import contextlib
import os
import signal
import subprocess
from typing import Mapping, Optional, Sequence, Union

Text = Union[str, bytes]


class Process:
    """A program in its own session.

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
        self._popen = subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def wait(self, seconds: float) -> Optional[int]:
        """Its exit status, negative for a signal, or ``None`` if it has not ended within so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None

    def end(self, grace: float) -> None:
        """End it and all of its process group: SIGTERM, and SIGKILL so many seconds later."""
        self._signal(signal.SIGTERM)
        self.wait(grace)
        self._signal(signal.SIGKILL)
        self.wait(grace)  # longer only if the kernel itself does not let go of it

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
