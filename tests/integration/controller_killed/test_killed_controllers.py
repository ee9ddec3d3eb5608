# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults at the boundaries of a controller, of its workers and of the modules on the hosts: the next run finishes.

One run without a fault records the boundaries. BOUNDARIES_STEP=N tries each N-th of them. A power cut ends the run, and
takes the state of the hosts back to what was synced. A disk that does not work is that of all hosts, or that of the
controller, until the end of the run. So is a clock that is set.

With a strategy other than `linear`, Ansible waits without end for a worker that was killed. So a run whose worker was
killed is killed some time later, as the time limit of a job does it.
"""

import collections
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pathlib
import time
from collections.abc import Iterator

import boundary
import pytest
import responders
from emulation import until

SUPPORT = pathlib.Path(boundary.__file__).parent
GUARD = SUPPORT.parents[1] / "guard"
OCCURRENCES = 3  # of the same boundary
AT_ONCE = 3  # lives; most of their time is waiting
TIME_LIMIT = 20.0  # seconds that a run goes on after its worker was killed
HOSTS = ("web1", "web2")
KILLED = ("die", "alone")  # of these, the same boundary is tried several times
LOST = ("names lost", "content lost")
# A controller alone leaves its forks, which end by themselves; together they are a control node that goes down.
FAULTS = (*KILLED, *LOST, *boundary.ERRORS, *boundary.CLOCK)


def of_path(path: pathlib.Path):
    """A module of another directory of tests."""
    spec = importlib.util.spec_from_file_location(f"of_{path.parent.name}", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Respond:
    """An event of two hosts, and runs of the role respond until nothing is left to do."""

    def __init__(self, fleet, ansible, directory: pathlib.Path) -> None:
        self.emulator = fleet(*HOSTS, options=("--rate-limit", "0", "--exit-after", "14400"))
        self.hosts = responders.Hosts(self.emulator, ansible, directory)
        self._event_id = self.emulator.schedule("Redeploy", *HOSTS, notice=3600, started_for=1)

    def start(self, **env: str):
        return self.hosts.start(env=env)

    def complaints(self) -> list[str]:
        found = []
        posts = [entry["at_real"] for entry in self.emulator.log("post") if self._event_id in entry["event_ids"]]
        if not posts:
            found.append("never acknowledged")
        elif min(posts) < max(self.hosts.prepared_at(name, self._event_id) for name in HOSTS) - 0.001:
            found.append(f"acknowledged at {posts}, before all hosts were prepared")
        for name in HOSTS:
            recoveries = self.hosts.recoveries(name)
            if recoveries[-1:] != [[self._event_id]] or len(recoveries) > 2:  # again if it had not come to its end
                found.append(f"{name} recovered for {recoveries}")
            if self.hosts.remembered(name):
                found.append(f"{name} still remembers {self.hosts.remembered(name)}")
        if self.emulator.state()["events"]:
            found.append("the event is still there")
        return found


class RollingMaintenance:
    """A rolling maintenance of two hosts, and runs of it until both are maintained."""

    def __init__(self, fleet, ansible, directory: pathlib.Path) -> None:
        hosts = of_path(SUPPORT.parent / "rolling_maintenance" / "fleet_hosts.py")
        self.emulator = fleet(*HOSTS, options=("--rate-limit", "0", "--exit-after", "14400"))
        self.hosts = hosts.Hosts(self.emulator, ansible, directory)

    def start(self, **env: str):
        return self.hosts.start(env=env, rolling_maintenance_name="upgrade")

    def complaints(self) -> list[str]:
        found = [f"{name} is still marked" for name in self.hosts.marked()]
        maintained = self.hosts.maintained()
        return found if sorted(maintained) == list(HOSTS) else [*found, f"maintained are {maintained}"]


ROLES = {"respond": Respond, "rolling_maintenance": RollingMaintenance}


class Life:
    """A run with a fault, and the run after it."""

    def __init__(self, made, directory: pathlib.Path, fault="none", name="", occurrence=0) -> None:
        self.plan, self._cut = directory / "plan", fault in LOST
        self.plan.mkdir()
        self.ended_by_limit = False
        controller = directory / "controller"
        controller.mkdir()
        disk = controller if name.startswith("controller") else directory
        plan = {"fault": fault, "name": name, "occurrence": occurrence, "disk": str(disk)}
        (self.plan / "plan.json").write_text(json.dumps(plan))
        path = os.pathsep.join(map(str, (SUPPORT / "watched", GUARD, SUPPORT)))
        watched = {"BOUNDARY_PLAN": str(self.plan), "PYTHONPATH": path, "ANSIBLE_LOCAL_TEMP": str(controller)}
        started = made.start(**watched)
        if name.startswith("controller's fork") or self._cut:
            until(lambda: self._over(started), what="the end of the run, or of its time", every=1)
        first = started.result()
        until(lambda: not processes_of(self.plan), what="the end of what the run started", every=1)
        for host in HOSTS if self._cut and self.struck() else ():
            boundary.after_a_power_cut(str(self.plan), str(directory / host / "state"), fault)
        runs = [first]
        if first.rc:
            runs.append(made.start().result())
        self.complaints = [] if runs[-1].rc == 0 else [f"the next run ended with {runs[-1].rc}"]
        self.complaints += made.complaints()
        self.complaints = [
            f"{fault} at {name} ({occurrence}): {complaint}\n" + "\n=====\n".join(run.output for run in runs)
            for complaint in self.complaints
        ]
        seen = f"struck: {self.struck()}, ended by the time limit: {self.ended_by_limit}"
        print(f"{fault} at {name} ({occurrence}), {seen}", *self.complaints, flush=True)

    def _over(self, run) -> bool:
        """Whether the run has ended, by itself, by its time limit or with a power cut."""
        limit = 0 if self._cut else TIME_LIMIT
        if run.running and self.struck() and time.time() - (self.plan / "struck").stat().st_mtime > limit:
            self.ended_by_limit = not self._cut
            boundary.end(processes_of(self.plan))
        return not run.running

    def struck(self) -> bool:
        return (self.plan / "struck").exists()

    def reached(self) -> list[str]:
        return (self.plan / "reached").read_text().splitlines()


def processes_of(plan: pathlib.Path) -> list[int]:
    """The processes of a run, also those that outlived it."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if f"BOUNDARY_PLAN={plan}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def chosen(boundaries: "collections.Counter[str]", fault: str) -> Iterator[tuple[str, int]]:
    """The boundaries at which a fault makes a difference, and which time each is reached."""
    for name, found in sorted(boundaries.items()):
        program = name.partition(": ")[0]
        program_counts = program == {"alone": "controller", **dict.fromkeys(LOST, "module")}.get(fault, program)
        if program_counts and (fault not in boundary.ERRORS or boundary.changes(name)):
            yield from ((name, time + 1) for time in range(min(found, OCCURRENCES if fault in KILLED else 1)))


