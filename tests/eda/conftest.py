# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real ansible-rulebook with a rulebook of the installed collection, and an emulator that can be started again."""

import os
import pathlib
import sys
from urllib.parse import urlsplit

import pytest

TESTS = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "guard"), str(TESTS / "support"), str(TESTS / "integration" / "support")]
import metadata_guard  # noqa: E402 - found only through the path set above, as are the next
from emulation import Emulator  # noqa: E402
from rulebooks import Rulebook  # noqa: E402
from zygotes import ZYGOTES  # noqa: E402

metadata_guard.install(on_refusal=print)
os.environ["PYTHONPATH"] = str(TESTS / "guard")  # guards every Python process that a test starts
COLLECTION = pathlib.Path(
    os.environ.get("ANSIBLE_COLLECTIONS_PATH", ""), "ansible_collections/maintops/scheduled_events"
)


@pytest.fixture(scope="session")
def zygotes():
    """The modules of the playbooks start without the cost of their imports."""
    ZYGOTES.start_modules()
    yield ZYGOTES
    ZYGOTES.stop()


@pytest.fixture(scope="module")
def start_rulebook(tmp_path_factory, zygotes):  # noqa: ARG001
    """Return a function that starts a rulebook of the collection: ``start_rulebook(name, inventory, variables, …)``."""
    running = []

    def start(name, inventory, variables, options=()):
        running.append(Rulebook(tmp_path_factory.mktemp("rulebook"), name, inventory, variables, options=options))
        return running[-1]

    yield start
    for rulebook in running:
        rulebook.kill()


class Azure:
    """An emulator of VMs in one availability set, a minute of which takes a second; it can be started again."""

    def __init__(self, directory, names, options):
        self._options = options
        self._vms = [{"name": name, "kind": "availability_set", "set": "web"} for name in names]
        self._directory = directory
        self._times = 0
        self._start("0")

    def _start(self, port):
        self._times += 1
        directory = self._directory / str(self._times)
        directory.mkdir()
        command = COLLECTION / "roles" / "emulator" / "files" / "scheduled-events-emulator"
        options = ("--speed", "60", "--rate-limit", "0", "--port", port, *self._options)
        self.emulator = Emulator(command.parent, directory, self._vms, options)

    def restart(self):
        """End the emulator, and start another one at the same addresses."""
        port = urlsplit(next(iter(self.emulator.endpoints.values()))).port
        self.emulator.stop()
        self._start(str(port))


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """Return a function that starts the emulator: ``azure("vm1", …, options=())``."""
    running = []

    def start(*names, options=()):
        running.append(Azure(tmp_path_factory.mktemp("emulator"), names, options))
        return running[-1]

    yield start
    for each in running:
        each.emulator.stop()
