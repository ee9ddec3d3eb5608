# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address of the service and the API version."""

import ipaddress
import re
from typing import Iterable, Tuple
from urllib.parse import urlsplit

DEFAULT_ENDPOINT = "http://169.254.169.254"
AUTO = "auto"  # the endpoint that has to be found: see the discovery
GIVEN = "given"  # the source of an endpoint that the owner names

# Where an address that a DHCP lease names may lie: Azure's wire server, and what no router passes on.
DEFAULT_NETWORKS = ("168.63.129.16/32", "169.254.0.0/16")
DEFAULT_API_VERSION = "2020-07-01"


class SettingError(ValueError):
    """A setting that cannot be used; the message names it, its value and what was expected."""


def check_endpoint(endpoint: str) -> str:
    """Return the base URL of the service without a slash at its end.

    :raises SettingError: the text is not an http or https URL of a host alone.
    """
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an impossible port or IPv6 address
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None or re.search(r"\s", endpoint):
        shown = re.sub(r"//.*@", "//…@", endpoint)  # a password does not belong into a log
        raise SettingError(
            f'endpoint "{shown}" is not the URL of a metadata service: expected http://HOST or http://HOST:PORT'
        )
    return endpoint.rstrip("/")


def check_endpoint_or_auto(endpoint: str) -> str:
    """Return the base URL as :func:`check_endpoint` does, or "auto".

    :raises SettingError: the text is neither.
    """
    try:
        return AUTO if endpoint == AUTO else check_endpoint(endpoint)
    except SettingError as error:
        raise SettingError(f"{error}, or {AUTO}") from error


def check_networks(networks: Iterable[str]) -> Tuple[ipaddress.IPv4Network, ...]:
    """Return the networks.

    :raises SettingError: the first text that is not an IPv4 network.
    """
    checked = []
    for network in networks:
        try:
            checked.append(ipaddress.IPv4Network(network.strip()))
        except ValueError:
            raise SettingError(
                f'endpoint_networks holds "{network}", which is not an IPv4 network: expected one such as '
                "168.63.129.16/32 or 169.254.0.0/16; correct it"
            ) from None
    return tuple(checked)


def check_api_version(api_version: str) -> str:
    """Return the version as it is.

    :raises SettingError: the text is not a date; the service refuses "latest" too (docs/contract.md, section 3).
    """
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", api_version):
        raise SettingError(
            f'api_version "{api_version}" is not a version of Scheduled Events: '
            f'expected a date such as {DEFAULT_API_VERSION}, and the service does not know "latest"'
        )
    return api_version
