# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a turn on the host lasts, so that other hosts can go on. Private to the collection."""

from __future__ import annotations

from .context import Context
from .play_coordinator import ClaimStatus

LONGEST_SLICE, SHORTEST_SLICE, TAKEOVER_SLICE = 60.0, 5.0, 15.0  # seconds


class Pace:
    """The pace of one host."""

    def __init__(self, context: Context) -> None:
        self._context, self._notes, self._coordinator = context, context.notes, context.coordinator
        # A host that waits then keeps another one from running.
        self._makes_room = context.shares_fork or context.lockstep

    def slice(self, *, locked_out: bool) -> float:
        """The seconds to poll on the host. They grow if each wait returns to the play, as this nests inclusions."""
        rest = max(1.0, float(self._context.options["wait_timeout"]) - self._context.waited())
        longest = min(rest, LONGEST_SLICE)
        if not self._notes["answered"]:
            # A lease of a run that is dead here is found out at once.
            return min(longest, TAKEOVER_SLICE) if locked_out else 0.0
        statuses = self._open_statuses()
        if ClaimStatus.CLAIMED in statuses:
            return min(longest, SHORTEST_SLICE)
        if statuses:
            longest = min(longest, TAKEOVER_SLICE)
        if self._makes_room:
            return min(longest, self.stay())
        return longest

    def stay(self) -> float:
        """The seconds to hold the other hosts. Each time that they continue, inclusions nest deeper."""
        return max(SHORTEST_SLICE, self._context.waited() / 10)

    def _open_statuses(self) -> set[ClaimStatus]:
        """The statuses of the announced events that this host may acknowledge, or that another host is about to."""
        present = {each["event_id"] for each in self._notes["waiting"] if each["present"]}
        announced = (event_id for event_id in self._notes["announced"] if event_id in present)
        return {self._coordinator.status(event_id) for event_id in announced} - {ClaimStatus.ACCEPTED}
