# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runtime socket of HAProxy that a test scripts, and a clock that only sleeping moves."""

import os
import shutil
import socket
import socketserver
import tempfile
import threading

import pytest
from fake_clock import FakeClock

STAT = "# pxname,svname,qcur,qmax,scur,smax,status,weight,check_status,last_chk,"
STATE = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight"


class FakeHAProxy:
    """Answers as HAProxy 2.6 does. ``servers``: "backend/server" → its fields; ``faults``: command → raw bytes."""

    def __init__(self, names):
        self.servers = {
            name: {"status": "UP", "admin": 0, "weight": 1, "scur": 0, "qcur": 0, "check": 'L7OK,"200, OK"'}
            for name in names
        }
        self.asked = []
        self.faults = {}
        self.pid = 17
        self.level = "admin"
        self.status_when_ready = "UP"

    def orders(self):
        return [command for command in self.asked if command.startswith("set ")]

    def answer(self, command):
        self.asked.append(command)
        for start, fault in self.faults.items():
            if command.startswith(start):
                return fault.pop(0) if isinstance(fault, list) and len(fault) > 1 else fault
        words = command.split()
        if command == "show stat":
            return self._stat()
        if command == "show servers state":
            return self._state()
        if command == "show info":
            return f"Name: HAProxy\nPid: {self.pid}\n\n".encode()
        if words[:2] == ["set", "server"]:
            return self._set(words[2], words[4])
        return b"Unknown command, but maybe one of the following ones is a better match:\n  help\n\n"

    def _stat(self):
        rows = [STAT]
        for name, each in self.servers.items():
            backend, server = name.split("/")
            rows.append(f"{backend},{server},{each['qcur']},0,{each['scur']},0,{each['status']},1,{each['check']},")
        rows.append("www,BACKEND,0,0,0,0,UP,1,,,")
        return ("\n".join(rows) + "\n\n").encode()

    def _state(self):
        rows = ["1", STATE]
        for name, each in self.servers.items():
            backend, server = name.split("/")
            rows.append(f"2 {backend} 1 {server} 10.0.0.1 2 {each['admin']} {each['weight']} 1")
        return ("\n".join(rows) + "\n\n").encode()

    def _set(self, name, state):
        if self.level != "admin":
            return b"Permission denied\n\n"
        if name not in self.servers:
            return b"No such server.\n\n"
        orders = {"ready": (0x00, self.status_when_ready), "drain": (0x08, "DRAIN"), "maint": (0x01, "MAINT")}
        admin, status = orders[state]
        self.servers[name].update(admin=admin, status=status)
        return b"\n"


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        command = self.rfile.readline().decode().strip()
        answer = self.server.haproxy.answer(command)
        if isinstance(answer, list):
            answer = answer[0]
        if answer is not None:
            self.wfile.write(answer)


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    address_family = socket.AF_INET


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def sockets():
    """A directory whose path is short, as that of a socket has to be."""
    directory = tempfile.mkdtemp(prefix="socket-")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def serve(sockets):
    """Return a function that lets a FakeHAProxy answer on a socket, and returns its address."""
    running = []

    def start(haproxy, tcp=False):
        if tcp:
            server = TcpServer(("127.0.0.1", 0), Handler)
            address = f"127.0.0.1:{server.server_address[1]}"
        else:
            address = os.path.join(sockets, f"{len(running)}.sock")
            server = UnixServer(address, Handler)
        server.haproxy = haproxy
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.daemon = True
        thread.start()
        running.append(server)
        return address

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
