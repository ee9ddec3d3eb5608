# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hook says "prepared" only because of a job that ran for this preparation, whatever happened to other jobs.

The engine asks for a run, and for another one when the effect of the first was undone, when the event has another type,
or when the VM went down. A job for the present type counts, if it was launched after the last recovery, and after this
VM last left that type. VMs share a job.

The same holds with the engine in front: what a VM acknowledges was prepared by a job that was launched after its last
recovery, also if it hears of the event late because its polls failed, the recovery ended while it was reading, or the
VM lost the memory of its hook or all that it knew. A hook that continues without the job prepares nothing: only a VM
with another prepare hook acknowledges then.
"""

import json
import re
import tempfile

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis runs on newer Pythons only")

from controller_standin import Controller  # noqa: E402
from controller_vm import EVENT_ID, Vm, again  # noqa: E402
from engine_vm import EngineVm, event  # noqa: E402
from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from scheduled_events_poller.notify.controller_hook import DONE, NOTHING_PREPARED  # noqa: E402

NAMES = ["vm1", "vm2"]
OUTCOMES = st.sampled_from(["successful", "successful", "failed", "running"])
CHANGES = st.sampled_from(["none", "undone", "type", "reboot"])
FAULTS = st.sampled_from(
    ["", "", "", "GET /api/v2/jobs/", "POST /api/v2/labels/", "POST /api/v2/job_templates/7/launch/"]
)
STEPS = st.lists(st.tuples(st.sampled_from([0, 1]), CHANGES, OUTCOMES, FAULTS, st.booleans()), min_size=2, max_size=8)


class Prepared:
    """A VM, and what the engine knows of its preparation."""

    def __init__(self, directory, url, name):
        self.vm = Vm(directory, url, name=name)
        self.run = self.first = 1
        self.recovered, self.kind, self.existed = 0, "Freeze", 0
        self.undone_at, self.left_at = 0, {}
        self.has_looked = False

    def change(self, what, jobs):
        """The engine asks for another run."""
        if what == "none":
            return
        self.run += 1
        if what == "undone":
            self.recovered += 1
            self.undone_at = self.newest_before(jobs)
        if what == "type":
            self.left_at[self.kind] = self.newest_before(jobs)
            self.kind = "Redeploy" if self.kind == "Freeze" else "Freeze"
        if what != "reboot":
            self.first, self.existed = self.run, max(self.undone_at, self.left_at.get(self.kind, 0))

    def newest_before(self, jobs):
        """The newest job that does not count. Before its first look, what another VM launched for both counts."""
        return jobs if self.has_looked else 0

    def hook(self):
        self.has_looked = True
        return self.vm.run(resources=NAMES, kind=self.kind, run=self.run, first=self.first, recovered=self.recovered)


@settings(deadline=None, max_examples=max(10, settings.default.max_examples // 5))
@given(STEPS)
def test_only_a_successful_job_of_this_preparation_counts(steps):
    controller = Controller()
    try:
        with tempfile.TemporaryDirectory() as directory:
            vms = [Prepared(f"{directory}/{name}", controller.url, name) for name in NAMES]
            for number, change, outcome, fault, ends in steps:
                if ends:
                    for job in controller.jobs.values():
                        job["status"] = outcome if job["status"] == "running" else job["status"]
                vm = vms[number]
                vm.change(change, len(controller.jobs))
                controller.status = outcome
                controller.faults = {fault: again(2)} if fault else {}
                status, reason = vm.hook()
                if status == DONE:
                    check(controller.jobs[int(re.match(r"job (\d+) has ended", reason).group(1))], vm)
    finally:
        controller.stop()


def check(job, prepared):
    assert job["status"] == "successful"
    assert f".{prepared.kind.lower()}." in job["label"], "it ran for another type of the event"
    assert prepared.vm.name in job["limit"].split(",")
    assert job["id"] > prepared.existed, "it ran before the preparation became necessary"


class Fleet:
    """Two VMs with the events of Azure: one for each VM, and one for both."""

    def __init__(self, directory, controller):
        self.controller = controller
        self.vms = [
            EngineVm(f"{directory}/{name}", controller.url, name, has_own_hook=has_own_hook, grace=120)
            for name, has_own_hook in zip(NAMES, (False, True))
        ]
        self.announced = {}
        self.announcements = 0
        self.kind = "Reboot"
        self.undone_at = [0, 0]  # the newest job when a recovery of the VM ended

    def own_event(self, number):
        """Azure announces the event of one VM, or it is over."""
        self._announce_or_end(f"a{number}", [NAMES[number]])

    def shared_event(self, _number):
        self._announce_or_end(EVENT_ID, NAMES)

    def _announce_or_end(self, event_id, resources):
        if not self.announced.pop(event_id, None):
            self.announcements += 1
            self.announced[event_id] = (resources, f"2020-09-14T00:{self.announcements:02}:00Z")

    def new_type(self, _number):
        self.kind = "Redeploy" if self.kind == "Reboot" else "Reboot"

    def poll(self, number):
        self.vms[number].poll(self.document())

    def failed_poll(self, number):
        self.vms[number].step()

    def recovery_ends(self, number):
        if self.vms[number].recovers:
            self.vms[number].end_recovery()
            self.undone_at[number] = len(self.controller.jobs)

    def poll_too_early(self, number):
        """After this VM has read a document, Azure announces an event, the other VM prepares both, a recovery ends."""

        def meanwhile():
            self.shared_event(number)
            self.poll(1 - number)
            self.recovery_ends(number)

        self.vms[number].poll(self.document(), meanwhile=meanwhile)

    def rest(self, number):
        """All is over for the VM: there is something to undo, and a recovery begins."""
        self.poll(number)
        self.announced.pop(f"a{number}", None)
        self.poll(number)

    def document(self):
        return [event(event_id, names, self.kind, moment) for event_id, (names, moment) in self.announced.items()]

    def memory_is_lost(self, number):
        self.vms[number].vm.lose_memory()

    def state_is_lost(self, number):
        """Its recoveries are lost, too, and whatever it prepared may be undone by then."""
        self.vms[number].lose_all()
        self.undone_at[number] = len(self.controller.jobs)

    def jobs_fail(self, _number):
        """The jobs that are launched from now on fail, or succeed again."""
        self.controller.status = "failed" if self.controller.status == "successful" else "successful"

    def token_is_refused(self, _number):
        self.controller.faults["GET /api/v2/jobs/"] = [(401, {}, {})]

    def check(self, number):
        vm = self.vms[number]
        if EVENT_ID in vm.approved:
            status, reason = vm.done
            assert status in (DONE, NOTHING_PREPARED)
            if status == NOTHING_PREPARED:
                assert vm.own_hook_ran, "nothing has prepared it since its last recovery"
                return
            job = self.controller.jobs[int(re.match(r"job (\d+) has ended", reason).group(1))]
            known = vm.state.events[EVENT_ID.lower()].event
            assert f".{known.event_type.lower()}." in job["label"], "it ran for another type of the event"
            assert job["id"] > self.undone_at[number], "a recovery has undone what it did"
            launched_for = json.loads(job["extra_vars"])["scheduled_event"]["not_before"]
            assert launched_for in vm.seen, "it ran for an earlier announcement"


MOVES = [
    Fleet.own_event,
    Fleet.shared_event,
    Fleet.new_type,
    Fleet.poll,
    Fleet.poll,
    Fleet.failed_poll,
    Fleet.recovery_ends,
    Fleet.poll_too_early,
    Fleet.rest,
    Fleet.memory_is_lost,
    Fleet.state_is_lost,
    Fleet.jobs_fail,
    Fleet.token_is_refused,
]
OF_OTHER, OF_THIS = (1, Fleet.poll), (0, Fleet.poll)
RECOVERS = [(0, Fleet.own_event), (0, Fleet.rest)]
HEARD_LATE = [*RECOVERS, (0, Fleet.shared_event), OF_OTHER, (0, Fleet.recovery_ends), (0, Fleet.failed_poll), OF_THIS]
HEARD_WHILE_IT_RAN = [*RECOVERS, (0, Fleet.shared_event), OF_OTHER, OF_THIS, (0, Fleet.recovery_ends), OF_THIS]
LOST_BETWEEN_ANNOUNCEMENTS = [
    *[(0, Fleet.shared_event), OF_THIS] * 2,
    (0, Fleet.recovery_ends),
    *[OF_THIS] * 2,
    (0, Fleet.memory_is_lost),
    (0, Fleet.shared_event),
    OF_THIS,
]
HANDED_OVER = [(0, Fleet.jobs_fail), (0, Fleet.shared_event), OF_OTHER, OF_THIS, (1, Fleet.recovery_ends), OF_OTHER]
REFUSED = [(0, Fleet.shared_event), (0, Fleet.token_is_refused), OF_THIS, OF_OTHER, OF_THIS]
ENDED_WHILE_READING = [*RECOVERS, (0, Fleet.poll_too_early), OF_THIS]


@settings(deadline=None, max_examples=max(30, settings.default.max_examples // 2))
@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(MOVES)), min_size=5, max_size=16))
@example(HEARD_LATE)
@example(HEARD_WHILE_IT_RAN)
@example(ENDED_WHILE_READING)
@example(LOST_BETWEEN_ANNOUNCEMENTS)
@example(HANDED_OVER)
@example(REFUSED)
def test_what_a_vm_acknowledges_was_prepared_after_its_last_recovery(moves):
    controller = Controller()
    try:
        with tempfile.TemporaryDirectory() as directory:
            fleet = Fleet(directory, controller)
            for number, move in moves:
                move(fleet, number)
                fleet.check(number)
    finally:
        controller.stop()
