# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A network of two namespaces, with the installed collection."""

import os
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).parents[1]
SUPPORT = (
    "integration/support",
    "integration/rolling_maintenance",
    "unit/poller/support",
    "support",
    "faults",
    "guard",
)
sys.path[:0] = [str(TESTS / place) for place in SUPPORT]
import metadata_guard  # noqa: E402 - found only through the path set above, as are the next
from network import Network  # noqa: E402
from zygotes import ZYGOTES  # noqa: E402

from playbooks import LOCAL, Ansible  # noqa: E402

metadata_guard.install(on_refusal=print)
os.environ["PYTHONPATH"] = str(TESTS / "guard")


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    made = Network(tmp_path_factory.mktemp("network"))
    with made.on_vm():
        ZYGOTES.start_modules()
    made.write_interpreter(ZYGOTES.interpreter)
    LOCAL["ansible_python_interpreter"] = made.interpreter
    yield made
    ZYGOTES.stop()
    made.stop()


@pytest.fixture(scope="session")
def collection():
    path = pathlib.Path(os.environ["ANSIBLE_COLLECTIONS_PATH"], "ansible_collections/maintops/scheduled_events")
    assert (path / "MANIFEST.json").exists(), f"no collection is installed at {path}"
    return path


@pytest.fixture(scope="session")
def ansible(tmp_path_factory, network):  # noqa: ARG001 - before a process of Ansible starts
    runner = Ansible(tmp_path_factory.mktemp("ansible"))
    yield runner
    runner.stop()
