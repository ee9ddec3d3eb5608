# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that fails the probe of its balancer while a flag is raised."""

import contextlib
import math
import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .record import LEAVE_OUT, NOTHING_TO_DO, Record, longest_wait, stays_drained_for

HONOURED_WITHIN = 5.0  # seconds that the health endpoint has to notice the flag
LOOK_AGAIN_AFTER = 1.0  # seconds
RETURN_LEASE = 60.0  # seconds beyond the waits of a return, so that a run that lives keeps its lease
DEFAULT_FLAG = "/var/lib/maintops/drained"
FORMER_FLAG = "/etc/scheduled-events/drained"  # the default before 1.0.0, which an endpoint may still honour
NEW_MODE, DIRECTORY_MODE = 0o644, 0o755  # the service must see the flag


OPTIONS: Dict[str, Dict[str, Any]] = {
    "state": {"type": "str", "choices": ["drained", "active"], "required": True},
    "holder": {"type": "str", "required": True},
    "flag": {"type": "path", "default": DEFAULT_FLAG},
    "url": {"type": "str", "default": "http://127.0.0.1/healthz"},
    "drained_status": {"type": "int", "default": 503},
    "interval": {"type": "float", "default": 5},
    "count": {"type": "int", "default": 2},
    "ports": {"type": "list", "elements": "int", "default": [80, 443]},
    "drain_timeout": {"type": "float", "default": 300},
    "finish_within": {"type": "float", "default": -1},
    "on_timeout": {"type": "str", "choices": ["fail", "continue"], "default": "fail"},
    "return_timeout": {"type": "float", "default": 120},
    "wait_at_most": {"type": "float", "default": 0},
    "resume": {"type": "dict", "default": {}},
    # The action plugin asks these balancers; the module only leaves the end of a return to it.
    "balancers": {"type": "list", "elements": "str", "default": []},
    "server": {"type": "str"},
    "backends": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "str", "default": "/run/haproxy/admin.sock"},
    "become": {"type": "bool", "default": True},
    "directory": {"type": "path", "default": "/var/lib/maintops"},
}


class ProbeError(Exception):
    """It could not be done. The message says what to do."""


class ProbeAnswer(NamedTuple):
    """Of the health endpoint. ``status`` is 0 if there was none, and then ``problem`` says why."""

    status: int
    problem: str = ""


class ProbeSettings(NamedTuple):
    """``notice``: seconds that the balancer needs to notice; ``interval``: those between two of its probes.

    ``ports``: those whose connections have to end. ``drained_status``: what the health endpoint answers then.
    """

    flag: str
    url: str
    notice: float
    interval: float
    ports: Sequence[int]
    drained_status: int = 503


class Drain(NamedTuple):
    """A host that is out. ``peers``: those whose connections there were when the balancer had noticed.

    ``problem``: why it is not certain that it is out; empty if it is.
    """

    raised: bool
    peers: List[str]
    problem: str = ""


class Returned(NamedTuple):
    """``is_asked_for``: the host is in service, and the caller asks its balancers before the return is over."""

    changed: bool
    msg: str
    is_asked_for: bool = False


class Flag:
    """The flag, a file of this machine.

    :param former: the path before an upgrade, which counts as well until the service honours the new one.
    """

    former = ""

    def __init__(self, path: str, former: str = FORMER_FLAG) -> None:
        self._path = path
        self.former = former if path == DEFAULT_FLAG else ""

    def is_up(self) -> bool:
        return any(os.path.lexists(path) for path in self._paths())

    def raise_(self) -> None:
        _touch(self._path)

    def raise_former(self) -> None:
        _touch(self.former)

    def lower(self) -> None:
        for path in self._paths():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _paths(self) -> List[str]:
        return [path for path in (self._path, self.former) if path]


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), DIRECTORY_MODE, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, NEW_MODE))
    os.chmod(path, NEW_MODE)  # whatever the umask


