# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules that talk to one HAProxy share: their options, and how they return a server."""

from typing import Any, Dict, Sequence

from .haproxy import HAProxyError, Server
from .runtime_socket import SocketError

ERRORS = (HAProxyError, SocketError)
COMMON_OPTIONS = {
    "backends": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "path", "default": "/run/haproxy/admin.sock"},
}


def describe(server: Server) -> Dict[str, Any]:
    return {
        "backend": server.backend,
        "server": server.name,
        "status": server.status,
        "sessions": server.sessions + server.queued,
        "gets_no_new_sessions": server.gets_no_new_sessions,
        "check": f"{server.check_status} {server.last_check}".strip(),
    }


def found_in(servers: Sequence[Server]) -> Dict[str, str]:
    """The state to restore of each server of a host, by backend."""
    return {server.backend: server.found for server in servers}
