# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service that the unit asks: the configured endpoint, or one that is found, and searched again if it is silent."""

import threading
from typing import Callable, Optional

from _scheduled_events import discovery
from _scheduled_events.client import FIRST_CONTACT
from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.discovery import AUTO, DISCOVERY_TIMEOUT, GIVEN, FoundEndpoint

from .config import Settings

SEARCH_AGAIN_AFTER = 150.0  # seconds without a document; the first can take two minutes (docs/contract.md, section 6)


class EndpointResolver:
    """The endpoint that all threads ask.

    :param find: searches the service.
    """

    def __init__(self, settings: Settings, find: Callable[[], FoundEndpoint], *, clock: Clock = CLOCK) -> None:
        self._named = settings.endpoint
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()  # one search at a time; the others use what it finds
        self._found = None if settings.endpoint == AUTO else FoundEndpoint(settings.endpoint, GIVEN)
        self._proved = False  # whether what was found gave a document
        self._document_at = clock.monotonic()

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
                self._document_at = self._clock.monotonic()
            return found.endpoint

    def known(self) -> Optional[FoundEndpoint]:
        """The endpoint, if it is known."""
        return self._found

    def succeeded(self) -> None:
        """Note that there was a document."""
        self._proved = True
        self._document_at = self._clock.monotonic()

    def failed(self) -> None:
        """Note that there was none. The service is searched again after a while, or at once if this endpoint never gave
        a document.
        """
        silent = self._clock.monotonic() - self._document_at >= SEARCH_AGAIN_AFTER
        if self._named == AUTO and (silent or not self._proved):
            self._found = None


def find(settings: Settings, *, patience: float = FIRST_CONTACT) -> FoundEndpoint:
    """The configured endpoint, or the endpoint that is found.

    :param patience: seconds after which to search once more if nothing was found.
    :raises ImdsError: none is found.
    """
    return discovery.find(
        settings.endpoint, api_version=settings.api_version, networks=settings.endpoint_networks, patience=patience
    )
