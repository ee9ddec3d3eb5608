# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kill -9 at the boundaries of the actions of the polling unit: before it changes a file, sends, or starts a process.

One life of an event records the boundaries. `make test` tries some of them, spread over the life; `make soak` all.
"""

import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import pytest
from emulation import until
from polling_vm import Vm, complaints_of

BOUNDARY = str(pathlib.Path(sys.modules["polling_vm"].__file__).with_name("boundary.py"))
VMS = ("vm1", "vm2", "vm3", "vm4")
OCCURRENCES = 3  # of the same boundary; what is done at each poll has many
SOME = 8


@pytest.fixture(scope="module")
def emulator(emulate):
    return emulate([{"name": name} for name in VMS], "--rate-limit", "0", "--exit-after", "2400")


@pytest.fixture
def make_vm(emulator, installed_collection):
    """Return a function that makes a VM with nothing from an earlier life: ``make_vm(name, number)``."""
    # Short, unlike tmp_path, since the path of a socket is.
    with tempfile.TemporaryDirectory(prefix="vms-") as base:

        def make(name: str, number: int) -> Vm:
            directory = pathlib.Path(base) / f"{name}-{number}"
            directory.mkdir()
            return Vm(installed_collection, directory, emulator.endpoints[name])

        yield make


def live(emulator, name: str, vm: Vm, *through: str) -> list[str]:
    """The complaints about the life of one event, through which the unit is started again if it dies."""
    vm.start(BOUNDARY, *through)
    event_id = emulator.schedule("Reboot", name, notice=36000, started_for=36000)
    died = completed = False

    def over() -> bool:
        nonlocal died, completed
        if not vm.runs():
            died = True
            vm.start()
        if not completed and ("started", "end") in [hook[:2] for hook in vm.hooks_of(event_id)]:
            emulator.complete(event_id)
            completed = True
        return completed and vm.remembers_nothing() and vm.hooks_of(event_id)[-1][:2] == ("recover", "end")

    try:
        until(over, what=f"the end of {event_id} with {through}")
    except AssertionError as error:
        return [f"{error}\n{vm.hooks_of(event_id)}\n{vm.journal()}"]
    finally:
        if vm.runs():
            vm.stop()
    complaints = complaints_of(emulator, name, vm, event_id)
    if through[0] == "die" and not died:
        complaints.append(f"{through} was not reached")
    return [f"{through}: {complaint}" for complaint in complaints]


@pytest.mark.timeout(2400)
def test_a_unit_that_dies_at_any_boundary_of_its_actions_loses_no_event_and_acknowledges_nothing_early(
    emulator, make_vm, tmp_path
):
    record = tmp_path / "boundaries"
    assert not live(emulator, VMS[0], make_vm(VMS[0], 0), "record", str(record))
    counts = collections.Counter(record.read_text().splitlines())
    boundaries = [(name, str(time + 1)) for name, found in counts.items() for time in range(min(found, OCCURRENCES))]
    assert {"replace state.json", "open history.jsonl", "start --spawn", "sendall POST"} <= set(counts), sorted(counts)
    if os.environ.get("TIER") != "soak":
        boundaries = boundaries[:: max(1, len(boundaries) // SOME)]

    def work(index: int) -> list[str]:
        name, complaints = VMS[index], []
        for number, found in enumerate(boundaries[index :: len(VMS)], 1):
            complaints += live(emulator, name, make_vm(name, number), "die", *found)
        return complaints

    with concurrent.futures.ThreadPoolExecutor(len(VMS)) as threads:
        complaints = [complaint for each in threads.map(work, range(len(VMS))) for complaint in each]
    assert not complaints, "\n".join(complaints)
