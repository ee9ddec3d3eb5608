# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the metadata service of a VM that may lie outside a virtual network (docs/contract.md, section 12).

Such a VM has the address in option 245 of its DHCP lease. The files of leases are not trusted: their number and size
are limited, links, FIFOs and devices are left out, and only four bytes are read from each.
"""

import ipaddress
import os
import re
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .checks import converted, list_of, text
from .client import FIRST_CONTACT, ImdsClient, ImdsError, NoAnswer, NoDocumentYet, Unavailable, without_service
from .clock import CLOCK, Clock
from .exchange import DEFAULT_ENDPOINT, base_url
from .files import plain

AUTO = "auto"  # the endpoint that has to be found
GIVEN = "given"  # the source of an endpoint that the owner names

# Where an address that a DHCP lease names may lie: Azure's wire server, and what no router passes on.
DEFAULT_NETWORKS = ("168.63.129.16/32", "169.254.0.0/16")
VM_NAME = text("the name of a VM in Azure, or null to ask the service", longest=256, pattern=r"[^\s\[\]{}]+")
ENDPOINT_OR_AUTO = converted(
    f"http://HOST or http://HOST:PORT, or {AUTO}", lambda value: value if value == AUTO else base_url(value)
)
NETWORKS = list_of(
    converted("an IPv4 network, such as 168.63.129.16/32", lambda value: str(ipaddress.IPv4Network(value.strip()))),
    "IPv4 networks",
)

DISCOVERY_TIMEOUT = 10.0  # seconds for all of it
PROBE_TIMEOUT = 2.5  # seconds for one answer; a service that is enabled answers at once
PORTS = (80, 8080)  # Microsoft's samples differ (docs/contract.md, section 12)
MOST_ADDRESSES = 4  # that leases name and are asked
MOST_FILES = 32  # of a directory, the newest ones
MOST_BYTES = 256 * 1024  # of a file. What is longer has its newest lease at its end.

DEFAULT_SOURCE = "default address"

# DHCP client, directory of its leases, their names
PLACES = (
    ("systemd-networkd", "/run/systemd/netif/leases", r"[0-9]{1,10}\Z"),
    ("NetworkManager", "/run/NetworkManager/devices", r"[0-9]{1,10}\Z"),
    ("dhclient", "/var/lib/dhcp", r"dhclient(?!6).*\.leases?\Z"),
    ("dhclient", "/var/lib/dhclient", r"dhclient(?!6).*\.leases?\Z"),
)
# OPTION_245=a83f8110 of systemd-networkd, private_245=a8:3f:81:10 or unknown_245=… of NetworkManager, and
# "option unknown-245 a8:3f:81:10;" of dhclient
_OPTION = re.compile(
    rb"(?:option|private|unknown)[-_]245[= ]((?:[0-9a-f]{1,2}:){3}[0-9a-f]{1,2}|[0-9a-f]{8})(?=[;\s]|\Z)",
    re.IGNORECASE,
)


class FoundEndpoint(NamedTuple):
    """A base URL, and how it was found."""

    endpoint: str
    source: str


class Searched(NamedTuple):
    """The addresses in leases with the place of each, the newest lease first, and what was found in each place."""

    addresses: Dict[str, str]
    lines: List[str]


def search_leases(root: str = "/") -> Searched:
    """Read the addresses in the leases of this host.

    :param root: the directory that stands for the root of the file system.
    """
    found: List[Tuple[float, str, str]] = []
    lines: List[str] = []
    for client, directory, pattern in PLACES:
        here = os.path.join(root, directory[1:])
        try:
            names = [name for name in os.listdir(here) if re.match(pattern, name)]
            names = sorted(names, key=lambda name: os.lstat(os.path.join(here, name)).st_mtime)[-MOST_FILES:]
        except OSError as error:
            lines.append(f"{directory} ({client}): {error.strerror}")
            continue
        for name in names:
            place = f"{directory}/{name} ({client})"
            try:
                written, addresses = _read(os.path.join(here, name))
            except OSError as error:
                lines.append(f"{place}: cannot be read: {error.strerror or error}")
                continue
            found.extend((written, address, place) for address in addresses)
            lines.append(f"{place}: {', '.join(addresses) or 'no option 245'}")
    found.sort(key=lambda each: each[0], reverse=True)
    newest: Dict[str, str] = {}
    for _written, address, place in found:
        newest.setdefault(address, place)
    return Searched(newest, lines)


def _read(path: str) -> Tuple[float, List[str]]:
    """When the file was written, and the addresses in it, the newest first.

    :raises OSError: it cannot be read, or is not a regular file.
    """
    with plain(path) as (file, status):
        file.seek(max(0, status.st_size - MOST_BYTES))
        values = [value.decode("ascii") for value in _OPTION.findall(file.read(MOST_BYTES))]
    packed = [bytes(int(each, 16) for each in re.findall("[0-9a-fA-F]{1,2}", value)) for value in reversed(values)]
    return status.st_mtime, list(dict.fromkeys(str(ipaddress.IPv4Address(each)) for each in packed))[:MOST_ADDRESSES]


def find(
    endpoint: str,
    *,
    api_version: str,
    networks: Sequence[str],
    patience: float = FIRST_CONTACT,
    default: str = DEFAULT_ENDPOINT,
    ports: Sequence[int] = PORTS,
    leases: Callable[[], Searched] = search_leases,
    clock: Clock = CLOCK,
) -> FoundEndpoint:
    """The given endpoint. For ``auto``: ask the default address, then those in DHCP leases.

    The first that gives a document counts.

    Without a document anywhere the first that seems to be the service counts: one that answers 200 without a body or
    asks to come back, or that takes the request and is silent. The first request enables the service, which may take
    two minutes (docs/contract.md, section 6), and a wire server next to such a service must not pass for it.

    :param networks: where an address that a lease names must lie to be asked.
    :param patience: seconds after which to look once more if nothing was found, unless the look took longer; 0: once.
    :raises Unreachable: there is none. The message says where it was looked for, and what was found there.
    """
    if endpoint != AUTO:
        return FoundEndpoint(endpoint, GIVEN)
    ends = clock.monotonic() + DISCOVERY_TIMEOUT
    said: List[str] = []

    def look() -> Optional[FoundEndpoint]:
        candidates, lines = _candidates(default, leases(), networks, ports)
        found, asked = _ask(candidates, api_version, ends, clock)
        said[:] = [f"Asked: {'; '.join(asked)}", f"DHCP leases: {'; '.join(lines)}"]
        return found

    found = clock.until(look, within=min(patience, DISCOVERY_TIMEOUT), every=DISCOVERY_TIMEOUT)
    if found is None:
        raise without_service(ImdsError(f"endpoint auto found no metadata service. {'. '.join(said)}"))
    return found


def _candidates(
    default: str, searched: Searched, networks: Sequence[str], ports: Sequence[int]
) -> Tuple[List[FoundEndpoint], List[str]]:
    """The addresses to ask, in this order, and the lines for the message about the leases."""
    candidates, lines = [FoundEndpoint(default, DEFAULT_SOURCE)], list(searched.lines)
    for address, place in searched.addresses.items():
        if not any(ipaddress.IPv4Address(address) in ipaddress.IPv4Network(network) for network in networks):
            allowed = ", ".join(networks) or "none"
            lines.append(
                f"{address} of {place} was not asked, since it is not in an allowed network ({allowed}): "
                "if it is the metadata service, add its network to endpoint_networks"
            )
        elif len(candidates) > MOST_ADDRESSES * len(ports):
            lines.append(f"{address} of {place} was not asked, since there are too many addresses")
        else:
            candidates += [FoundEndpoint(_url(address, port), f"DHCP option 245 in {place}") for port in ports]
    return candidates, lines


def _url(address: str, port: int) -> str:
    return f"http://{address}" if port == 80 else f"http://{address}:{port}"


def _ask(
    candidates: Sequence[FoundEndpoint], api_version: str, ends: float, clock: Clock
) -> Tuple[Optional[FoundEndpoint], List[str]]:
    """The first candidate that is the service, else the first that may be it; and what each other one answered."""
    likely, asked = [], []
    for candidate in candidates:
        left = ends - clock.monotonic()
        if left <= 0:
            asked.append(f"{candidate.endpoint}: not asked, since the time limit was reached")
            continue
        is_service, what = _probe(candidate.endpoint, api_version, min(PROBE_TIMEOUT, left))
        if is_service:
            return candidate, asked
        if is_service is None:
            likely.append(candidate)
        asked.append(what)
    return (likely[0] if likely else None), asked


def _probe(endpoint: str, api_version: str, seconds: float) -> Tuple[Optional[bool], str]:
    """Whether this is the service, ``None`` if it may be; and the error."""
    client = ImdsClient(endpoint=endpoint, api_version=api_version, request_timeout=seconds, retry_for=0)
    try:
        client.poll()
    except (NoDocumentYet, Unavailable) as error:
        return None, str(error)
    except NoAnswer as error:
        return (None if client.reached else False), str(error)
    except ImdsError as error:
        return False, str(error)
    finally:
        client.close()
    return True, ""
