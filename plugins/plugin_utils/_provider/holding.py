# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a provider does for a host, and the record of the holders for which it does it. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._load_balancer.record import PUT_BACK
from .._windows.modules import run_for

if t.TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

Answer = t.Dict[str, t.Any]  # of the module load_balancer_record
Result = t.Dict[str, t.Any]
Seen = t.Mapping[str, t.Any]  # each place of the host by its key, and whether it gets traffic there


class Provider(t.Protocol):
    """A host and all its places in load balancers of one product.

    Both return ``changed``, ``msg`` and ``resume``, and ``failed`` where connections had too little time. A result with
    ``resume`` is to be followed by another call with it. An error names what could not be done.
    """

    def drain(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Take the host out everywhere."""

    def restore(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Put the host back as it was found, if no other holder needs it drained."""


class RecordFailed(Exception):
    """The module on the host failed. Its first argument is the result for the play."""


def record_on_host(
    action: ActionBase, directory: str, variables: dict[str, t.Any]
) -> t.Callable[[dict[str, t.Any]], Answer]:
    """Return what runs the module load_balancer_record on the host of a task with the given options.

    It raises :class:`RecordFailed`.
    """

    def run(options: dict[str, t.Any]) -> Answer:
        answer = run_for(action, "load_balancer_record", {**options, "directory": directory}, variables)
        if answer.get("failed") or answer.get("unreachable"):
            raise RecordFailed(answer)
        return answer

    return run


class Holding:
    """One holder in the record of a host.

    :param record: runs the module load_balancer_record on the host with the given options.
    """

    def __init__(self, record: t.Callable[[dict[str, t.Any]], Answer], holder: str) -> None:
        self._run = record
        self._holder = holder

    def hold(
        self,
        seen: Seen,
        *,
        wait: float,
        is_untouched: bool,
        look: t.Callable[[], Seen],
        is_complete: t.Callable[[Seen], bool] = bool,
    ) -> Answer:
        """Record the holder, and how the host was found. Nothing may be changed before that.

        :param seen: how the host is now.
        :param wait: seconds to wait for another holder that puts the host back.
        :param is_untouched: whether nothing of it can be the doing of another holder.
        :param look: look at the host again.
        :param is_complete: whether what an earlier holder has found are all places of the host.
        """
        if is_untouched:
            return self._record("held", found=dict(seen), wait=wait)
        # What looks like the order of an operator, or like a host that is in no pool, may be the doing of another
        # holder, which puts the host back now. It does not once this holder is recorded, so only what is seen after
        # that is noted. Nothing is to be put back before that, since nothing is changed. The record does not
        # distinguish two runs for the same holder. The lease of respond and the marks of rolling_maintenance prevent
        # them; an operator must not start two.
        answer = self._record("held", found={}, wait=wait)
        found = answer["found"]
        if not (seen.keys() <= found.keys() and is_complete(found)):
            found = self._record("held", found=dict(look()), wait=wait)["found"]
        return {**answer, "found": found}

    def let_go(self) -> None:
        """Do not stay recorded as a holder for whom nothing was done."""
        self._record("returning", lease=0)
        self._record("released")

    def begin_return(self, *, lease: float) -> tuple[Answer, bool]:
        """Announce that the host is put back; the answer, and whether this holder has to do it.

        :param lease: seconds for which other holders wait for that.
        """
        answer = self._record("returning", lease=lease)
        return answer, answer["todo"] == PUT_BACK

    def end_return(self, problem: Exception | None) -> str:
        """Release the host; what the record says about it.

        :param problem: why it is not back. It is raised, unless another holder has taken the host over meanwhile.
        """
        # Others need not wait for this run any longer; the next one finishes it, or the other does.
        if problem and self._record("interrupted")["todo"] == PUT_BACK:
            raise problem
        return str(self._record("released")["msg"])

    def _record(self, state: str, **more: t.Any) -> Answer:
        return self._run({"state": state, "holder": self._holder, **more})
