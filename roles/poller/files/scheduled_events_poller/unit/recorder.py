# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of this VM, as the unit writes it: after each step, and never in the way of one."""

import collections
from typing import Any, Deque, Dict, Optional, Sequence

from _scheduled_events.clock import Clock
from _scheduled_events.history import PHASE_ENDED, POLLER, Fact
from _scheduled_events.history_file import History, experience
from _scheduled_events.transitions import Step, Writer, facts_of

MOST_WAITING = 500  # facts that wait in memory until they can be written; more are lost, the oldest first
PAUSE = 30.0  # seconds until facts that could not be written are tried again


class Recorder:
    """Writes facts. What cannot be written waits, and only shows as a problem.

    :ivar problem: why facts wait or were lost; empty if all are written.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history: Optional[History] = None
        self._waiting: Deque[Fact] = collections.deque(maxlen=MOST_WAITING)
        self._next_try = 0.0
        self._experience: Optional[Dict[str, Any]] = None
        self.problem = ""

    def open(self, history: Optional[History]) -> None:
        """Use a history; ``None``: write nothing, since nothing is carried out."""
        self._history, self.problem = history, ""
        self._waiting.clear()
        if history is not None:
            try:
                history.prepare()
            except OSError as error:
                self._complain(history, error)

    def experience(self) -> Dict[str, Any]:
        """What the history says about the time of a preparation; see :func:`history_file.experience`."""
        if self._experience is None and self._history is not None:
            self._experience = experience(self._history.directory, now=self._clock.wall())
        return self._experience or {}

    def record_step(self, step: Step) -> None:
        """Write the facts of a step."""
        if self._history is not None:
            by = f"the polling unit of {step.config.vm_name}"
            self.record(facts_of(step, Writer(POLLER, by, step.now.boot_id)))

    def record(self, facts: Sequence[Fact]) -> None:
        """Write facts."""
        if facts and self._history is not None:
            if any((fact.kind, fact.phase) == (PHASE_ENDED, "prepare") for fact in facts):
                self._experience = None  # it is read again when it is needed
            self._waiting.extend(facts)
            self._write(self._history)

    def try_again(self) -> None:
        """Write the facts that wait, if it is time."""
        if self._waiting and self._history is not None and self._clock.monotonic() >= self._next_try:
            self._write(self._history)

    def _write(self, history: History) -> None:
        try:
            history.append(list(self._waiting), now=self._clock.wall())
        except OSError as error:
            self._next_try = self._clock.monotonic() + PAUSE
            self._complain(history, error)
        else:
            self._waiting.clear()
            self.problem = ""

    def _complain(self, history: History, error: OSError) -> None:
        self.problem = f"the history in {history.directory} cannot be written: {error}"
