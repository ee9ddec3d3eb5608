# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports for programs that cannot choose one themselves."""

import contextlib
import pathlib
import random
import socket


def free_port() -> int:
    """A port of loopback without a listener, that no connection gets until a program listens there, however late."""
    first_of_connections = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, max(20_000, first_of_connections)), 100):  # some machines begin at 1024
        with socket.socket() as holder, contextlib.suppress(OSError):
            holder.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("none of 100 ports of loopback is free")
