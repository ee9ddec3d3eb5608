# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the role respond on a host, and its history. Private to the collection: it may change in any release."""

import contextlib
import time
from typing import Any, Callable, Dict, List

from .._maintenance import MaintenanceError, read_mark
from .._scheduled_events.clock import CLOCK
from .._scheduled_events.files import Folder
from .._scheduled_events.history import RESPOND, ROLLING_MAINTENANCE, as_json
from .._scheduled_events.history_file import append_where_possible
from .._scheduled_events.state import State, StateError
from .._scheduled_events.state import dump as dump_state
from .._scheduled_events.state import parse as parse_state
from .._scheduled_events.transitions import Step, Writer, facts_of
from .request import TurnRequest

STATE_FILE = "respond.json"


class TurnMemory:
    """The state of the engine, in a file of the host.

    :param folder: the state directory of the host.
    """

    def __init__(self, folder: Folder, wall: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._wall = wall

    def load(self) -> State:
        """The state.

        :raises StateError: the file holds something else.
        :raises OSError: it cannot be read.
        """
        try:
            content = self._folder.read(STATE_FILE)
        except FileNotFoundError:
            # Ids of runs are never used twice, so that a late outcome of an earlier one has no effect.
            return State(serial=int(self._wall() * 1000))
        try:
            return parse_state(content.decode())
        except (StateError, UnicodeDecodeError) as error:
            raise StateError(
                f"{self._folder.path_of(STATE_FILE)}: {error}. This version of the role does not write such a file. "
                "Check its content, and remove it"
            ) from error

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


class TurnHistory:
    """The facts of one turn."""

    def __init__(self, folder: Folder, request: TurnRequest, *, within_maintenance: bool) -> None:
        self._folder = folder
        self._writer = Writer(
            ROLLING_MAINTENANCE if within_maintenance else RESPOND,
            f"the play on {request.owner.get('node') or 'the control node'}",
            boot_id=folder.moment(CLOCK).boot_id,
            run=request.run,
        )
        self._facts: List[Dict[str, Any]] = []

    def added_to(self, shown: Dict[str, Any], step: Step) -> Dict[str, Any]:
        """Write the facts of a step whose state has been saved, and add them to what the control node reads.

        What cannot be written fails nothing.
        """
        facts = facts_of(step, self._writer)
        self._facts.extend(map(as_json, facts))
        problem = append_where_possible(self._folder, facts, now=step.now.wall)
        return dict(shown, problems=[*shown["problems"], *filter(None, [problem])], facts=self._facts)


def is_under_maintenance(folder: Folder, wall: Callable[[], float] = time.time) -> bool:
    """Whether the role rolling_maintenance has marked this host, and the owner of the mark counts as alive."""
    try:
        mark = read_mark(folder, CLOCK._replace(wall=wall))
    except MaintenanceError:
        return True  # it is not known, and the event waits for NotBefore less a margin at most
    return mark is not None and mark.live
