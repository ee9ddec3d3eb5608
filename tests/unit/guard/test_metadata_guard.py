# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard that keeps tests away from a real metadata service."""

import asyncio
import os
import socket
import subprocess
import sys

import metadata_guard
import pytest

CONNECT = "import socket; socket.create_connection(('169.254.169.254', 80), timeout=0.1)"


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "169.254.0.1", "0xa9fea9fe", "2852039166", "::ffff:169.254.169.254", "168.63.129.16"],
)
def test_every_spelling_of_a_metadata_address_is_recognised(host):
    assert metadata_guard.is_metadata_service((host, 80))


@pytest.mark.parametrize("address", [("127.0.0.1", 80), ("::1", 80, 0, 0), ("localhost", 80), "/run/some.socket"])
def test_other_addresses_pass(address):
    assert not metadata_guard.is_metadata_service(address)


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_socket_is_refused_before_any_packet(method, refused_contacts):
    with socket.socket() as sock, pytest.raises(metadata_guard.MetadataServiceContacted, match=r"169\.254\.169\.254"):
        getattr(sock, method)(("169.254.169.254", 80))
    assert len(refused_contacts) == 1
    refused_contacts.clear()


def test_create_connection_is_refused(refused_contacts):
    with pytest.raises(metadata_guard.MetadataServiceContacted):
        socket.create_connection(("169.254.169.254", 80), timeout=0.1)
    refused_contacts.clear()


def test_asyncio_is_refused(refused_contacts):
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(metadata_guard.MetadataServiceContacted):
            loop.run_until_complete(asyncio.open_connection("169.254.169.254", 80))
    finally:
        loop.close()
    refused_contacts.clear()


def test_a_loopback_connection_still_works():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_a_process_with_the_guard_in_its_path_is_refused():
    guard = os.path.dirname(metadata_guard.__file__)
    run = subprocess.run(
        [sys.executable, "-c", CONNECT],
        env=dict(os.environ, PYTHONPATH=guard),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "MetadataServiceContacted: refused to contact a real metadata service" in run.stderr
