# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of Debian, unpacked and not installed."""

import pathlib
import subprocess

SECONDS = 300  # for one command; only so that a mirror that hangs is named


def _run(directory: pathlib.Path, *command: str) -> str:
    """Run ``command``; return what it complains of, nothing when all is well."""
    try:
        ended = subprocess.run(
            command,
            check=False,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if ended.returncode == 0 else ended.stdout.strip()[-500:] or f"{command[0]} failed"


def unpacked(package: str, directory: pathlib.Path) -> pathlib.Path:
    """Return the directory of the files of ``package``.

    :raises LookupError: the package cannot be had here.
    """
    state = ["-o", f"Dir::State={directory}/state", "-o", f"Dir::Cache={directory}/cache"]
    download = ("apt-get", "download", package)
    # The machine's own lists, or, where it has none, lists of our own.
    problem = _run(directory, *download)
    if problem:
        for place in ("state/lists/partial", "cache/archives/partial"):
            (directory / place).mkdir(parents=True)
        problem = _run(directory, "apt-get", "update", *state) or _run(directory, *download, *state)
    archives = list(directory.glob(f"{package}_*.deb"))
    problem = problem or ("" if archives else "apt-get brought no file")
    files = directory / "files"
    problem = problem or _run(directory, "dpkg-deb", "-x", str(archives[0]), str(files))
    if problem:
        raise LookupError(f"Debian's package {package} cannot be had here: {problem}")
    return files
