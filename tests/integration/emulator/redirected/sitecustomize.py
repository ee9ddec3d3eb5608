# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a program whose metadata address is a constant meet the emulator, and no real service.

Python imports this at its start from PYTHONPATH, where the guard is too. ``REDIRECTED_TO`` is HOST:PORT of the
emulator, ``REDIRECTED_HOSTNAME`` the name of the host. What goes round the redirection is refused by the guard.
"""

import os
import socket
import sys

import metadata_guard

SERVICE = ("169.254.169.254", 80)


def _to_emulator(create_connection, emulator):
    def create(address, *arguments, **keywords):
        return create_connection(emulator if tuple(address) == SERVICE else address, *arguments, **keywords)

    return create


metadata_guard.install(lambda message: sys.stderr.write(message + "\n"))
_host, _colon, _port = os.environ["REDIRECTED_TO"].rpartition(":")
socket.create_connection = _to_emulator(socket.create_connection, (_host, int(_port)))
socket.gethostname = lambda: os.environ["REDIRECTED_HOSTNAME"]
