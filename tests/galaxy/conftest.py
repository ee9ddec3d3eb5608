# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tarball, as it is built for a release."""

import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="session")
def build():
    """Return a function that builds the tarball of a checkout: ``build(checkout, directory)``."""

    def start(checkout, directory):
        script = checkout / "scripts" / "build_collection.py"
        subprocess.run([sys.executable, script, directory], check=True, stdout=subprocess.DEVNULL)
        [tarball] = directory.glob("*.tar.gz")
        return tarball

    return start


@pytest.fixture(scope="session")
def tarball(build, tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("tarball"))


@pytest.fixture(scope="session")
def unpacked(tarball, tmp_path_factory):
    """A directory with what is in the tarball."""
    directory = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(tarball) as archive:
        archive.extractall(directory, filter="data")
    return directory
