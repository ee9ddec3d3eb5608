# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a host that waits stays on the control node, and when it returns to the play. Private to the collection."""

from __future__ import annotations

from .context import Context
from .play_coordinator import ClaimStatus

# A host that has prepared waits on the control node while others prepare, since a turn on the host would cost their
# time. After so many seconds it takes a turn anyway, so that a start, a change, a cancellation or another event is
# noticed: up to 120 hosts together take two turns a second at most, and each host takes one a minute at least.
LEAST_REST, REST_OF_EACH_HOST, LONGEST_REST, REST_STEP = 10.0, 0.5, 60.0, 0.5
# Seconds to rest while other hosts need the fork: first these, then twice as long each time, up to the larger of
# the other and a tenth of the time that the host has waited, since inclusions nest deeper each time that it returns.
FIRST_STAY, LONG_STAY = 0.25, 2.0
# Seconds to keep a fork that no host at work needs: those that rest look at their events, too.
LONGEST_STAY = LEAST_REST
# Ansible-core ends a run whose inclusions nest some 290 deep. So a host stays longer before each return: 200 of them
# take a day, 240 a week.
LEAST_STAY, STAY_GROWTH = 0.25, 1.05


class Stay:
    """The stay of one host between two tasks of the play."""

    def __init__(self, context: Context) -> None:
        self._context, self._clock = context, context.clock
        self._host, self._notes, self._coordinator = context.host, context.notes, context.coordinator
        self._began = self._clock.monotonic()

    @property
    def seconds(self) -> float:
        """Since the task began."""
        return self._clock.monotonic() - self._began

    def begin_to_rest(self, event_ids: list[str], *, at_most: float = LONGEST_REST) -> None:
        """Wait from now on while other hosts have their preparation for these events before them, for a while."""
        longest = min(LONGEST_REST, max(LEAST_REST, REST_OF_EACH_HOST * len(self._context.active_hosts)))
        at_most = min(longest, at_most, self._context.options["wait_timeout"] - self._context.waited())
        until = self._clock.monotonic() + at_most
        self._notes["rest"] = {"event_ids": event_ids, "until": until, "stay": FIRST_STAY}
        self._coordinator.rest(self._host, rests=True)

    def rests(self) -> bool:
        """Wait a little while another host has its preparation or the acknowledgement before it; whether it has.

        In lockstep, :meth:`gives_way` waits.
        """
        rest = self._notes["rest"]
        if not rest:
            return False
        if self._clock.monotonic() >= rest["until"] or not all(map(self._is_with_others, rest["event_ids"])):
            self._notes["rest"] = None
            self._coordinator.rest(self._host, rests=False)
            return False
        if not self._context.lockstep:
            self._coordinator.rest(self._host, rests=True, holds_fork=True)
            keeps = self._may_keep_fork()
            self._clock.sleep(REST_STEP if keeps else rest["stay"])
            if not keeps:
                rest["stay"] = min(2 * rest["stay"], max(LONG_STAY, self._context.waited() / 10))
        return True

    def gives_way(self) -> bool:
        """Whether the host that rests returns to the play now, without its fork."""
        gives = self.makes_room() if self._context.lockstep else self.has_stayed() and not self._may_keep_fork()
        if gives:
            self._coordinator.rest(self._host, rests=True)
        elif self._context.lockstep:
            self._clock.sleep(REST_STEP)
        return gives

    def has_stayed(self) -> bool:
        """Whether the host may return to the play: after a while, or at once where it holds up others in lockstep."""
        return self._holds_up_others() or self._is_due()

    def _is_due(self) -> bool:
        return self.seconds >= LEAST_STAY * float(STAY_GROWTH ** self._notes["returns"])

    def _holds_up_others(self) -> bool:
        context, hosts = self._context, self._context.active_hosts
        return context.lockstep and (
            context.options.get("reached") is False  # others wait for the end of the rescue section
            or self._coordinator.calls(hosts)
            or self._coordinator.others_have_work(self._host, hosts)
            # One of these may be lost, and then keeps its work for good.
            or (self._is_due() and self._coordinator.others_have_work(self._host, context.rescued_hosts))
        )

    def _may_keep_fork(self) -> bool:
        """Whether no other host lacks a fork while this one rests in its own."""
        context = self._context
        if not context.shares_fork:
            return True
        is_long = self.seconds >= LONGEST_STAY
        return not is_long and self._coordinator.forks_suffice(context.active_hosts, context.forks)

    def _is_with_others(self, event_id: str) -> bool:
        status, seen = self._coordinator.status(event_id), self._notes.seen(event_id)
        if status is not ClaimStatus.FREE or seen is None:
            return status is ClaimStatus.CLAIMED
        return self._coordinator.is_ahead_of_others(event_id, seen, self._context.active_hosts)

    def makes_room(self) -> bool:
        """Whether this host returns to the play while it waits, since it keeps others from their work.

        In lockstep a host that returns looks at nothing until all others return. So it stays while none has work.
        """
        may = self.has_stayed() if self._context.shares_fork else self._holds_up_others()
        return may and not self._context.check_mode
