# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import errno
import os
import socket
import threading

import pytest

from plugins.module_utils._load_balancer import runtime_socket
from plugins.module_utils._load_balancer.runtime_socket import HAProxyError, RuntimeSocket

from .conftest import FakeHAProxy

pytestmark = pytest.mark.edge


@pytest.fixture
def haproxy():
    return FakeHAProxy(["www/web1"])


@pytest.fixture
def ask(haproxy, serve, clock):
    return RuntimeSocket(serve(haproxy), clock=clock)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_command_gets_its_whole_answer(haproxy, serve, tcp):
    haproxy.faults["show stat"] = b"# pxname," + b"x" * 200000 + b"\n\n"
    assert len(RuntimeSocket(serve(haproxy, tcp=tcp)).ask("show stat")) == 200000 + len("# pxname,\n")


def test_an_order_that_succeeds_has_no_answer(ask, haproxy):
    ask.send("set server www/web1 state drain")
    assert haproxy.asked == ["set server www/web1 state drain"]


def test_an_order_that_fails_is_named_with_the_answer(ask):
    with pytest.raises(HAProxyError, match=r'"set server www/web9 state drain" on .*: No such server\.'):
        ask.send("set server www/web9 state drain")


@pytest.mark.parametrize("prefix", ["", "[3]:"])
def test_a_socket_without_level_admin_is_named_with_what_to_do(ask, haproxy, prefix):
    haproxy.faults["set"] = f"{prefix}Permission denied\n\n".encode()
    with pytest.raises(HAProxyError, match=r'Permission denied\. Give the socket "level admin" in haproxy\.cfg'):
        ask.send("set server www/web1 state drain")


@pytest.mark.parametrize(
    "answer",
    [
        b"Unknown command. Please enter one of the following commands only :\n  help\n\n",
        b"Unknown command: 'show servers state'\n\n",
    ],
)
def test_a_version_that_does_not_know_a_command_is_named(ask, haproxy, answer):
    haproxy.faults["show servers"] = answer
    with pytest.raises(HAProxyError, match=r'does not know "show servers state" .* Expected HAProxy 1\.6 or newer'):
        ask.ask("show servers state")


@pytest.mark.parametrize("answer", [b"# pxname,svname\nwww,we", b"# pxname,svname\nwww,web1\n", b"", None])
def test_an_answer_that_was_cut_is_asked_for_again_and_then_refused(ask, haproxy, answer, clock):
    haproxy.faults["show stat"] = answer
    with pytest.raises(HAProxyError, match="was cut off after"):
        ask.ask("show stat")
    assert len(haproxy.asked) == 11
    assert clock.now == 1005


def test_an_answer_that_is_too_long_is_refused(ask, haproxy, monkeypatch):
    monkeypatch.setattr(runtime_socket, "MAX_ANSWER", 1000)
    haproxy.faults["show stat"] = b"x" * 1001 + b"\n\n"
    with pytest.raises(HAProxyError, match=r"sent more than 1000 bytes\. Check that this is the runtime socket"):
        ask.ask("show stat")
    haproxy.faults["show stat"] = b"x" * 998 + b"\n\n"
    assert len(ask.ask("show stat")) == 999


def test_what_fails_while_haproxy_restarts_is_asked_again(ask, haproxy):
    haproxy.faults["show stat"] = [b"# pxna", b"", b"all\n\n"]
    assert ask.ask("show stat") == "all\n"


def test_a_socket_that_is_not_there_is_named(clock):
    with pytest.raises(HAProxyError, match=r"could not be sent to /nowhere/admin\.sock: No such file .* HAProxy runs"):
        RuntimeSocket("/nowhere/admin.sock", clock=clock).ask("show stat")


def test_a_name_that_cannot_be_resolved_is_named_with_the_reason(monkeypatch):
    def connect(_connection, _address):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(HAProxyError, match=r"could not be sent to lb9:9999: Name or service not known\. Check"):
        RuntimeSocket("lb9:9999").ask("show stat")


def test_an_error_without_a_number_is_named_with_its_text(monkeypatch):
    def connect(_connection, _address):
        raise OSError("the connection is odd")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(HAProxyError, match=r"to lb9:9999: the connection is odd\. Check that HAProxy runs"):
        RuntimeSocket("lb9:9999").ask("show stat")


def test_a_path_that_is_too_long_for_a_socket_is_refused():
    with pytest.raises(HAProxyError, match=r"^/aa*/s is not a socket: its path has 108 bytes, expected 107 at most"):
        RuntimeSocket("/" + "a" * 105 + "/s").ask("show stat")


def test_a_path_as_long_as_that_of_a_socket_may_be_is_tried(clock):
    with pytest.raises(HAProxyError, match=r"could not be sent to /a.*No such file"):
        RuntimeSocket("/" + "a" * 104 + "/s", clock=clock).ask("show stat")


def test_a_socket_without_a_listener_is_named(sockets, clock):
    path = os.path.join(sockets, "s")
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(path)
    with pytest.raises(HAProxyError, match=r"Connection refused\. No program listens there"):
        RuntimeSocket(path, clock=clock).ask("show stat")
    assert clock.now == 1005  # it may restart


def test_what_no_restart_mends_is_not_tried_again_and_connecting_may_take_ten_seconds(clock, monkeypatch):
    def connect(connection, _address):
        assert connection.gettimeout() == 10.0
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(HAProxyError, match=r"Permission denied\. Become root, or change the mode of the socket"):
        RuntimeSocket("lb9:9999", clock=clock).ask("show stat")
    assert clock.now == 1000


def test_a_haproxy_that_hangs_is_given_up(serve, clock):
    haproxy, released = FakeHAProxy([]), threading.Event()
    haproxy.answer = lambda _command: released.wait(60) and None
    with pytest.raises(HAProxyError, match=r"got no answer within 0\.2 s"):
        RuntimeSocket(serve(haproxy), timeout=0.2, clock=clock).ask("show stat")
    released.set()


@pytest.mark.parametrize("address", ["admin.sock", "127.0.0.1:", ":80", "127.0.0.1:http", "127.0.0.1:65536", ""])
def test_an_address_that_is_not_a_socket_is_refused(address):
    with pytest.raises(HAProxyError, match="expected an absolute path or HOST:PORT"):
        RuntimeSocket(address).ask("show stat")
