# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy, in a separate process on loopback, and web servers behind it."""

import csv
import pathlib
import socket
import subprocess
import threading

from emulation import LIMIT, until
from ports import free_port
from web_servers import Handler, WebServer

CONFIGURATION = """\
global
    stats socket {socket} mode 600 level admin
    stats socket {reader} mode 600 level user
defaults
    mode http
    timeout connect 10s
    timeout check 10s
    timeout client 300s
    timeout server 300s
    default-server inter 200ms fall 2 rise 1 check
"""
SECTION = """\
listen {name}
    bind 127.0.0.1:{port}
    option httpchk GET /healthz
"""


class Backend:
    """A web server on loopback. A GET of /slow is answered once ``release`` is called.

    :param flag: as long as this file is there, /healthz answers 503.
    """

    def __init__(self, flag: pathlib.Path, port: int = 0) -> None:
        self.flag = flag
        self._released = threading.Event()
        backend = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/slow":
                    backend._released.wait(LIMIT)
                self.reply(503 if self.path == "/healthz" and backend.flag.exists() else 200)

        self._server = WebServer(Answer, port)
        self.port = self._server.server_port

    def release(self) -> None:
        """Answer the slow requests."""
        self._released.set()

    def stop(self) -> None:
        """End it."""
        self.release()
        self._server.stop()


class HAProxy:
    """A running HAProxy.

    :param directory: for its files; short, since the path of a socket is.
    :param backends: name of each backend → name of each server → its port.
    """

    def __init__(self, directory: pathlib.Path, backends: dict[str, dict[str, int]]) -> None:
        self.socket = directory / "admin.sock"
        self.reader = directory / "user.sock"  # which only allows to read
        self.ports = {name: free_port() for name in backends}
        configuration = CONFIGURATION.format(socket=self.socket, reader=self.reader)
        for name, servers in backends.items():
            configuration += SECTION.format(name=name, port=self.ports[name])
            configuration += "".join(f"    server {server} 127.0.0.1:{port}\n" for server, port in servers.items())
        self._path = directory / "haproxy.cfg"
        self._path.write_text(configuration)
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(self._path)], stdin=subprocess.DEVNULL)
        until(lambda: self.socket.exists() or self._process.poll() is not None, what="the start of HAProxy")
        assert self._process.poll() is None, "HAProxy did not start: see its messages above"

    def command(self, line: str) -> str:
        """Send a command to its socket, as an operator does; the answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(line.encode() + b"\n")
            with connection.makefile() as stream:
                return stream.read()

    def status(self) -> dict[str, str]:
        """Status of each server, by backend/server."""
        rows = csv.DictReader(self.command("show stat").removeprefix("# ").splitlines())
        return {
            f"{row['pxname']}/{row['svname']}": row["status"]
            for row in rows
            if row["svname"] not in ("FRONTEND", "BACKEND")
        }

    def all_up(self) -> bool:
        """Whether all servers are up, even if a check has failed just now."""
        return all(status.startswith("UP") for status in self.status().values())

    def restart(self) -> None:
        """End the process and start it again. It forgets what it was ordered."""
        self.stop()
        self.socket.unlink()
        self._start()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
