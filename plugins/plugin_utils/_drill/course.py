# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a drill on one host. Private to the collection.

The host, the load and the clock are arguments. So each way in which a drill can go wrong is a test without a host.
"""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events import condition, history
from ...module_utils._scheduled_events.clock import Clock
from ...module_utils._scheduled_events.document import ADVISORY, STARTED, parse_not_before
from .._report.story import RECOVER, Lane
from .asked_host import AskedHost, DrilledHostLost, DrillRefused, Look
from .load import Counts, Load
from .verdict import ABORTED, FAILED, PASSED, Verdict, exceeded_limits, figures_of, lane_of, problems_of, unfinished

LOOK_EVERY = 2.0  # seconds, and what a look takes
OUT_OF_SIGHT = 60.0  # seconds without a look at the host after which the drill is given up
HANDLED_WITHIN = 30.0  # seconds, besides what the hooks may take
CONTINUES = (condition.LEFT_TO_CONTROLLER, condition.TAKES_OVER)  # an event that is held so can still be acknowledged


class Settings(t.NamedTuple):
    """What the owner wants. Times are in seconds.

    :param watch: announce nothing, and wait for an event of the service.
    :param acknowledges: whether the host is to acknowledge the event, or only to prepare.
    :param steady: how long the service must be healthy before the event.
    :param stop_after: how long the service may fail before the drill is stopped.
    :param patience: until the event has shown what it can.
    :param out_of_sight: until a host that cannot be reached is given up.
    :param recovery: from the end of the event until the host has returned.
    """

    host: str
    watch: bool
    acknowledges: bool
    notice: float
    started_for: float
    steady: float
    stop_after: float
    patience: float
    out_of_sight: float
    recovery: float
    limits: t.Mapping[str, float | None]


class Drill:
    """One drill of one host."""

    def __init__(
        self, host: AskedHost, load: Load | None, settings: Settings, clock: Clock, say: t.Callable[[str], None]
    ) -> None:
        self._host, self._load = host, load
        self._settings = settings
        self._clock = clock
        self._say = say
        self._lane: Lane | None = None
        self._event: dict[str, t.Any] | None = None  # as it is announced now
        self._event_id = ""
        self._announced_at: float | None = None  # this time and the next two are on the clock of the host
        self._time = self._not_before = 0.0
        self._started_at: float | None = None
        self._stopped = self._aborted = ""
        self._seen_at = 0.0  # by the monotonic clock
        self._said: list[str] = []

    def run(self) -> Verdict:
        """The verdict.

        :raises DrillRefused: the service is not healthy, or the drill could not begin. Nothing was announced.
        """
        counts: Counts | None = None
        try:
            self._steady_state()
            if not self._settings.watch:
                self._begin()
            try:
                self._seen_at = self._clock.monotonic()
                problems = self._watch()
            finally:
                self._end()
        finally:
            if self._load is not None:
                counts = self._load.stop()
        verdict = self._verdict(counts, problems)
        if self._event_id:
            try:
                self._host.note(self._event_id, verdict.outcome, "; ".join(verdict.problems))
            except DrilledHostLost as error:
                self._say(f"the history of the host lacks the verdict: {error}")
        return verdict

    def _steady_state(self) -> None:
        """Whether the service is healthy.

        :raises DrillRefused: it is not.
        """
        if self._load is None:
            return
        self._load.start()
        self._clock.sleep(self._settings.steady)
        self._load.settle()
        counts = self._load.counts()
        if counts.lost or not counts.requests:
            shown = counts.first_failures[0].text if counts.first_failures else "no request was answered"
            raise DrillRefused(
                f"the service is not healthy before the drill: {counts.lost} of {counts.requests} requests were lost "
                f"({shown}). Fix the service, or correct drill_probe_urls"
            )
        self._say(f"healthy: {counts.requests} requests, none lost")

    def _begin(self) -> None:
        try:
            self._event, self._announced_at = self._host.begin(self._settings.notice)
        except DrilledHostLost as error:
            self._aborted = (
                f"it is not known whether its event was announced, which ends by itself within a minute: {error}"
            )
            return
        self._event_id = self._event["EventId"]
        not_before = parse_not_before(self._event["NotBefore"])
        self._not_before = not_before.timestamp() if not_before else self._announced_at
        self._time = self._announced_at
        self._say(f"announced {self._event_id}")

    def _watch(self) -> tuple[str, ...]:
        """Watch until the host has returned, or something ends the drill. Returns the problems before its end."""
        if not self._clock.until(self._has_shown_all, within=self._settings.patience, every=LOOK_EVERY):
            self._stopped = f"the drill took more than {self._settings.patience:g} s"
        problems = problems_of(self._lane, acknowledges=self._settings.acknowledges)
        if self._event is not None and not self._aborted:
            self._say("ended" if self._started_at is not None else "cancelled")
            self._end()
            self._clock.until(self._has_returned, within=self._settings.recovery, every=LOOK_EVERY)
        return problems

    def _has_shown_all(self) -> bool:
        """Look; whether the event can end, or the drill has to."""
        self._look()
        if self._load is not None and not self._stopped:
            url, seconds = self._load.failing()
            if seconds > self._settings.stop_after:
                self._stopped = f"{url} failed for {seconds:.1f} s, so the drill was stopped"
        return bool(self._stopped or self._aborted or self._is_complete() or self._has_to_end())

    def _has_to_end(self) -> bool:
        """Whether the event has been Started for long enough, or nothing follows before NotBefore."""
        if self._event is None or self._lane is None:
            return False
        if self._started_at is not None:
            return self._time >= self._started_at + self._settings.started_for
        if not self._settings.acknowledges and self._lane.prepared is not None:
            return True
        return bool(self._lane.held) and not self._lane.held.startswith(CONTINUES)

    def _has_returned(self) -> bool:
        self._look()
        return bool(self._aborted) or self._is_complete()

    def _is_complete(self) -> bool:
        last = self._lane.last.get(RECOVER) if self._lane else None
        return self._lane is not None and (not self._lane.unfinished or (last is not None and last.failed))

    def _look(self) -> None:
        """Look at the host. This announces the event for another minute, and as Started once its time has come."""
        if self._event is not None and self._started_at is None and self._begins_now():
            self._started_at = self._time
            self._event = {**self._event, "EventStatus": STARTED, "NotBefore": ""}
        try:
            look = self._host.look(self._event)
        except DrilledHostLost as error:
            if self._clock.monotonic() - self._seen_at > self._settings.out_of_sight and not self._stopped:
                self._stopped = f"the host was out of sight for more than {self._settings.out_of_sight:g} s: {error}"
            return
        self._seen_at, self._time = self._clock.monotonic(), look.time
        self._aborted = self._aborted or self._why_aborted(look)
        if self._settings.watch and not self._event_id:
            seen = (fact for fact in look.facts if fact.kind == history.SEEN and fact.event_id)
            self._event_id = next((fact.event_id for fact in seen if fact.event_type == self._host.event_type), "")
        if self._event_id:
            self._lane = lane_of(look.facts, self._settings.host, self._event_id) or self._lane
        self._report()

    def _begins_now(self) -> bool:
        acknowledged = self._lane is not None and self._lane.acknowledged is not None
        return acknowledged or self._time >= self._not_before

    def _why_aborted(self, look: Look) -> str:
        """Why the event is no longer announced although the drill goes on."""
        if self._settings.watch:
            return ""
        key = self._event_id.lower()
        for fact in look.facts:
            if fact.kind == history.SEEN and fact.key != key and fact.event_status != ADVISORY:
                return f"{fact.event_type} {fact.event_id} of Azure names this VM, and the host handles it"
        if self._event is not None and not look.announced:
            return "its event was no longer announced: the control node did not look in time, or the file was removed"
        return ""

    def _end(self) -> None:
        """Announce the event no longer, if it is announced."""
        event, self._event = self._event, None
        if event is not None:
            try:
                self._host.end(event)
            except DrilledHostLost as error:
                self._say(f"the event ends by itself within a minute: {error}")

    def _report(self) -> None:
        """Say what is new."""
        failures = self._load.counts().first_failures if self._load is not None else ()
        self._say_once([f"lost {failure.text}" for failure in failures])
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
        self._say_once(lines)

    def _say_once(self, lines: list[str]) -> None:
        for line in lines:
            if line not in self._said:
                self._said.append(line)
                self._say(line)

    def _verdict(self, counts: Counts | None, before: tuple[str, ...]) -> Verdict:
        figures = figures_of(self._lane, self._announced_at, counts)
        problems = [
            self._stopped,
            *before,
            *problems_of(self._lane, acknowledges=self._settings.acknowledges),
            *unfinished(self._lane),
            *exceeded_limits(figures, self._settings.limits, counts),
        ]
        if self._aborted:
            problems = [f"the drill was ended: {self._aborted}"]
        problems = [each for each in problems if each]
        outcome = ABORTED if self._aborted else FAILED if problems else PASSED
        requests = counts.requests if counts else 0
        return Verdict(outcome, tuple(dict.fromkeys(problems)), figures, requests, self._settings.acknowledges)
