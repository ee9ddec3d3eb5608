# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role respond acknowledges only what every VM of the event is prepared for, whatever the configuration.

A model plays Azure, the plays of Ansible, and the tasks on the hosts. The rest is the code that the role runs: the
action plugin's part with the coordination of the hosts, and the turn of the module with its state on each host. Hosts
go on in any order, also in the middle of a turn of another host. Documents change between any two requests, hosts are
lost, tasks fail, a host leaves the play in the middle of its tasks, tags leave out tasks of some runs, and runs are
killed at any turn. The model keeps its own record of what the tasks have done to each
VM, and compares each acknowledgement with that record.
"""

import datetime
import json
import pathlib
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from memory_folder import MemoryFolder

from plugins.module_utils._respond import request as turn_request
from plugins.module_utils._respond import turn as turns
from plugins.module_utils._scheduled_events import rules as decisions
from plugins.module_utils._scheduled_events.client import NoAnswer
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.document import format_time, parse
from plugins.plugin_utils._ansible.other_host import HostLost
from plugins.plugin_utils._ansible.run import place
from plugins.plugin_utils._respond.context import Context, Notes
from plugins.plugin_utils._respond.phases import PHASES
from plugins.plugin_utils._respond.play_coordinator import PlayCoordinator
from plugins.plugin_utils._respond.responding import Responding

START = 1000000000.0
HOSTS = {"web1": "vm1", "web2": "vm2", "web3": "vm3"}  # their VMs
OUTSIDE = "vm9"  # a VM that is not a host of the play
IDS = ["AAAAAAAA-0000-0000-0000-000000000001", "AAAAAAAA-0000-0000-0000-000000000002"]
KINDS = ["Freeze", "Reboot", "Redeploy"]
SETS = [["VM1"], ["vm1", "vm2"], ["vm2", "vm1"], ["vm1", "vm2", "vm3"], ["vm2", OUTSIDE], [OUTSIDE], []]
RULES = {
    "none": [],
    "approve freezes": [{"event_types": ["Freeze"], "action": "approve"}],
    "hold reboots": [{"event_types": ["Reboot"], "action": "hold"}],
    "ignore freezes": [{"event_types": ["Freeze"], "action": "ignore"}],
}
DEAD = {"place": place(), "node": "here", "pid": 2**30, "began": "1"}  # no kernel gives a process this number

IN_MAKE_TEST = settings.default.derandomize  # see tests/unit/conftest.py


class Killed(BaseException):
    """The run has ended: nothing that handles errors sees this."""


class Preparation:
    """Tasks that have prepared a VM for an event of a type."""

    def __init__(self, key, kind, asked):
        self.key, self.kind, self.asked = key, kind, asked


class Vm:
    """What has happened to one VM, and the client with which it asks the service."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.folder = MemoryFolder()
        self.prepared = []  # until a recovery, or until its event is gone while no other one holds the VM
        self.document = None

    def poll(self, **_timeout):
        self.world.happens()
        if self.world.outages:
            self.world.outages -= 1
            raise NoAnswer("no answer")
        text = json.dumps({"DocumentIncarnation": 1, "Events": list(self.world.azure.values())})
        self.document = parse(text, api_version="2020-07-01")
        present = {event.key for event in self.document.events}
        is_held = any(self.name.lower() in event.names for event in self.document.events)
        self.prepared = [each for each in self.prepared if is_held or each.key in present]
        return self.document

    fetch = poll

    def retry(self, attempt):
        return attempt()

    def approve(self, event_ids):
        by_key = {event.key: event for event in self.document.events}
        for event_id in event_ids:
            self.world.check(self, by_key[event_id.lower()])
        self.world.happens()
        if self.world.refusals:
            self.world.refusals -= 1
            raise NoAnswer("no answer")
        for event_id in event_ids:
            self.world.acknowledged.append(event_id)


class Play:
    """A host in a run: what Ansible knows of it between two tasks."""

    def __init__(self, host):
        self.host = host
        self.phase = None  # that the play has to run, as the action plugin has returned it
        self.has_begun = self.has_ended = self.is_lost = self.is_in_a_task = False


