# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leases in tests/leases are real ones, but that of wicked, which follows its source, and networkd-spans."""

import errno
import os

import pytest
from _scheduled_events import leases
from _scheduled_events.leases import DhcpLease, search

HERE = os.path.dirname(os.path.abspath(__file__))
WRITTEN = 1795306000.0  # 2026-11-22 00:06:40 UTC
WIRE_SERVER = "168.63.129.16"


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

    def search(self, now=WRITTEN + 10):
        return search(now=now, root=self.root)

    def line(self, path, now=WRITTEN + 10):
        """What is said about a file."""
        (found,) = [line for line in self.search(now).lines if line.startswith(path + " ")]
        return found[len(path) + 1 :]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


# sample, where a host has it, the client, and when it expires (None: never)
KINDS = [
    ("dhclient.leases", "/var/lib/dhcp/dhclient.eth0.leases", "dhclient", 1795312093.0),
    ("dhclient.leases", "/var/lib/dhclient/dhclient--eth0.lease", "dhclient", 1795312093.0),
    ("dhclient.leases", "/var/lib/NetworkManager/dhclient-0b7b-eth0.lease", "NetworkManager", 1795312093.0),
    ("dhclient-infinite.leases", "/var/lib/dhcp/dhclient.leases", "dhclient", None),
    ("networkd", "/run/systemd/netif/leases/2", "systemd-networkd", WRITTEN + 3600),
    ("networkd-spans", "/run/systemd/netif/leases/2", "systemd-networkd", WRITTEN + 3630),
    ("networkd", "/var/lib/NetworkManager/internal-0b7b-eth0.lease", "NetworkManager", WRITTEN + 3600),
    ("networkmanager-device", "/run/NetworkManager/devices/2", "NetworkManager", 1795324486.0),
    ("networkmanager-device-dhclient", "/run/NetworkManager/devices/2", "NetworkManager", 1795324510.0),
    ("networkmanager-device-infinite", "/run/NetworkManager/devices/2", "NetworkManager", None),
    ("wicked.xml", "/var/lib/wicked/lease-eth0-dhcp-ipv4.xml", "wicked", 1795309600.0),
    ("wicked.xml", "/run/wicked/lease-eth0-dhcp-ipv4.xml", "wicked", 1795309600.0),
    ("dhcpcd.lease", "/var/lib/dhcpcd/eth0.lease", "dhcpcd", WRITTEN + 3600),
    ("dhcpcd.lease", "/var/db/dhcpcd/eth0.lease", "dhcpcd", WRITTEN + 3600),
]


@pytest.mark.parametrize(("name", "path", "client", "expires"), KINDS, ids=[kind[1] + " " + kind[0] for kind in KINDS])
def test_each_client_s_lease_gives_the_address_and_when_it_expires(host, name, path, client, expires):
    host.put(path, sample(name))
    assert host.search().leases == (DhcpLease(WIRE_SERVER, path, client, WRITTEN, expires),)


@pytest.mark.parametrize(("name", "path", "client", "expires"), [kind for kind in KINDS if kind[3]])
def test_a_lease_that_has_expired_does_not_count_and_is_reported(host, name, path, client, expires):
    host.put(path, sample(name))
    assert host.search(now=expires).leases == ()
    assert host.line(path, now=expires + 5) == f"({client}): 168.63.129.16, expired 5 seconds ago"


def test_the_newest_lease_comes_first_whichever_client_wrote_it(host):
    host.put("/var/lib/dhcp/dhclient.leases", sample("dhclient-infinite.leases"), WRITTEN - 100)
    host.put("/run/systemd/netif/leases/3", b"OPTION_245=a9fe0001\n", WRITTEN - 50)
    host.put("/var/lib/dhcpcd/eth0.lease", sample("dhcpcd.lease"), WRITTEN - 200)
    assert [lease.client for lease in host.search().leases] == ["systemd-networkd", "dhclient", "dhcpcd"]


def test_of_dhclient_s_leases_for_an_interface_the_last_one_counts(host):
    later = b'lease {\n  interface "eth0";\n  option routers 10.0.0.1;\n  expire never;\n}\n'
    host.put("/var/lib/dhcp/dhclient.leases", sample("dhclient.leases") + later)
    assert host.search().leases == ()


