# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host behind several HAProxies, all of which it leaves and returns to. Private to the collection."""

from __future__ import annotations

import typing as t

from ...module_utils._load_balancer.drain import Answer, Drain, not_put_back
from ...module_utils._load_balancer.haproxy import was_out
from ...module_utils._load_balancer.record import DrainError
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from .._ansible.other_host import OtherHostError

INFO, CHANGE = "haproxy_servers_info", "haproxy_servers"  # the modules that run on a balancer
LOOK_AGAIN_AFTER = 2.0  # seconds, for a balancer without an answer


class Place(t.NamedTuple):
    """What a host is on balancers, or in a pool. No backend stands for each of those that have the server."""

    balancers: list[str]
    server: str
    backends: list[str]


def refuse_same_servers(places: t.Mapping[str, t.Sequence[Place]], variables: str) -> None:
    """Refuse two hosts that are the same server.

    :param places: of each host.
    :param variables: those that say which server a host is.
    :raises DrainError: the message names two hosts.
    """
    by_server: dict[str, list[tuple[str, Place]]] = {}
    for host, place in [(host, place) for host, own in places.items() for place in own]:
        for other, its in by_server.setdefault(place.server, []):
            common = [each for each in place.balancers if each in its.balancers]
            each_backend = not (place.backends and its.backends)
            if other != host and common and (each_backend or {*place.backends} & {*its.backends}):
                raise DrainError(
                    f"{other} and {host} are both the server {place.server} on {', '.join(common)}, expected one host "
                    f"for each server. Correct {variables} of one of them"
                )
        by_server[place.server].append((host, place))


