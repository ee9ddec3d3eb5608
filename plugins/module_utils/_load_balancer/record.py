# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file on a host that says for whom it is drained, and what was found before anything was changed."""

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from .._scheduled_events.clock import CLOCK, Clock, lease, lease_left
from .._scheduled_events.files import Folder

FILE = "load-balancer.json"
LONGEST_LEASE = 3600.0  # seconds
LOOK_AGAIN_AFTER = 1.0  # seconds


class DrainError(Exception):
    """It could not be done. The message says what to do."""


class RecordError(DrainError):
    """The record cannot be read. The message says what to do."""


class Kept(NamedTuple):
    """The content of the record.

    ``returning``: the only holder, which no longer needs the host out and puts it back now, and its lease: for how long
    others wait for that.
    ``settings``: the variables of the role that decide where the host was taken out, and their values.
    """

    holders: List[str]
    found: Dict[str, Any]
    returning: Optional[Dict[str, Any]] = None
    settings: Dict[str, Any] = {}  # never changed in place


NOTHING = Kept([], {})

# What a holder that wants the host back has to do
PUT_BACK, LEAVE_OUT, NOTHING_TO_DO = "put back", "leave out", "nothing to do"


class Record:
    """The record of one host. Every step is done under a lock, so that two plays do not overwrite each other.

    :param folder: the state directory of the host.
    :param simulate: whether to change nothing.
    """

    def __init__(self, folder: Folder, *, simulate: bool = False, clock: Clock = CLOCK) -> None:
        self._folder = folder
        self._simulate = simulate
        self._clock = clock
        self._is_locked = False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other processes, also while this is done within itself. Nothing is made for a simulation."""
        if self._is_locked or self._simulate:
            yield
            return
        with self._folder.guarded():
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def write_changes(self) -> None:
        """Let what is noted be there before something else is done."""
        self._folder.write_changes()

    def read(self) -> Kept:
        """Return the content of the record; empty without a record.

        :raises RecordError: it cannot be read.
        """
        try:
            raw = self._folder.read_json(FILE)
            returning = raw.get("returning")
            if returning is not None:
                returning = dict(returning, holder=str(returning["holder"]))
                lease_left(returning, self._folder.moment(self._clock))
            return Kept(list(raw["holders"]), dict(raw["found"]), returning, dict(raw.get("settings", {})))
        except FileNotFoundError:
            return NOTHING
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"{self._folder.path_of(FILE)} cannot be read ({error}). Put the host back in the load balancer by "
                "hand, remove the file, and run it again"
            ) from None

    def hold(self, holder: str, found: Mapping[str, Any], settings: Optional[Mapping[str, Any]] = None) -> Kept:
        """Note a holder, and what was found, unless that was noted before: later it is what the role set.

        A holder that puts the host back does not need it out. So the new one takes its place, and puts the host back in
        the end, also if the other one was killed.

        To be called under the lock, before anything is changed.

        :param settings: those of the caller; none: it has none.
        :returns: what is noted now.
        :raises DrainError: the host was taken out with other settings, which must be those that put it back.
        """
        before = self.read()
        _refuse_others(before, settings)
        leaving = before.returning["holder"] if before.returning else None
        holders = [each for each in before.holders if each == holder or each != leaving]
        if holder not in holders:
            holders.append(holder)
        after = Kept(holders, {**found, **before.found}, settings=before.settings or dict(settings or {}))
        self._replace(before, after)
        return after

    @contextlib.contextmanager
    def locked_when_free(self, holder: str, *, wait: float) -> Iterator[None]:
        """Exclude other processes, once no other holder puts the host back: its orders would undo what comes now.

        :param wait: seconds after which to go on nevertheless.
        """
        give_up_at = self._clock.monotonic() + wait
        while True:
            with self.locked():
                if self.returning_for(holder) <= 0 or self._clock.monotonic() >= give_up_at:
                    yield
                    return
            self._clock.sleep(LOOK_AGAIN_AFTER)
            self._folder.write_changes()

    def returning_for(self, holder: str) -> float:
        """Seconds for which another holder than this one may still put the host back; 0 if none does."""
        returning = self.returning()
        return 0.0 if returning is None or returning["holder"] == holder else float(returning["seconds"])

    def returning(self) -> Optional[Dict[str, Any]]:
        """The holder that puts the host back now, and the seconds for which that counts at most; None without one."""
        returning = self.read().returning
        left = lease_left(returning, self._folder.moment(self._clock)) if returning else 0.0
        return {"holder": returning["holder"], "seconds": left} if returning and left > 0 else None

    def is_returning(self, holder: str) -> bool:
        """Whether the host is put back by this holder, and no other one has come since."""
        returning = self.read().returning
        return returning is not None and returning["holder"] == holder

    def release(
        self,
        holder: str,
        *,
        seconds: float,
        settings: Optional[Mapping[str, Any]] = None,
        was_drained: bool = False,
    ) -> str:
        """Take a holder back. The last one stays until :meth:`forget`, so that a run that is killed is repeated.

        To be called under the lock.

        :param seconds: for which other holders wait before they drain the host again.
        :param settings: those of the caller; none: it has none.
        :param was_drained: whether the caller knows that the host is out for the holder.
        :returns: what to do now.
        :raises DrainError: the record does not exist, or the host was taken out with other settings.
        """
        before = self.read()
        if holder not in before.holders:
            if was_drained and not before.holders:
                raise RecordError(
                    f"The host was taken out for {holder}, but its record {self._folder.path_of(FILE)} is gone. Unless "
                    "another run has put the host back, put it back in the load balancer by hand, and set "
                    "scheduled_events_state_directory to a directory that survives a reboot"
                )
            return NOTHING_TO_DO
        others = [each for each in before.holders if each != holder]
        if others:
            self._replace(before, before._replace(holders=others))
            return LEAVE_OUT
        _refuse_others(before, settings)
        self._replace(before, before._replace(returning=self._returning(holder, min(max(seconds, 0.0), LONGEST_LEASE))))
        return PUT_BACK

    def interrupt(self, holder: str) -> str:
        """Let other holders wait no longer for a return that has failed. To be called under the lock.

        :returns: :data:`PUT_BACK` for the next run, or :data:`NOTHING_TO_DO` if another holder has come since.
        """
        before = self.read()
        if not self.is_returning(holder):
            return NOTHING_TO_DO
        self._replace(before, before._replace(returning=self._returning(holder, 0.0)))
        return PUT_BACK

    def forget(self, holder: str) -> None:
        """Take the last holder back: the host is in service. To be called under the lock.

        Nothing is done if a holder has come since :meth:`release`, maybe another run for the same one.
        """
        if self.is_returning(holder) and not self._simulate:
            with contextlib.suppress(FileNotFoundError):
                self._folder.remove(FILE)

    def _returning(self, holder: str, seconds: float) -> Dict[str, Any]:
        return dict(lease(seconds, self._folder.moment(self._clock)), holder=holder)

    def _replace(self, before: Kept, after: Kept) -> None:
        if after == before or self._simulate:
            return
        raw = {key: value for key, value in after._asdict().items() if value is not None}
        self._folder.write_json(FILE, raw, mode=0o600, durable=True)


def _refuse_others(before: Kept, settings: Optional[Mapping[str, Any]]) -> None:
    """Refuse settings that would put back another place than the one that the host left."""
    if not settings:
        return
    for name, value in before.settings.items():
        now = settings.get(name)
        if now != value:
            raise DrainError(
                f"The host was taken out with {name}={value}, but {name} is {now} now. Set it back to {value} until "
                "the host is back in the load balancer"
            )


def take_note(record: Record, params: Mapping[str, Any]) -> Dict[str, Any]:
    """Carry out the options of the provider ``record``."""
    holder = params["holder"]
    more: Dict[str, Any] = {"msg": ""}
    if params["state"] == "held":
        with record.locked_when_free(holder, wait=params["wait"]):
            before = record.read()
            after = record.hold(holder, params["found"], params["settings"])
        more["first"] = not before.holders
    else:
        with record.locked():
            before = record.read()
            if params["state"] == "returning":
                more["todo"] = record.release(
                    holder,
                    seconds=params["lease"],
                    settings=params["settings"],
                    was_drained=params.get("was_drained", False),
                )
            elif params["state"] == "interrupted":
                more["todo"] = record.interrupt(holder)
            else:
                record.forget(holder)
            after = record.read()
        if more.get("todo") != PUT_BACK:
            others = [each for each in after.holders if each != holder] or after.holders
            more["msg"] = "stays drained for " + ", ".join(others) if others else ""
    return dict(changed=after != before, holders=after.holders, found=after.found, **more)