class World(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.now, self.azure, self.outages, self.refusals, self.losses = START, {}, 0, 0, []
        self.surprises = []  # what happens in the middle of turns, the next first
        self.vms = {host: Vm(self, name) for host, name in HOSTS.items()}
        self.runs, self.plays = 0, {}
        self.in_part = False  # tags leave out what prepares
        self.acknowledged = []

    @initialize(
        acknowledge=st.sampled_from(["prepared", "prepared", "prepared", "any", "never"]),
        speak_for=st.sampled_from([(), (), (OUTSIDE,), ("VM9", "vm3")]),
        rules=st.tuples(*[st.sampled_from([*["none"] * 12, *sorted(RULES)])] * len(HOSTS)),
        tasks=st.tuples(*[st.sampled_from([*["/drain.yml"] * 12, "balancer", ""])] * len(HOSTS)),
        hosts=st.sampled_from([list(HOSTS), list(HOSTS), ["web1", "web2"]]),
        kind=st.sampled_from(KINDS),
        names=st.sampled_from(SETS[:4]),
        in_part=st.sampled_from([False, False, False, True]),
    )
    def begin(self, acknowledge, speak_for, rules, tasks, hosts, kind, names, in_part):
        self.in_part = in_part
        self.acknowledge, self.speak_for, self.hosts = acknowledge, speak_for, hosts
        self.rules, self.tasks = dict(zip(HOSTS, rules)), dict(zip(HOSTS, tasks))
        self._announce(IDS[0], kind, names, 900)
        self._start_run()

    def teardown(self):
        self.place.cleanup()

    def _start_run(self):
        self.runs += 1
        self.plays = {host: Play(host) for host in self.hosts}

    # Azure, and the moments in which it changes

    def happens(self):
        """A request is under way: what comes next may come now."""
        if self.surprises:
            self.surprises.pop(0)()

    def _change(self, event_id, **fields):
        if event_id in self.azure:
            self.azure[event_id] = dict(self.azure[event_id], **fields)

    def _announce(self, event_id, kind, names, notice):
        moment = datetime.datetime.fromtimestamp(int(self.now) + notice, datetime.timezone.utc)
        self.azure[event_id] = {
            "EventId": event_id,
            "EventType": kind,
            "EventStatus": "Scheduled",
            "Resources": names,
            "NotBefore": format_time(moment),
        }

    @rule(
        event_id=st.sampled_from(IDS),
        kind=st.sampled_from(KINDS),
        names=st.sampled_from(SETS),
        notice=st.sampled_from([60, 900]),
    )
    def service_announces(self, event_id, kind, names, notice):
        if event_id not in self.azure:
            self._announce(event_id, kind, names, notice)

    changes = st.one_of(
        st.tuples(st.just("EventType"), st.sampled_from(KINDS)),
        st.tuples(st.just("Resources"), st.sampled_from(SETS)),
        st.tuples(st.just("EventStatus"), st.sampled_from(["Started", "Advisory", "Paused", "Scheduled"])),
        st.just(("gone", None)),
    )

    def _apply(self, event_id, change):
        field, value = change
        if field == "gone":
            self.azure.pop(event_id, None)
        else:
            self._change(event_id, **{field: value})

    @rule(event_id=st.sampled_from(IDS), change=changes)
    def service_changes(self, event_id, change):
        self._apply(event_id, change)

    @rule(event_id=st.sampled_from(IDS), change=changes, wait=st.integers(0, 3))
    def service_changes_during_a_later_request(self, event_id, change, wait):
        self.surprises += [lambda: None] * wait + [lambda: self._apply(event_id, change)]

    @rule(host=st.sampled_from(sorted(HOSTS)), wait=st.integers(0, 3))
    def another_host_goes_on_during_a_later_request(self, host, wait):
        self.surprises += [lambda: None] * wait + [lambda: self._go_on(host)]

    @rule(event_id=st.sampled_from(IDS), host=st.sampled_from(sorted(HOSTS)))
    def an_event_is_gone_for_one_host_and_announced_again(self, event_id, host):
        event = self.azure.pop(event_id, None)
        self._go_on(host)
        self._go_on(host)
        if event and event_id not in self.azure:
            self.azure[event_id] = event

    @rule(outages=st.integers(0, 1), refusals=st.integers(0, 2))
    def service_does_not_answer(self, outages, refusals):
        self.outages, self.refusals = outages, refusals

    # The plays

    @rule(host=st.sampled_from(sorted(HOSTS)))
    def a_host_goes_on(self, host):
        self._go_on(host)

    @rule(rounds=st.integers(1, 3))
    def all_hosts_go_on(self, rounds):
        self.the_next_run_begins()
        for _round in range(rounds):
            for host in self.hosts:
                self._go_on(host)
            for host in self.hosts:
                self._end_tasks(host, ok=True)

    @rule(
        change=changes, who=st.sampled_from([["web1"], ["web2"], list(HOSTS)]), ok=st.sampled_from([True, True, False])
    )
    def an_event_changes_while_tasks_run(self, change, who, ok):
        for host in who:
            self._go_on(host)
        self._apply(IDS[0], change)
        for host in who:
            self._end_tasks(host, ok=ok)
            self._go_on(host)

    @rule(kind=st.sampled_from(KINDS), names=st.sampled_from(SETS[:4]))
    def one_event_follows_another(self, kind, names):
        self.azure, self.outages, self.refusals, self.losses = {}, 0, 0, []
        self.all_hosts_go_on(rounds=2)
        self.service_announces(IDS[0], kind, names, 900)
        self.all_hosts_go_on(rounds=2)

    @rule(host=st.sampled_from(sorted(HOSTS)), ok=st.sampled_from([True, True, True, False]))
    def the_tasks_of_a_host_end(self, host, ok):
        self._end_tasks(host, ok=ok)

    @rule(host=st.sampled_from(sorted(HOSTS)))
    def a_host_leaves_the_play_in_its_tasks(self, host):
        play = self.plays.get(host)
        if play and play.phase:
            play.phase, play.has_ended, play.is_lost = None, True, True

    @rule(host=st.sampled_from(sorted(HOSTS)), answered=st.booleans())
    def a_host_is_lost_in_its_next_turn(self, host, answered):
        self.losses.append((host, answered))

    @rule(in_part=st.booleans())
    def the_run_is_killed_and_another_one_begins(self, in_part):
        self.in_part = in_part
        self._start_run()

    @rule()
    def the_run_is_killed_during_a_later_request(self):
        def kill():
            self._start_run()
            raise Killed

        self.surprises.append(kill)

    @rule()
    def the_next_run_begins(self):
        if all(play.has_ended for play in self.plays.values()):
            self._start_run()

    def _go_on(self, host):
        play = self.plays.get(host)
        if play and not (play.phase or play.has_ended or play.is_in_a_task):
            self._act(play, None)

    def _end_tasks(self, host, *, ok):
        play = self.plays.get(host)
        if not play or not play.phase:
            return
        following, play.phase = play.phase, None
        vm, phase = self.vms[host], following["next"]
        if phase == "prepare" and ok and not self.in_part:
            vm.prepared += following["preparations"]
        if phase == "recover":
            vm.prepared = []
        outcome = {key: following[key] for key in ("request_ids", "events")}
        self._act(play, {**outcome, "phase": phase, "ok": ok, "reason": "" if ok else "no disk"})

    def _act(self, play, outcome):
        """The task of the action plugin, until it returns."""
        play.is_in_a_task = True
        try:
            following = self._responding(play, outcome).next_step()
        except HostLost:
            play.has_ended = play.is_lost = True
            return
        except Killed:
            return
        finally:
            play.is_in_a_task = False
        if self.plays.get(play.host) is not play:
            return  # the run was killed meanwhile, and its process with it
        play.has_begun = True
        if following["next"] in PHASES:
            self._begin_phase(play, following)
        play.has_ended = following["next"] == "done"

    def _begin_phase(self, play, following):
        vm = self.vms[play.host]
        if following["next"] == "recover":
            vm.prepared = []
        following["preparations"] = [
            Preparation(event["event_id"].lower(), event["event_type"], self.now) for event in following["events"]
        ]
        play.phase = following

    def _options(self, host):
        values = {name: option.get("default") for name, option in turn_request.OPTIONS.items()}
        tasks = self.tasks[host]
        return {
            **values,
            "acknowledge": self.acknowledge,
            "rules": RULES[self.rules[host]],
            "prepare_tasks": tasks if tasks.startswith("/") else "",
            "load_balancer": tasks == "balancer",
            "recover_tasks": "/return.yml",
            "wait_timeout": 1e9,
        }

    def _responding(self, play, outcome):
        host, options = play.host, self._options(play.host)
        run = f"run{self.runs}"
        directory = pathlib.Path(self.place.name, run)
        return Responding(
            Context(
                host=host,
                run=run,
                owner={**DEAD, "run": run},  # of which a later run finds out
                options={**options, "outcome": outcome},
                notes=Notes(directory / "notes" / host, fresh=outcome is None and not play.has_begun, began=self.now),
                coordinator=PlayCoordinator(
                    directory,
                    play_hosts=self.hosts,
                    speak_for=None if self.acknowledge == "any" else self.speak_for,
                ),
                execute=lambda *asked: self._execute(host, options, *asked),
                say=lambda _line: None,
                warn=lambda _line: None,
                active_hosts=[each.host for each in self.plays.values() if not each.is_lost],
                rescued_hosts=[],
                in_part=self.in_part,
                has_failed=False,
                forks=1,
                lockstep=False,
                check_mode=False,
                clock=Clock(lambda: self.now, lambda: self.now, self._sleep),
            )
        )

    def _sleep(self, seconds):
        self.now += max(seconds, 0.01)

    def _execute(self, host, options, controller, outcome, _within):
        """One turn of the module on the host."""
        vm, controller = self.vms[host], dict(controller)
        losses = [answered for each, answered in self.losses if each == host]
        self.losses = [each for each in self.losses if each[0] != host]
        self.now += 1.0
        self.happens()
        if losses and not losses[0]:
            raise HostLost("no route to host")
        vm_name = controller.pop("vm_name") or vm.name
        request = turn_request.TurnRequest(**{**controller, "slice": 0.0})
        clock = Clock(lambda: self.now, lambda: self.now, self._sleep)
        turn = turns.Turn(vm, vm_name, {**options, "outcome": outcome}, request, clock=clock, folder=vm.folder)
        try:
            answer = json.loads(json.dumps(turn.take()))
        except NoAnswer as error:
            raise HostLost(str(error)) from error  # the module fails, and Ansible goes on without the host
        if losses:
            raise HostLost("the connection broke")
        self.happens()
        return answer

    # What must hold

    def check(self, sender, event):
        """Before each acknowledgement, with the event as the document shows it that was read for it."""
        names = [name.lower() for name in event.resources]
        assert self.acknowledge != "never", "acknowledged although the owner said never"
        assert not self.in_part, "acknowledged although tags may have left out what prepares"
        assert event.event_status == "Scheduled", "acknowledged what is not Scheduled"
        assert sender.name in names, "acknowledged an event of others"
        hosts = {vm.name: host for host, vm in self.vms.items() if host in self.hosts}
        assert self._decision(hosts[sender.name], event) in ("prepare", "approve"), "a rule of the sender forbids it"
        for name in names:
            if name in hosts:
                self._check_host(hosts[name], event)
            elif self.acknowledge != "any":
                assert name in [each.lower() for each in self.speak_for], "spoke for a VM that the owner did not name"

    def _check_host(self, host, event):
        vm, play = self.vms[host], self.plays[host]
        if vm.name in self.speak_for and not play.has_begun:
            return  # the owner has named it as one that needs no preparation, and it has not said otherwise
        if self._decision(host, event) == "approve":
            return
        assert self._decision(host, event) == "prepare", "acknowledged although a rule of a host forbids it"
        assert not (play.phase and play.phase["next"] == "recover"), "acknowledged while a VM is being put back"
        found = [each for each in vm.prepared if each.key == event.key]
        assert found, f"acknowledged, and {vm.name} is not prepared"
        assert any(each.kind == event.event_type for each in found), f"{vm.name} has prepared for another type"
        assert self.tasks[host], "acknowledged for a VM on which nothing prepares"

    def _decision(self, host, event):
        return decisions.decide(event, decisions.parse_rules(RULES[self.rules[host]]))


TestRespond = pytest.mark.timeout(3600)(World.TestCase)
TestRespond.settings = settings(
    stateful_step_count=30,
    deadline=None,
    database=None,
    # In `make test`, none is shrunk: no developer waits for this.
    phases=[phase for phase in Phase if not (IN_MAKE_TEST and phase is Phase.shrink)],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("in_part", [False, True])
def test_the_world_acknowledges_what_all_vms_have_prepared_for(in_part):
    world = World()
    world.begin(
        acknowledge="prepared",
        speak_for=(),
        rules=["none"] * len(HOSTS),
        tasks=["/drain.yml"] * len(HOSTS),
        hosts=list(HOSTS),
        kind="Reboot",
        names=["vm1", "vm2"],
        in_part=in_part,
    )
    world.all_hosts_go_on(rounds=2)
    world.teardown()
    assert world.acknowledged == ([] if in_part else IDS[:1])