def test_each_interface_of_dhclient_s_file_has_its_lease(host):
    other = b'lease {\n  interface "eth1";\n  option unknown-245 a9:fe:0:1;\n  expire epoch 1795312000; # then\n}\n'
    host.put("/var/lib/dhcp/dhclient.leases", sample("dhclient.leases") + other)
    found = [(lease.address, lease.expires) for lease in host.search().leases]
    assert found == [("169.254.0.1", 1795312000.0), (WIRE_SERVER, 1795312093.0)]


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("a8:3f:81:10", WIRE_SERVER),
        ("A8:3F:81:10", WIRE_SERVER),
        ("0:1:2:3", "0.1.2.3"),
        ("168.63.129.16", WIRE_SERVER),
        ("a83f8110", WIRE_SERVER),
        (r'"\250?\201\020"', WIRE_SERVER),
        (r'"defg"', "100.101.102.103"),
        (r'"a\"b\\"', "97.34.98.92"),
        ('"a8:3f:81:10"', WIRE_SERVER),
    ],
)
def test_every_spelling_of_dhclient_gives_the_four_bytes(host, written, address):
    text = f'lease {{\n  interface "eth0";\n  option unknown-245 {written};\n  expire never;\n}}\n'
    host.put("/var/lib/dhcp/dhclient.leases", text.encode())
    assert [lease.address for lease in host.search().leases] == [address]


@pytest.mark.parametrize("name", ["unknown_245", "private_245", "OPTION_245", "dhcp4.unknown_245", "dhcp4.option_245"])
def test_every_name_of_the_option_counts_in_assignments(host, name):
    host.put("/run/NetworkManager/devices/2", f"[dhcp4]\n{name}=a8:3f:81:10\n".encode())
    assert [lease.address for lease in host.search().leases] == [WIRE_SERVER]


@pytest.mark.parametrize("text", ["infinity", "4294967295", "", "soon", "1h soon", "9" * 400])
def test_a_lifetime_that_never_ends_or_cannot_be_read_does_not_expire_a_lease(host, text):
    host.put("/run/systemd/netif/leases/2", f"LIFETIME={text}\nOPTION_245=a83f8110\n".encode())
    assert [lease.expires for lease in host.search(now=WRITTEN * 2).leases] == [None]


def test_a_lease_without_the_option_says_so(host):
    host.put("/var/lib/NetworkManager/internal-0b7b-eth0.lease", sample("networkmanager-internal.lease"))
    assert host.search().leases == ()
    assert host.line("/var/lib/NetworkManager/internal-0b7b-eth0.lease") == "(NetworkManager): no option 245"


def test_other_files_of_a_directory_are_not_read(host):
    for name in ("dhclient6.eth0.leases", "dhclient.leases.bak", "other.leases"):
        host.put("/var/lib/dhcp/" + name, sample("dhclient.leases"))
    host.put("/var/lib/dhcpcd/eth0.lease6", sample("dhcpcd.lease"))
    assert host.search().leases == ()
    assert "/var/lib/dhcp (dhclient): no lease" in host.search().lines


def test_a_host_without_any_dhcp_client_says_where_it_was_looked(host):
    (line,) = host.search().all_lines()
    assert line == (
        "no such directory: /run/NetworkManager/devices, /run/systemd/netif/leases, /run/wicked, /var/db/dhcpcd, "
        "/var/lib/NetworkManager, /var/lib/dhclient, /var/lib/dhcp, /var/lib/dhcpcd, /var/lib/wicked"
    )


# What an enemy could write

HOSTILE_VALUES = [
    ("a8:3f:81", '"a83f81"'),
    ("a8:3f:81:10:50", '"a83f811050"'),
    ("example.org", '"example.org"'),
    ("168.63.129.16@evil", '"168.63.129.16@evil"'),
    ("168.63.129.16:80", '"168.63.129.16:80"'),
    ("0x7f000001", '"0x7f000001"'),
    ("1.2.3.4/../x", '"1.2.3.4/../x"'),
    ("::1", '"::1"'),
    ("", '""'),
]


