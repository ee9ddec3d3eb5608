# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service that the unit asks: the configured endpoint, or one that is found, and searched again if it is silent.

Some DHCP clients let only root read their leases. Root reads them when the unit is started or reloaded, and stores them
in the runtime directory.
"""

import functools
import ipaddress
import json
import os
import threading
import time
from typing import Any, Callable, Optional

from _scheduled_events import discovery
from _scheduled_events.client import FIRST_CONTACT
from _scheduled_events.discovery import DISCOVERY_TIMEOUT, FoundEndpoint
from _scheduled_events.endpoint import AUTO, GIVEN, check_networks
from _scheduled_events.files import read_plain, write_atomically
from _scheduled_events.leases import DhcpLease, Searched, newest_first, search
from _scheduled_events.text import shown

from . import status
from .config import Settings

SEARCH_AGAIN_AFTER = 150.0  # seconds without a document; the first can take two minutes (docs/contract.md, section 6)
MOST_KEPT = 100  # leases, and lines on them, that are read from the file of root


class EndpointResolver:
    """The endpoint that all threads ask.

    :param find: searches the service.
    """

    def __init__(
        self, settings: Settings, find: Callable[[], FoundEndpoint], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._named = settings.endpoint
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()  # one search at a time; the others use what it finds
        self._found = None if settings.endpoint == AUTO else FoundEndpoint(settings.endpoint, GIVEN)
        self._proved = False  # whether what was found gave a document
        self._document_at = clock()

    @property
    def longest_search(self) -> float:
        """Seconds that :meth:`endpoint` can take at most: its own search after another search that it waited for."""
        return 2 * DISCOVERY_TIMEOUT if self._named == AUTO else 0.0

    def endpoint(self) -> str:
        """The endpoint; searches it if it is not known.

        :raises ImdsError: there is none.
        """
        with self._lock:
            found = self._found  # which another thread, whose request failed, may forget at any moment
            if found is None:
                found = self._found = self._find()
                self._proved = False
                self._document_at = self._clock()
            return found.endpoint

    def known(self) -> Optional[FoundEndpoint]:
        """The endpoint, if it is known."""
        return self._found

    def succeeded(self) -> None:
        """Note that there was a document."""
        self._proved = True
        self._document_at = self._clock()

    def failed(self) -> None:
        """Note that there was none.

        What never gave a document only seemed to be the service, so it is searched again at once; otherwise after a
        while.
        """
        silent = self._clock() - self._document_at >= SEARCH_AGAIN_AFTER
        if self._named == AUTO and (silent or not self._proved):
            self._found = None


def find(settings: Settings, runtime_directory: str, *, patience: float = FIRST_CONTACT) -> FoundEndpoint:
    """The configured endpoint, or the endpoint that is found.

    :param patience: seconds for which to repeat the search if nothing was found.
    :raises ImdsError: none is found.
    """
    if settings.endpoint != AUTO:
        return FoundEndpoint(settings.endpoint, GIVEN)
    return discovery.find(
        api_version=settings.api_version,
        networks=check_networks(settings.endpoint_networks),
        patience=patience,
        leases=functools.partial(search_all, runtime_directory),
    )


def search_all(runtime_directory: str, *, now: float) -> Searched:
    """The leases that this user can read, and those that root read."""
    own = search(now=now)
    kept = _load(_path(runtime_directory))
    leases = [*own.leases, *(lease for lease in kept.leases if lease.expires is None or lease.expires > now)]
    lines = [*own.lines, *(f"{line}, as root saw it when the unit was started" for line in kept.lines)]
    return Searched(tuple(newest_first(leases)), tuple(lines), own.missing)


def keep(searched: Searched, runtime_directory: str) -> None:
    """Store the leases for the unit.

    :raises OSError: they could not be written.
    """
    content = {"leases": [lease._asdict() for lease in searched.leases], "lines": searched.lines}
    write_atomically(_path(runtime_directory), json.dumps(content).encode(), mode=0o644)


def _path(runtime_directory: str) -> str:
    return os.path.join(runtime_directory, "leases.json")


def _load(path: str) -> Searched:
    """The leases that root stored; empty if there are none that can be read."""
    try:
        decoded = json.loads(read_plain(path, most=status.MOST_BYTES).decode("utf-8"))
        leases = [_lease(raw) for raw in decoded["leases"][:MOST_KEPT]]
        lines = [shown(line) for line in decoded["lines"][:MOST_KEPT]]
    except FileNotFoundError:
        return Searched((), ())
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        return Searched((), (f"{path}: cannot be read: {shown(str(error))}",))
    return Searched(tuple(leases), tuple(lines))


def _lease(raw: Any) -> DhcpLease:
    address = str(ipaddress.IPv4Address(str(raw["address"])))
    expires = None if raw["expires"] is None else float(raw["expires"])
    return DhcpLease(address, shown(raw["path"]), shown(raw["client"]), float(raw["modified"]), expires)
