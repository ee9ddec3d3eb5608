# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dry run: the same interfaces as hooks, acknowledger and state file, without effect."""

import collections
from typing import Any, Callable, Deque, Optional, Sequence

from _scheduled_events import terms
from _scheduled_events.runs import OK
from _scheduled_events.state import State

from .. import systemd
from ..spool import Job, RunResult
from .service import Acknowledged


class DryRunHooks:
    """Reports the hooks that would run, and treats them as successful."""

    def __init__(self) -> None:
        self._asked: Deque[str] = collections.deque(maxlen=1000)

    def prepare(self) -> None:
        """Nothing is needed."""

    def ask(self, job: Job) -> str:
        """Report the run; it is never refused."""
        systemd.log(systemd.INFO, f"{job.event['event_id']}: dry run: would run the {job.phase} hooks")
        self._asked.append(job.request_id)
        return ""

    def result(self, request_id: str) -> Optional[RunResult]:
        """A requested run has succeeded."""
        return RunResult(request_id, OK, "", 0.0) if request_id in self._asked else None


class DryRunAcknowledger:
    """Reports the acknowledgements that would be sent, and treats them as accepted."""

    next_attempt: Optional[float] = None

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        self._deliver = deliver

    def connect(self, _settings: Any, _resolver: Any) -> None:
        """No connection is needed."""

    def drop(self) -> None:
        """Nothing is under way."""

    def busy_for(self) -> float:
        """Nothing is under way."""
        return 0.0

    def offer(self, actions: Sequence[terms.Approve], _config: terms.Config) -> None:
        """Report the events."""
        if actions:
            for action in actions:
                systemd.log(systemd.INFO, f"{action.event_id}: dry run: would acknowledge it")
            self._deliver(Acknowledged(self, [terms.ApprovalResult(action.key, accepted=True) for action in actions]))

    def end(self) -> None:
        """Nothing is under way."""


class DryRunStateFile:
    """Stores nothing, since a dry run must never count as done."""

    def prepare(self) -> None:
        """Nothing is needed."""

    def load(self) -> Optional[State]:
        """There is no state."""
        return None

    def save(self, _state: State) -> None:
        """Keep nothing."""
