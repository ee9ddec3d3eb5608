# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the metadata service of a VM that may lie outside a virtual network (docs/contract.md, section 12)."""

import ipaddress
import time
from enum import Enum
from typing import Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

from .client import FIRST_CONTACT, FIRST_PAUSE, ImdsClient, ImdsError, NoAnswer, NoDocumentYet, Unavailable, Unreachable
from .clock import pause_after
from .endpoint import DEFAULT_ENDPOINT
from .leases import Searched, search

DISCOVERY_TIMEOUT = 10.0  # seconds for all of it
PROBE_TIMEOUT = 2.5  # seconds for one answer; a service that is enabled answers at once
PORTS = (80, 8080)  # Microsoft's samples differ (docs/contract.md, section 12)
MOST_ADDRESSES = 4  # that leases name and are asked
MOST_LINES = 40  # of a message on what was found in the leases

DEFAULT_SOURCE = "default address"


class FoundEndpoint(NamedTuple):
    """A base URL, and how it was found."""

    endpoint: str
    source: str


class NotFound(Unreachable):
    """Nowhere is there a metadata service. The message says where it was looked for, and what was found there."""


def find(
    *,
    api_version: str,
    networks: Sequence[ipaddress.IPv4Network],
    patience: float = FIRST_CONTACT,
    default: str = DEFAULT_ENDPOINT,
    ports: Sequence[int] = PORTS,
    leases: Callable[..., Searched] = search,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> FoundEndpoint:
    """Ask the default address, then the addresses in DHCP leases; the first that gives a document counts.

    Without a document anywhere the first that seems to be the service counts: one that answers 200 without a body or
    asks to come back, or that takes the request and is silent. The first request enables the service, which may take
    two minutes (docs/contract.md, section 6), and a wire server next to such a service must not pass for it.

    :param networks: where an address that a lease names must lie to be asked.
    :param patience: seconds for which to look again if nothing was found; 0 looks once.
    :param leases: searches the leases, given ``now``.
    :raises NotFound: there is none.
    """
    ends = clock() + DISCOVERY_TIMEOUT
    give_up_at = min(clock() + patience, ends)
    failures = 0
    while True:
        candidates, lines = _candidates(default, leases(now=wall_clock()), networks, ports)
        found, asked = _ask(candidates, api_version, ends, clock)
        if found is not None:
            return found
        remaining = give_up_at - clock()
        if remaining <= 0:
            raise NotFound(_message(asked, lines))
        sleep(min(pause_after(failures, first=FIRST_PAUSE, longest=DISCOVERY_TIMEOUT), remaining))
        failures += 1


def _ask(
    candidates: Sequence[FoundEndpoint], api_version: str, ends: float, clock: Callable[[], float]
) -> Tuple[Optional[FoundEndpoint], List[str]]:
    """The first candidate that is the service, else the first that may be it; and what the others answered."""
    likely, asked = [], []
    for candidate in candidates:
        left = ends - clock()
        if left <= 0:
            asked.append(f"{candidate.endpoint}: not asked, since the time limit was reached")
            continue
        verdict, what = _probe(candidate.endpoint, api_version, min(PROBE_TIMEOUT, left))
        if verdict is _Verdict.SERVICE:
            return candidate, asked
        if verdict is _Verdict.LIKELY:
            likely.append(candidate)
        asked.append(what)
    return (likely[0] if likely else None), asked


class _Verdict(Enum):
    SERVICE = "service"
    LIKELY = "likely"
    NOTHING = "nothing"


def _probe(endpoint: str, api_version: str, seconds: float) -> Tuple[_Verdict, str]:
    """The result for one address: whether it is the service, and the answer or error."""
    client = ImdsClient(endpoint=endpoint, api_version=api_version, request_timeout=seconds, retry_for=0)
    try:
        client.poll()
    except (NoDocumentYet, Unavailable) as error:
        return _Verdict.LIKELY, str(error)
    except NoAnswer as error:
        return (_Verdict.LIKELY if client.reached else _Verdict.NOTHING), str(error)
    except ImdsError as error:
        return _Verdict.NOTHING, str(error)
    finally:
        client.close()
    return _Verdict.SERVICE, ""


def _candidates(
    default: str, searched: Searched, networks: Sequence[ipaddress.IPv4Network], ports: Sequence[int]
) -> Tuple[List[FoundEndpoint], List[str]]:
    """The addresses to ask, in this order, and the content of the leases."""
    candidates = [FoundEndpoint(default, DEFAULT_SOURCE)]
    lines = searched.all_lines()
    seen: Set[str] = set()
    for lease in searched.leases:
        if lease.address in seen:
            continue
        seen.add(lease.address)
        if not any(ipaddress.IPv4Address(lease.address) in network for network in networks):
            allowed = ", ".join(str(network) for network in networks) or "none"
            lines.append(
                f"{lease.address} of {lease.path} was not asked, since it is not in an allowed network ({allowed}): "
                "if it is the metadata service, add its network to endpoint_networks"
            )
        elif len(candidates) > MOST_ADDRESSES * len(ports):
            lines.append(f"{lease.address} of {lease.path} was not asked, since there are too many addresses")
        else:
            source = f"DHCP option 245 in {lease.path} ({lease.client})"
            candidates += [FoundEndpoint(_url(lease.address, port), source) for port in ports]
    return candidates, lines


def _url(address: str, port: int) -> str:
    return f"http://{address}" if port == 80 else f"http://{address}:{port}"


def _message(asked: Sequence[str], lines: Sequence[str]) -> str:
    return (
        f"endpoint auto found no metadata service. Asked: {'; '.join(asked)}. "
        f"DHCP leases: {'; '.join(lines[:MOST_LINES])}. "
        "Is this an Azure VM? Run this on the VM itself as root, or set endpoint to where the service is"
    )
