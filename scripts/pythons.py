# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the CPythons of this machine: on PATH and under pyenv.

    python3 scripts/pythons.py           from 3.6 to 3.14, a line each: the version, a tab, the path or nothing
    python3 scripts/pythons.py --newest  the path of the newest that the controller side can use, 3.11 or later

Runs on any Python 3.6 or later, so that it can choose a better one.
"""

import argparse
import glob
import os
import subprocess
import sys

VERSIONS = [(3, minor) for minor in range(6, 15)]
OLDEST_CONTROLLER = (3, 11)
IDENTIFY = "import sys; print(sys.implementation.name, sys.version_info[0], sys.version_info[1])"


def candidates(version):
    """Yield the paths where a Python of ``version`` (major, minor) may be, best first."""
    name = "python{}.{}".format(*version)
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        yield os.path.join(directory, name)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    yield from sorted(glob.glob(os.path.join(pyenv, "versions", "*", "bin", name)), reverse=True)


def is_cpython(path, version):
    """Return whether ``path`` really runs as CPython ``version``: pyenv installs commands that only fail."""
    if not os.access(path, os.X_OK):
        return False
    run = subprocess.run([path, "-c", IDENTIFY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return run.returncode == 0 and run.stdout.decode().split() == ["cpython"] + [str(part) for part in version]


def find(version):
    """Return the path of a CPython of ``version`` (major, minor), or None."""
    return next((path for path in candidates(version) if is_cpython(path, version)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="only the newest for the controller side")
    if not parser.parse_args().newest:
        for version in VERSIONS:
            print("{}.{}\t{}".format(version[0], version[1], find(version) or ""))
        return
    newest = next(filter(None, (find(version) for version in reversed(VERSIONS) if version >= OLDEST_CONTROLLER)), None)
    if newest is None:
        sys.exit("No CPython 3.11 or later was found on PATH or under pyenv: install one, such as python3.13.")
    print(newest)


if __name__ == "__main__":
    main()
