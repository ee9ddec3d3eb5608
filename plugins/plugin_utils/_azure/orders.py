# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The orders of the hosts of a run for one resource of Azure, and its last content. Private to the collection.

Each host of a play has its own process, and Azure limits how often a resource may be written. So each host
stores its order in a directory of the control node. The first host that gets the lock carries out the orders of all,
and the others find their answer when they get the lock. The kernel releases the lock when a process dies, and the next
host carries out the remaining orders.
"""

from __future__ import annotations

import contextlib
import math
import typing as t
from pathlib import Path

from ...module_utils._load_balancer.record import DrainError
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.files import Occupied, locked
from .._ansible.run import digest, keep_file, kept
from .arm import ArmError

QUIET = 3.0  # seconds without a new order after which no more are waited for
LONGEST_GATHERING = 20.0  # seconds
HURRY = 60.0  # seconds that a host has at least, if it waits for the orders of others

Desired = t.Dict[str, t.Any]


class OrderFailed(DrainError):
    """The order was carried out, maybe by another host, and it failed. The message is that of the failure.

    :ivar sent: whether something may have been changed.
    """

    def __init__(self, problem: str, *, sent: bool) -> None:
        super().__init__(problem)
        self.sent = sent


class Orders:
    """The orders for one resource.

    :param directory: of the run, created if missing.
    :param hosts: how many hosts may order at the same time; when all have, no host waits for more.
    :param left: the seconds that this host has.
    """

    def __init__(
        self,
        directory: Path,
        resource: str,
        *,
        hosts: int,
        left: t.Callable[[], float] = lambda: math.inf,
        clock: Clock = CLOCK,
    ) -> None:
        self._directory = directory / digest(resource.lower())
        self._hosts = hosts
        self._left = left
        self._clock = clock

    def place(self, host: str, desired: Desired) -> None:
        """Leave the order of a host; it replaces the one before."""
        with self._answering():
            with contextlib.suppress(FileNotFoundError):
                self._file("answers", host).unlink()
            keep_file(self._file("orders", host), {"host": host, "at": self._clock.monotonic(), "desired": desired})

    def withdraw(self, host: str) -> None:
        """Remove the order of a host, if it has no answer yet. What is sent now is not stopped."""
        with self._answering(), contextlib.suppress(FileNotFoundError):
            self._file("orders", host).unlink()

    def fulfil(self, host: str, carry_out: t.Callable[[Desired], bool]) -> bool:
        """See to it that the order of a host is carried out.

        :param carry_out: ``carry_out(desired)`` does what all hosts want, and gives whether anything was changed. An
            ArmError is the answer to all of them.
        :raises OrderFailed: it was not carried out.
        :raises ArmError: the time of this host is over.
        """
        with self._locked("writing"):
            if not self._file("answers", host).exists():
                self._carry_out_all(carry_out)
            answer = kept(self._file("answers", host))
        if answer["problem"]:
            raise OrderFailed(answer["problem"], sent=answer["sent"])
        return bool(answer["changed"])

    def recall(self, at_most: float, read: t.Callable[[], dict[str, t.Any]]) -> dict[str, t.Any]:
        """The resource as a host of this run read it, or as it is read now, for all of them.

        :param at_most: how many seconds before this call it may have been read.
        :raises ArmError: it cannot be read. This is also the answer to all hosts that waited meanwhile.
        """
        path, failed, began = self._directory / "read.json", self._directory / "failed.json", self._clock.monotonic()
        with self._locked("reading"):  # not the other lock: who holds that one waits for hosts that read first
            if path.exists():
                known = kept(path)
                if began - at_most <= known["at"] <= self._clock.monotonic():  # maybe while this host waited
                    return dict(known["body"])
            failure = kept(failed) if failed.exists() else {}
            if failure and failure["at"] > began:
                raise ArmError(failure["problem"])
            try:
                return self.read(read)
            except ArmError as error:
                keep_file(failed, {"at": self._clock.monotonic(), "problem": str(error)})
                raise

    def read(self, read: t.Callable[[], dict[str, t.Any]]) -> dict[str, t.Any]:
        """Read the resource now, and keep it. It is as old as its request."""
        asked_at = self._clock.monotonic()
        body = read()
        keep_file(self._directory / "read.json", {"at": asked_at, "body": body})
        return body

    @contextlib.contextmanager
    def _answering(self) -> t.Iterator[None]:
        """Let no order change while it is read or answered, which takes a moment."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with locked(self._directory / "answering"):
            yield

    @contextlib.contextmanager
    def _locked(self, what: str) -> t.Iterator[None]:
        """Keep the other hosts out."""
        self._directory.mkdir(parents=True, exist_ok=True)
        left = self._left()
        try:
            with locked(self._directory / what, patience=None if left == math.inf else left):
                yield
        except Occupied as error:
            raise ArmError(
                f"another host of this run was still {what} the resource after the {left:.0f} s that this host had. "
                "Give the drain more time"
            ) from error

    def _carry_out_all(self, carry_out: t.Callable[[Desired], bool]) -> None:
        orders = self._gather()
        desired = {name: value for order in orders for name, value in order["desired"].items()}
        answer: dict[str, t.Any] = {"changed": False, "problem": "", "sent": False}
        try:
            answer["changed"] = carry_out(desired)
        except ArmError as error:
            answer.update(problem=str(error), sent=error.sent)
        with self._answering():
            for order in orders:
                path = self._file("orders", order["host"])
                if path.exists() and kept(path) == order:  # else it was withdrawn or replaced meanwhile
                    keep_file(self._file("answers", order["host"]), answer)
                    path.unlink()

    def _gather(self) -> list[dict[str, t.Any]]:
        """The orders, once no more are to be expected."""
        while True:
            with self._answering():
                orders = [kept(path) for path in sorted((self._directory / "orders").glob("[!.]*"))]
            times, now = [order["at"] for order in orders], self._clock.monotonic()
            complete = len(orders) >= self._hosts or now - max(times) >= QUIET or self._left() < HURRY
            if complete or now - min(times) >= LONGEST_GATHERING + QUIET:
                return sorted(orders, key=lambda order: float(order["at"]))
            self._clock.sleep(0.1)

    def _file(self, kind: str, host: str) -> Path:
        return self._directory / kind / digest(host)
