# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real DHCP server gives a real client option 245, and the library reads the lease that the client wrote.

The default address is a closed port on loopback here.
"""

import pathlib
import sys

import pytest
from dhcp import NETWORK, SERVER, Cable
from emulation import OUTLIVES, until

WIRE_SERVER = "a8:3f:81:10"
SEARCH = """
from _scheduled_events.discovery import search_leases
print(json.dumps(search_leases().addresses))
"""
FIND = """
from _scheduled_events.client import ImdsError
from _scheduled_events.discovery import find
try:
    found = find(
        "auto", api_version="2020-07-01", networks={networks!r}, default="http://127.0.0.1:9", patience=0
    )
    print(json.dumps(found))
except ImdsError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture
def cable(tmp_path):
    """Return a function that starts a server and a host: ``cable("a8:3f:81:10")``."""
    made = []

    def start(option):
        made.append(Cable(tmp_path, option))
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.fixture(scope="module")
def library(installed_collection):
    return installed_collection / "plugins" / "module_utils"


@pytest.mark.parametrize(
    ("client", "directory"),
    [
        ("dhclient", "/var/lib/dhcp"),
        ("systemd-networkd", "/run/systemd/netif/leases"),
    ],
)
def test_the_wire_server_is_read_from_the_lease_that_the_client_wrote(cable, library, client, directory):
    host = cable(WIRE_SERVER)
    host.ask_for_a_lease(client)
    [(address, place)] = host.search(library, SEARCH).items()
    assert address == "168.63.129.16"
    assert place.startswith(f"{directory}/")
    assert place.endswith(f" ({client})")


def test_the_service_is_found_through_a_lease_on_port_8080_if_its_network_is_allowed(
    cable, library, installed_collection, tmp_path
):
    host = cable("0a:4d:00:01")
    host.run(host.in_host("ip", "addr", "add", "10.77.0.2/24", "dev", "eth0"))
    serve(host, installed_collection, tmp_path)
    host.ask_for_a_lease("dhclient")
    refused = host.search(library, FIND.format(networks=["168.63.129.16", "169.254.0.0/16"]))
    assert (
        f"{SERVER} of /var/lib/dhcp/dhclient.leases (dhclient) was not asked, since it is not in an allowed network"
        in refused
    )
    assert host.search(library, FIND.format(networks=[NETWORK])) == [
        f"http://{SERVER}:8080",
        "DHCP option 245 in /var/lib/dhcp/dhclient.leases (dhclient)",
    ]


def test_a_host_whose_server_gives_no_such_option_gets_the_error_that_says_what_was_looked_at(cable, library):
    host = cable(None)
    host.ask_for_a_lease("dhclient")
    error = host.search(library, FIND.format(networks=[NETWORK]))
    assert "Asked: GET http://127.0.0.1:9/metadata/scheduledevents got no answer" in error
    assert "/var/lib/dhcp/dhclient.leases (dhclient): no option 245" in error


def serve(host: Cable, collection: pathlib.Path, directory: pathlib.Path) -> None:
    """Run the emulator on the server's end."""
    fleet, started = directory / "fleet.json", directory / "started"
    fleet.write_text('{"vms": [{"name": "vm1", "address": "10.77.0.1"}]}')
    command = str(collection / "roles" / "emulator" / "files" / "scheduled-events-emulator")
    arguments = ["serve", "--fleet", str(fleet), "--port", "8080", "--control", "127.0.0.1:0"]
    arguments += ["--exit-after", str(OUTLIVES), "--started-file", str(started)]
    host.start(*host.in_server("env", f"PYTHON={sys.executable}", command, *arguments))
    until(started.exists, what=f"the emulator's start: {host.log()}")
