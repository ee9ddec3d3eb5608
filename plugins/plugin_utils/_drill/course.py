# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a drill on one host. Private to the collection.

Everything outside is an argument: the host, the source of the event, the load, the clock. So each way in which a drill
can go wrong is a test without a host.
"""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.clock import Clock
from ...module_utils._scheduled_events.history import Fact
from .._report.story import PREPARE, RECOVER, Lane
from .load import Counts
from .verdict import ABORTED, FAILED, PASSED, Verdict, exceeded_limits, figures_of, lane_of, problems_of, unfinished

LOOK_EVERY = 2.0  # seconds, and what a look takes
OUT_OF_SIGHT = 60.0  # seconds without a look at the host after which the drill is given up
RESTORED_WITHIN = 60.0  # seconds until the polling unit must have read its own service again
HANDLED_WITHIN = 30.0  # seconds, besides what the hooks may take


class DrillRefused(Exception):
    """The drill did not begin; the message says why, and what to do."""


class HostLost(Exception):
    """The host cannot be reached."""


class Announced(t.NamedTuple):
    """The event of the drill. ``at``: when it was announced, in seconds since the epoch on the clock of the host.

    :param event_id: empty until the host sees it, if only Azure knows it. Then ``at`` is when Azure was asked.
    """

    event_id: str
    at: float


class Look(t.NamedTuple):
    """What the host shows.

    :param ended: why the drill was ended on the host, in words; empty while it goes on.
    :param restored: whether the polling unit asks its own service, and has read it.
    """

    facts: tuple[Fact, ...]
    ended: str
    restored: bool


class Source(t.Protocol):
    """Where the event comes from."""

    def begin(self) -> None: ...

    def announce(self) -> Announced: ...

    def look(self) -> Look: ...

    def cancel(self) -> bool: ...

    def end(self) -> None: ...

    def note(self, event_id: str, verdict: Verdict | None) -> None: ...


class Requests(t.Protocol):
    """The load on the service of the hosts."""

    def start(self) -> None: ...

    def stop(self) -> Counts: ...

    def counts(self) -> Counts: ...

    def failing(self) -> tuple[str, float]: ...


class Settings(t.NamedTuple):
    """What the owner wants. Times are in seconds.

    :param steady: how long the service must be healthy before the event.
    :param stop_after: how long the service may fail before the drill is stopped.
    :param patience: from the announcement until the event is over and the host has returned.
    :param recovery: for the recovery after an event that was cancelled.
    """

    host: str
    steady: float
    stop_after: float
    patience: float
    recovery: float
    limits: t.Mapping[str, float | None]


class Drill:
    """One drill of one host."""

    def __init__(
        self,
        source: Source,
        load: Requests | None,
        settings: Settings,
        clock: Clock,
        say: t.Callable[[str], None],
    ) -> None:
        self._source, self._load = source, load
        self._settings = settings
        self._clock = clock
        self._say = say
        self._lane: Lane | None = None
        self._event = Announced("", 0.0)
        self._announced_at: float | None = None
        self._stopped = ""
        self._aborted = ""
        self._seen_at = clock.monotonic()
        self._said: list[str] = []
        self._problems: tuple[str, ...] = ()  # before the event was cancelled

    def run(self) -> Verdict:
        """The verdict.

        :raises DrillRefused: the service is not healthy, or the drill could not begin. Nothing was announced.
        """
        counts: Counts | None = None
        try:
            self._steady_state()
            try:
                self._source.begin()
                self._event = self._source.announce()
                self._announced_at = self._event.at if self._event.event_id else None
                self._say(f"announced {self._event.event_id}".rstrip())
                self._note(None)
                self._watch()
                self._cancel()
            finally:
                self._source.end()
            unrestored = self._restored()
        finally:
            if self._load is not None:
                counts = self._load.stop()
        verdict = self._verdict(counts, unrestored)
        self._note(verdict)
        return verdict

    def _steady_state(self) -> None:
        """Whether the service is healthy.

        :raises DrillRefused: it is not.
        """
        if self._load is None:
            return
        self._load.start()
        self._clock.sleep(self._settings.steady)
        counts = self._load.counts()
        if counts.lost or not counts.requests:
            why = counts.first_failures[0] if counts.first_failures else None
            shown = f"{why.url}: {why.reason}" if why else "no request was answered"
            raise DrillRefused(
                f"the service is not healthy before the drill: {counts.lost} of {counts.requests} requests were lost "
                f"({shown}). Fix the service, or correct drill_probe_urls"
            )
        self._say(f"healthy: {counts.requests} requests, none lost")

    def _watch(self) -> None:
        """Until the event is over and the host has returned, or something ends the drill."""
        give_up_at = self._clock.monotonic() + self._settings.patience
        while not self._has_to_end():
            if self._clock.monotonic() > give_up_at:
                self._stopped = f"the drill took more than {self._settings.patience:g} s"
                return
            self._look()
            if self._is_complete() or self._is_stuck():
                return
            self._clock.sleep(LOOK_EVERY)

    def _has_to_end(self) -> bool:
        if self._load is not None:
            url, seconds = self._load.failing()
            if seconds > self._settings.stop_after:
                self._stopped = f"{url} failed for {seconds:.1f} s, so the drill was stopped"
        return bool(self._stopped or self._aborted)

    def _look(self) -> None:
        try:
            look = self._source.look()
        except HostLost as error:
            if self._clock.monotonic() - self._seen_at > OUT_OF_SIGHT:
                self._stopped = f"the host was out of sight for more than {OUT_OF_SIGHT:g} s: {error}"
            return
        self._seen_at = self._clock.monotonic()
        if look.ended:
            self._aborted = look.ended
        if not self._event.event_id:
            seen = next((fact for fact in look.facts if fact.event_id and fact.time >= self._event.at), None)
            if seen is not None:
                self._event = self._event._replace(event_id=seen.event_id)
                self._note(None)
        if self._event.event_id:
            self._lane = lane_of(look.facts, self._settings.host, self._event.event_id) or self._lane
        self._report()

    def _note(self, verdict: Verdict | None) -> None:
        """Write into the history of the host that the event is a drill, and how the drill ended."""
        if self._event.event_id:
            try:
                self._source.note(self._event.event_id, verdict)
            except HostLost as error:
                self._say(f"the history of the host lacks the drill: {error}")

    def _report(self) -> None:
        """Say what is new."""
        lane = self._lane
        if lane is None:
            return
        lines = ["seen"]
        for each in lane.stretches:
            lines.append(f"{each.phase} began")
            if each.outcome:
                lines.append(f"{each.phase} ended: {each.outcome} {each.reason}".rstrip())
        lines += [name for name in ("acknowledged", "started", "over", "returned") if getattr(lane, name) is not None]
        if lane.held:
            lines.append(f"held: {lane.held}")
        for line in lines:
            if line not in self._said:
                self._said.append(line)
                self._say(line)

    def _is_complete(self) -> bool:
        return self._lane is not None and (not self._lane.unfinished or self._failed(RECOVER))

    def _is_stuck(self) -> bool:
        """Whether only an operator can go on, so that to wait shows nothing more."""
        lane = self._lane
        return (
            lane is not None
            and lane.over is None
            and lane.started is None
            and (bool(lane.held) or self._failed(PREPARE))
        )

    def _failed(self, phase: str) -> bool:
        last = self._lane.last.get(phase) if self._lane else None
        return last is not None and last.failed

    def _cancel(self) -> None:
        """Cancel the event unless it is over, and wait for the recovery of the host."""
        if self._is_complete() or self._aborted:
            return
        self._problems = problems_of(self._lane)
        if not self._source.cancel():
            return
        self._say("cancelled")
        give_up_at = self._clock.monotonic() + self._settings.recovery
        while not self._is_complete() and not self._aborted and self._clock.monotonic() < give_up_at:
            self._clock.sleep(LOOK_EVERY)
            self._look()

    def _restored(self) -> str:
        """Why the host is not as it was before; empty if it is."""
        give_up_at = self._clock.monotonic() + RESTORED_WITHIN
        why = "its polling unit has not read its own service"
        while self._clock.monotonic() < give_up_at:
            try:
                if self._source.look().restored:
                    return ""
            except HostLost as error:
                why = str(error)
            self._clock.sleep(LOOK_EVERY)
        return f"the host is not restored: {why}. Run 'systemctl stop scheduled-events-drill' on it"

    def _verdict(self, counts: Counts | None, unrestored: str) -> Verdict:
        figures = figures_of(self._lane, self._announced_at, counts)
        exceeded = exceeded_limits(figures, self._settings.limits)
        problems = [self._stopped, *self._problems, *problems_of(self._lane), *unfinished(self._lane), *exceeded]
        if self._aborted:
            problems = [f"the drill was ended: {self._aborted}"]
        problems.append(unrestored)
        problems = [each for each in problems if each]
        outcome = ABORTED if self._aborted else FAILED if problems else PASSED
        return Verdict(outcome, tuple(dict.fromkeys(problems)), figures, counts.requests if counts else 0)