class Balancers:
    """Several balancers, which are asked one after the other.

    :param ask: ``ask(balancer, module, options)`` runs the module :data:`INFO` or :data:`CHANGE` there. It raises
        :class:`OtherHostError`, whose message names the balancer.
    """

    def __init__(
        self,
        names: t.Sequence[str],
        *,
        ask: t.Callable[[str, str, dict[str, t.Any]], dict[str, t.Any]],
        clock: Clock = CLOCK,
    ) -> None:
        self.names = list(dict.fromkeys(names))
        self._ask = ask
        self._clock = clock
        self._problems: dict[str, str] = {}

    def traffic(self) -> dict[str, dict[str, bool]]:
        """By the name of each server and its backend, whether each balancer that has it there sends it traffic."""
        answers = self.ask_all(self.names, INFO, {})
        self.raise_problems()
        found: dict[str, dict[str, bool]] = {}
        for each in (server for answer in answers.values() for server in answer["servers"]):
            backends = found.setdefault(each["server"], {})
            backends[each["backend"]] = backends.get(each["backend"], True) and not each["gets_no_new_sessions"]
        return found

    def wait_until_served(self, server: str, backends: t.Sequence[str], *, timeout: float) -> str:
        """Wait until all balancers send traffic to a server that was not taken out there; what is to be said about it.

        :raises DrainError: some do not after ``timeout`` seconds, or cannot be asked.
        """
        member = {"server": server, "backends": list(backends)}
        give_up_at, answers = self._clock.monotonic() + timeout, dict[str, dict[str, t.Any]]()

        def all_have_answered() -> bool:
            self._problems.clear()
            for name in [each for each in self.names if each not in answers]:
                rest = max(0.0, give_up_at - self._clock.monotonic())
                answers.update(self.ask_all([name], INFO, {**member, "timeout": rest}))
            return not self._problems

        self._clock.until(all_have_answered, within=timeout, every=LOOK_AGAIN_AFTER)
        self._refuse_unknown(answers, server, backends)
        self.note_down({name: answer["down"] for name, answer in answers.items()}, timeout)
        self.raise_problems()
        kept_out = [f"{place} ({each['status']})" for place, each in _places(answers) if each["gets_no_new_sessions"]]
        return f"{', '.join(kept_out)} stays out, as it was ordered there" if kept_out else ""

    def wait_until_out(self, server: str, backends: t.Sequence[str], *, timeout: float) -> None:
        """Wait until no balancer sends new sessions to a server that fails its health checks.

        :raises DrainError: some do after ``timeout`` seconds, or cannot be asked.
        """
        served: list[str] = []

        def is_out() -> bool:
            places = _places(self.look(server, backends))
            served[:] = [f"{place} is {each['status']}" for place, each in places if not each["gets_no_new_sessions"]]
            return not served

        if not self._clock.until(is_out, within=timeout, every=LOOK_AGAIN_AFTER):
            raise DrainError(
                f"{', '.join(served)} {timeout:g} s after its balancers had the time to notice that it is out. Let "
                "their health check ask load_balancer_probe_url, or raise load_balancer_probe_interval"
            )

    def look(self, server: str, backends: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        """What each balancer says about a server that is to be taken out."""
        seen = self.ask_all(self.names, INFO, {"server": server, "backends": backends})
        self.raise_problems()
        self._refuse_unknown(seen, server, backends)
        known = {each["backend"] for _place, each in _places(seen)}
        missing = [backend for backend in backends if backend not in known]
        if missing:
            raise DrainError(
                f"No server is called {server} in {', '.join(missing)} on any of {', '.join(self.names)}: "
                "correct load_balancer_haproxy_backends"
            )
        return seen

    def note_down(self, down: t.Mapping[str, list[dict[str, t.Any]]], timeout: float) -> None:
        for name, servers in down.items():
            if servers:
                self._problems[name] = "; ".join(_down(_place(name, each), each, timeout) for each in servers)

    @staticmethod
    def _refuse_unknown(answers: t.Mapping[str, dict[str, t.Any]], server: str, backends: t.Sequence[str]) -> None:
        without = [name for name, answer in answers.items() if not answer["servers"]]
        if without:
            where = "the backends " + ", ".join(backends) if backends else "any backend"
            raise DrainError(
                f"No server is called {server} on {', '.join(without)}, in {where}: set "
                "load_balancer_haproxy_server to its name in haproxy.cfg"
            )

    def ask_all(self, names: t.Sequence[str], module: str, options: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
        """The answers by balancer. A balancer without an answer does not delay the others, and is a problem."""
        answers = {}
        for name in names:
            try:
                answers[name] = self._ask(name, module, options)
            except OtherHostError as error:
                self._problems[name] = str(error)
        return answers

    def problem(self) -> DrainError | None:
        """What went wrong since the last call."""
        problems, self._problems = self._problems, {}
        return DrainError("; ".join(problems.values())) if problems else None

    def raise_problems(self) -> None:
        problem = self.problem()
        if problem:
            raise problem


class Membership(Drain):
    """A host as a server of all its balancers."""

    ORDERS_LATE = True  # one balancer after the other, each with a wait

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        record: t.Callable[[dict[str, t.Any]], Answer],
        balancers: Balancers,
        *,
        simulate: bool,
        clock: Clock = CLOCK,
    ) -> None:
        super().__init__(options, record, simulate=simulate, clock=clock)
        self._balancers = balancers
        self._member = {"server": options["server"], "backends": list(options["backends"])}
        self._reached = balancers.names
        self._serves: set[str] = set()

    def settings(self) -> dict[str, t.Any]:
        return {**super().settings(), "load_balancer_haproxy_server": self._member["server"]}

    def look(self) -> dict[str, t.Any]:
        seen = self._balancers.look(**self._member)
        wanted = self._member["backends"]
        self.stage["backends"] = {name: [each for each in wanted if each in seen[name]["found"]] for name in seen}
        # Each server by balancer/backend
        return {f"{name}/{key}": state for name, answer in seen.items() for key, state in answer["found"].items()}

    def is_untouched(self) -> bool:
        return all(state == "ready" for state in (self.seen or {}).values())

    def planned(self) -> tuple[bool, str]:
        planned = self._change_all(self._balancers.names, "drained")
        self._balancers.raise_problems()
        sent = {f"{name} {order.partition(':')[0]}" for name, answer in planned.items() for order in answer["sent"]}
        plans = [f"{place}, which is {server['status']}" for place, server in _places(planned) if place in sent]
        return bool(plans), f"would take out {'; '.join(plans)}" if plans else ""

    def take_out(self) -> None:
        # Sessions are waited for on one balancer after the other; new ones must come through none of them. The first
        # one gets its order with the first wait, which follows at once.
        self._change_all(self._balancers.names[1:], "drained", timeout=0)
        self._balancers.raise_problems()

    def connections(self, seconds: float) -> dict[str, list[dict[str, t.Any]]]:
        give_up_at, answers = self.clock.monotonic() + seconds, dict[str, dict[str, t.Any]]()
        for name in self._left:
            rest = max(0.0, give_up_at - self.clock.monotonic())
            answers.update(self._change_all([name], "drained", timeout=rest))
        self._balancers.raise_problems()
        return _unfinished(answers)

    def check_out(self) -> None:
        names = self._left[:-1]  # the last one was looked at just now
        answers = self._balancers.ask_all(names, INFO, dict(self._member))
        self._balancers.raise_problems()
        back = [place for place, each in _places(answers) if not each["gets_no_new_sessions"]]
        if back:
            raise DrainError(
                f"{', '.join(back)} gets new sessions again: another program put it back, or HAProxy was restarted. "
                "Run this task again"
            )

    def describe(self, left: dict[str, list[dict[str, t.Any]]]) -> str:
        busy = [f"{each['sessions']} on {_place(name, each)}" for name, servers in left.items() for each in servers]
        seconds, sessions = self.stage["seconds"], ", ".join(busy)
        return f"it gets no new connections, but after {seconds:.0f} s it still has sessions: {sessions}"

    def take_out_anyway(self, left: dict[str, list[dict[str, t.Any]]]) -> None:
        self._change_all(list(left), "drained", timeout=0, force=True)
        self._balancers.raise_problems()

    def planned_return(self) -> str:
        names = self._names
        for name in names:
            self._put_back_on(name, 0)
        self._balancers.raise_problems()
        back = {_balancer(key) for key, state in self.found.items() if not was_out(state)}
        names = [name for name in names if name in back]
        return f"would put it back on {', '.join(names)}" if names else self.remark()

    def put_back(self) -> None:
        names = self._names
        self._reached = names[:1] + [name for name in names[1:] if self._put_back_on(name, 0)]

    def wait_until_back(self) -> Exception | None:
        timeout = self.options["return_timeout"]
        give_up_at, answers = self.clock.monotonic() + timeout, dict[str, dict[str, t.Any]]()
        for name in [each for each in self._reached if each in self._names]:
            answers.update(self._put_back_on(name, max(0.0, give_up_at - self.clock.monotonic())))
        self._balancers.note_down(_unfinished(answers), timeout)
        self._serves = {
            f"{name}/{each['backend']}"
            for name, answer in answers.items()
            for each in answer["servers"]
            if not each["gets_no_new_sessions"]
        }
        return self._balancers.problem()

    def remark(self) -> str:
        listed = [key for key in self.found if _balancer(key) in self._balancers.names]
        # Someone may have put it back meanwhile.
        kept_out = ", ".join(key for key in listed if was_out(self.found[key]) and key not in self._serves)
        others = ", ".join(key for key in self.found if key not in listed)
        remarks = [f"{kept_out} stays out, as it was before"] if kept_out else []
        return "; ".join([*remarks, *not_put_back(others, "load_balancer_haproxy_hosts")])

    @property
    def _left(self) -> list[str]:
        """The balancers that the host leaves, without those that have joined the list since: the record lacks them."""
        return [name for name in self._balancers.names if name in self.stage["backends"]]

    @property
    def _names(self) -> list[str]:
        left = {_balancer(key) for key in self.found}  # none: the drain ended before anything was changed
        return [name for name in self._balancers.names if name in left]

    def _put_back_on(self, name: str, timeout: float) -> dict[str, dict[str, t.Any]]:
        own = {key.rpartition("/")[2]: state for key, state in self.found.items() if _balancer(key) == name}
        return self._change_all([name], "active", timeout=timeout, found=own, backends=[])

    def _change_all(self, names: t.Sequence[str], state: str, **more: t.Any) -> dict[str, dict[str, t.Any]]:
        answers = {}
        for name in names:
            on_it = {**self._member, "backends": self.stage["backends"][name]} if state == "drained" else self._member
            answers.update(self._balancers.ask_all([name], CHANGE, {"state": state, **on_it, **more}))
        self.changed |= any(answer["changed"] for answer in answers.values())
        return answers


def _unfinished(answers: t.Mapping[str, dict[str, t.Any]]) -> dict[str, list[dict[str, t.Any]]]:
    """The servers that keep the caller waiting, by balancer."""
    return {name: answer["unfinished"] for name, answer in answers.items() if answer["unfinished"]}


def _balancer(key: str) -> str:
    """The balancer of what the record calls balancer/backend. Its name can have a slash, that of a backend cannot."""
    return key.rpartition("/")[0]


def _place(name: str, server: t.Mapping[str, t.Any]) -> str:
    """A server of a balancer, for people."""
    return f"{name} {server['backend']}/{server['server']}"


def _places(answers: t.Mapping[str, dict[str, t.Any]]) -> list[tuple[str, dict[str, t.Any]]]:
    return [(_place(name, each), each) for name, answer in answers.items() for each in answer["servers"]]


def _down(place: str, server: t.Mapping[str, t.Any], timeout: float) -> str:
    return (
        f"{place} is {server['status']} {timeout:g} s after it was put back; its last health check gave "
        f"{server['check'] or 'nothing'}. Check your service, and run it again"
    )
