# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The impact of a maintenance, as the unit measures it: its loop stood still, or the VM rebooted.

What a pause by a hypervisor looks like from inside is not known: the monotonic clock may stop with the VM, and the wall
clock may be corrected afterwards. So both clocks count, and the larger gap is the impact.
"""

import contextlib
import os
from typing import Callable, List, Optional, Set

from _scheduled_events.announced import boottime
from _scheduled_events.clock import Clock
from _scheduled_events.history import IMPACT, NO_IMPACT, PAUSED, POLLER, REBOOTED, Fact
from _scheduled_events.state import EventState
from _scheduled_events.transitions import Step

LONGEST_ITERATION = 2.5  # seconds; an iteration of the loop takes one, and a longer one is a gap

_STARTED = 19  # of the fields after the name of the process, in ticks since the boot


def since_boot() -> Optional[float]:
    """Seconds since the first process of this machine, or container, began; ``None`` if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/1/stat", "rb") as file:
            ticks = int(file.read(4096).rpartition(b")")[2].split()[_STARTED])
        return max(0.0, boottime() - ticks / os.sysconf("SC_CLK_TCK"))
    return None


class ImpactMeter:
    """Measures, and makes a fact of each impact on an event.

    :ivar rebooted: whether the unit has not run since the boot.
    """

    def __init__(self, clock: Clock, since_boot: Callable[[], Optional[float]] = since_boot) -> None:
        self._clock, self._since_boot = clock, since_boot
        self._wall = self._monotonic = 0.0  # at the last iteration; 0: there was none
        self._step: Optional[Step] = None
        self._measured: Set[str] = set()  # the events whose impact was measured, or began before this process polled
        self._polled = False
        self.rebooted = False

    def iteration(self) -> List[Fact]:
        """The facts after an iteration of the loop: those of a gap, if there was one."""
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        gap = max(monotonic - self._monotonic, wall - self._wall) if self._monotonic else 0.0
        self._wall, self._monotonic = wall, monotonic
        if gap <= LONGEST_ITERATION or self._step is None:
            return []
        reason = f"the unit stood still for {gap:.1f} s"
        return [
            self._fact(self._step, key, entry, PAUSED, gap, reason)
            for key, entry in self._step.after.events.items()
            if entry.is_announced and (entry.impact or entry.approval.accepted)
        ]

    def step(self, step: Step, *, polled: bool) -> List[Fact]:
        """The facts after a step of the engine: those of a reboot, and of an event that is over without an impact.

        :param polled: whether a document has been read since the unit began.
        """
        if not self._polled:
            # An earlier process may have measured it, or stood still for so long that its watchdog ended it.
            found = (*step.before.events.items(), *step.after.events.items())
            self._measured.update(key for key, entry in found if entry.impact)
        self._step, self._polled = step, polled
        facts = []
        if self.rebooted and polled:
            self.rebooted = False
            facts = self._reboots(step)
        for key, entry in step.before.events.items():
            after = step.after.events.get(key)
            if entry.impact and entry.is_announced and not (after and after.is_announced):
                if key not in self._measured:
                    facts.append(self._fact(step, key, entry, NO_IMPACT, 0.0, "no impact was noticed"))
                self._measured.discard(key)
        return facts

    def _reboots(self, step: Step) -> List[Fact]:
        seconds = self._since_boot()
        reason = "rebooted" if seconds is None else f"rebooted, {seconds:.0f} s until the first poll"
        waits = {key for key, entry in step.after.events.items() if entry.is_announced and not entry.impact}
        return [
            self._fact(step, key, entry, REBOOTED, seconds, reason)
            for key, entry in step.before.events.items()
            if entry.is_announced and key not in waits
        ]

    def _fact(
        self, step: Step, key: str, entry: EventState, outcome: str, measured: Optional[float], reason: str
    ) -> Fact:
        self._measured.add(key)
        event = entry.event
        return Fact(
            kind=IMPACT,
            time=self._clock.wall(),
            source=POLLER,
            vm_name=step.config.vm_name,
            boot_id=step.now.boot_id,
            event_id=event.event_id or "",
            event_type=event.event_type or "",
            outcome=outcome,
            reason=reason,
            announced_seconds=None if event.duration_in_seconds is None else float(event.duration_in_seconds),
            measured_seconds=measured,
        )
