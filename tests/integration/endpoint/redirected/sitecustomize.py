# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let what asks the addresses of Azure meet an emulator on loopback, and no real service.

Python imports this at its start from PYTHONPATH, where the guard is too. ``REDIRECTED`` is a JSON object with the
HOST:PORT on loopback by that of Azure. The guard refuses what it does not name.
"""

import json
import os
import socket
import sys

import metadata_guard

_BY_ADDRESS = json.loads(os.environ["REDIRECTED"])


def _redirected(connect):
    def connect_elsewhere(self, address):
        elsewhere = _BY_ADDRESS.get(f"{address[0]}:{address[1]}") if isinstance(address, tuple) else None
        if elsewhere:
            host, _colon, port = elsewhere.rpartition(":")
            address = (host, int(port))
        return connect(self, address)

    return connect_elsewhere


metadata_guard.install(lambda message: sys.stderr.write(message + "\n"))
for _name in ("connect", "connect_ex"):
    setattr(socket.socket, _name, _redirected(getattr(socket.socket, _name)))
