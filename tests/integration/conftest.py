# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every integration test stands on: the installed collection, and no way to a real metadata service."""

import os
import pathlib
import socket
import sys

import pytest

HERE = pathlib.Path(__file__).parent
GUARD = HERE.parent / "guard"

sys.path[:0] = [str(GUARD), str(HERE / "support"), str(HERE.parent / "support")]
import metadata_guard  # noqa: E402 - found only through the path set above, as are the next
from emulation import Emulator  # noqa: E402
from webhosts import WebHost  # noqa: E402
from zygotes import ZYGOTES  # noqa: E402

from playbooks import Ansible  # noqa: E402

metadata_guard.install(on_refusal=print)
os.environ["PYTHONPATH"] = str(GUARD)  # guards every Python process that a test starts


@pytest.fixture(scope="session", autouse=True)
def installed_collection():
    """The directory of the installed collection, found by ansible through ANSIBLE_COLLECTIONS_PATH."""
    path = pathlib.Path(os.environ.get("ANSIBLE_COLLECTIONS_PATH", ""), "ansible_collections/maintops/scheduled_events")
    if not (path / "MANIFEST.json").exists():
        pytest.exit(f"No collection is installed from a tarball at {path}: run `make integration`.", returncode=1)
    return path


@pytest.fixture(scope="session")
def zygotes():
    """Runs of Ansible and modules start without the cost of their imports: see support/zygote.py."""
    ZYGOTES.start_modules()
    yield ZYGOTES
    ZYGOTES.stop()


@pytest.fixture(scope="module")
def ansible(tmp_path_factory, zygotes):  # noqa: ARG001
    """Runs playbooks and modules: see support/playbooks.py."""
    runner = Ansible(tmp_path_factory.mktemp("ansible"))
    yield runner
    runner.stop()


@pytest.fixture(scope="module")
def emulate(tmp_path_factory, installed_collection):
    """Return a function that starts an emulator: ``emulate([{"name": "vm1"}, …], "--manual-clock", …)``."""
    program = installed_collection / "roles" / "emulator" / "files"
    running = []

    def start(vms, *options):
        emulator = Emulator(program, tmp_path_factory.mktemp("emulator"), vms, options)
        running.append(emulator)
        return emulator

    yield start
    for emulator in running:
        emulator.stop()


@pytest.fixture(scope="module")
def fleet(emulate):
    """Return a function that starts an emulator of VMs in one availability set: ``fleet("web1", "web2")``."""

    def start(*names, options=("--manual-clock", "--rate-limit", "0")):
        return emulate([{"name": name, "kind": "availability_set", "set": "web"} for name in names], *options)

    return start


@pytest.fixture(scope="module")
def web_host():
    """Return a function that starts a host with one fixed answer: see support/webhosts.py."""
    running = []

    def start(*arguments, **keywords):
        host = WebHost(*arguments, **keywords)
        running.append(host)
        return host

    yield start
    for host in running:
        host.stop()


@pytest.fixture
def closed_port():
    """The URL of a loopback port without a listener, now and during the test."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"
