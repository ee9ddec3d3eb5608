# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watch the boundaries of every Python process of a run of Ansible: see boundary.py.

Python imports this at its start from PYTHONPATH, where the guard is too.
"""

import os
import sys

import boundary
import metadata_guard

metadata_guard.install(lambda message: sys.stderr.write(message + "\n"))
with open("/proc/self/cmdline", "rb") as _file:
    _words = _file.read().decode("utf-8", "replace").split("\0")
_is_controller = any(os.path.basename(word) == "ansible-playbook" for word in _words[:2])
boundary.Watch(os.environ["BOUNDARY_PLAN"], "controller" if _is_controller else "module").install()
