# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every integration test stands on: the installed collection, and no way to a real metadata service."""

import os
import pathlib
import sys

import pytest

GUARD = pathlib.Path(__file__).parents[1] / "guard"

sys.path.insert(0, str(GUARD))
import metadata_guard  # noqa: E402 - found only through the path set above

metadata_guard.install(on_refusal=print)
os.environ["PYTHONPATH"] = str(GUARD)  # guards every Python process that a test starts


@pytest.fixture(scope="session", autouse=True)
def installed_collection():
    """The directory of the installed collection, found by ansible through ANSIBLE_COLLECTIONS_PATH."""
    path = pathlib.Path(os.environ.get("ANSIBLE_COLLECTIONS_PATH", ""), "ansible_collections/maintops/scheduled_events")
    if not (path / "MANIFEST.json").exists():
        pytest.exit(f"No collection is installed from a tarball at {path}: run `make integration`.", returncode=1)
    return path
