# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every provider does for a host: note what was found, change, wait until that is noticed, wait for connections,
and restore. A provider overrides the steps that differ.

A result has ``changed``, ``msg`` and ``resume``, and ``failed`` where connections had too little time. A result with
``resume`` is followed by another call with it, maybe of another process.
"""

import contextlib
import math
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Tuple

from .._scheduled_events.clock import Clock
from .record import LONGEST_LEASE, PUT_BACK, DrainError

RETURN_LEASE = 60.0  # seconds beyond the waits of a return, so that a run that lives keeps its lease

Result = Dict[str, Any]
Answer = Dict[str, Any]  # of take_note


def finish_within(options: Mapping[str, Any]) -> float:
    """Seconds in which the whole drain must end. A return has no such limit."""
    seconds = math.inf if options.get("state") == "active" else float(options.get("finish_within", math.inf))
    return seconds if seconds >= 0 else math.inf


class Drain:
    """A host that leaves its load balancers, and returns to them.

    :param options: those of the module load_balancer; the times are seconds.
    :param record: gives the answer of ``take_note`` on the host to these options.
    :param simulate: whether to change nothing.
    :ivar seen: each place of the host, and what it was there before the drain; None before that.
    :ivar noted: the answer of the record when the holder was noted.
    :ivar found: what the record says that a return has to restore.
    :ivar stage: what the next call has to know, if this one does not finish the drain.
    """

    LAST_LOOK = 5.0  # seconds between the wait for connections and the end of the drain, for the last look at balancers
    ORDERS_LATE = False  # whether orders of a return may come after those of a holder that has waited long enough
    FOLLOWS_OTHERS = False  # whether all hosts of a batch make the change before the first waits for it

    def __init__(
        self,
        options: Mapping[str, Any],
        record: Callable[[Dict[str, Any]], Answer],
        *,
        simulate: bool,
        clock: Clock,
    ) -> None:
        self.options = options
        self.simulate = simulate
        self.clock = clock
        self.changed = False
        self.seen: Optional[Mapping[str, Any]] = None
        self.noted: Answer = {}
        self.found: Mapping[str, Any] = {}
        self.stage: Dict[str, Any] = dict(options["resume"])
        self._record = record
        self.finish_within = finish_within(options)
        self.finish_at = clock.wall() + self.finish_within - self.LAST_LOOK

    # What differs

    def check(self) -> None:
        """Refuse a host that cannot be drained, before anything is noted."""

    def settings(self) -> Dict[str, Any]:
        """The variables of the role that decide where the host is taken out and put back, and their values."""
        return {"load_balancer_provider": self.options["provider"]}

    def alone(self) -> ContextManager[Any]:
        """Keep other holders out from the look to the change, or to the change back."""
        return contextlib.ExitStack()

    def look(self) -> Mapping[str, Any]:
        """Each place of the host, and what it is there. A second look is at the present state."""
        raise NotImplementedError

    def is_untouched(self) -> bool:
        """Whether nothing of it can be the doing of another holder."""
        raise NotImplementedError

    def is_complete(self, found: Mapping[str, Any]) -> bool:
        """Whether an earlier holder has found all places of the host."""
        return bool(found)

    def noted_wait(self) -> float:
        """Seconds to wait for another holder that puts the host back: its lease, and half of the time there is."""
        return min(LONGEST_LEASE, self.finish_within / 2)

    def planned(self) -> Tuple[bool, str]:
        """Whether a drain would change anything, and what."""
        raise NotImplementedError

    def take_out(self) -> None:
        """Make the change."""
        raise NotImplementedError

    def notice(self) -> None:
        """Wait until the balancers send nothing new."""

    def is_noticed_by_caller(self) -> bool:
        """Whether the caller asks the balancers if they have noticed, and calls again with ``asked`` in the stage."""
        return False

    def connections(self, seconds: float) -> Any:
        """Wait until the connections have ended, for so many seconds at most; those that remain."""
        raise NotImplementedError

    def check_out(self) -> None:
        """Refuse a host that another program has put back meanwhile."""

    def describe(self, left: Any) -> str:
        """The message about the connections that remain."""
        raise NotImplementedError

    def take_out_anyway(self, left: Any) -> None:
        """Do not wait any longer for the connections that remain."""

    def outlives_record(self) -> bool:
        """Whether the host is out although its record is lost."""
        return True

    def return_seconds(self) -> float:
        """The time that a return takes at most."""
        return float(self.options["return_timeout"])

    def planned_return(self) -> str:
        """What a return would change."""
        raise NotImplementedError

    def put_back(self) -> None:
        """Make the change back to what was found."""
        raise NotImplementedError

    def withdraw(self) -> None:
        """Cancel the change back, if it is ordered and not made yet."""

    def wait_until_back(self) -> Optional[Exception]:
        """Wait until the host is in service; why it is not."""
        raise NotImplementedError

    def is_ended_by_caller(self) -> bool:
        """Whether the caller still waits for something before it ends the return."""
        return False

    def remark(self) -> str:
        """What to say about a host that is back."""
        return ""

    # What is the same

    def bring(self) -> Result:
        """Carry out the options."""
        return self.drain() if self.options["state"] == "drained" else self.restore()

    def drain(self) -> Result:
        if not self.stage:
            self.check()
            with self.alone():
                self.seen = self.look()
                self._note(self.seen)
                if self.simulate:
                    self.changed, msg = self.planned()
                    return self._result(msg)
                self.changed |= bool(self.noted["changed"])
                self.stage["is_noticed"] = False
                self.take_out()
            if self.FOLLOWS_OTHERS and self.options["wait_at_most"]:
                return self._result(resume=self.stage)
        if not self.stage["is_noticed"]:
            self.notice()
            if self.is_noticed_by_caller():
                return dict(self._result(resume=self.stage), ask=True)
            seconds = max(0.0, min(self.options["drain_timeout"], self.finish_at - self.clock.wall()))
            self.stage.update(is_noticed=True, until=self.clock.wall() + seconds, seconds=seconds)
        return self._wait_for_connections()

    def _wait_for_connections(self) -> Result:
        until = min(self.stage["until"], self.finish_at)
        rest = max(0.0, min(until - self.clock.wall(), self.options["drain_timeout"]))  # also if the clock is set
        stretch = min(rest, self.options["wait_at_most"] or rest)
        left = self.connections(stretch)
        if left and stretch < rest:
            return self._result(resume=self.stage)
        self.check_out()
        problems = [self.stage["problem"]] if self.stage.get("problem") else []
        if left:
            problems.append(self.describe(left))
        result = self._result("; ".join(problems))
        if problems and self.options["on_timeout"] == "fail":
            return dict(result, failed=True)
        if left:
            self.take_out_anyway(left)
        return result

    def restore(self) -> Result:
        """Put the host back as it was found, if no other holder needs it drained."""
        with self.alone():
            was_drained = bool(self.options["was_drained"] and not self.stage and self.outlives_record())
            answer = self._ask("returning", lease=self.return_seconds() + RETURN_LEASE, was_drained=was_drained)
            self.changed, self.found = bool(answer["changed"]), (self.stage or answer)["found"]
            if answer["todo"] != PUT_BACK:
                if not self.stage:
                    return self._result(answer["msg"])
                if answer["holders"]:  # else its own order may still be to be carried out
                    return self._take_out_again()
            if self.simulate:
                msg, self.changed = self.planned_return(), True
                return self._result(msg)
            try:
                if not self.stage:
                    self.put_back()
            except Exception as error:  # another holder need not wait for this return, which ended
                return self._end_with(error)
        if self.FOLLOWS_OTHERS and self.options["wait_at_most"] and not self.stage:
            return self._result(resume={"found": dict(self.found)})
        problem = self.wait_until_back()
        self.changed = True
        if not problem and self.is_ended_by_caller():
            return dict(self._result(), ask=True)
        return self._end_with(problem)

    def _end_with(self, problem: Optional[Exception]) -> Result:
        drained_for_others = self.end_return(problem)
        if drained_for_others and self.ORDERS_LATE:
            return self._take_out_again()
        return self._result(drained_for_others or self.remark())

    def _take_out_again(self) -> Result:
        """Undo what this return did after another holder had come.

        That one may return at any moment, so this is another drain and another return.
        """
        self.withdraw()
        self.noted = self._ask("held", found=dict(self.found), wait=self.noted_wait())
        try:
            self.stage = {}
            self.seen = self.look()
            self.take_out()
            self.notice()
            self.connections(0.0)
        except Exception as error:
            answer = self._ask("returning", lease=0.0)
            if answer["todo"] == PUT_BACK or not answer["holders"]:
                raise
            raise DrainError(
                f"{error}. It may get traffic, but it {answer['msg']}. Drain it for that holder again"
            ) from error
        self.stage = {}
        return self.restore()

    def _note(self, seen: Mapping[str, Any]) -> None:
        """Record the holder, and how the host was found. Nothing may be changed before that."""
        wait = self.noted_wait()
        if self.is_untouched():
            self.noted = self._ask("held", found=dict(seen), wait=wait)
            return
        # What looks like the order of an operator may be the doing of another holder, which puts the host back at this
        # moment. Once this holder is recorded, no other one puts the host back, so what is seen then is noted. The
        # record does not distinguish two runs for the same holder. The lease of respond and the marks of
        # rolling_maintenance prevent them; an operator must not start two.
        self.noted = self._ask("held", found={}, wait=wait)
        found = self.noted["found"]
        if not (seen.keys() <= found.keys() and self.is_complete(found)):
            found = self._ask("held", found=dict(self.look()), wait=wait)["found"]
            self.noted = {**self.noted, "found": found}

    def end_return(self, problem: Optional[Exception]) -> str:
        """Release the host; what the record says about it.

        :param problem: why it is not back. It is raised, unless another holder has taken the host over meanwhile.
        """
        # Others need not wait for this run any longer; the next one finishes it, or the other does.
        if problem and self._ask("interrupted")["todo"] == PUT_BACK:
            raise problem
        return str(self._ask("released")["msg"])

    def _ask(self, state: str, **more: Any) -> Answer:
        return self._record({"state": state, "holder": self.options["holder"], "settings": self.settings(), **more})

    def _result(self, msg: str = "", resume: Optional[Dict[str, Any]] = None) -> Result:
        return {"changed": self.changed, "msg": msg, "resume": resume or {}}


def not_put_back(places: str, variable: str) -> List[str]:
    """The remark about places that the host left, and that the variable does not list when it returns."""
    return [f"not put back in {places}, which {variable} does not list any more"] if places else []
