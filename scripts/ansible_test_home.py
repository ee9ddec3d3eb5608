# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make a home directory for ansible-test, in which it finds what it would download: ansible_test_home.py DIRECTORY UV

Run it with the Python that has ansible-core. UV is the command uv, which gets the variables that are set for uv here.
ansible-test keeps the script with which it installs pip, and its virtual environments, below ~/.ansible, and no setting
changes that. In a separate HOME it finds BOOTSTRAP under the names of the script's versions that it knows. Everything
else that tools read in the user's home directory, such as the configuration of pip, is linked.
"""

import importlib.util
import os
import pathlib
import re
import sys

VERSION = re.compile(r"""\bpip=['"]([0-9.]+)['"]""")
# ansible-test runs it with options and requirements of `pip install`, and two options that say what not to install.
# Where uv knows the Python, pip becomes a module that runs `uv pip`, in a tenth of the time. Else it is ensurepip's.
BOOTSTRAP = """import os, subprocess, sys, sysconfig
wanted = [each for each in sys.argv[1:] if each not in ("--no-setuptools", "--no-wheel")]
if sys.version_info >= (3, 8):
    directory = os.path.join(sysconfig.get_path("purelib"), "pip")
    os.makedirs(directory)
    for name, text in (("__init__.py", ""), ("__main__.py", {module!r})):
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
    wanted = [each for each in wanted if each.partition("==")[0] != "pip"]
else:
    subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
if [each for each in wanted if not each.startswith("-")]:
    sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + wanted))
"""
MODULE = """import os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("pip of uv"))
os.environ.update({settings!r})
arguments = [each for each in sys.argv[1:] if each not in ("--disable-pip-version-check", "-y")]
if arguments[0] == "install":
    arguments.insert(1, "--compile-bytecode")  # as pip does; else a test shows the warnings of the first import
os.execv({uv!r}, [{uv!r}, "pip", arguments[0], "--quiet", "--python", sys.executable, *arguments[1:]])
"""


def main() -> None:
    home = pathlib.Path(sys.argv[1]).resolve()
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for link in filter(pathlib.Path.is_symlink, list(home.iterdir())):
        link.unlink()
    for entry in pathlib.Path.home().glob(".*"):
        if entry.name != ".ansible":
            (home / entry.name).symlink_to(entry)
    settings = {name: value for name, value in os.environ.items() if name.startswith("UV_") or name == "SSL_CERT_FILE"}
    module = MODULE.format(uv=sys.argv[2], settings=settings)
    program = pathlib.Path(importlib.util.find_spec("ansible_test").origin).parent
    source = program / "_internal" / "python_requirements.py"
    versions = set(VERSION.findall(source.read_text()))  # those that it asks for, each on some version of Python
    if not versions:
        sys.exit(f"{source} names no version of pip: expected lines such as pip='25.2'; adapt {__file__} to it.")
    for version in versions:
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(BOOTSTRAP.format(module=module))


if __name__ == "__main__":
    main()
