# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults, each with how it begins, and the class that says what a consumer does about it."""

import http.client
import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from network import SERVICE, SSH_PORT

BODIES = {"broken_json": b'{"count":', "wrong_types": b"[1]", "html": b"<html><body>Sign in</body></html>"}
MOMENT = 1.0  # seconds by which a slow answer is late
CHAINS = tuple(
    f"nft add chain ip faults {name} {{ type filter hook {name} priority 0 ; }}" for name in ("input", "output")
)
TABLE = ("nft add table ip faults", *CHAINS)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection of a front."""

    protocol_version = "HTTP/1.1"
    front: "Front"

    def _carry_out(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # A controller gets a label before a launch, which is what stands for an acknowledgement.
        methods = [] if self.path.endswith("/labels/") else self.front.fault.get("methods", [])
        if self.command in methods or "GET" in self.front.fault.get("methods", []):
            kind, self.front.failed = self.front.fault["kind"], True
            if kind != "slow":
                self._fail(kind, self.front.fault.get("status", 200))
                return
            time.sleep(MOMENT)
        relayed = http.client.HTTPConnection("127.0.0.1", self.front.upstream, timeout=60)
        relayed.request(self.command, self.path, body or None, dict(self.headers))
        answer = relayed.getresponse()
        self._send(answer.status, answer.read())
        relayed.close()

    do_GET = do_POST = _carry_out

    def _send(self, status: int, content: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        if 300 <= status < 400:
            self.send_header("Location", "https://elsewhere.example/")
        self.end_headers()
        self.wfile.write(content)

    def _fail(self, kind: str, status: int) -> None:
        self.close_connection = True
        if kind == "hang":
            self.front.lifted.wait(60)
        elif kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif kind == "cut":
            self._send(200, b"{", length=100)
        else:
            self._send(status, BODIES.get(kind, b""))

    def log_message(self, *_arguments: Any) -> None:
        """Keep the output of the tests free of it."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        """A client that has gone."""


class Front:
    """Stands before a web server on loopback, and answers in its place as ``fault`` says.

    :ivar failed: whether it has.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.fault: dict[str, Any] = {}
        self.failed = False
        self.lifted = threading.Event()
        self._server = Server((SERVICE, 0), type("Handler", (Handler,), {"front": self}))
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def lift(self) -> None:
        self.fault = {}
        self.lifted.set()

    def stop(self) -> None:
        self.lift()
        self._server.shutdown()
        self._server.server_close()


class Fault(NamedTuple):
    """A fault.

    :ivar of: its class, for the rules of the expectations.
    :ivar http: what the service answers: a kind of the emulator, and its fields.
    :ivar begin: what else begins it, on the network.
    :ivar by_name: whether the services have names in the URLs.
    """

    name: str
    of: str
    http: dict[str, Any] | None = None
    begin: Callable[[Any], None] = lambda _network: None
    by_name: bool = False

    @property
    def kind(self) -> str:
        return str(self.http["kind"]) if self.http else ""


def answers(of: str, kind: str, name: str = "", **fields: Any) -> Fault:
    shown = f"`{kind}` {fields.get('status', '')}".strip()
    return Fault(name or shown, of, {"kind": kind, "methods": ["GET", "POST"], **fields})


def refuses(of: str, kind: str, **fields: Any) -> Fault:
    """The same, of acknowledgements alone."""
    return answers(of, kind, f"POST: `{kind}` {fields.get('status', '')}".strip(), methods=["POST"], **fields)


def drops(*rules: str) -> Callable[[Any], None]:
    return lambda network: network.vm(*TABLE, *(f"nft add rule ip faults {rule}" for rule in rules))


def resets(network: Any) -> None:
    network.service(*TABLE, "nft add rule ip faults input iifname wire meta l4proto tcp reject with tcp reset")


def narrows(network: Any) -> None:
    """Let each packet wait for those before it: about 0.3 s for a request."""
    network.vm("tc qdisc replace dev eth0 root tbf rate 8kbit burst 1600 latency 20s")
    network.service("tc qdisc replace dev wire root tbf rate 8kbit burst 1600 latency 20s")


FAULTS = (
    answers("refused", "status", status=400),
    answers("not allowed", "status", status=403),
    answers("refused", "status", status=404),
    answers("refused", "status", status=405),
    answers("unavailable", "status", status=410),
    answers("unavailable", "status", status=429),
    answers("unavailable", "status", status=500),
    answers("unavailable", "status", status=503),
    answers("no answer", "hang"),
    answers("no answer", "reset"),
    answers("no answer", "cut"),
    answers("no answer", "empty"),
    answers("wrong", "broken_json"),
    answers("wrong", "wrong_types"),
    answers("wrong", "html"),
    answers("harmless", "slow", delay=MOMENT),
    answers("refused", "redirect", status=302),
    answers("not allowed", "closed", status=403),
    answers("not allowed", "closed", status=421),
    refuses("POST refused", "status", status=400),
    refuses("POST refused", "status", status=403),
    refuses("POST unavailable", "status", status=500),
    refuses("POST unavailable", "hang"),
    refuses("POST unavailable", "reset"),
    refuses("POST unavailable", "cut"),
    Fault("narrow link: each packet is late", "harmless", begin=narrows),
    Fault(
        "loss of every fifth packet",
        "harmless",
        begin=drops(*(f"{c} numgen inc mod 5 0 drop" for c in ("input", "output"))),
    ),
    Fault("black hole", "unreachable", begin=drops("input iifname eth0 drop", "output oifname eth0 drop")),
    Fault("connections are reset", "unreachable", begin=resets),
    Fault("answers are lost, one way", "unreachable", begin=drops("input iifname eth0 drop")),
    Fault("no way from the control node to the VM", "partition", begin=drops(f"input tcp dport {SSH_PORT} drop")),
    Fault("name server gone", "nameless", begin=drops("output udp dport 53 drop"), by_name=True),
    Fault(
        "address of the service gone", "unreachable", begin=lambda network: network.service("ip addr flush dev wire")
    ),
    Fault("address of the VM gone", "unreachable", begin=lambda network: network.vm("ip addr flush dev eth0")),
    Fault("cable of the VM unplugged", "unreachable", begin=lambda network: network.vm("ip link set eth0 down")),
)
