# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a rolling maintenance on a host: the mark while it runs, and the record when it is done.

Private to the collection: it may change in any release.

The mark has an owner and a lease, so an owner that died does not block other runs for long. All times are ages on the
host itself: the clocks of hosts and control nodes need not agree.
"""

import contextlib
import json
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ._scheduled_events.clock import CLOCK, Clock, Moment
from ._scheduled_events.files import Folder

MARK, RECORD = "maintenance-under-way", "maintenance.json"
ASKING, HELD = "asking", "held"  # at the gate; through it

UNNAMED_LEASE = 3600.0  # seconds that a mark without an owner lasts, which version 0.1.0 left
NAMES_KEPT = 20  # maintenances that a host remembers
LOCK_TIMEOUT = 20.0  # seconds; the lock is held only while a file is written
LARGEST = 4 * 1024 * 1024  # bytes of a file that is worth reading


class MaintenanceError(Exception):
    """It could not be done. The message says what to do."""


class Mark(NamedTuple):
    """The mark of a host. ``owner``: one host of one run; empty if unknown. ``by``: what is known of the control
    node."""

    owner: str
    by: Dict[str, Any]
    stage: str
    age: float
    lease: float

    @property
    def live(self) -> bool:
        """Whether its owner counts as alive."""
        return self.age < self.lease

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
        raise MaintenanceError(_unreadable(folder.path_of(MARK), error)) from None
    try:
        raw = json.loads(text)
        age = max(0.0, now.since(raw["at"]))
        return Mark(str(raw["owner"]), dict(raw["by"]), str(raw["stage"]), age, float(raw["lease"]))
    except (ValueError, KeyError, TypeError):
        return Mark("", {}, HELD, max(0.0, now.wall - written_at), UNNAMED_LEASE)


class Host:
    """The files of one host.

    :param folder: the state directory of the roles, created if missing.
    """

    def __init__(self, folder: Folder, *, clock: Clock = CLOCK) -> None:
        self._folder = folder
        self._clock = clock

    @property
    def folder(self) -> Folder:
        return self._folder

    def now(self) -> Moment:
        return self._folder.moment(self._clock)

    def mark(self) -> Optional[Mark]:
        return read_mark(self._folder, self._clock)

    def take(
        self, owner: str, *, by: Mapping[str, Any], stage: str, lease: float, dead: Sequence[str] = ()
    ) -> Optional[Mark]:
        """Mark the host, or renew the mark. A live mark of another run stays.

        :param dead: owners that are known to be dead.
        :returns: the mark that was in the way; ``None`` if the host is marked for the owner now.
        :raises MaintenanceError: the host cannot be marked.
        """
        with self._locked():
            before = self.mark()
            if before and before.owner != owner and before.live and not (before.owner and before.owner in dead):
                return before
            at = self.now()._asdict()
            raw = {"owner": owner, "by": dict(by), "stage": stage, "lease": lease, "at": dict(at)}
            self._write(MARK, raw, mode=0o644)  # for all to read: an unprivileged service may ask
        return None

    def drop(self, owner: str) -> bool:
        """Take the mark away if it is the owner's; whether it was.

        :raises MaintenanceError: it cannot be taken away.
        """
        if not self._folder.is_there():
            return False
        with self._locked():
            before = self.mark()
            if before is None or before.owner != owner:
                return False
            try:
                self._folder.remove(MARK)
            except OSError as error:
                raise MaintenanceError(f"{self._folder.path_of(MARK)} cannot be removed: {error}") from None
            return True

    def records(self) -> Dict[str, Dict[str, Any]]:
        """Finished maintenances, by name: ``round``, ``hosts``, ``since_begin``, ``age`` in seconds.

        What cannot be read, or what version 0.1.0 wrote, counts as nothing: then the host is maintained again.
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
            self._write(RECORD, {"version": 2, "rounds": rounds}, mode=0o600)

    def _raw_records(self) -> Dict[str, Any]:
        try:
            return dict(json.loads(_read(self._folder, RECORD))["rounds"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._folder.guarded(LOCK_TIMEOUT, clock=self._clock))
            except OSError as error:
                raise MaintenanceError(
                    f"{self._folder.path} cannot be locked: {error}. Become root, or free the disk"
                ) from None
            yield

    def _write(self, name: str, raw: Mapping[str, Any], *, mode: int) -> None:
        try:
            self._folder.write(name, json.dumps(raw, sort_keys=True).encode() + b"\n", mode=mode, durable=True)
        except OSError as error:
            raise MaintenanceError(
                f"{self._folder.path_of(name)} cannot be written: {error}. Become root, or free the disk"
            ) from None


def _read(folder: Folder, name: str) -> str:
    return folder.read(name, LARGEST).decode("utf-8", "replace")


def _unreadable(path: str, error: OSError) -> str:
    return f"{path} cannot be read: {error}. Become root"
