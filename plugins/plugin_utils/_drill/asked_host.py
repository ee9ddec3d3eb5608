# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host of a drill as the control node sees it. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._scheduled_events.announced import LEASE
from ...module_utils._scheduled_events.history import Fact, parse_all
from .._ansible.other_host import OtherHost, OtherHostError, OtherHostUnreachable
from .._ansible.run import refuse_ended_run

MODULE = "maintops.scheduled_events.scheduled_events_drill"
WITHIN = 200.0  # seconds for the first answer


class DrillRefused(Exception):
    """The drill did not begin. The message says why, and what to do."""


class MayBeOut(DrillRefused):
    """The drill did not begin, and the host may be out of service."""


class DrilledHostLost(Exception):
    """The host cannot be reached, or does not do what it is asked."""


class Look(t.NamedTuple):
    """What the host shows.

    :param time: on the clock of the host, in seconds since the epoch.
    :param announced: whether the event of the drill is still announced.
    """

    facts: tuple[Fact, ...]
    time: float
    announced: bool = True


class AskedHost:
    """The host, asked over its own connection, which is made again after it broke.

    :param connect: reaches the host.
    :param options: of the module on the host.
    """

    def __init__(self, connect: t.Callable[[], OtherHost], options: t.Mapping[str, t.Any]) -> None:
        self._connect, self._options = connect, options
        self._host: OtherHost | None = None
        self._since = 0.0
        self.vm_name = self.event_type = ""

    def preview(self, event_type: str) -> dict[str, t.Any]:
        """What the drill would run.

        :raises DrillRefused: the host has no polling unit that can do it, or cannot be reached.
        """
        try:
            shown: dict[str, t.Any] = self._ask("preview", event_type, within=WITHIN)["answer"]
        except DrilledHostLost as error:
            is_away = isinstance(error.__cause__, OtherHostUnreachable)
            raise (MayBeOut if is_away else DrillRefused)(str(error)) from error
        self._since, self.vm_name, self.event_type = float(shown["time"]), str(shown["vm_name"]), event_type
        return shown

    def begin(self, notice: float) -> tuple[dict[str, t.Any], float]:
        """Announce the event. Returns it, and the time on the clock of the host.

        :raises DrillRefused: it was not announced.
        :raises DrilledHostLost: there is no answer, so it may be announced.
        :raises AnsibleError: the run has ended.
        """
        refuse_ended_run()
        try:
            done = self._ask("begin", self.vm_name, self.event_type, notice, within=WITHIN)
        except DrilledHostLost as error:
            if isinstance(error.__cause__, OtherHostUnreachable):
                raise
            raise DrillRefused(str(error)) from error
        return done["answer"], float(done["time"])

    def look(self, event: dict[str, t.Any] | None) -> Look:
        """What happened.

        :param event: what is announced for another minute; ``None`` for a look alone.
        :raises DrilledHostLost: see there.
        :raises AnsibleError: the run has ended, as when its terminal was closed.
        """
        refuse_ended_run()
        done = self._ask(*(("renew", event) if event else ("",)))
        facts, _wrong = parse_all(done["facts"])
        return Look(tuple(facts), float(done["time"]), bool(done["answer"]))

    def end(self, event: dict[str, t.Any]) -> None:
        """Announce the event no longer. If that fails, it ends by itself within a minute.

        :raises DrilledHostLost: see there.
        """
        self._ask("end", event)

    def note(self, event_id: str, outcome: str, reason: str) -> None:
        """Write the drill into the history of the host.

        :raises DrilledHostLost: see there.
        """
        self._ask("note", event_id, self.event_type, self.vm_name, outcome, reason)

    def close(self) -> None:
        """End the connection."""
        if self._host is not None:
            self._host.close()
        self._host = None

    def _ask(self, method: str, *arguments: t.Any, within: float = LEASE / 2) -> dict[str, t.Any]:
        request = {"do": method, "with": list(arguments), "since": self._since}
        try:
            self._host = self._host or self._connect()
            return self._host.run(MODULE, {**self._options, "step": "host", "request": request}, within=within)
        except OtherHostError as error:
            if isinstance(error, OtherHostUnreachable):
                self.close()
            raise DrilledHostLost(str(error)) from error
