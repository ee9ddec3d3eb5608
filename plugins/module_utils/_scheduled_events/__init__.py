# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure Scheduled Events in plain Python: what the service says, how to ask it, what to decide.

Private to the collection: it may change in any release. It runs on Python 3.6 and newer, imports nothing of Ansible
and only relatively, because the polling unit carries a copy of this directory.
"""
