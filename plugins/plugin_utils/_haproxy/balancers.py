# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host behind several HAProxies, all of which it leaves and returns to. Private to the collection."""

from __future__ import annotations

import math
import time
import typing as t

from ...module_utils._load_balancer.record import longest_wait
from .._provider.holding import Holding, Provider, Result

INFO, CHANGE = "haproxy_servers_info", "haproxy_servers"  # the modules that run on a balancer
LOOK_AGAIN_AFTER = 2.0  # seconds, for a balancer without an answer
RETURN_LEASE = 60.0  # seconds beyond the wait for the servers, so that a run that lives keeps its lease


class BalancersError(Exception):
    """It could not be done. The message names the balancers and says what to do."""


class MembershipSettings(t.NamedTuple):
    """``server``: the name of the host on the balancers. The times are seconds; ``wait_at_most`` 0 means no limit.

    ``drain_timeout``: for sessions to end; ``finish_within``: for the whole drain, from this call on.
    """

    server: str
    backends: t.Sequence[str]
    holder: str
    drain_timeout: float
    on_timeout: str
    return_timeout: float
    wait_at_most: float
    simulate: bool
    finish_within: float = math.inf


class Balancers:
    """Several balancers, which are asked one after the other.

    :param ask: ``ask(balancer, module, options)`` runs the module :data:`INFO` or :data:`CHANGE` there. It raises an
        error of ``errors``, whose message names the balancer.
    """

    def __init__(
        self,
        names: t.Sequence[str],
        *,
        ask: t.Callable[[str, str, dict[str, t.Any]], dict[str, t.Any]],
        errors: type[Exception],
        clock: t.Callable[[], float] = time.time,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._names = list(dict.fromkeys(names))
        self._ask = ask
        self._errors = errors
        self._clock = clock
        self._sleep = sleep
        self._problems: dict[str, str] = {}

    def out(self) -> list[str]:
        """The names of all servers that some balancer gives no traffic."""
        answers = self._ask_all(self._names, INFO, {})
        self._raise_problems()
        servers = [server for answer in answers.values() for server in answer["servers"]]
        return sorted({each["server"] for each in servers if each["gets_no_new_sessions"]})

    def wait_until_served(self, server: str, backends: t.Sequence[str], *, timeout: float) -> str:
        """Wait until all balancers send traffic to a server that was not taken out there; what is to be said about it.

        :raises BalancersError: some do not after ``timeout`` seconds, or cannot be asked.
        """
        member = {"server": server, "backends": list(backends)}
        until, answers = self._clock() + timeout, dict[str, dict[str, t.Any]]()
        while True:
            self._problems.clear()
            for name in [each for each in self._names if each not in answers]:
                rest = min(max(0.0, until - self._clock()), timeout)  # also if the clock is set meanwhile
                answers.update(self._ask_all([name], INFO, {**member, "wait": rest}))
            if not self._problems or self._clock() >= until:
                break
            self._sleep(LOOK_AGAIN_AFTER)
        self._refuse_unknown(answers, server, backends)
        self._note_down({name: answer["down"] for name, answer in answers.items()}, timeout)
        self._raise_problems()
        kept_out = [
            f"{name} {each['backend']}/{each['server']} ({each['status']})"
            for name, answer in answers.items()
            for each in answer["servers"]
            if each["gets_no_new_sessions"]
        ]
        return f"{', '.join(kept_out)} stays out, as it was ordered there" if kept_out else ""

    def _note_down(self, down: t.Mapping[str, list[dict[str, t.Any]]], timeout: float) -> None:
        for name, servers in down.items():
            if servers:
                self._problems[name] = "; ".join(_down(name, each, timeout) for each in servers)

    @staticmethod
    def _refuse_unknown(answers: t.Mapping[str, dict[str, t.Any]], server: str, backends: t.Sequence[str]) -> None:
        without = [name for name, answer in answers.items() if not answer["servers"]]
        if without:
            where = "the backends " + ", ".join(backends) if backends else "any backend"
            raise BalancersError(
                f"No server is called {server} on {', '.join(without)}, in {where}: set "
                "load_balancer_haproxy_server to its name in haproxy.cfg"
            )

    def _ask_all(self, names: t.Sequence[str], module: str, options: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
        """The answers by balancer. A balancer without an answer does not delay the others, and is a problem."""
        answers = {}
        for name in names:
            try:
                answers[name] = self._ask(name, module, options)
            except self._errors as error:
                self._problems[name] = str(error)
        return answers

    def _problem(self) -> BalancersError | None:
        return BalancersError("; ".join(self._problems.values())) if self._problems else None

    def _raise_problems(self) -> None:
        problem = self._problem()
        if problem:
            raise problem


class Membership(Balancers, Provider):
    """A host as a server of all its balancers, which it leaves and returns to.

    :param record: ``record(options)`` runs the module load_balancer_record on the host.
    """

    def __init__(
        self,
        names: t.Sequence[str],
        settings: MembershipSettings,
        *,
        ask: t.Callable[[str, str, dict[str, t.Any]], dict[str, t.Any]],
        record: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
        errors: type[Exception],
        clock: t.Callable[[], float] = time.time,
    ) -> None:
        super().__init__(names, ask=ask, errors=errors, clock=clock)
        self._settings = settings
        self._holding = Holding(record, settings.holder)

    def drain(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Take the host out of all balancers. A result with ``resume`` is to be followed by another call with it."""
        settings = self._settings
        finish_at = self._clock() + settings.finish_within
        changed, until, seconds = False, float(resume.get("until", 0)), float(resume.get("seconds", 0))
        if not resume:
            seen = self._look()
            changed = self._hold(seen)
            if settings.simulate:
                planned = self._change_all(self._names, "drained")
                self._raise_problems()
                return self._plan(planned)
            # Sessions are waited for on one balancer after the other; new ones must come through none of them.
            changed |= _changed(self._change_all(self._names[:-1], "drained", timeout=0))
            self._raise_problems()
            seconds = max(0.0, min(settings.drain_timeout, finish_at - self._clock()))
            until = self._clock() + seconds
        now, until = self._clock(), min(until, finish_at)
        limit = min(until, now + settings.wait_at_most) if settings.wait_at_most else until
        answers = self._drain_until(limit)
        left = _unfinished(answers)
        self._raise_problems()
        result = {"changed": changed or _changed(answers), "msg": "", "resume": {}}
        if left and self._clock() < until:
            return {**result, "resume": {"until": until, "seconds": seconds}}
        if left:
            result["msg"] = (
                f"it gets no new connections, but after {seconds:.0f} s it still has sessions: {_sessions(left)}"
            )
            if settings.on_timeout == "fail":
                return {**result, "failed": True}
            self._change_all(list(left), "drained", timeout=0, force=True)
            self._raise_problems()
        return result

    def restore(self, resume: t.Mapping[str, t.Any]) -> Result:
        """Put the host back on all balancers, as it was found, if no other holder needs it drained."""
        del resume  # this is done in one call
        settings = self._settings
        record, must_return = self._holding.begin_return(lease=settings.return_timeout + RETURN_LEASE)
        if not must_return:
            return {"changed": record["changed"], "msg": record["msg"], "resume": {}}
        names = self._names if record["found"] else []  # else the drain ended before anything was changed
        found = {name: _of_balancer(record["found"], name) for name in names}
        until = self._clock() + settings.return_timeout
        if not settings.simulate:
            for name in names[:-1]:
                self._change_all([name], "active", timeout=0, found=found[name])
        answers = {}
        for name in names:
            if name not in self._problems:
                rest = max(0.0, until - self._clock())
                answers.update(self._change_all([name], "active", timeout=rest, found=found[name]))
        if settings.simulate:
            self._raise_problems()
            msg = f"would put it back on {', '.join(names)}" if names else ""
            return {"changed": True, "msg": msg, "resume": {}}
        self._note_down(_unfinished(answers), settings.return_timeout)
        return {"changed": True, "msg": self._holding.end_return(self._problem()), "resume": {}}

    def _look(self) -> dict[str, dict[str, t.Any]]:
        """Return the answer of every balancer about the host, before any change."""
        seen = self._ask_all(self._names, INFO, self._member())
        self._raise_problems()
        settings = self._settings
        known = {server["backend"] for answer in seen.values() for server in answer["servers"]}
        missing = [backend for backend in settings.backends if backend not in known]
        self._refuse_unknown(seen, settings.server, settings.backends)
        if missing:
            raise BalancersError(
                f"No server is called {settings.server} in {', '.join(missing)} on any of {', '.join(self._names)}: "
                "correct load_balancer_haproxy_backends"
            )
        return seen

    def _hold(self, seen: t.Mapping[str, dict[str, t.Any]]) -> bool:
        found = _found(seen)
        record = self._holding.hold(
            found,
            wait=longest_wait(self._settings.finish_within),
            is_untouched=all(state == "ready" for state in found.values()),
            look=lambda: _found(self._look()),
        )
        return bool(record["changed"])

    def _plan(self, planned: t.Mapping[str, dict[str, t.Any]]) -> dict[str, t.Any]:
        sent = {f"{name} {order.partition(':')[0]}" for name, answer in planned.items() for order in answer["sent"]}
        plans = [
            f"{name} {server['backend']}/{server['server']}, which is {server['status']}"
            for name, answer in planned.items()
            for server in answer["servers"]
            if f"{name} {server['backend']}/{server['server']}" in sent
        ]
        msg = f"would take out {'; '.join(plans)}" if plans else ""
        return {"changed": bool(plans), "msg": msg, "resume": {}}

    def _change_all(self, names: t.Sequence[str], state: str, **more: t.Any) -> dict[str, dict[str, t.Any]]:
        return self._ask_all(names, CHANGE, {"state": state, **self._member(), **more})

    def _member(self) -> dict[str, t.Any]:
        return {"server": self._settings.server, "backends": list(self._settings.backends)}

    def _drain_until(self, limit: float) -> dict[str, dict[str, t.Any]]:
        answers = {}
        longest = self._settings.drain_timeout
        for name in self._names:
            rest = max(0.0, min(limit - self._clock(), longest))  # also if the clock is set meanwhile
            answers.update(self._change_all([name], "drained", timeout=rest))
        return answers


def _changed(answers: t.Mapping[str, dict[str, t.Any]]) -> bool:
    return any(answer["changed"] for answer in answers.values())


def _unfinished(answers: t.Mapping[str, dict[str, t.Any]]) -> dict[str, list[dict[str, t.Any]]]:
    """The servers that keep the caller waiting, by balancer."""
    return {name: answer["unfinished"] for name, answer in answers.items() if answer["unfinished"]}


def _found(seen: t.Mapping[str, dict[str, t.Any]]) -> dict[str, str]:
    """Each server by balancer/backend, as the record has it."""
    return {f"{name}/{backend}": state for name, answer in seen.items() for backend, state in answer["found"].items()}


def _of_balancer(found: t.Mapping[str, str], name: str) -> dict[str, str]:
    start = f"{name}/"
    return {key[len(start) :]: state for key, state in found.items() if key.startswith(start)}


def _sessions(left: t.Mapping[str, list[dict[str, t.Any]]]) -> str:
    return ", ".join(
        f"{server['sessions']} on {name} {server['backend']}/{server['server']}"
        for name, servers in left.items()
        for server in servers
    )


def _down(name: str, server: t.Mapping[str, t.Any], timeout: float) -> str:
    return (
        f"{name} {server['backend']}/{server['server']} is {server['status']} {timeout:g} s after it "
        f"was put back; its last health check gave {server['check'] or 'nothing'}. Check your service, and run it again"
    )
