# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One HAProxy: which state its servers have, and taking a host out and putting it back."""

import csv
import io
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._scheduled_events.clock import CLOCK, Clock
from .runtime_socket import Fleeting, HAProxyError, RuntimeSocket

# The flags of srv_admin_state in the answer to "show servers state"
FORCED_MAINT, TRACKED_MAINT, FORCED_DRAIN, TRACKED_DRAIN, UNRESOLVED = 0x01, 0x02, 0x08, 0x10, 0x20
UNRESOLVED_AT_START = 0x40
ANY_MAINT = FORCED_MAINT | TRACKED_MAINT | UNRESOLVED | UNRESOLVED_AT_START
KEPT_OUT = FORCED_MAINT | TRACKED_MAINT | FORCED_DRAIN | TRACKED_DRAIN
LEAVING = ANY_MAINT | FORCED_DRAIN | TRACKED_DRAIN

READY, MAINT, DRAIN = "ready", "MAINT", "DRAIN"  # how the record spells what was found
LOOK_AGAIN_AFTER = 1.0  # seconds
COUNT = re.compile(r"[0-9]{1,18}\Z")


COMMON_OPTIONS: Dict[str, Dict[str, Any]] = {
    "backends": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "path", "default": "/run/haproxy/admin.sock"},
}


class Server(NamedTuple):
    """A server in a backend.

    ``status``: as people see it. ``admin``: the flags of what was ordered for it. ``sessions``: with those that wait.
    ``check``: what the last health check gave.
    """

    backend: str
    name: str
    status: str
    admin: int
    weight: int
    sessions: int
    check: str

    @property
    def full_name(self) -> str:
        return f"{self.backend}/{self.name}"

    @property
    def found(self) -> str:
        """The state to record. Only the forced MAINT was ordered; other kinds of MAINT end by themselves."""
        if self.admin & FORCED_MAINT:
            return MAINT
        if self.admin & FORCED_DRAIN:
            return DRAIN
        return self.status if self.admin & ANY_MAINT else READY

    @property
    def gets_no_new_sessions(self) -> bool:
        return self.weight == 0 or self.status.startswith(("MAINT", "DRAIN", "DOWN", "NOLB"))

    @property
    def shown(self) -> Dict[str, Any]:
        """As the modules return it."""
        return {
            "backend": self.backend,
            "server": self.name,
            "status": self.status,
            "sessions": self.sessions,
            "gets_no_new_sessions": self.gets_no_new_sessions,
            "check": self.check,
        }


class Ordered(NamedTuple):
    """``sent``: the orders, as "www/web1: drain". ``left``: the servers that keep the caller waiting."""

    sent: List[str]
    servers: List[Server]
    left: List[Server]


def read_servers(socket: RuntimeSocket, *, name: Optional[str] = None, backends: Sequence[str] = ()) -> List[Server]:
    """The servers of HAProxy, maybe none.

    :param name: only the servers of this name.
    :param backends: only these; empty means every backend.
    :raises HAProxyError: there are no answers, or they could not be read.
    """
    states = _states(socket.ask("show servers state"), socket.address)
    servers = []
    stat = socket.ask("show stat")
    for row in _rows(stat, socket.address):
        key = row["pxname"], row["svname"]
        selected = name in (None, row["svname"]) and (not backends or row["pxname"] in backends)
        if selected and key in states:  # the rows of frontends, backends and listeners are not servers
            admin, weight = states[key]
            if not (COUNT.match(row["scur"]) and COUNT.match(row["qcur"])):  # never "no session"
                raise HAProxyError(_unreadable("show stat", stat, socket.address))
            # HAProxy marks the status of the last health check with an asterisk while the next one runs.
            check_status = re.sub(r"\A\* ", "", row.get("check_status") or "")
            servers.append(
                Server(
                    backend=row["pxname"],
                    name=row["svname"],
                    status=row["status"],
                    admin=admin,
                    weight=weight,
                    sessions=int(row["scur"]) + int(row["qcur"]),
                    check=f"{check_status} {row.get('last_chk') or ''}".strip(),
                )
            )
    return servers


