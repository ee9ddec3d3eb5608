# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guard every Python process that has this directory in PYTHONPATH, such as a module that ansible-playbook runs."""

import os
import sys

import compiled_modules
import metadata_guard


def _tell(message):
    sys.stderr.write(message + "\n")


metadata_guard.install(_tell)
if os.environ.get("TIER") != "soak":  # where nothing is faster than at a user's
    compiled_modules.install()
