# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that run the engine with the hook of a controller, and poll when a test wants."""

import json
import types

from _scheduled_events import engine, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse
from _scheduled_events.runs import FAILED, NOTHING, OK
from _scheduled_events.state import UNKNOWN, State
from controller_vm import EVENT_ID, Vm
from scheduled_events_poller.notify.controller_hook import DONE, NOTHING_PREPARED
from scheduled_events_poller.root import runner
from scheduled_events_poller.spool import format_request, parse_request
from scheduled_events_poller.unit.effects import job_of

NO_HOOKS = types.SimpleNamespace(hooks={})


def event(event_id, resources, kind="Reboot", not_before=""):
    fields = {"EventId": event_id, "EventType": kind, "EventStatus": "Scheduled", "Resources": resources}
    return {**fields, "NotBefore": not_before}


class EngineVm:
    """A VM that any poll of the test reaches. ``done``: how the last hook of the controller for EVENT_ID ended.

    ``approved``: what it acknowledges after a step. Preparations end at once, recoveries when the test wants.
    ``has_own_hook``: the owner has a prepare hook, too; ``own_hook_ran``: since the last recovery.
    """

    def __init__(self, directory, url, name, *, has_own_hook=False, **settings):
        self.vm = Vm(directory, url, name=name, **settings)
        self.has_own_hook, self.own_hook_ran = has_own_hook, False
        self.config = terms.Config(vm_name=name, hooks=frozenset(["prepare", "recover"]), acknowledge="any")
        self.state = State(serial=1)
        self.recovers, self.results, self.approved = [], [], []
        self.done = None
        self.seen = set()  # each NotBefore of EVENT_ID that the state may know

    def poll(self, announced, meanwhile=lambda: None):
        """A step with a document. ``meanwhile``: what happens after it was read and before the step."""
        raw = json.dumps({"DocumentIncarnation": 1, "Events": announced})
        document = parse(raw, api_version="2020-07-01")
        meanwhile()
        if EVENT_ID.lower() not in self.state.events:
            self.seen = set()
        self.seen |= {each["NotBefore"] for each in announced if each["EventId"] == EVENT_ID}
        self.step(document)

    def step(self, document=None):
        """A step, without a document if the poll failed."""
        results, self.results = self.results, []
        now = Moment(self.vm.clock.wall(), self.vm.clock.monotonic(), "boot")
        self.state, actions = engine.step(self.state, document, results, now, self.config)
        self.approved = [action.event_id for action in actions if isinstance(action, terms.Approve)]
        for action in actions:
            if isinstance(action, terms.RunHooks):
                self._begin(action)
        if self.results:
            self.step()

    def _begin(self, action):
        if action.phase == "recover":
            self.recovers.append(action.request_id)
            return
        outcome = self._prepare(action) if action.event["event_id"].lower() == EVENT_ID.lower() else OK
        self.results.append(terms.HookResult(action.request_id, outcome))

    def _prepare(self, action):
        self.done = self._run_hook(action)
        if self.done[0] not in (DONE, NOTHING_PREPARED):
            return FAILED
        self.own_hook_ran = self.has_own_hook
        return OK if self.has_own_hook or self.done[0] == DONE else NOTHING

    def _run_hook(self, action):
        job = job_of(action, self.config, NO_HOOKS)
        job = parse_request(format_request(job), job.request_id)
        variables = {name.decode(): value.decode() for name, value in runner.environment(job, job.deadline).items()}
        return self.vm.carry_out(job.event, variables)

    def lose_all(self):
        """The state was damaged and put aside, and the memory of the hook is gone."""
        self.vm.lose_memory()
        self.state = State(serial=self.state.serial + 1000, unannounced=UNKNOWN)
        self.recovers, self.results, self.approved, self.seen = [], [], [], set()
        self.own_hook_ran = False

    def end_recovery(self):
        """The recoveries end; the engine learns of it in the next step."""
        self.own_hook_ran = False
        self.results += [terms.HookResult(request_id, OK) for request_id in self.recovers]
        self.recovers = []
