# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leases in tests/leases are real ones, but networkd-spans, which follows the source of systemd."""

import errno
import os

import pytest
from _scheduled_events import discovery
from _scheduled_events.discovery import search_leases

HERE = os.path.dirname(os.path.abspath(__file__))
WRITTEN = 1795306000.0  # 2026-11-22 00:06:40 UTC
WIRE_SERVER = "168.63.129.16"
NETWORKD, DHCLIENT = "/run/systemd/netif/leases/2", "/var/lib/dhcp/dhclient.leases"


def sample(name):
    with open(os.path.join(HERE, "..", "..", "..", "leases", name), "rb") as file:
        return file.read()


class Host:
    """A host whose root is a directory of the test."""

    def __init__(self, root):
        self.root = str(root)

    def put(self, path, content, written=WRITTEN):
        here = self.root + path
        os.makedirs(os.path.dirname(here), exist_ok=True)
        with open(here, "wb") as file:
            file.write(content)
        os.utime(here, (written, written))
        return here

    def addresses(self):
        return list(search_leases(self.root).addresses)

    def line(self, path):
        """What is said about a file or a directory."""
        (found,) = [line for line in search_leases(self.root).lines if line.startswith(path + " ")]
        return found[len(path) + 1 :]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


# sample, where a host has it, the client, and all addresses in it
KINDS = [
    ("dhclient.leases", "/var/lib/dhcp/dhclient.eth0.leases", "dhclient", [WIRE_SERVER, "169.254.0.7"]),
    ("dhclient-infinite.leases", "/var/lib/dhclient/dhclient--eth0.lease", "dhclient", [WIRE_SERVER]),
    ("networkd", NETWORKD, "systemd-networkd", [WIRE_SERVER]),
    ("networkd-spans", NETWORKD, "systemd-networkd", [WIRE_SERVER]),
    ("networkmanager-device", "/run/NetworkManager/devices/2", "NetworkManager", [WIRE_SERVER]),
    ("networkmanager-device-dhclient", "/run/NetworkManager/devices/2", "NetworkManager", [WIRE_SERVER]),
    ("networkmanager-device-infinite", "/run/NetworkManager/devices/2", "NetworkManager", [WIRE_SERVER]),
]


@pytest.mark.parametrize(("name", "path", "client", "addresses"), KINDS, ids=[kind[0] for kind in KINDS])
def test_each_client_s_lease_gives_the_address_the_newest_first(host, name, path, client, addresses):
    host.put(path, sample(name))
    assert search_leases(host.root).addresses == dict.fromkeys(addresses, f"{path} ({client})")
    assert host.addresses() == addresses
    assert host.line(path) == f"({client}): {', '.join(addresses)}"


def test_the_newest_lease_comes_first_whichever_client_wrote_it_and_each_address_once(host):
    host.put(DHCLIENT, b"option unknown-245 a9:fe:0:2;\noption unknown-245 a8:3f:81:10;\n", WRITTEN - 100)
    host.put(NETWORKD, b"OPTION_245=a9fe0001\n", WRITTEN - 50)
    host.put("/run/NetworkManager/devices/3", b"dhcp4.private_245=a9:fe:0:2\n", WRITTEN - 200)
    assert host.addresses() == ["169.254.0.1", WIRE_SERVER, "169.254.0.2"]


@pytest.mark.parametrize("name", ["dhclient6.leases", "dhclient.leases.old", "dhclient.conf", "other.leases"])
def test_other_files_beside_the_leases_are_not_read(host, name):
    host.put("/var/lib/dhcp/" + name, sample("dhclient.leases"))
    assert search_leases(host.root).addresses == {}


def test_what_is_missing_is_named(host):
    host.put(NETWORKD, b"ADDRESS=10.0.0.4\n")
    assert host.line(NETWORKD) == "(systemd-networkd): no option 245"
    assert host.line("/var/lib/dhcp") == "(dhclient): No such file or directory"


# What an enemy could write


@pytest.mark.parametrize(
    "value",
    ["a8:3f:81", "a8:3f:81:10:50", "a83f811050", "example.org", "168.63.129.16", "a8:3f:81:10@evil", "0x7f000001", ""],
)
def test_an_option_without_four_bytes_is_not_an_address(host, value):
    host.put(NETWORKD, f"OPTION_245={value}\n".encode())
    assert host.addresses() == []


@pytest.mark.parametrize(("name", "path"), sorted({name: path for name, path, *_rest in KINDS}.items()))
@pytest.mark.parametrize("change", ["cut", "zeros", "noise", "repeated"])
def test_a_broken_lease_gives_one_printable_line(host, name, path, change):
    content = sample(name)
    for at in range(0, len(content), 11):
        broken = {
            "cut": content[:at],
            "zeros": content[:at] + b"\0" * 9 + content[at + 9 :],
            "noise": content[:at] + b"\xff{\n;\"'" + content[at:],
            "repeated": content[:at] * 3,
        }[change]
        host.put(path, broken)
        assert len(host.addresses()) <= 2
        assert host.line(path).isprintable()


@pytest.mark.parametrize(
    "content",
    [b"lease {\n" * 40000, b"OPTION_245=" + b"a8:" * 80000 + b"\n", b"option unknown-245 " * 13000, b"\\" * 250000],
    ids=["blocks", "bytes", "options", "escapes"],
)
def test_a_lease_made_to_keep_a_reader_busy_is_read_to_its_end(host, content):
    host.put(NETWORKD, content)
    assert host.addresses() == []


def test_a_lease_with_many_addresses_gives_only_a_few(host):
    host.put(NETWORKD, b"".join(b"OPTION_245=a9fe%04x\n" % number for number in range(1000)))
    assert len(host.addresses()) == discovery.MOST_ADDRESSES


def test_of_a_long_file_the_end_is_read(host):
    host.put(DHCLIENT, b"# old\n" * discovery.MOST_BYTES + sample("dhclient-infinite.leases"))
    assert host.addresses() == [WIRE_SERVER]
    host.put(DHCLIENT, sample("dhclient-infinite.leases") + b"# new\n" * discovery.MOST_BYTES)
    assert host.addresses() == []


def test_of_many_files_only_the_newest_are_read(host):
    for number in range(discovery.MOST_FILES + 3):
        host.put(f"/run/systemd/netif/leases/{number}", b"OPTION_245=a9fe00%02x\n" % number, WRITTEN - number)
    assert host.addresses() == [f"169.254.0.{number}" for number in range(discovery.MOST_FILES)]


def test_neither_links_nor_fifos_nor_directories_are_read(host):
    secret = host.put("/secret", b"OPTION_245=a83f8110\n")
    directory = os.path.dirname(host.put("/run/systemd/netif/leases/1", b""))
    os.symlink(secret, os.path.join(directory, "2"))
    os.mkfifo(os.path.join(directory, "3"))
    os.mkdir(os.path.join(directory, "4"))
    assert host.addresses() == []
    assert "cannot be read" in host.line(NETWORKD)
    assert host.line("/run/systemd/netif/leases/3").endswith("cannot be read: it is not a regular file")


def test_what_this_user_cannot_read_is_reported(host, monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EACCES, "Permission denied")

    host.put(NETWORKD, sample("networkd"))
    monkeypatch.setattr(os, "open", refuse)  # root, as which tests run, reads everything
    assert host.line(NETWORKD) == "(systemd-networkd): cannot be read: Permission denied"