class Host:
    """The host itself.

    :param flag: the flag, if it is not a file of this machine.
    :param probe: asks the health endpoint.
    :param peers: lists the peers of the connections that there are now.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        record: Record,
        *,
        probe: Callable[[], ProbeAnswer],
        peers: Callable[[], List[str]],
        flag: Optional[Flag] = None,
        simulate: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._flag = flag or Flag(settings.flag)
        self._record = record
        self._probe = probe
        self._peers = peers
        self._simulate = simulate
        self._clock = clock
        self._sleep = sleep

    def take_out(self, holder: str, *, insist: bool, finish_within: float = math.inf) -> Drain:
        """Raise the flag, and wait until the balancer has noticed.

        Before this host raises it, the health endpoint must answer 200, and after that the status of a drained host.
        So a wrong URL never looks like a drained host. If the flag exists, there was a check before it was raised.

        :param insist: whether an answer that is not as expected is an error, and not only a problem to name. Then the
            flag is lowered again.
        :param finish_within: seconds for all of this. Afterwards the host is not waited for.
        :raises ProbeError: the health endpoint does not answer as it should.
        """
        give_up_at = self._clock() + finish_within
        waits_until = self._clock() + longest_wait(finish_within)
        problem, is_checked = self._check_service(holder, waits_until, give_up_at, insist=insist)
        raised = self._raise_flag(holder, waits_until)
        if self._simulate:
            return Drain(raised, [])
        if not problem:
            problem = self._check_drained(give_up_at, exactly=is_checked, insist=insist)
        if problem and is_checked and insist:
            self._take_back(holder)
            raise ProbeError(f"{problem}. The flag was removed again")
        # Not only after the flag was raised: an earlier run may have been interrupted before this.
        left = max(0.0, give_up_at - self._clock())
        self._sleep(min(self._settings.notice, left))
        if left < self._settings.notice and not problem:
            problem = f"its balancers need {self._settings.notice:g} s to notice that it is out, and had {left:.0f} s"
        return Drain(raised, self._peers(), problem)

    def _check_service(self, holder: str, waits_until: float, give_up_at: float, *, insist: bool) -> Tuple[str, bool]:
        """The problem with the service, and whether it was asked and has none: not if the flag was raised before."""
        with self._record.locked_when_free(holder, wait=waits_until - self._clock()):
            is_asked = not self._flag.is_up() and not self._simulate
        if not is_asked:
            return "", False
        answer = self._wait_for(lambda status: status == 200, within=self._answers_within(give_up_at))
        if answer is None:
            return "", True
        problem = (
            f"{self._settings.url} answers {_shown(answer)} before {self._settings.flag} exists, expected 200. Correct "
            "the URL, or start the service"
        )
        if insist:
            raise ProbeError(problem)
        return problem, False

    def _raise_flag(self, holder: str, waits_until: float) -> bool:
        """Note the holder, and raise the flag; whether anything changed."""
        with self._record.locked_when_free(holder, wait=waits_until - self._clock()):
            is_there = self._flag.is_up()
            before = self._record.read()
            noted = self._record.hold(holder, {"flag": is_there})
            self._record.write_changes()
            # Where nothing is locked, another holder may have removed it meanwhile.
            if not self._simulate and not self._flag.is_up():
                self._flag.raise_()
        return not is_there or noted != before

    def _check_drained(self, give_up_at: float, *, exactly: bool, insist: bool) -> str:
        """The problem with the answer while the flag is raised; empty if there is none.

        :param exactly: whether only the status of a drained host is right, and not also that of a host that is down.
        :raises ProbeError: the answer is 200, and the flag stays.
        """
        wanted = self._settings.drained_status

        def is_right(status: int) -> bool:
            return status == wanted or (not exactly and status != 200)

        within = self._answers_within(give_up_at)
        answer = self._wait_for(is_right, within=within)
        if answer is not None and answer.status == 200 and self._flag.former:
            self._flag.raise_former()
            within = self._answers_within(give_up_at)
            answer = self._wait_for(is_right, within=within)
        if answer is None:
            return ""
        advice = "Let the health endpoint of your service honour the flag"
        if answer.status != 200:
            advice = "Correct the URL, or set load_balancer_probe_drained_status to the answer of a drained host"
        problem = (
            f"{self._settings.url} answers {_shown(answer)} although {self._settings.flag} exists, expected {wanted}; "
            f"waited {within:g} s. {advice}"
        )
        if answer.status == 200 and not (exactly and insist):
            raise ProbeError(problem)
        return problem

    def _answers_within(self, give_up_at: float) -> float:
        return min(HONOURED_WITHIN, max(0.0, give_up_at - self._clock()))

    def _take_back(self, holder: str) -> None:
        if self._lower_flag(holder, 0.0) is None:
            with self._record.locked():
                self._record.forget(holder)

    def wait_for_the_end(self, peers: Sequence[str], *, timeout: float) -> List[str]:
        """Wait until the connections with these peers have ended.

        :returns: those that have not.
        """
        give_up_at = self._clock() + timeout
        left = list(peers)
        while left:
            now = set(self._peers())
            left = [peer for peer in left if peer in now]
            if not left or self._clock() >= give_up_at:
                break
            self._sleep(LOOK_AGAIN_AFTER)
        return left

    def put_back(self, holder: str, *, timeout: float, ask: bool = False) -> Returned:
        """Remove the flag if no other holder needs it, and wait until the balancer has noticed.

        Other holders wait meanwhile. A holder that comes nevertheless has taken the place of this one, and puts the
        host back in the end.

        :param ask: whether the caller asks the balancers, in place of the wait here.
        :raises ProbeError: the health endpoint does not answer as it should.
        """
        over = self._lower_flag(holder, self._lease(timeout * 2 if ask else timeout))
        if over is not None:
            return over
        problem = self._wait_for_service(holder, timeout)
        if problem:
            with self._record.locked():
                self._record.interrupt(holder)  # others need not wait any longer; the next run finishes it
            raise ProbeError(problem)
        if not self._record.is_returning(holder):
            return Returned(True, stays_drained_for(self._record.read(), holder))
        if ask:
            return Returned(True, "", is_asked_for=True)
        seconds = self._settings.notice + self._settings.interval
        self._sleep(seconds)
        with self._record.locked():
            self._record.forget(holder)
            kept = self._record.read()
        unknown = f"whether its balancers send it traffic again is not known: they had {seconds:g} s to notice"
        return Returned(True, stays_drained_for(kept, holder) or unknown)

    def _lease(self, timeout: float) -> float:
        return timeout + self._settings.notice + self._settings.interval + RETURN_LEASE

    def _lower_flag(self, holder: str, lease: float) -> Optional[Returned]:
        """Lower the flag. If there is nothing to wait for then, return the result."""
        with self._record.locked():
            kept = self._record.read()
            todo = self._record.release(holder, lease=lease)
            if todo == NOTHING_TO_DO:
                return Returned(False, "")
            if todo == LEAVE_OUT:
                return Returned(True, stays_drained_for(kept, holder))
            if kept.found.get("flag"):
                self._record.forget(holder)
                return Returned(True, f"stays out, for {self._settings.flag} existed before")
            if self._simulate:
                return Returned(True, f"would remove {self._settings.flag}")
            self._record.write_changes()
            self._flag.lower()
            self._record.write_changes()
            if not self._record.is_returning(holder):  # one came meanwhile, where nothing is locked
                self._flag.raise_()
                return Returned(True, stays_drained_for(self._record.read(), holder))
        return None

    def _wait_for_service(self, holder: str, timeout: float) -> str:
        """Wait until the health endpoint answers 200, or another holder has come; why it does not, or nothing."""
        give_up_at = self._clock() + timeout
        while True:
            answer = self._probe()
            self._record.write_changes()
            if answer.status == 200 or not self._record.is_returning(holder):
                return ""
            if self._clock() >= give_up_at:
                break
            self._sleep(LOOK_AGAIN_AFTER)
        flag = self._settings.flag
        why = f"since {flag} was created again" if self._flag.is_up() else f"although {flag} does not exist"
        last = f"{answer.status or 'none'} {answer.problem}".rstrip()
        return (
            f"{self._settings.url} does not answer 200 {why}; waited {timeout:g} s, last answer {last}. Check your "
            "service, and run it again"
        )

    def _wait_for(self, is_right: Callable[[int], bool], *, within: float) -> Optional[ProbeAnswer]:
        """Wait until the health endpoint gives a status that is right; the last answer if it does not."""
        give_up_at = self._clock() + within
        while True:
            answer = self._probe()
            if is_right(answer.status):
                return None
            if self._clock() >= give_up_at:
                return answer
            self._sleep(LOOK_AGAIN_AFTER)


def _shown(answer: ProbeAnswer) -> str:
    return str(answer.status) if answer.status else f"nothing ({answer.problem})"


def notice_time(interval: float, count: int) -> float:
    """Seconds that a balancer needs to notice, and one more."""
    return math.ceil(interval * count) + 1.0


def check_settings(options: Mapping[str, Any], is_absolute: Callable[[str], bool] = os.path.isabs) -> None:
    """Refuse what cannot be meant.

    :raises ProbeError: it names the option.
    """
    problems: Dict[str, str] = {}
    if not is_absolute(options["flag"]):
        problems["flag"] = "expected an absolute path"
    if not options["ports"]:
        problems["ports"] = "expected at least one port of the service"
    elif not all(0 < port < 65536 for port in options["ports"]):
        problems["ports"] = "expected ports from 1 to 65535"
    for name in ("interval", "count"):
        if not (math.isfinite(options[name]) and options[name] > 0):
            problems[name] = "expected a number above 0"
    if problems:
        raise ProbeError("; ".join(f"{name} is {options[name]}, {what}" for name, what in problems.items()))


def bring(module: Any, host: Host) -> Dict[str, Any]:
    """Carry out the module with its parameters."""
    params = module.params
    if params["state"] == "drained":
        return _drain(module, host)
    back = host.put_back(params["holder"], timeout=params["return_timeout"], ask=bool(params["balancers"]))
    return {"changed": back.changed, "msg": back.msg, "resume": {}, "ask": back.is_asked_for}


def _drain(module: Any, host: Host) -> Dict[str, Any]:
    params = module.params
    finish_within = params["finish_within"] if params["finish_within"] >= 0 else math.inf
    finish_at = time.time() + finish_within
    if params["resume"]:
        stage = dict(params["resume"])
        drain = Drain(False, stage["peers"])
    else:
        drain = host.take_out(params["holder"], insist=params["on_timeout"] == "fail", finish_within=finish_within)
        if module.check_mode:
            msg = f"would create {params['flag']}" if drain.raised else ""
            return {"changed": drain.raised, "msg": msg, "resume": {}}
        seconds = max(0.0, min(params["drain_timeout"], finish_at - time.time()))
        stage = {"until": time.time() + seconds, "seconds": seconds, "problem": drain.problem}
    # The clock may be set meanwhile; the rest never exceeds the whole
    rest = min(max(min(float(stage["until"]), finish_at) - time.time(), 0), params["drain_timeout"])
    stretch = min(rest, params["wait_at_most"] or rest)
    left = host.wait_for_the_end(drain.peers, timeout=stretch)
    result = {"changed": drain.raised, "msg": "", "resume": {}, "connected_peers": left}
    if left and stretch < rest:
        return dict(result, resume=dict(stage, peers=left))
    problems = [stage["problem"]] if stage["problem"] else []
    if left:
        problems.append(
            f"it gets no new connections, but after {stage['seconds']:.0f} s it still has {len(left)} on port "
            f"{', '.join(str(port) for port in params['ports'])}, from {', '.join(sorted(left))}"
        )
    result["msg"] = "; ".join(problems)
    if problems and params["on_timeout"] == "fail":
        module.fail_json(**result)
    return result