class Member:
    """A host as a server of one HAProxy.

    :param name: of the server.
    :param backends: only these; empty means every backend that it is in.
    :param simulate: whether to send no order.
    """

    def __init__(
        self,
        socket: RuntimeSocket,
        name: str,
        backends: Sequence[str],
        *,
        simulate: bool = False,
        clock: Clock = CLOCK,
    ) -> None:
        self._socket = socket
        self._name = name
        self._backends = backends
        self._simulate = simulate
        self._clock = clock
        self._sent: List[str] = []

    def look(self) -> List[Server]:
        """Its servers, maybe none."""
        return read_servers(self._socket, name=self._name, backends=self._backends)

    def take_out(self, *, timeout: float, force: bool = False) -> Ordered:
        """Give the servers no new sessions, and take them out once those that they have are over.

        A server that has sessions after the timeout stays in state drain.

        :param force: then take it out nevertheless.
        :raises HAProxyError: another program put a server back, or removed it.
        """
        give_up_at = self._clock.monotonic() + timeout
        process = self._process()
        servers = self._look_for_some()
        self._order("drain", [server for server in servers if not server.admin & LEAVING])
        if self._simulate:
            self._order("maint", [server for server in servers if not server.admin & FORCED_MAINT])
            return Ordered(self._sent, servers, [])
        wanted = {server.full_name for server in servers}
        ordered = False
        while True:
            try:
                servers = self._all_of(wanted)
                process = self._drain_again_after_a_restart(servers, process)
                busy = [server for server in servers if server.sessions > 0]
                not_out = [server for server in servers if not server.admin & FORCED_MAINT]
                is_over = self._clock.monotonic() >= give_up_at
                if not_out and (not busy or (force and is_over)):
                    if ordered and is_over:
                        raise HAProxyError(_put_back_by_others(not_out))
                    self._order("maint", not_out)
                    self._clock.sleep(LOOK_AGAIN_AFTER if ordered else 0)
                    ordered = True
                    continue  # clients that stick to a server still got to one that was in state drain: look again
                if not busy or is_over:
                    return Ordered(self._sent, servers, busy)
            except Fleeting:
                if self._clock.monotonic() >= give_up_at:
                    raise  # until then HAProxy may come back, and what is down gives no sessions
            self._clock.sleep(LOOK_AGAIN_AFTER)

    def put_back(self, found: Mapping[str, str], *, timeout: float) -> Ordered:
        """Restore the state that was found of each server, and wait until those that were not kept out are up.

        :param found: backend → what :attr:`Server.found` was. The servers of other backends stay as they are: they were
            not taken out, or an operator did it. Empty: all are restored to ready.
        """
        for backend, state in found.items():
            if not isinstance(state, str):
                raise HAProxyError(
                    f"found has {state!r} for {backend}, expected a text such as {READY} or {MAINT}. Give what the run "
                    "returned that drained the servers"
                )
        give_up_at = self._clock.monotonic() + timeout

        def look() -> List[Server]:
            return [server for server in self._look_for_some() if not found or server.backend in found]

        servers = look()
        for state in ("ready", "drain"):
            self._order(
                state, [server for server in servers if _needs(server, found.get(server.backend, READY)) == state]
            )
        if self._simulate:
            return Ordered(self._sent, servers, [])
        return self._wait(
            look,
            lambda server: not _is_back(server, found.get(server.backend, READY)),
            within=give_up_at - self._clock.monotonic(),
        )

    def wait_until_served(self, *, timeout: float) -> Ordered:
        """Wait until the servers get traffic, but for those that HAProxy was ordered to give none. Order nothing."""
        return self._wait(
            self.look,
            lambda server: server.gets_no_new_sessions and server.weight > 0 and not server.admin & KEPT_OUT,
            within=timeout,
        )

    def _wait(
        self, look: Callable[[], List[Server]], keeps_waiting: Callable[[Server], bool], *, within: float
    ) -> Ordered:
        """Wait until no server keeps the caller waiting. HAProxy may restart meanwhile."""
        last: List[Union[Ordered, Fleeting]] = []

        def is_done() -> bool:
            try:
                servers = look()
            except Fleeting as error:
                last[:] = [error]
                return False
            left = [server for server in servers if keeps_waiting(server)]
            last[:] = [Ordered(self._sent, servers, left)]
            return not left

        self._clock.until(is_done, within=within)
        if isinstance(last[0], Fleeting):
            raise last[0]
        return last[0]

    def _look_for_some(self) -> List[Server]:
        servers = self.look()
        missing = sorted({*self._backends} - {server.backend for server in servers})
        if missing or not servers:
            where = "the backends " + ", ".join(missing) if missing else "any backend"
            raise HAProxyError(
                f"No server is called {self._name} in {where} (asked {self._socket.address}). "
                "Give the name that it has in haproxy.cfg"
            )
        return servers

    def _all_of(self, wanted: "set[str]") -> List[Server]:
        servers = self.look()
        changed = wanted ^ {server.full_name for server in servers}
        if changed:  # one that is new is not in the record, so nothing would put it back
            raise HAProxyError(
                f"{', '.join(sorted(changed))} was removed from HAProxy, or added to it, while the host was taken out. "
                "Check haproxy.cfg, and run it again"
            )
        return servers

    def _drain_again_after_a_restart(self, servers: Sequence[Server], process: Optional[str]) -> Optional[str]:
        lost = [server for server in servers if not server.admin & LEAVING]
        if not lost:
            return process
        now = self._process()
        if now == process:  # maybe by the run that followed this one, whose control node was killed: so do not insist
            raise HAProxyError(_put_back_by_others(lost))
        self._order("drain", lost)
        return now

    def _process(self) -> Optional[str]:
        """A value that changes when HAProxy is restarted or reloaded."""
        lines = self._socket.ask("show info").splitlines()
        return next((line for line in lines if line.startswith("Pid:")), None)

    def _order(self, state: str, servers: Sequence[Server]) -> None:
        for server in servers:
            if not self._simulate:
                self._socket.send(f"set server {server.full_name} state {state}")
            self._sent.append(f"{server.full_name}: {state}")


