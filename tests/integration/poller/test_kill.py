# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kill -9 at random moments of an event's life.

POLLER_KILLS says how often (20; 200 in `make soak`), and POLLER_KILLS_SEED repeats a run.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import pytest
from emulation import LIMIT, until

KILLS = int(os.environ.get("POLLER_KILLS", "200" if os.environ.get("TIER") == "soak" else "20"))
SEED = int(os.environ.get("POLLER_KILLS_SEED", str(random.randrange(10**6))))
KILLS_PER_LIFE = 2
VMS = ("vm1", "vm2", "vm3", "vm4")
LIFE = 3.0  # seconds of a life with two restarts, about

# A line at its begin and its end: event, phase, time.
HOOK = """#!/bin/sh
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE begin $(date +%s.%N)" >> {log}
sleep 0.2
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE end $(date +%s.%N)" >> {log}
"""


class Vm:
    """One VM: a poller with its files, and the hooks' own log."""

    def __init__(self, collection: pathlib.Path, directory: pathlib.Path, endpoint: str) -> None:
        self._directory = directory
        self.hook_log = directory / "hooks.log"
        self.hook_log.touch()
        for phase in ("prepare", "started", "recover"):
            hook = directory / "hooks" / f"{phase}.d" / "10-log"
            hook.parent.mkdir(parents=True)
            hook.write_text(HOOK.format(log=self.hook_log))
            hook.chmod(0o755)
        config = directory / "poller.json"
        config.write_text(json.dumps({"endpoint": endpoint, "interval": 0.25}))
        (directory / "root").mkdir()
        self._command = [
            sys.executable,
            str(collection / "roles" / "poller" / "files" / "scheduled-events"),
            f"--config={config}",
            f"--state-file={directory / 'state.json'}",
            f"--runtime-directory={directory / 'run'}",
            f"--hooks-directory={directory / 'hooks'}",
            f"--hooks-runtime-directory={directory / 'root'}",
            "run",
            "--spawn-hooks",
        ]

    def start(self) -> None:
        with (self._directory / "poller.log").open("ab") as output:
            self._poller = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def kill(self) -> None:
        self._poller.kill()
        self._poller.wait()

    def runs(self) -> bool:
        return self._poller.poll() is None

    def stop(self) -> None:
        self._poller.terminate()
        self._poller.wait(LIMIT)

    def remembers_nothing(self) -> bool:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads((self._directory / "state.json").read_text())["events"] == {}
        return False

    def hooks_of(self, event_id: str) -> list[tuple[str, str, float]]:
        lines = [line.split() for line in self.hook_log.read_text().splitlines()]
        return [(phase, mark, float(moment)) for event, phase, mark, moment in lines if event == event_id]

    def journal(self) -> str:
        return (self._directory / "poller.log").read_text()[-5000:]


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
        complaints += _complaints(emulator, name, vm, event_id)
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


def _complaints(emulator, name: str, vm: Vm, event_id: str) -> list[str]:
    hooks = vm.hooks_of(event_id)
    expected = [(phase, mark) for phase in ("prepare", "started", "recover") for mark in ("begin", "end")]
    found = [(phase, mark) for phase, mark, _moment in hooks]
    complaints = [] if found == expected else [f"{name} {event_id}: the hooks ran as {found}\n{vm.journal()}"]
    prepared = [moment for phase, mark, moment in hooks if (phase, mark) == ("prepare", "end")]
    posts = [entry["at_real"] for entry in emulator.log("post") if event_id in entry["event_ids"]]
    if not posts:
        complaints.append(f"{name} {event_id}: never acknowledged")
    # The log has whole milliseconds.
    elif not prepared or min(posts) < prepared[0] - 0.001:
        complaints.append(f"{name} {event_id}: acknowledged at {min(posts)}, prepared at {prepared}")
    return complaints
