# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the metadata service is looked for. The default address is one on loopback here, and so are those of leases."""

import socket
from urllib.parse import urlsplit

import metadata_guard
import pytest
from _scheduled_events import discovery
from _scheduled_events.client import Unreachable
from _scheduled_events.discovery import (
    AUTO,
    DEFAULT_NETWORKS,
    DISCOVERY_TIMEOUT,
    FoundEndpoint,
    Searched,
    find,
)

from .conftest import Service, document_text

LOOPBACK = ["127.0.0.0/8"]
PLACE = "/run/systemd/netif/leases/2 (systemd-networkd)"
NO_LEASES = Searched({}, ["/var/lib/dhcp (dhclient): No such file or directory"])
DOCUMENT = document_text()


def leases_of(*addresses):
    return Searched(dict.fromkeys(addresses, PLACE), [])


def port_of(service):
    return urlsplit(service.endpoint).port


@pytest.fixture
def nowhere():
    """A URL on loopback without a listener."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def other():
    running = Service()
    yield running
    running.stop()


@pytest.fixture
def look(nowhere, clock):
    """Searches with a clock that only sleeping moves."""

    def search_for(default=nowhere, leases=NO_LEASES, **changes):
        given = dict({"api_version": "2020-07-01", "networks": LOOPBACK, "patience": 0.0, "ports": (9,)}, **changes)
        return find(AUTO, default=default, leases=lambda: leases, clock=clock, **given)

    return search_for


def test_a_document_at_the_default_address_ends_the_search(look, service, other):
    service.answers(DOCUMENT)
    leases = leases_of("127.0.0.1")
    assert look(service.endpoint, leases, ports=(port_of(other),)) == FoundEndpoint(service.endpoint, "default address")
    assert other.asked == []


def test_without_one_there_the_address_of_the_lease_is_asked_as_the_service_is(look, other):
    other.answers(DOCUMENT)
    leases = leases_of("127.0.0.1")
    assert look(leases=leases, ports=(port_of(other),)) == FoundEndpoint(
        other.endpoint, "DHCP option 245 in /run/systemd/netif/leases/2 (systemd-networkd)"
    )
    ((method, path, headers, _body),) = other.asked
    assert (method, path, headers["Metadata"]) == ("GET", "/metadata/scheduledevents?api-version=2020-07-01", "true")


@pytest.mark.parametrize("order", [1, -1])
def test_both_ports_are_asked_in_their_order(look, service, other, order):
    service.answers("<html>")
    other.answers(DOCUMENT)
    ports = (port_of(service), port_of(other))[::order]
    assert look(leases=leases_of("127.0.0.1"), ports=ports).endpoint == other.endpoint
    assert len(service.asked) == (1 if order == 1 else 0)


def test_port_80_is_not_written_into_the_endpoint():
    assert [discovery._url("168.63.129.16", port) for port in discovery.PORTS] == [
        "http://168.63.129.16",
        "http://168.63.129.16:8080",
    ]


@pytest.mark.parametrize(
    "answer", ["", (410, "gone"), (429, "Throttle Result: Too Many Requests"), (500, "{}"), None], ids=str
)
def test_an_address_that_may_be_the_service_counts_if_no_other_gives_a_document(look, service, other, answer):
    service.answers(answer)
    other.answers("<html>")
    leases = leases_of("127.0.0.1")
    assert look(service.endpoint, leases, ports=(port_of(other),)) == FoundEndpoint(service.endpoint, "default address")
    other.answers(DOCUMENT)
    assert look(service.endpoint, leases, ports=(port_of(other),)).endpoint == other.endpoint


@pytest.mark.parametrize(
    "answer", [(404, "x"), (400, "{}"), (302, "", {"Location": "http://127.0.0.9/"}), "<html>", "{}"]
)
def test_an_address_that_is_something_else_does_not_count(look, service, answer):
    service.answers(answer)
    with pytest.raises(Unreachable) as caught:
        look(service.endpoint)
    assert f"GET {service.endpoint}/metadata/scheduledevents" in str(caught.value)


def test_a_host_without_the_service_gets_an_error_that_says_what_was_looked_at(look, nowhere):
    with pytest.raises(Unreachable) as caught:
        look()
    assert str(caught.value) == (
        f"endpoint auto found no metadata service. Asked: GET {nowhere}/metadata/scheduledevents got no answer: "
        "[Errno 111] Connection refused. DHCP leases: /var/lib/dhcp (dhclient): No such file or directory. "
        "Is this an Azure VM? The metadata service answers only inside one: run this on the VM itself, or set "
        "endpoint, of roles scheduled_events_endpoint, to where it is"
    )


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "10.0.0.1", "127.0.0.1", "0.0.0.0", "168.63.129.17", "169.253.255.255", "255.255.255.255"]
)
def test_an_address_outside_the_allowed_networks_is_never_asked_and_is_named(look, service, monkeypatch, address):
    asked = []
    probe = discovery._probe
    monkeypatch.setattr(discovery, "_probe", lambda *given: asked.append(given[0]) or probe(*given))
    service.answers((404, ""))
    with pytest.raises(Unreachable) as caught:
        look(service.endpoint, leases_of(address), networks=DEFAULT_NETWORKS)
    assert asked == [service.endpoint]
    assert (
        f"{address} of {PLACE} was not asked, since it is not in an allowed network "
        "(168.63.129.16/32, 169.254.0.0/16): if it is the metadata service, add its network to endpoint_networks"
    ) in str(caught.value)


@pytest.mark.parametrize("address", ["168.63.129.16", "169.254.169.254", "169.254.0.1"])
def test_azure_s_own_addresses_are_allowed_by_default(look, refused_contacts, address):
    with pytest.raises(metadata_guard.MetadataServiceContacted):
        look(leases=leases_of(address), networks=DEFAULT_NETWORKS)
    assert refused_contacts == [
        f"refused to contact a real metadata service at {address}: name an endpoint of your own"
    ]
    del refused_contacts[:]


def test_the_newest_lease_is_asked_first(look, nowhere, monkeypatch):
    asked = []
    monkeypatch.setattr(discovery, "_probe", lambda url, *_given: asked.append(url) or (False, "nothing"))
    leases = leases_of("127.0.0.3", "127.0.0.2")
    with pytest.raises(Unreachable):
        look(leases=leases, ports=(80, 8080))
    assert asked == [
        nowhere, "http://127.0.0.3", "http://127.0.0.3:8080", "http://127.0.0.2", "http://127.0.0.2:8080"
    ]  # fmt: skip


def test_of_many_addresses_only_the_first_allowed_ones_are_asked(look, monkeypatch):
    asked = []
    monkeypatch.setattr(discovery, "_probe", lambda url, *_given: asked.append(url) or (False, "nothing"))
    addresses = [f"10.0.0.{number}" for number in range(9)] + [f"127.0.1.{number}" for number in range(9)]
    with pytest.raises(Unreachable) as caught:
        look(leases=leases_of(*addresses), ports=(80, 8080))
    assert asked[1::2] == [f"http://127.0.1.{number}" for number in range(discovery.MOST_ADDRESSES)]
    assert f"127.0.1.4 of {PLACE} was not asked, since there are too many" in str(caught.value)


def test_one_deadline_holds_for_the_whole_search(look, clock, monkeypatch):
    seconds = []

    def hang(_url, _version, limit):
        seconds.append(limit)
        clock.now += limit
        return False, "silence"

    monkeypatch.setattr(discovery, "_probe", hang)
    leases = leases_of(*(f"127.0.0.{number}" for number in range(1, 5)))
    started = clock.now
    with pytest.raises(Unreachable) as caught:
        look(leases=leases, ports=(80, 8080), patience=60)
    assert clock.now - started == DISCOVERY_TIMEOUT
    assert sum(seconds) == DISCOVERY_TIMEOUT
    assert "http://127.0.0.4:8080: not asked, since the time limit was reached" in str(caught.value)


def test_a_host_whose_network_comes_up_is_looked_at_once_more(look, service, clock, monkeypatch):
    service.answers(DOCUMENT)
    probe, verdicts = discovery._probe, [(False, "refused")]
    monkeypatch.setattr(discovery, "_probe", lambda *given: verdicts.pop() if verdicts else probe(*given))
    assert look(service.endpoint, patience=4).endpoint == service.endpoint
    assert clock.pauses == [4.0]


def test_patience_ends(look, clock):
    with pytest.raises(Unreachable):
        look(patience=4)
    assert sum(clock.pauses) == 4