def found_in(servers: Sequence[Server]) -> Dict[str, str]:
    """The state to restore of each server of a host, by backend."""
    return {server.backend: server.found for server in servers}


def was_out(found: str) -> bool:
    """Whether a server whose state was found to be this stays out."""
    return _order_for(found) != "ready"


def _order_for(found: str) -> str:
    if found.upper() == MAINT:
        return ""  # it stays out
    return "drain" if found.upper().startswith(DRAIN) else "ready"


def _needs(server: Server, found: str) -> str:
    """The order that restores what was found; empty if it needs none."""
    order = _order_for(found)
    is_there = bool(server.admin & FORCED_DRAIN) == (order == "drain") and not server.admin & FORCED_MAINT
    return "" if is_there else order


def _put_back_by_others(servers: Sequence[Server]) -> str:
    names = ", ".join(server.full_name for server in servers)
    return f"Another program put {names} back while it was taken out. Prevent that, and run this task again"


def _is_back(server: Server, found: str) -> bool:
    # A server that leaves MAINT is "UP 1/2" until its first health check. If that fails, it is DOWN.
    if server.status in ("UP", "no check") or _order_for(found) != "ready":
        return True
    if server.status.startswith("DRAIN"):  # a weight of 0 looks like this, too
        return server.weight == 0 or bool(server.admin & TRACKED_DRAIN)
    return server.status.startswith("MAINT") and found.startswith("MAINT") and not server.admin & FORCED_MAINT


def _rows(answer: str, address: str) -> List[Dict[str, str]]:
    if not answer.startswith("# pxname,svname,"):
        raise HAProxyError(_unreadable("show stat", answer, address))
    rows = list(csv.DictReader(io.StringIO(answer[2:])))
    for row in rows:
        if any(row.get(column) is None for column in ("pxname", "svname", "status", "scur", "qcur")):
            raise HAProxyError(_unreadable("show stat", ",".join(str(value) for value in row.values()), address))
    return rows


def _states(answer: str, address: str) -> Dict[Tuple[str, str], Tuple[int, int]]:
    version, _newline, table = answer.partition("\n")
    columns = table.partition("\n")[0].lstrip("# ").split()
    states = {}
    try:
        backend, name, admin, weight = (
            columns.index(column) for column in ("be_name", "srv_name", "srv_admin_state", "srv_uweight")
        )
        for line in table.splitlines()[1:]:
            fields = line.split()
            if fields:
                states[fields[backend], fields[name]] = (int(fields[admin]), int(fields[weight]))
    except (ValueError, IndexError):
        raise HAProxyError(_unreadable("show servers state", answer, address)) from None
    if version.strip() != "1":
        raise HAProxyError(_unreadable("show servers state", answer, address))
    return states


def _unreadable(command: str, answer: str, address: str) -> str:
    return (
        f'The answer to "{command}" on {address} could not be read: it begins with {answer[:80]!r}. '
        "Check that this is the runtime socket of HAProxy"
    )
