# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a rolling maintenance on a host: the mark while it runs, and the record when it is done.

Private to the collection: it may change in any release.

The mark has an owner and a lease. While the lease lasts, no other owner takes the host. What an owner began and did not
end stays written beside the mark of the next owner, until one ends it or an operator has looked at the host. All times
are ages on the host itself: the clocks of hosts and control nodes need not agree.
"""

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ._scheduled_events.checks import decoded
from ._scheduled_events.clock import CLOCK, Clock, Moment
from ._scheduled_events.files import Folder, explained

MARK, RECORD = "maintenance-under-way", "maintenance.json"
ASKING, HELD = "asking", "held"  # at the gate; through it

UNNAMED_LEASE = 3600.0  # seconds that a mark lasts if it cannot be read
NAMES_KEPT = 20  # maintenances that a host remembers
LOCK_TIMEOUT = 20.0  # seconds; the lock is held only while a file is written
LARGEST = 4 * 1024 * 1024  # bytes of a file that is worth reading


class MaintenanceError(Exception):
    """It could not be done. The message says what to do."""


class Mark(NamedTuple):
    """The mark of a host.

    ``owner``: one host of one run; empty if unknown. ``by``: what is known of its control node. ``unfinished``: the
    ``owner`` and ``by`` of an earlier mark whose owner began the maintenance and did not end it; empty without one.
    ``age`` and ``lease`` are seconds.
    """

    owner: str
    by: Dict[str, Any]
    stage: str
    age: float
    lease: float
    unfinished: Dict[str, Any] = {}

    @property
    def live(self) -> bool:
        """Whether its owner counts as alive."""
        return self.age < self.lease

    def begun(self) -> Dict[str, Any]:
        """The ``owner`` and ``by`` of the maintenance that was begun here; empty if none was."""
        return {"owner": self.owner, "by": self.by} if self.stage == HELD else self.unfinished

    def describe(self) -> Dict[str, Any]:
        return dict(self._asdict(), live=self.live)


def read_mark(folder: Folder, clock: Clock = CLOCK) -> Optional[Mark]:
    """The mark in the state directory of the roles; ``None`` if there is none.

    :raises MaintenanceError: it cannot be determined.
    """
    now = folder.moment(clock)
    try:
        written_at = folder.written_at(MARK)
        text = _read(folder, MARK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MaintenanceError(f"{folder.path_of(MARK)} cannot be read: {explained(error)}") from None
    try:
        raw = decoded(text)
        return Mark(
            owner=str(raw["owner"]),
            by=dict(raw["by"]),
            stage=str(raw["stage"]),
            age=max(0.0, now.since(raw["at"])),
            lease=float(raw["lease"]),
            unfinished=dict(raw["unfinished"]),
        )
    except (ValueError, KeyError, TypeError):
        return Mark("", {}, HELD, max(0.0, now.wall - written_at), UNNAMED_LEASE)


class Host:
    """The files of one host.

    :param folder: the state directory of the roles, created if missing.
    """

    def __init__(self, folder: Folder, *, clock: Clock = CLOCK) -> None:
        self.folder = folder
        self._clock = clock

    def now(self) -> Moment:
        return self.folder.moment(self._clock)

    def mark(self) -> Optional[Mark]:
        return read_mark(self.folder, self._clock)

    def take(
        self,
        owner: str,
        *,
        by: Mapping[str, Any],
        stage: str,
        lease: float,
        dead: Sequence[str] = (),
        checked: bool = False,
    ) -> Optional[Mark]:
        """Mark the host, or renew the mark. A live mark of another run stays.

        :param dead: owners that are known to be dead.
        :param checked: an operator has looked at the host, so that nothing counts as unfinished.
        :returns: the mark that was in the way; ``None`` if the host is marked for the owner now.
        :raises MaintenanceError: the host cannot be marked, or the mark with which the owner passed the gate ran out.
        """
        with self._locked():
            before = self.mark()
            if before and before.owner != owner and _counts(before, dead):
                return before
            is_own = before is not None and before.owner == owner
            if stage == HELD and not (before and is_own and (before.live or before.stage == HELD)):
                raise MaintenanceError(
                    f"The mark of {owner} on this host ran out before its maintenance began, so another run may have "
                    "passed the gate. Run this one again"
                )
            unfinished: Dict[str, Any] = {}
            if before and not checked:
                unfinished = before.unfinished if is_own else before.begun()
            self._write_mark(owner, by, stage, lease, unfinished)
        return None

    def drop(self, owner: str, *, ended: bool = False) -> bool:
        """Take the mark away if it is the owner's; whether it was.

        :param ended: the maintenance ended well. Otherwise what was unfinished before is so again.
        :raises MaintenanceError: it cannot be taken away.
        """
        if not self.folder.is_there():
            return False
        with self._locked():
            before = self.mark()
            if before is None or before.owner != owner:
                return False
            if before.unfinished and not ended:
                self._write_mark(before.unfinished["owner"], before.unfinished["by"], HELD, 0.0, {})
            else:
                self._remove_mark()
            return True

    def check(self, dead: Sequence[str] = ()) -> None:
        """An operator has looked at the host: what a run that ended left here does not count any more.

        :raises MaintenanceError: it cannot be taken away.
        """
        if not self.folder.is_there():
            return
        with self._locked():
            before = self.mark()
            if before and not _counts(before, dead):
                self._remove_mark()

    def _write_mark(
        self, owner: str, by: Mapping[str, Any], stage: str, lease: float, unfinished: Mapping[str, Any]
    ) -> None:
        at = dict(self.now()._asdict())
        raw = {"owner": owner, "by": dict(by), "stage": stage, "lease": lease, "at": at}
        # For all to read: an unprivileged service may ask.
        self._write(MARK, dict(raw, unfinished=dict(unfinished)), mode=0o644)

    def _remove_mark(self) -> None:
        try:
            self.folder.remove(MARK)
        except OSError as error:
            raise MaintenanceError(f"{self.folder.path_of(MARK)} cannot be removed: {error}") from None

    def records(self) -> Dict[str, Dict[str, Any]]:
        """Finished maintenances, by name: ``round``, ``hosts``, ``since_begin``, ``age`` in seconds.

        What cannot be read counts as nothing: then the host is maintained again.
        """
        now = self.now()
        found = {}
        for name, raw in self._raw_records().items():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found[str(name)] = {
                    "round": str(raw["round"]),
                    "hosts": [str(host) for host in raw["hosts"]],
                    "since_begin": float(raw["since_begin"]),
                    "age": max(0.0, now.since(raw["at"])),
                }
        return found

    def done(self, name: str, *, round_id: str, hosts: Sequence[str], since_begin: float) -> None:
        """Record that the maintenance of the host has finished.

        :param hosts: that the round is about.
        :param since_begin: seconds since the round began.
        :raises MaintenanceError: it cannot be remembered.
        """
        with self._locked():
            ages = {each: record["age"] for each, record in self.records().items() if each != name}
            youngest: List[str] = sorted(ages, key=lambda each: ages[each])[: NAMES_KEPT - 1]
            before = self._raw_records()
            rounds = {each: before[each] for each in youngest}
            at = dict(self.now()._asdict())
            rounds[name] = {"round": round_id, "hosts": list(hosts), "since_begin": since_begin, "at": at}
            self._write(RECORD, {"rounds": rounds}, mode=0o600)

    def _raw_records(self) -> Dict[str, Any]:
        try:
            return dict(decoded(_read(self.folder, RECORD))["rounds"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.folder.guarded(LOCK_TIMEOUT, clock=self._clock))
            except OSError as error:
                raise MaintenanceError(f"{self.folder.path} cannot be locked: {explained(error)}") from None
            yield

    def _write(self, name: str, raw: Mapping[str, Any], *, mode: int) -> None:
        try:
            self.folder.write_json(name, raw, mode=mode, durable=True)
        except OSError as error:
            raise MaintenanceError(f"{self.folder.path_of(name)} cannot be written: {explained(error)}") from None


def _counts(mark: Mark, dead: Sequence[str]) -> bool:
    """Whether no other owner takes the mark over."""
    return mark.live and not (mark.owner and mark.owner in dead)


def _read(folder: Folder, name: str) -> str:
    return folder.read(name, LARGEST).decode("utf-8", "replace")
