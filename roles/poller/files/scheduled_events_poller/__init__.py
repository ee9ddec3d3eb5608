# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The polling unit: watches the events of this VM, runs its owner's hooks, and acknowledges when they have ended.

``poller`` is the shell around the library's engine. ``spool`` is what it exchanges with the side that runs as root:
``dispatcher`` takes requests and starts units, ``runner`` runs hooks in them, ``jobs`` keeps what root knows of them.
"""

__version__ = "1.0.0"
