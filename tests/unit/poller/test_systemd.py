# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports to systemd and to the journal: they never raise, and never wait."""

import io
import os
import socket
import sys

import pytest
from scheduled_events_poller import systemd


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The socket of a service manager that reads only on request."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def test_a_message_reaches_the_service_manager(manager):
    assert systemd.notify("READY=1\nSTATUS=grün")
    assert manager.recv(1000) == "READY=1\nSTATUS=grün".encode()


def test_a_message_reaches_an_abstract_socket(monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0scheduled-events-test-{os.getpid()}")
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@scheduled-events-test-{os.getpid()}")
        assert systemd.notify("WATCHDOG=1")
        assert listener.recv(1000) == b"WATCHDOG=1"


@pytest.mark.parametrize("text", ["\ud800", "gr\udcfcn", "\0", "\x1b[2J", ""])
def test_any_text_is_sent(manager, text):
    assert systemd.notify("STATUS=" + text)
    assert manager.recv(1000).startswith(b"STATUS=")


def test_messages_are_dropped_while_the_service_manager_does_not_read(manager):
    sent = [systemd.notify("WATCHDOG=1") for _time in range(5000)]
    assert not sent[-1]
    for _time in range(sent.count(True)):
        manager.recv(1000)
    assert systemd.notify("WATCHDOG=1")


@pytest.mark.parametrize("address", ["/no/such/socket", "/x" * 200, "@" + "x" * 200, "/"])
def test_a_service_manager_that_is_not_there_is_only_reported(monkeypatch, capsys, address):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert systemd.notify("STATUS=\ud800")
    assert "systemd cannot be notified of STATUS=\\ud800: " in capsys.readouterr().err


@pytest.mark.usefixtures("manager")
def test_a_message_that_is_too_long_for_a_datagram_is_only_reported(capsys):
    assert systemd.notify("STATUS=" + "x" * 10000000)
    assert "systemd cannot be notified" in capsys.readouterr().err


def test_without_a_service_manager_nothing_is_sent(monkeypatch, capsys):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert systemd.notify("READY=1")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("allowed", "interval"), [("30000000", 10.0), ("0", None), ("-1", None), ("", None), ("²", None), ("x", None)]
)
def test_the_watchdog_is_fed_three_times_in_its_time(monkeypatch, allowed, interval):
    monkeypatch.setenv("WATCHDOG_USEC", allowed)
    assert systemd.watchdog_interval() == interval


def test_each_line_has_its_priority_in_the_journal(monkeypatch, capsys):
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    systemd.log(systemd.WARNING, "one\ntwo")
    assert capsys.readouterr().err == "<4>one\n<4>two\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_text_is_logged_whatever_the_encoding(monkeypatch, encoding):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, encoding=encoding, errors="backslashreplace"))
    systemd.log(systemd.INFO, "\ud800 gr\udcfcn ü")
    assert b"\\ud800 gr\\udcfcn" in written.getvalue()


def _closed():
    stream = io.StringIO()
    stream.close()
    return stream


class _Broken(io.StringIO):
    def write(self, _text):
        raise BrokenPipeError


@pytest.mark.parametrize("make", [_closed, _Broken, lambda: None])
def test_a_log_without_a_reader_is_not_an_error(monkeypatch, make):
    monkeypatch.setattr(sys, "stderr", make())
    systemd.log(systemd.ERROR, "lost")


def test_lines_are_dropped_while_no_program_reads_them(monkeypatch):
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "w") as writer:
        monkeypatch.setattr(sys, "stderr", writer)
        for _time in range(100):
            systemd.log(systemd.INFO, "x" * 3000)  # more than a pipe holds
        assert len(reader.read1(1 << 20)) < 100 * 3000


def test_a_very_long_line_is_cut(capsys):
    systemd.log(systemd.INFO, "ü" * 100000)
    assert len(capsys.readouterr().err.encode()) <= systemd.LONGEST_LINE + 1
