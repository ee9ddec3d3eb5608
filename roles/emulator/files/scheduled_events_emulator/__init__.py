# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An emulator of the Azure Scheduled Events service: a simulated platform, its metadata service, and a control API.

It is written from the protocol alone and shares no code with the clients that it checks.
"""
