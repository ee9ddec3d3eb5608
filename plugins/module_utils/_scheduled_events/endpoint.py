# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings for the address of the service and the API version, and what they can be."""

import ipaddress
import re
from urllib.parse import urlsplit

from .checks import converted, list_of, text

DEFAULT_ENDPOINT = "http://169.254.169.254"
AUTO = "auto"  # the endpoint that has to be found: see the discovery
GIVEN = "given"  # the source of an endpoint that the owner names

# Where an address that a DHCP lease names may lie: Azure's wire server, and what no router passes on.
DEFAULT_NETWORKS = ("168.63.129.16/32", "169.254.0.0/16")
DEFAULT_API_VERSION = "2020-07-01"


def _base_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or not value.isprintable():
        raise ValueError
    if parts.query or parts.fragment or parts.username is not None or re.search(r"\s", value):
        raise ValueError
    return value.rstrip("/")


# A URL has no slash at its end then.
ENDPOINT = converted("http://HOST or http://HOST:PORT", _base_url)
ENDPOINT_OR_AUTO = converted(
    f"http://HOST or http://HOST:PORT, or {AUTO}", lambda value: value if value == AUTO else _base_url(value)
)
NETWORKS = list_of(
    converted("an IPv4 network, such as 168.63.129.16/32", lambda value: str(ipaddress.IPv4Network(value.strip()))),
    "IPv4 networks",
)
# The service refuses "latest" as well (docs/contract.md, section 3).
API_VERSION = text(f"a date, such as {DEFAULT_API_VERSION}", pattern="[0-9]{4}-[0-9]{2}-[0-9]{2}")
