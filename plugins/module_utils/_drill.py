# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host side of a drill: its event in a file, and what the host shows. Private to the collection: it may change in
any release.

Nothing has to be restored. The file counts for a minute at a time, and every look of the control node renews it.
"""

import os
import uuid
from typing import Any, Dict, List, Optional, Sequence

from ._scheduled_events import announced, history, history_file
from ._scheduled_events.clock import CLOCK, Clock
from ._scheduled_events.document import STARTED, ScheduledEvent, announcement, parse_event
from ._scheduled_events.files import STALE, Folder, read_status
from ._scheduled_events.rules import decide, parse_rules
from ._scheduled_events.runs import PHASES, WEBHOOK_HOOK

DESCRIPTION = "Drill of maintops.scheduled_events"
PLACES = {
    "configuration": "/etc/scheduled-events",
    "runtime": "/run/scheduled-events",
    "history": history_file.UNIT_DIRECTORY,
    "drill": announced.DIRECTORY,
}
DURATIONS = {"Freeze": 5}  # seconds that Azure names for an interruption; for other types it names none
MOST_FACTS = 500

FIGURES = ("hear", "prepare", "acknowledge", "margin", "back", "lost", "slow", "redirected")
OPTIONS: Dict[str, Dict[str, Any]] = {
    "step": {"type": "str", "choices": ["drill", "verdict", "host"], "required": True},
    "watch": {"type": "bool", "default": False},
    "event_type": {"type": "str", "default": "Reboot"},
    "notice": {"type": "float"},
    "started_for": {"type": "float", "default": 15},
    "state_directory": {"type": "path", "default": history_file.ROLES_DIRECTORY},
    "places": {"type": "dict", "default": {}},
    "request": {"type": "dict"},
    "probe_urls": {"type": "list", "elements": "str", "default": []},
    "probe_rate": {"type": "float", "default": 10},
    "probe_timeout": {"type": "float", "default": 10},
    "probe_validate_certs": {"type": "bool", "default": True},
    "slow_after": {"type": "float", "default": 1},
    "steady": {"type": "float", "default": 5},
    "stop_after": {"type": "float", "default": 5},
    "limits": {"type": "dict", "default": {}, "options": {name: {"type": "float"} for name in FIGURES}},
}

Event = Dict[str, Any]


class CannotDrill(Exception):
    """What was asked for cannot be done. The message says why, and what to do."""


class DrilledHost:
    """The host with its polling unit.

    :param state_directory: of the roles, in which their history is.
    :param places: those of :data:`PLACES` that are elsewhere.
    """

    def __init__(self, state_directory: str, places: Dict[str, str], clock: Clock = CLOCK) -> None:
        self._places = dict(PLACES, **places)
        self._histories = (self._places["history"], state_directory)
        self._folder = Folder(self._places["drill"])
        self._clock = clock

    def preview(self, event_type: str) -> Dict[str, Any]:
        """What a drill would run here, and why it cannot begin.

        :raises CannotDrill: the host has no polling unit that can do it.
        """
        config, unit = os.path.join(self._places["configuration"], "poller.json"), self._places["runtime"]
        try:
            settings, status = read_status(config), read_status(os.path.join(unit, "status.json"))
            event = parse_event(_event_of(str(status["vm_name"]), event_type, self._clock.wall()))
            shown = {name: settings[name] for name in ("acknowledge", "on_failure", "hook_timeout", "margin")}
            return dict(
                shown,
                vm_name=status["vm_name"],
                endpoint=status["endpoint"],
                action=decide(event, parse_rules(settings["rules"], place="rules")),
                hooks=self._hooks(),
                refusals=self._refusals(status),
                pending=bool(status["maintenance_pending"]),
                time=self._clock.wall(),
            )
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise CannotDrill(
                f"the polling unit cannot be drilled: {error}. Run the role poller of this release, and start the unit"
            ) from error

    def _hooks(self) -> Dict[str, List[str]]:
        """The hooks by phase: those of the owner, and those of the role poller, which are in "managed"."""
        directory = os.path.join(self._places["configuration"], "hooks")
        found: Dict[str, List[str]] = {}
        for phase in PHASES:
            places = [os.path.join(directory, place, f"{phase}.d") for place in ("", "managed")]
            names = [name for place in filter(os.path.isdir, places) for name in os.listdir(place)]
            hooks = sorted(name for name in names if not name.startswith(".") and name != WEBHOOK_HOOK)
            found.update({phase: hooks} if hooks else {})
        return found

    def _refusals(self, status: Dict[str, Any]) -> List[str]:
        refusals = []
        if self._clock.wall() - status["time"] > STALE:
            refusals.append("the polling unit does not run. Start it with 'systemctl start scheduled-events-poller'")
        elif status["maintenance_pending"]:
            reason = status["error"] or "See 'scheduled-events status'"
            refusals.append(f"a maintenance of this VM is pending, or it is not known whether one is: {reason}")
        if status["missing_hooks"]:
            refusals.append(f"hooks are missing: {status['missing_hooks']}. Run the role poller again")
        if status["dry_run"]:
            refusals.append("the polling unit runs dry, so it runs no hook. Set poller_dry_run to false")
        return refusals

    def begin(self, vm_name: str, event_type: str, notice: float) -> Event:
        """Announce an event as Scheduled, and return it.

        :raises CannotDrill: another drill runs.
        :raises OSError: the file cannot be written.
        """
        event = _event_of(vm_name, event_type, self._clock.wall() + notice)
        with self._folder.guarded():
            running = self._running()
            if running is not None:
                raise CannotDrill(f"the drill {running.event_id} runs on this host. Wait until it ends")
            self._write(event)
        return event

    def renew(self, event: Event) -> bool:
        """Announce the event for another minute, as it is now; false if its file no longer counts.

        :raises OSError: the file cannot be written.
        """
        with self._folder.guarded():
            running = self._running()
            if running is None or running.event_id != event["EventId"]:
                return False
            # A look that the control node gave up can come after the next one.
            if running.event_status == event["EventStatus"] or event["EventStatus"] == STARTED:
                self._write(event)
        return True

    def end(self, event: Event) -> None:
        """Announce the event no longer.

        :raises OSError: the file cannot be removed.
        """
        with self._folder.guarded():
            running = self._running()
            if running is not None and running.event_id == event["EventId"]:
                self._folder.remove(announced.NAME)

    def _running(self) -> Optional[ScheduledEvent]:
        try:
            return announced.read_drill(self._folder.path)
        except (FileNotFoundError, announced.NoDrill):
            return None

    def _write(self, event: Event) -> None:
        content = {"event": event, "until": announced.boottime() + announced.LEASE}
        self._folder.write_json(announced.NAME, content, mode=0o644)

    def facts(self, since: float) -> List[Dict[str, Any]]:
        """What the histories have since then.

        :param since: seconds since the epoch, on the clock of this host.
        """
        found = history_file.read(*self._histories, now=self._clock.wall(), since=since)
        return [history.as_json(fact) for fact in found.facts[-MOST_FACTS:]]

    def note(self, event_id: str, event_type: str, vm_name: str, outcome: str, reason: str) -> None:
        """Write into the history that the event was a drill, and how it ended.

        :raises OSError: it cannot be written.
        """
        fact = history.Fact(
            kind=history.DRILLED,
            time=self._clock.wall(),
            source=history.DRILL,
            vm_name=vm_name,
            event_id=event_id,
            event_type=event_type,
            outcome=outcome,
            reason=reason,
        )
        Folder(self._histories[1]).make()
        history_file.append(self._histories[1], [fact], now=fact.time)


def serve(host: DrilledHost, request: Dict[str, Any]) -> Dict[str, Any]:
    """Do what the control node asks for: one method with its arguments, and then show the facts.

    :raises CannotDrill: it cannot be done.
    """
    method: str = request["do"]
    arguments: Sequence[Any] = request["with"]
    answer = getattr(host, method)(*arguments) if method in METHODS else None
    return {"answer": answer, "facts": host.facts(request["since"]), "time": CLOCK.wall()}


METHODS = ("preview", "begin", "renew", "end", "note")


def _event_of(vm_name: str, event_type: str, not_before: float) -> Event:
    event_id, duration = f"{announced.PREFIX}{uuid.uuid4()}", DURATIONS.get(event_type, -1)
    return announcement(
        event_id, event_type, vm_name, not_before=not_before, description=DESCRIPTION, duration=duration
    )
