# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several controllers with one budget, each of which may be killed or stopped for a while at any moment."""

import types

from hypothesis import given
from hypothesis import strategies as st
from memory_folder import MemoryFolder

from plugins.module_utils._maintenance import HELD, Host, MaintenanceError
from plugins.module_utils._maintenance_calls import OPTIONS, survey
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._gate.decision import GateSettings, Memory, Seen, decide

FLEET = ["web1", "web2", "web3"]
LEASE = 100.0  # seconds


class World:
    """The hosts. A command of a killed controller goes on until another run or an operator has found its host well."""

    def __init__(self):
        self.now = 1000.0
        self.folders = {name: MemoryFolder() for name in FLEET}
        clock = Clock(lambda: self.now, lambda: self.now, boot_id=lambda: "boot1")
        self.hosts = {name: Host(self.folders[name], clock=clock) for name in FLEET}
        self.in_work = {name: set() for name in FLEET}
        self.living, self.started = {}, []

    def busy(self):
        return [name for name in FLEET if self.in_work[name]]

    def survey(self, name, **given):
        options = {option: spec.get("default") for option, spec in OPTIONS.items()}
        module = types.SimpleNamespace(params={**options, **given}, check_mode=False)
        read = {"events": [], "vm_name": name, "problem": ""}
        found = survey(module, self.hosts[name], flag_is_up=lambda: False, read=lambda: read)
        return {**found, "boot_id": name}


class Controller:
    """A run for these hosts, one after the other. Each step is one moment in which it may be killed."""

    def __init__(self, world, number, *, hosts, machine, budget, checked, well):
        self.world, self.number, self.machine, self.budget = world, number, machine, budget
        self.hosts, self.checked, self.well = hosts, set(checked), well
        self.run = f"controller{machine}/run{number}"
        self.steps = self._steps()
        world.started.append(self)

    def _steps(self):
        memory, world = Memory(), self.world
        for host in self.hosts:
            while True:
                answers = {}
                for name in [host, *(each for each in FLEET if each != host)]:
                    yield
                    answers[name] = self._survey(name, host)
                decision, memory = self._decide(answers, host, memory)
                if decision.open:
                    break
                if not decision.insists:
                    yield
                    world.hosts[host].drop(f"{self.run}/{host}")
            if decision.batch:
                yield
                if world.hosts[host].take(f"{self.run}/{host}", by=self._by(), stage=HELD, lease=LEASE):
                    return  # another run has it
                world.in_work[host].add(self.number)
                yield
                if not self.well:
                    world.in_work[host].discard(self.number)
                    yield
                    world.hosts[host].drop(f"{self.run}/{host}")
                    return
                yield
                world.in_work[host].clear()  # its health check was good
                world.hosts[host].done("patch", round_id="r", hosts=FLEET, since_begin=1.0)
                world.hosts[host].drop(f"{self.run}/{host}", ended=True)
            else:
                yield
                world.hosts[host].drop(f"{self.run}/{host}")

    def _by(self):
        return {"node": self.machine, "pid": self.number}

    def _survey(self, name, own):
        """As the gate looks: what it knows to be dead, it takes over in its own hosts."""
        marking = {"owner": f"{self.run}/{name}", "by": self._by(), "lease": LEASE} if name == own else {}
        dead = [f"{run}/{host}" for run in self._dead() for host in FLEET]
        checked = name in self.checked and not self.world.in_work[name] & set(self.world.living)
        if checked:
            self.world.in_work[name].clear()  # the operator has ended the commands that still ran there
            self.checked.remove(name)
        return {**self.world.survey(name, **marking, ended_owners=dead, checked=checked), "checked": checked}

    def _dead(self):
        """The runs of this machine that have ended."""
        return [each.run for each in self.world.started if each.machine == self.machine and not each.is_alive()]

    def is_alive(self):
        return self.world.living.get(self.number) is self

    def _decide(self, answers, own, memory):
        seen = [self._seen(name, answers[name]) for name in FLEET]
        settings = GateSettings(
            play_hosts=self.hosts,
            fleet=FLEET,
            batch=[own],
            budget=self.budget,
            on_event="wait",
            settle=0.0,
            resume_within=0.0,
            names=dict.fromkeys(self.hosts, "patch"),
            owner=f"{self.run}/{own}",
            new_round=self.run,
        )
        decision = decide(seen, settings, memory=memory, now=self.world.now)
        return decision, decision.memory

    def _seen(self, name, answer):
        mark, unfinished = answer["mark"], answer["unfinished"]
        if mark and mark["owner"].rpartition("/")[0] in self._dead():
            mark["live"] = False
        if mark and mark["stage"] == HELD and not mark["live"]:
            unfinished = mark
        return Seen(
            name,
            unmarked=answer["unmarked_because"],
            mark=mark,
            unfinished={} if answer["checked"] else unfinished,
            document={"vm_name": name, "events": answer["events"]},
            records=answer["records"],
            boot_id=answer["boot_id"],
        )


STEPS = st.tuples(st.just("step"), st.integers(0, 2), st.sampled_from([1, 2, 3, 4, 5, 6, 9]))
MOMENTS = st.one_of(
    STEPS,
    STEPS,
    st.tuples(
        st.just("start"),
        st.permutations(FLEET),
        st.integers(1, 2),  # the machine
        st.sampled_from([[], [], [], ["web1"], FLEET]),  # what the operator has checked
        st.booleans(),  # whether the hosts are well in the end
    ),
    st.tuples(st.just("kill"), st.integers(0, 2)),
    st.tuples(st.just("pause"), st.sampled_from([1.0, LEASE / 2, LEASE])),
)


@given(moments=st.lists(MOMENTS, min_size=20, max_size=60), budget=st.integers(1, 2))
def test_no_kill_and_no_pause_of_a_controller_brings_more_hosts_into_work_than_the_budget_allows(moments, budget):
    world = World()
    for number, (what, *how) in enumerate(moments):
        whose = sorted(world.living)[how[0] : how[0] + 1] if what in ("step", "kill") else []
        if what == "start" and len(world.living) < 3:
            hosts, machine, checked, well = how
            world.living[number] = Controller(
                world, number, hosts=hosts, machine=machine, budget=budget, checked=checked, well=well
            )
        elif what == "pause":
            world.now += how[0]
        elif what == "kill" and whose:
            del world.living[whose[0]]
        for _step in range(how[1] if what == "step" and whose else 0):
            try:
                next(world.living[whose[0]].steps)
            except (StopIteration, MaintenanceError):  # it is through, or another run was faster
                del world.living[whose[0]]
                break
            assert len(world.busy()) <= budget


def test_the_rerun_of_the_host_of_a_killed_run_goes_ahead_at_once_and_another_host_waits():
    world = World()
    killed = Controller(world, 1, hosts=["web1"], machine=1, budget=1, checked=[], well=True)
    world.living = {1: killed}
    while not world.busy():
        next(killed.steps)
    world.living = {}
    for hosts, checked, may_begin in ((["web2"], [], False), (["web1"], [], True), (["web2"], ["web1"], True)):
        run = Controller(world, 2, hosts=hosts, machine=1, budget=1, checked=checked, well=False)
        world.living = {2: run}
        for _step in range(20):
            next(run.steps, None)
            if 2 in world.in_work[hosts[0]]:
                break
        assert (2 in world.in_work[hosts[0]]) == may_begin
        list(run.steps) if may_begin else world.hosts["web2"].drop(f"{run.run}/web2")
