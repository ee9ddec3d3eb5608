# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hook says "prepared" only because of a job that ran for this preparation, whatever happened to other jobs.

The engine asks for a run, and for another one when the effect of the first was undone, when the event has another type,
or when the VM went down. A job for the present type counts, if it was launched after the last recovery, and after this
VM last left that type. VMs share a job.
"""

import re
import tempfile

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis runs on newer Pythons only")

from controller_standin import Controller  # noqa: E402
from controller_vm import Vm, again  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from scheduled_events_poller.controller.hook import DONE  # noqa: E402

NAMES = ["vm1", "vm2"]
OUTCOMES = st.sampled_from(["successful", "successful", "failed", "running"])
CHANGES = st.sampled_from(["none", "undone", "type", "reboot"])
FAULTS = st.sampled_from(["", "", "", "GET /jobs/", "POST /labels/", "POST /launch/"])
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