@pytest.mark.parametrize(("value", "shown"), HOSTILE_VALUES)
def test_an_option_without_four_bytes_is_not_an_address_and_is_quoted(host, value, shown):
    host.put("/run/systemd/netif/leases/2", f"OPTION_245={value}\n".encode())
    assert host.search().leases == ()
    assert host.line("/run/systemd/netif/leases/2") == (
        f"(systemd-networkd): option 245 is {shown}, which is not an IPv4 address"
    )


def test_control_characters_of_a_lease_reach_no_message(host):
    host.put("/run/systemd/netif/leases/2", b"OPTION_245=\x1b[31m\xff\x00" + b"x" * 5000 + b"\n")
    line = host.line("/run/systemd/netif/leases/2")
    assert line.isprintable()
    assert len(line) < 300


@pytest.mark.parametrize(("name", "path"), sorted({name: path for name, path, _client, _expires in KINDS}.items()))
@pytest.mark.parametrize("change", ["cut", "zeros", "noise", "repeated"])
def test_a_broken_lease_gives_one_printable_line_and_one_address_a_lease(host, name, path, change):
    content = sample(name)
    for at in range(0, len(content), 11):
        broken = {
            "cut": content[:at],
            "zeros": content[:at] + b"\0" * 9 + content[at + 9 :],
            "noise": content[:at] + b"\xff{\n;\"'" + content[at:],
            "repeated": content[:at] * 3,
        }[change]
        host.put(path, broken)
        assert len(host.search().leases) <= content.count(b"lease {") + 1
        assert host.line(path).isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"lease {\n" * 40000,
        b"lease {" + b"\\" * 250000,
        b"option unknown-245 " + b"a:" * 120000 + b"\n",
        b"OPTION_245=" + b"a8:" * 80000 + b"\n",
        b"<unknown-245>" * 20000,
        b"<unknown-245>" + b" " * 250000 + b"<code>245</code>",
        b"\2" + b"\0" * 235 + b"\x63\x82\x53\x63" + b"\xf5\0" * 100000,
        b'lease {\ninterface "' + b"x" * 250000 + b'";\noption unknown-245 "' + b"\\" * 100000 + b'";\n}\n',
    ],
)
def test_a_lease_made_to_keep_a_reader_busy_is_read_to_its_end(host, content):
    for _name, path, _client, _expires in KINDS:
        host.put(path, content)
    assert host.search().leases == ()


def test_of_a_long_file_the_end_is_read(host):
    host.put("/var/lib/dhcp/dhclient.leases", b"# old\n" * leases.MOST_BYTES + sample("dhclient.leases"))
    assert [lease.address for lease in host.search().leases] == [WIRE_SERVER]
    host.put("/var/lib/dhcp/dhclient.leases", sample("dhclient.leases") + b"# new\n" * leases.MOST_BYTES)
    assert host.search().leases == ()


def test_of_many_files_the_newest_are_read_and_the_rest_is_counted(host):
    for number in range(leases.MOST_FILES + 3):
        host.put(f"/run/systemd/netif/leases/{number}", b"OPTION_245=a83f8110\n", WRITTEN - number)
    searched = host.search()
    assert len(searched.leases) == leases.MOST_FILES
    assert searched.leases[-1].path == f"/run/systemd/netif/leases/{leases.MOST_FILES - 1}"
    assert "/run/systemd/netif/leases (systemd-networkd): 3 older files were left out" in searched.lines


def test_neither_links_nor_fifos_nor_directories_are_read(host):
    secret = host.put("/secret", b"OPTION_245=a83f8110\n")
    directory = os.path.dirname(host.put("/run/systemd/netif/leases/1", b""))
    os.symlink(secret, os.path.join(directory, "2"))
    os.mkfifo(os.path.join(directory, "3"))
    os.mkdir(os.path.join(directory, "4"))
    assert host.search().leases == ()
    assert "cannot be read" in host.line("/run/systemd/netif/leases/2")
    assert host.line("/run/systemd/netif/leases/3").endswith("cannot be read: it is not a regular file")


def test_what_this_user_cannot_read_is_reported(host, monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EACCES, "Permission denied")

    host.put("/var/lib/dhcpcd/eth0.lease", sample("dhcpcd.lease"))
    monkeypatch.setattr(leases.os, "open", refuse)  # root, as which tests run, reads everything
    assert host.line("/var/lib/dhcpcd/eth0.lease") == "(dhcpcd): cannot be read: Permission denied"
