# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that fails the health probe of its load balancer while a flag exists."""

import contextlib
import math
import os
from typing import Any, Callable, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .._scheduled_events.checks import refusal_of_probed, without_password
from .._scheduled_events.clock import Clock
from .._scheduled_events.files import Folder
from .drain import Drain
from .record import PUT_BACK, DrainError, Record, take_note

HONOURED_WITHIN = 5.0  # seconds that the health endpoint has to notice the flag
NEW_MODE = 0o644  # the service must see the flag


class ProbeAnswer(NamedTuple):
    """Of the health endpoint. ``status`` is 0 if there was none, and then ``problem`` says why."""

    status: int
    problem: str = ""

    @property
    def shown(self) -> str:
        return str(self.status) if self.status else f"nothing ({self.problem})"


class Flag:
    """The flag, a file of this machine."""

    def __init__(self, path: str) -> None:
        self._path = path

    def is_up(self) -> bool:
        return os.path.lexists(self._path)

    def raise_(self) -> None:
        Folder(os.path.dirname(self._path)).make()
        # The directory can be that of another user: no link is followed, and only a new file is changed.
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, NEW_MODE)
            try:
                os.fchmod(descriptor, NEW_MODE)  # whatever the umask
            finally:
                os.close(descriptor)

    def lower(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class Probed(Drain):
    """A host with a health endpoint. Its record is on the same machine, so a lock keeps other holders out.

    :param probe: asks the health endpoint.
    :param peers: lists the peers of the present connections.
    """

    LAST_LOOK = 0.0  # no balancer is asked once more

    def __init__(
        self,
        options: Mapping[str, Any],
        record: Record,
        *,
        probe: Callable[[], ProbeAnswer],
        peers: Callable[[], List[str]],
        flag: Optional[Flag] = None,
        simulate: bool,
        clock: Clock,
    ) -> None:
        super().__init__(options, lambda note: take_note(record, note), simulate=simulate, clock=clock)
        self._notes = record
        self._holder = options["holder"]
        self._url = without_password(options["url"])  # for messages
        self._flag = flag or Flag(options["flag"])
        self._probe = probe
        self._peers = peers
        self._insists = options["on_timeout"] == "fail"
        self._give_up_at = clock.monotonic() + self.finish_within
        self._waits_until = clock.monotonic() + super().noted_wait()
        self._problem = ""
        self._is_checked = False  # whether the service was asked before the flag was raised, and had no problem
        self._is_in_service = False

    @property
    def _notice(self) -> float:
        """Seconds that a balancer needs to notice, and one more."""
        return float(math.ceil(self.options["interval"] * self.options["count"])) + 1.0

    def alone(self) -> ContextManager[Any]:
        if self.options["state"] == "active":
            return self._notes.locked()
        return self._notes.locked_when_free(self._holder, wait=self._waits_until - self.clock.monotonic())

    def noted_wait(self) -> float:
        return 0.0  # alone() has waited

    def check(self) -> None:
        """Ask the service, unless the flag exists already: then it was asked before the flag was raised.

        So a wrong URL never looks like a drained host.
        """
        with self.alone():
            if self._flag.is_up() or self.simulate:
                return
        answer = self._wait_for(lambda status: status == 200, within=self._answers_within())
        if answer is None:
            self._is_checked = True
            return
        self._problem = (
            f"{self._url} answers {answer.shown} before {self.options['flag']} exists, expected 200. Correct "
            "the URL, or start the service"
        )
        if self._insists:
            raise DrainError(self._problem)

    def look(self) -> Dict[str, Any]:
        return {"flag": self._flag.is_up()}

    def is_untouched(self) -> bool:
        return True  # the lock keeps others out

    def planned(self) -> Tuple[bool, str]:
        changes = bool(self.seen == {"flag": False} or self.noted["changed"])
        return changes, f"would create {self.options['flag']}" if changes else ""

    def take_out(self) -> None:
        self._notes.write_changes()
        self.changed |= self.seen == {"flag": False}
        # Where nothing is locked, another holder may have removed it meanwhile.
        if not self._flag.is_up():
            self._flag.raise_()

    def notice(self) -> None:
        if "asked" not in self.stage:
            self.stage["problem"] = self._wait_for_notice()
        self.stage["peers"] = self._peers()

    def is_noticed_by_caller(self) -> bool:
        return bool(self.options["balancers"]) and "asked" not in self.stage

    def _wait_for_notice(self) -> str:
        """What makes it uncertain that the balancers have noticed; empty if nothing does."""
        problem = self._problem or self._check_drained()
        if problem and self._is_checked and self._insists:
            self._take_back()
            raise DrainError(f"{problem}. The flag was removed again")
        # Not only after the flag was raised: an earlier run may have been interrupted before this.
        left = max(0.0, self._give_up_at - self.clock.monotonic())
        self.clock.sleep(min(self._notice, left))
        if left < self._notice and not problem:
            problem = f"its balancers need {self._notice:g} s to notice that it is out, and had {left:.0f} s"
        return problem

    def _check_drained(self) -> str:
        """The problem with the answer while the flag is raised; empty if there is none.

        :raises DrainError: the answer is 200, and the flag stays.
        """
        wanted, exactly = self.options["drained_status"], self._is_checked  # else the service may be down

        def is_right(status: int) -> bool:
            return bool(status == wanted or (not exactly and status != 200))

        within = self._answers_within()
        answer = self._wait_for(is_right, within=within)
        if answer is None:
            return ""
        advice = "Let the health endpoint of your service honour the flag"
        if answer.status != 200:
            advice = "Correct the URL, or set load_balancer_probe_drained_status to the answer of a drained host"
        problem = (
            f"{self._url} answers {answer.shown} although {self.options['flag']} exists, expected {wanted}; "
            f"waited {within:g} s. {advice}"
        )
        if answer.status == 200 and not (exactly and self._insists):
            raise DrainError(problem)
        return problem

    def _answers_within(self) -> float:
        return float(min(HONOURED_WITHIN, max(0.0, self._give_up_at - self.clock.monotonic())))

    def _take_back(self) -> None:
        with self._notes.locked():
            if self._notes.release(self._holder, seconds=0.0) == PUT_BACK:
                self.put_back()
                self._notes.forget(self._holder)

    def connections(self, seconds: float) -> List[str]:
        """Wait for the connections that there were when the balancer had noticed. Probes open new ones."""
        left = list(self.stage["peers"])

        def have_ended() -> bool:
            now = set(self._peers()) if left else set()
            left[:] = [peer for peer in left if peer in now]
            return not left

        self.clock.until(have_ended, within=seconds)
        return left

    def describe(self, left: List[str]) -> str:
        return (
            f"it gets no new connections, but after {self.stage['seconds']:.0f} s it still has {len(left)} on port "
            f"{', '.join(str(port) for port in self.options['ports'])}, from {', '.join(sorted(left))}"
        )

    def outlives_record(self) -> bool:
        return self._flag.is_up()

    def return_seconds(self) -> float:
        waits = 2 if self.options["balancers"] else 1  # for the service, and then for the balancers
        return waits * super().return_seconds() + self._notice + float(self.options["interval"])

    def planned_return(self) -> str:
        return self._stays_out() or f"would remove {self.options['flag']}"

    def put_back(self) -> None:
        if self.found.get("flag"):
            return
        self._notes.write_changes()
        self._flag.lower()
        self._notes.write_changes()
        if not self._notes.is_returning(self._holder):  # one came meanwhile, where nothing is locked
            self._flag.raise_()

    def wait_until_back(self) -> Optional[Exception]:
        if self.found.get("flag"):
            return None
        timeout = float(self.options["return_timeout"])
        last: List[ProbeAnswer] = []

        def is_over() -> bool:
            """Whether the service answers, or another holder has come."""
            last[:] = [self._probe()]
            self._notes.write_changes()
            return last[0].status == 200 or not self._notes.is_returning(self._holder)

        if not self.clock.until(is_over, within=timeout):
            flag = self.options["flag"]
            why = f"since {flag} was created again" if self._flag.is_up() else f"although {flag} does not exist"
            return DrainError(
                f"{self._url} does not answer 200 {why}; waited {timeout:g} s, last answer "
                f"{last[0].status or 'none'} {last[0].problem}".rstrip()
                + ". Check your service, and run it again"
            )
        self._is_in_service = self._notes.is_returning(self._holder)
        if self._is_in_service and not self.options["balancers"]:
            self.clock.sleep(self._notice + self.options["interval"])
        return None

    def is_ended_by_caller(self) -> bool:
        return self._is_in_service and bool(self.options["balancers"])

    def remark(self) -> str:
        seconds = self._notice + self.options["interval"]
        unknown = f"whether its balancers send it traffic again is not known: they had {seconds:g} s to notice"
        return self._stays_out() or unknown

    def _stays_out(self) -> str:
        return f"stays out, for {self.options['flag']} existed before" if self.found.get("flag") else ""

    def _wait_for(self, is_right: Callable[[int], bool], *, within: float) -> Optional[ProbeAnswer]:
        """Wait until the health endpoint gives a status that is right; the last answer if it does not."""
        last: List[ProbeAnswer] = []

        def look() -> bool:
            last[:] = [self._probe()]
            return is_right(last[0].status)

        return None if self.clock.until(look, within=within) else last[0]


def check_settings(options: Mapping[str, Any], is_absolute: Callable[[str], bool] = os.path.isabs) -> None:
    """Refuse what cannot be meant.

    :raises DrainError: it names the option.
    """
    if not is_absolute(options["flag"]):
        raise DrainError(f"flag is {options['flag']}, expected an absolute path. Correct load_balancer_probe_flag")
    wrong_url = refusal_of_probed(options["url"])
    if wrong_url:
        raise DrainError(f"url is {wrong_url}. Set load_balancer_probe_url")
    if options["drained_status"] == 200:
        raise DrainError(
            "drained_status is 200, which a host in service gives, expected the status of a drained one. Set "
            "load_balancer_probe_drained_status"
        )
    if not options["ports"]:
        raise DrainError("ports is empty, expected at least one port of the service. Set load_balancer_ports")
