# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the role respond on a host, its history, and the right of one run at a time to take steps there.

Private to the collection: it may change in any release.

A lease in a file says which run has the host, and until when. The state and the lease change together under the lock of
their directory, which is never held during a wait.
"""

import contextlib
from typing import Any, Dict, Iterator, List, Optional

from .._maintenance import MaintenanceError, read_mark
from .._scheduled_events.checks import WrongValue
from .._scheduled_events.clock import CLOCK, Clock, lease, lease_left
from .._scheduled_events.files import Folder
from .._scheduled_events.history import RESPOND, ROLLING_MAINTENANCE, as_json
from .._scheduled_events.history_file import append_where_possible
from .._scheduled_events.state import State
from .._scheduled_events.state import dump as dump_state
from .._scheduled_events.state import parse as parse_state
from .._scheduled_events.transitions import Step, Writer, facts_of
from .request import TurnRequest

STATE_FILE = "respond.json"
LEASE_FILE = "respond.lease"


class TurnMemory:
    """The state of the engine, in a file of the host.

    :param folder: the state directory of the host.
    """

    def __init__(self, folder: Folder, clock: Clock = CLOCK) -> None:
        self._folder = folder
        self._clock = clock

    def load(self) -> State:
        """The state.

        :raises WrongValue: the file holds something else.
        :raises OSError: it cannot be read.
        """
        try:
            content = self._folder.read(STATE_FILE)
        except FileNotFoundError:
            # Ids of runs are never used twice, so that a late outcome of an earlier one has no effect.
            return State(serial=int(self._clock.wall() * 1000))
        try:
            return parse_state(content)
        except WrongValue as error:
            raise WrongValue(
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


def is_under_maintenance(folder: Folder, clock: Clock = CLOCK) -> bool:
    """Whether the role rolling_maintenance has marked this host, and the owner of the mark counts as alive."""
    try:
        mark = read_mark(folder, clock)
    except MaintenanceError:
        return True  # it is not known, and the event waits for NotBefore less a margin at most
    return mark is not None and mark.live


class Locked(Exception):
    """Another run has this host; ``lease`` says which."""

    def __init__(self, lease: Dict[str, Any]) -> None:
        super().__init__("another run has this host")
        self.lease = lease


class Lease:
    """The lease of one host of one run.

    :param folder: the state directory of the host.
    :param owner: where the run is, for another control node that meets the lease.
    """

    def __init__(self, folder: Folder, run: str, host: str, owner: Dict[str, Any], clock: Clock = CLOCK) -> None:
        self._folder = folder
        self._run, self._host, self._owner = run, host, owner
        self._clock = clock

    @contextlib.contextmanager
    def held(self, *, abandoned: str = "", make: bool = False) -> Iterator[None]:
        """Hold the lock while the state changes.

        :param abandoned: a run that does not exist any more; its lease does not count.
        :param make: create the directory if it is missing. Without it, no run has a lease.
        :raises Locked: another run has the lease, and it has not run out.
        :raises OSError: the directory cannot be used.
        """
        if not make and not self._folder.is_there():
            yield
            return
        with self._folder.guarded():
            found = self._read()
            if found and found["left"] > 0 and not self._is_mine(found) and found["run"] != abandoned:
                raise Locked(found)
            yield

    def _is_mine(self, found: Dict[str, Any]) -> bool:
        return (found["run"], found["host"]) == (self._run, self._host)

    def _read(self) -> Optional[Dict[str, Any]]:
        try:
            raw = self._folder.read_json(LEASE_FILE)
            left = lease_left(raw, self._folder.moment(self._clock))
            return {
                "run": str(raw["run"]),
                "host": str(raw["host"]),
                "owner": dict(raw["owner"]),
                "seconds": float(raw["seconds"]),
                "left": left,
            }
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def renew(self, seconds: float) -> None:
        """Keep the host for this run; it is not written again while it lasts about as long.

        :raises OSError: it cannot be written.
        """
        found = self._read()
        if found and self._is_mine(found) and found["seconds"] == seconds and found["left"] > seconds / 2:
            return
        written = lease(seconds, self._folder.moment(self._clock))
        self._folder.write_json(LEASE_FILE, {"run": self._run, "host": self._host, "owner": self._owner, **written})

    def end(self) -> None:
        """Give the host back."""
        with contextlib.suppress(OSError):
            self._folder.remove(LEASE_FILE)