@pytest.mark.skipif(os.environ.get("TIER") != "soak", reason="takes two hours: make soak")
@pytest.mark.timeout(36000)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("role", sorted(ROLES))
def test_what_a_fault_at_any_boundary_of_a_run_leaves_is_finished_by_the_next_run(
    role, fault, fleet, ansible, tmp_path
):
    def life(number: int, *about) -> Life:
        directory = tmp_path / str(number)
        directory.mkdir()
        return Life(ROLES[role](fleet, ansible, directory), directory, *about)

    recorded = life(0)
    assert not recorded.complaints, recorded.complaints
    counts = collections.Counter(recorded.reached())
    assert {name.partition(": ")[0] for name in counts} == {"controller", "controller's fork", "module"}
    wanted = list(chosen(counts, fault))[:: int(os.environ.get("BOUNDARIES_STEP", "1"))]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        lives = list(threads.map(lambda numbered: life(numbered[0], fault, *numbered[1]), enumerate(wanted, 1)))
    reached, limited = sum(each.struck() for each in lives), sum(each.ended_by_limit for each in lives)
    print(f"{role}, {fault}: {len(lives)} boundaries, {reached} reached, {limited} ended by the time limit")
    complaints = [complaint for each in lives for complaint in each.complaints]
    assert not complaints, "\n".join(complaints)
