# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse every connection to the addresses where a cloud keeps its metadata service.

The machine that runs tests, demos and benchmarks may itself be a VM with a real service at that address, and a test
must never speak for it. Runs on every Python from 3.6 on.
"""

import ipaddress
import socket

LINK_LOCAL = ipaddress.ip_network("169.254.0.0/16")
WIRE_SERVER = ipaddress.ip_address("168.63.129.16")


class MetadataServiceContacted(AssertionError):
    """Something was about to connect to a real metadata service.

    No OSError, on purpose: a client that forgives network errors must not forgive this one.
    """


def _ipv4(host):
    """Return the IPv4 address that the socket layer would read in ``host`` (a str), or None."""
    host = host.split("%")[0]
    if ":" in host:
        return ipaddress.IPv6Address(host).ipv4_mapped
    try:
        # Reads the odd spellings too, such as 0xa9fea9fe.
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def is_metadata_service(address):
    """Return whether ``address``, as given to ``socket.connect``, leads to a metadata service."""
    if not isinstance(address, tuple) or not isinstance(address[0], str):
        return False
    ipv4 = _ipv4(address[0])
    return ipv4 is not None and (ipv4 in LINK_LOCAL or ipv4 == WIRE_SERVER)


def guarded(connect, on_refusal):
    """Wrap a ``connect`` method of sockets.

    ``on_refusal`` is called with the message before MetadataServiceContacted is raised, for a program that must know
    of it even where the exception is swallowed.
    """

    def refuse_or_connect(self, address):
        if is_metadata_service(address):
            message = f"refused to contact a real metadata service at {address[0]}: name an endpoint of your own"
            on_refusal(message)
            raise MetadataServiceContacted(message)
        return connect(self, address)

    return refuse_or_connect


def install(on_refusal, patch=setattr):
    """Guard every socket of this process; ``patch`` sets an attribute, as ``setattr`` does."""
    for name in ("connect", "connect_ex"):
        patch(socket.socket, name, guarded(getattr(socket.socket, name), on_refusal))
