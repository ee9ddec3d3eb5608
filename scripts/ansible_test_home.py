# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make a home directory for ansible-test, in which it finds what it would download.

    python scripts/ansible_test_home.py DIRECTORY UV

Run it with the Python that has ansible-core. UV is the command uv, which gets the variables that are set for uv here.
ansible-test keeps the script with which it installs pip, and its virtual
environments, below ~/.ansible, and no setting changes that. In a separate HOME it finds bootstrap_pip.py under the
names of the script's versions that it knows, and leaves the user's ~/.ansible as it is. Everything else that tools read
in the user's home directory, such as the configuration of pip, is linked.
"""

import importlib.util
import os
import pathlib
import re
import sys

BOOTSTRAP = pathlib.Path(__file__).resolve().parent / "bootstrap_pip.py"
VERSION = re.compile(r"""\bpip=['"]([0-9.]+)['"]""")


def pip_versions() -> set[str]:
    """The versions of pip that the installed ansible-test asks for, each on some version of Python."""
    requirements = pathlib.Path(importlib.util.find_spec("ansible_test").origin).parent / "_internal"
    source = requirements / "python_requirements.py"
    versions = set(VERSION.findall(source.read_text()))
    if not versions:
        sys.exit(f"{source} names no version of pip: expected lines such as pip='25.2'; adapt {__file__} to it.")
    return versions


def link_settings(home: pathlib.Path) -> None:
    """Link what begins with a dot in the user's home directory, except ~/.ansible."""
    for link in filter(pathlib.Path.is_symlink, list(home.iterdir())):
        link.unlink()
    for entry in pathlib.Path.home().glob(".*"):
        if entry.name != ".ansible":
            (home / entry.name).symlink_to(entry)


def main() -> None:
    home = pathlib.Path(sys.argv[1]).resolve()
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    link_settings(home)
    settings = {name: value for name, value in os.environ.items() if name.startswith("UV_") or name == "SSL_CERT_FILE"}
    script = BOOTSTRAP.read_text().replace('UV, SETTINGS = "", {}', f"UV, SETTINGS = {sys.argv[2]!r}, {settings!r}")
    for version in pip_versions():
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(script)


if __name__ == "__main__":
    main()
