# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where to ask, and in which version."""

import re
from urllib.parse import urlsplit

DEFAULT_ENDPOINT = "http://169.254.169.254"
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


def check_api_version(api_version: str) -> str:
    """Return the version as it is.

    :raises SettingError: the text is not a date; the service refuses "latest" too (contract: table of api-versions).
    """
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", api_version):
        raise SettingError(
            f'api_version "{api_version}" is not a version of Scheduled Events: '
            f'expected a date such as {DEFAULT_API_VERSION}, and the service does not know "latest"'
        )
    return api_version
