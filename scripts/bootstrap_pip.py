# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Give the environment of this Python a pip, and install what the arguments name.

ansible-test runs a copy of it (see ansible_test_home.py) where it would run a script that it downloads: with options
and requirements of `pip install`, and two options of that script, which say what not to install. Nothing but pip is
installed unless it is named, so these two have nothing to do here.

Where uv knows the Python, pip is a module of a few lines that runs `uv pip`, which takes a tenth of the time. Else it
is the pip of ensurepip. The copy has the path of uv and its environment in UV and SETTINGS.
"""

import os
import subprocess
import sys
import sysconfig

UV, SETTINGS = "", {}
OF_THE_DOWNLOAD = ("--no-setuptools", "--no-wheel")
OLDEST_FOR_UV = (3, 8)
MODULE = """# Runs `uv pip` with the environment of this Python.
import os
import sys

if sys.argv[1:] == ["--version"]:
    print("pip of uv")
    sys.exit()
os.environ.update({settings!r})
arguments = [argument for argument in sys.argv[1:] if argument not in ("--disable-pip-version-check", "-y")]
if arguments[0] == "install":
    arguments.insert(1, "--compile-bytecode")  # as pip does; else a test shows the warnings of the first import
os.execv({uv!r}, [{uv!r}, "pip", arguments[0], "--quiet", "--python", sys.executable, *arguments[1:]])
"""


def write_module():
    """Make the module pip."""
    directory = os.path.join(sysconfig.get_path("purelib"), "pip")
    os.makedirs(directory)
    for name, text in (("__init__.py", ""), ("__main__.py", MODULE.format(uv=UV, settings=SETTINGS))):
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)


def main():
    wanted = [argument for argument in sys.argv[1:] if argument not in OF_THE_DOWNLOAD]
    if sys.version_info >= OLDEST_FOR_UV:
        write_module()
        wanted = [argument for argument in wanted if argument.partition("==")[0] != "pip"]
    elif subprocess.call([sys.executable, "-m", "ensurepip", "--default-pip"]) != 0:
        return 1
    if not [argument for argument in wanted if not argument.startswith("-")]:
        return 0
    return subprocess.call([sys.executable, "-m", "pip", "install", *wanted])


if __name__ == "__main__":
    sys.exit(main())
