# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the role respond on a host. Private to the collection: it may change in any release."""

import contextlib
import json
import time
from typing import Any, Callable, Optional

from ._maintenance import MaintenanceError, read_mark
from ._scheduled_events.clock import CLOCK
from ._scheduled_events.document import parse
from ._scheduled_events.files import Folder
from ._scheduled_events.runs import OK
from ._scheduled_events.state import RUNNING, EventState, Run, State, StateError
from ._scheduled_events.state import dump as dump_state
from ._scheduled_events.state import parse as parse_state

STATE_FILE = "respond.json"

# The mark of the role rolling_maintenance, and the seconds for which a mark without a lease lasts.


class Memory:
    """The state of the engine, in a file of the host.

    :param folder: the state directory of the host.
    """

    def __init__(self, folder: Folder, wall: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._wall = wall

    def load(self) -> State:
        """The state, also as version 0.1.0 of the role kept it.

        :raises StateError: the file holds something else.
        :raises OSError: it cannot be read.
        """
        try:
            content = self._folder.read(STATE_FILE)
        except FileNotFoundError:
            return self._fresh()
        try:
            return parse_state(content.decode())
        except (StateError, UnicodeDecodeError) as error:
            taken_over = self._of_version_0_1_0(content)
            if taken_over is None:
                raise StateError(
                    f"{self._folder.path_of(STATE_FILE)}: {error}. No earlier run of this role wrote such a file. "
                    "Check its content, and remove it"
                ) from error
            return taken_over

    def parse(self, planned: str) -> State:
        """The state of a plan; that of the host if there is no plan yet."""
        return parse_state(planned) if planned else self.load()

    def save(self, state: State) -> None:
        """Make it durable; nothing is kept of a host without events.

        :raises OSError: it cannot be made so.
        """
        if state.events or state.ignored:
            self._folder.make()
            self._folder.write(STATE_FILE, dump_state(state).encode(), mode=0o640, durable=True)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self._folder.remove(STATE_FILE)

    def _fresh(self) -> State:
        # Ids of runs are never used twice, so that a late outcome of an earlier one has no effect.
        return State(serial=int(self._wall() * 1000))

    def _of_version_0_1_0(self, content: bytes) -> Optional[State]:
        """By event id it kept the event and "preparing", "prepared" or "started"."""
        try:
            raw = json.loads(content.decode())
            entries = [
                _entry_of_version_0_1_0(event_id, value["state"], value["event"], number)
                for number, (event_id, value) in enumerate(raw.items(), 1)
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        return self._fresh()._replace(events={entry.event.key: entry for entry in entries})


def _entry_of_version_0_1_0(event_id: str, state: str, event: Any, number: int) -> EventState:
    azure = {
        "EventId": event_id,
        "EventType": event["event_type"],
        "EventStatus": event["event_status"],
        "EventSource": event["event_source"],
        "Resources": event["resources"],
        "NotBefore": event["not_before"],
        "Description": event["description"],
        "DurationInSeconds": event["duration_in_seconds"],
    }
    [read] = parse(json.dumps({"Events": [azure]}), api_version="2020-07-01").events
    if state not in ("preparing", "prepared", "started") or not read.key:
        raise ValueError(state)
    run = Run(
        request_id=f"0.1.0-{number}",
        serial=number,
        first=number,
        outcome=RUNNING if state == "preparing" else OK,
        event_type=read.event_type or "",
    )
    phase = "started" if state == "started" else "prepare"
    return EventState(event=read, first_seen=0.0, runs={phase: run}, ran=True, owed=True)


def is_under_maintenance(folder: Folder, wall: Callable[[], float] = time.time) -> bool:
    """Whether the role rolling_maintenance has marked this host, and the owner of the mark counts as alive."""
    try:
        mark = read_mark(folder, CLOCK._replace(wall=wall))
    except MaintenanceError:
        return True  # it is not known, and the event waits for NotBefore less a margin at most
    return mark is not None and mark.live
