# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install pip into the environment of this Python, with ensurepip, and then what the arguments name.

ansible-test runs a copy of it (see ansible_test_home.py) where it would run a script that it downloads: with options
and requirements of `pip install`, and two options of that script, which say what not to install. Nothing but pip is
installed unless it is named, so these two have nothing to do here.
"""

import subprocess
import sys

OF_THE_DOWNLOAD = ("--no-setuptools", "--no-wheel")


def main():
    wanted = [argument for argument in sys.argv[1:] if argument not in OF_THE_DOWNLOAD]
    for command in (["ensurepip", "--default-pip"], ["pip", "install", *wanted]):
        status = subprocess.call([sys.executable, "-m", *command])
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
