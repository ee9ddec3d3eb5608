# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kill -9 at random moments of an event's life.

POLLER_KILLS says how often (10; 200 in `make soak`), and POLLER_KILLS_SEED repeats a run.
"""

import concurrent.futures
import os
import pathlib
import random
import tempfile
import time

import pytest
from emulation import until
from polling_vm import Vm, complaints_of

KILLS = int(os.environ.get("POLLER_KILLS", "200" if os.environ.get("TIER") == "soak" else "10"))
SEED = int(os.environ.get("POLLER_KILLS_SEED", str(random.randrange(10**6))))
KILLS_PER_LIFE = 2
VMS = ("vm1", "vm2", "vm3", "vm4")
LIFE = 3.0  # seconds of a life with two restarts, about


@pytest.fixture(scope="module")
def emulator(emulate):
    return emulate([{"name": name} for name in VMS], "--rate-limit", "0", "--exit-after", "1200")


@pytest.fixture
def vms(emulator, installed_collection):
    started = {}
    # Short, unlike tmp_path, since the path of a socket is.
    with tempfile.TemporaryDirectory(prefix="vms-") as base:
        for name in VMS:
            directory = pathlib.Path(base) / name
            directory.mkdir()
            started[name] = Vm(installed_collection, directory, emulator.endpoints[name])
            started[name].start()
        yield started
        for vm in started.values():
            vm.stop()


@pytest.mark.timeout(1200)
def test_a_killed_poller_loses_no_event_approves_nothing_early_and_recovers_once(emulator, vms):
    lives = max(1, KILLS // KILLS_PER_LIFE)
    with concurrent.futures.ThreadPoolExecutor(len(VMS)) as threads:
        work = [
            threads.submit(_live_through, emulator, name, vms[name], range(index, lives, len(VMS)))
            for index, name in enumerate(VMS)
        ]
    complaints = [complaint for future in work for complaint in future.result()]
    assert not complaints, f"seed {SEED}: " + "\n".join(complaints)


def _live_through(emulator, name: str, vm: Vm, lives: range) -> list[str]:
    complaints: list[str] = []
    for number in lives:
        moments = random.Random(f"{SEED} {number}")
        kills = sorted(moments.uniform(0, LIFE) for _kill in range(KILLS_PER_LIFE))
        event_id = emulator.schedule("Reboot", name, notice=36000, started_for=36000)
        _live(emulator, vm, event_id, kills)
        complaints += complaints_of(emulator, name, vm, event_id)
    return complaints


def _live(emulator, vm: Vm, event_id: str, kills: list[float]) -> None:
    """See the event to its end, and kill the poller at the given seconds of its life.

    The event is removed once the started hooks have run: a slow machine must not let it pass unseen.
    """
    began = time.monotonic()
    completed = False

    def over() -> bool:
        nonlocal completed
        if kills and time.monotonic() - began >= kills[0]:
            kills.pop(0)
            assert vm.runs(), "the poller has ended by itself"
            vm.kill()
            vm.start()
        if not completed and ("started", "end") in [hook[:2] for hook in vm.hooks_of(event_id)]:
            emulator.complete(event_id)
            completed = True
        return completed and not kills and vm.remembers_nothing() and vm.hooks_of(event_id)[-1][0] == "recover"

    try:
        until(over, what=f"the end of {event_id}")
    except AssertionError as error:
        raise AssertionError(f"seed {SEED}: {error}\n{vm.hooks_of(event_id)}\n{vm.journal()}") from None
