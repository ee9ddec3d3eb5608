# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Pythons of VMs, the releases of ansible-core with the Pythons that each runs on, and which CPythons exist here.

`python3 scripts/pythons.py` shows the path of the newest CPython that the controller side can use. It runs on any
Python 3.6 or later, so that it can choose a better one.
"""

import glob
import os
import subprocess
import sys

VERSIONS = ["3.{}".format(minor) for minor in range(6, 15)]
CONTROLLER = VERSIONS[VERSIONS.index("3.11") :]
CORES = {
    "2.16": ("3.10", "3.11", "3.12"),
    "2.17": ("3.10", "3.11", "3.12"),
    "2.18": ("3.11", "3.12", "3.13"),
    "2.19": ("3.11", "3.12", "3.13"),
    "2.20": ("3.12", "3.13", "3.14"),
    "2.21": ("3.12", "3.13", "3.14"),
}
OLDEST_CORE, *_between, NEWEST_CORE = CORES
IDENTIFY = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"


def find(version):
    """Return the path of a CPython on PATH or under pyenv that really runs, or ""."""
    name = "python" + version
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    of_pyenv = sorted(glob.glob(os.path.join(pyenv, "versions", "*", "bin", name)), reverse=True)
    paths = []
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        # Its commands are slow scripts that start one of these, or fail.
        paths += of_pyenv if directory == os.path.join(pyenv, "shims") else [os.path.join(directory, name)]
    for path in paths + of_pyenv:
        if os.access(path, os.X_OK):
            run = subprocess.run([path, "-c", IDENTIFY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            if run.stdout.decode().split() == ["cpython", version]:
                return path
    return ""


def python_for(core, found):
    """Return the newest version for an ansible-core that was found; without one, the newest that it runs on."""
    return next((version for version in reversed(CORES[core]) if found.get(version)), CORES[core][-1])


if __name__ == "__main__":
    newest = next(filter(None, map(find, reversed(CONTROLLER))), None)
    sys.exit(print(newest) if newest else "No CPython 3.11 or later was found on PATH or under pyenv: install one.")
