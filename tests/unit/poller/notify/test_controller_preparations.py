# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which job of a controller counts for which preparation, and how several VMs still share one."""

import os

import pytest
from controller_vm import EVENT_ID, IN_60, IN_300, IN_900, LABEL, NOW, again
from scheduled_events_poller.notify import job as controller_job
from scheduled_events_poller.notify import memory
from scheduled_events_poller.notify.controller_hook import DONE, FAILED, TRY_AGAIN
from scheduled_events_poller.notify.memory import EventMemory

BOTH = ["vm1", "vm2"]


def successful(number):
    return DONE, f"job {number} has ended: successful"


@pytest.fixture
def pair(make_vm):
    """Two VMs of the events that name both."""
    return [make_vm(name=name) for name in BOTH]


def test_the_vms_of_an_event_share_one_job(controller, pair):
    assert [vm.run(resources=BOTH) for vm in pair] == [successful(1)] * 2
    assert len(controller.jobs) == 1


@pytest.mark.parametrize(
    "again_for",
    [
        {"recovered": 1},  # a recovery of another event ended in between
        {},  # announced again after it was over
        {"recovered": 1, "kind": "Redeploy"},
    ],
)
def test_a_job_that_ran_before_a_preparation_became_necessary_again_does_not_count(controller, vm, again_for):
    assert vm.run(run=1) == successful(1)
    assert vm.run(run=3, **again_for) == successful(2)
    assert vm.run(run=3, **again_for) == successful(2)  # the hook is run again, as after exit status 75
    assert vm.run(run=4, first=3, **again_for) == successful(2)  # the VM went down in between
    assert len(controller.jobs) == 2


def test_a_change_of_the_type_has_one_new_job_for_all_vms(controller, pair):
    for vm in pair:
        vm.run(resources=BOTH, kind="Freeze")
    assert [vm.run(resources=BOTH, kind="Redeploy", run=2) for vm in pair] == [successful(2)] * 2
    assert [vm.run(resources=BOTH, kind="Freeze", run=3) for vm in pair] == [successful(3)] * 2
    assert [label["name"] for label in controller.labels] == [
        LABEL.replace("reboot", kind) + attempt
        for kind, attempt in (("freeze", "1"), ("redeploy", "1"), ("freeze", "2"))
    ]


def test_a_vm_that_prepares_again_later_does_not_count_the_job_of_the_one_before(pair):
    # The recovery of the second VM ended after the job for the first one, which it may have undone.
    for vm in pair:
        vm.run(resources=BOTH)
    assert pair[0].run(resources=BOTH, run=3, recovered=1) == successful(2)
    assert pair[1].run(resources=BOTH, run=3, recovered=1) == successful(3)


def test_a_first_preparation_does_not_count_a_job_that_a_recovery_may_have_undone(pair):
    assert pair[1].run(resources=BOTH) == successful(1)
    assert pair[0].run(resources=BOTH, undone=True) == successful(2)
    assert pair[0].run(resources=BOTH, undone=True) == successful(2)  # the hook is run again, as after exit status 75


def test_after_an_absence_no_job_counts_that_had_ended_also_one_that_this_vm_did_not_follow(pair):
    assert [vm.run(resources=BOTH) for vm in pair] == [successful(1)] * 2
    assert pair[1].run(resources=BOTH, run=3, recovered=1) == successful(2)
    assert pair[0].run(resources=BOTH, run=2, undone=True) == successful(3)


def test_vms_that_prepare_again_while_a_job_runs_share_the_next_one(controller, make_vm):
    vms = [make_vm(name=f"vm{number}") for number in (1, 2, 3)]
    names = [vm.name for vm in vms]
    for vm in vms:
        vm.run(resources=names)
    controller.status = "running"
    assert vms[0].run(resources=names, run=3, recovered=1, deadline=IN_60) == (TRY_AGAIN, "job 2 is running")
    for vm in vms[1:]:
        expected = (TRY_AGAIN, "job 2, which does not count for this preparation, is running")
        assert vm.run(resources=names, run=3, recovered=1, deadline=IN_60) == expected
    assert len(controller.jobs) == 2
    controller.status = controller.jobs[2]["status"] = "successful"
    assert [vm.run(resources=names, run=3, recovered=1) for vm in vms[1:]] == [successful(3)] * 2
    assert vms[0].run(resources=names, run=3, recovered=1) == successful(3)  # the newest of those that count


def test_no_job_is_launched_while_one_for_another_type_runs(controller, vm):
    controller.status = "running"
    vm.run(kind="Freeze", deadline=IN_60)
    vm.clock.at = [(120, lambda: controller.jobs[1].update(status="successful"))]
    controller.status = "successful"
    assert vm.run(kind="Redeploy", run=2) == successful(2)
    assert vm.clock.now >= 120


def test_a_vm_never_continues_while_a_job_that_does_not_count_may_run(controller, make_vm):
    vm = make_vm(grace=120)
    controller.status = "running"
    vm.run(kind="Freeze", deadline=IN_60)
    controller.faults["GET /api/v2/jobs/"] = again(1000)
    status, reason = vm.run(kind="Redeploy", run=2, not_before=IN_60)
    assert (status, reason.startswith("a job may run: ")) == (TRY_AGAIN, True)


def test_an_event_that_starts_while_only_an_earlier_job_runs_is_not_prepared(controller, vm):
    controller.status = "running"
    vm.run(kind="Freeze", deadline=IN_60)
    vm.clock.at = [(90, lambda: vm.knows(status="Started"))]
    expected = "the event has started; job 1, which does not count for this preparation, is running"
    assert vm.run(kind="Redeploy", run=2) == (FAILED, expected)


def test_the_memory_outlasts_a_reboot_and_ends_after_months(vm):
    vm.run()
    old = os.path.join(vm.files.memory, "old")
    with open(old, "w"):
        pass
    os.utime(old, (0, 0))
    assert vm.run(run=2, recovered=1) == successful(2)
    assert os.listdir(vm.files.memory) == [EVENT_ID.lower()]
    assert os.stat(os.path.join(vm.files.memory, EVENT_ID.lower())).st_mode & 0o077 == 0


def test_of_too_many_memories_the_oldest_are_lost_and_those_of_jobs_that_may_run_last(make_vm, monkeypatch):
    monkeypatch.setattr(memory, "MOST", 3)
    vm = make_vm()
    vm.run()
    for age, text in enumerate(['{"running": 0}', "{}", '{"running": 7}', '{"running": 0}', "cut", '{"running": -1}']):
        path = os.path.join(vm.files.memory, f"{age}")
        with open(path, "w") as file:
            file.write(text)
        os.utime(path, (NOW - age, NOW - age))
    os.utime(os.path.join(vm.files.memory, EVENT_ID.lower()), (NOW - 60, NOW - 60))
    EventMemory(vm.files.memory, {"event_id": EVENT_ID}, {}).forget_others(NOW)
    assert sorted(os.listdir(vm.files.memory)) == ["2", "4", "5", EVENT_ID.lower()]


def test_a_vm_that_lost_its_memory_does_not_count_the_job_of_an_earlier_announcement(controller, vm):
    assert vm.run(not_before=IN_300) == successful(1)
    vm.lose_memory()
    assert vm.run(not_before=IN_900) == successful(2)
    assert len(controller.labels) == 2


def test_a_vm_that_lost_its_memory_counts_the_job_of_this_announcement(controller, vm):
    vm.run()
    vm.lose_memory()
    assert vm.run() == successful(1)
    assert len(controller.jobs) == 1


def test_a_preparation_keeps_its_job_when_not_before_moves(controller, vm):
    controller.status = "running"
    assert vm.run(not_before=IN_300, deadline=IN_60) == (TRY_AGAIN, "job 1 is running")
    controller.jobs[1]["status"] = "successful"
    assert vm.run(not_before=IN_900, run=2, first=1) == successful(1)
    assert vm.run(not_before=IN_900, run=3, first=1) == successful(1)


def test_a_repetition_whose_memory_is_lost_does_not_count_what_is_there(make_vm):
    make_vm().run()
    assert make_vm().run(run=4, first=3) == successful(2)


def test_a_memory_that_cannot_be_written_does_not_stop_the_job(vm):
    with open(vm.files.memory, "w"):
        pass
    assert vm.run() == successful(1)
    assert any("the memory of this hook cannot be written" in line for line in vm.said)


def test_a_memory_that_is_written_gives_no_warning(vm):
    vm.run()
    assert not any("WARNING" in line for line in vm.said)


def test_a_vm_that_joined_the_event_does_not_count_the_job_of_the_others(controller, pair):
    assert pair[0].run(resources=["vm1"]) == successful(1)
    assert pair[1].run(resources=BOTH) == successful(2)
    assert controller.jobs[2]["limit"] == "vm1,vm2"
    assert pair[0].run(resources=BOTH) == successful(2)


def test_a_relaunch_for_the_hosts_that_failed_counts_for_all_of_its_event(controller, pair):
    controller.status = "failed"
    assert [vm.run(resources=BOTH)[0] for vm in pair] == [FAILED] * 2
    controller.jobs[2] = dict(controller.jobs[1], id=2, status="successful", limit="vm2", launch_type="relaunch")
    assert [vm.run(resources=BOTH, run=2, first=1) for vm in pair] == [successful(2)] * 2


def test_an_unusual_type_has_a_label_too(controller, make_vm):
    assert make_vm().run(kind="A B/../é" * 20) == successful(1)
    assert len(controller.labels[0]["name"]) < 120
    assert make_vm().run(kind=None) == successful(2)


# A launch that does not do what it should


def lose(controller, answer, path="/launch/"):
    """Have requests with such a path carried out and answered so."""
    carry_out = controller.answer

    def wrong(method, asked, query, body):
        result = carry_out(method, asked, query, body)
        return answer if method == "POST" and asked.endswith(path) else result

    controller.answer = wrong


@pytest.mark.parametrize(
    "answer",
    [
        (201, {}, b"<html>created</html>"),
        (201, {}, b'{"id": 1, "status": "pe'),
        (201, {"Content-Length": "1000", "Connection": "close"}, b'{"id": 1, "status": "pe'),
        (200, {"Content-Length": "1000"}, b'{"id": 1, "status": "pe'),  # and the connection stays open
        (201, {}, b""),
        (201, {}, b"[]"),
        (201, {}, {"id": "1"}),
    ],
)
def test_a_launch_whose_answer_cannot_be_read_may_have_been_carried_out(controller, make_vm, answer):
    controller.status = "running"
    lose(controller, answer)
    vm = make_vm(grace=120, request_timeout=3)
    assert vm.run(deadline=IN_60) == (TRY_AGAIN, "job 1 is running")
    assert (len(controller.jobs), len(controller.labels)) == (1, 1)


@pytest.mark.parametrize(
    "answer", [(201, {}, b"<html>"), (200, {"Content-Length": "1000", "Connection": "close"}, b'{"id": 1')]
)
def test_a_vm_does_not_continue_after_a_launch_whose_answer_cannot_be_read(controller, make_vm, answer):
    lose(controller, answer)
    vm = make_vm(grace=120)
    vm.clock.at = [(1, lambda: controller.faults.update({"GET /api/v2/jobs/": again(1000)}))]
    assert vm.run(not_before="2020-09-13T12:31:40Z", deadline="2020-09-13T12:31:40Z")[0] == TRY_AGAIN


def ignore(controller, *, status="running", **changes):
    """Have the template ignore fields although it says that it asks for them."""
    launch = controller.run

    def run(body):
        controller.status = status
        answer = launch(dict(body, limit="", extra_vars={}) if not changes else dict(body, **changes))
        return dict(answer, ignored_fields={"limit": body["limit"], "extra_vars": body["extra_vars"]})

    controller.run = run


@pytest.mark.parametrize(
    ("fault", "job", "expected"),
    [
        ([], "canceled", 'turn on "Prompt on launch" of the job template for limit'),
        (again(3), "canceled", 'turn on "Prompt on launch" of the job template for limit'),
        ([(403, {}, {})], "running", ". Cancel it on the controller"),
    ],
)
def test_a_job_that_ignored_its_limit_never_counts_and_is_canceled(controller, make_vm, fault, job, expected):
    ignore(controller)
    controller.faults["/cancel/"] = fault
    status, reason = make_vm().run()
    assert (status, controller.jobs[1]["status"]) == (FAILED, job)
    assert "job 1, which did not take " in reason
    assert expected in reason


def test_a_job_that_ignored_its_limit_and_cannot_be_canceled_does_not_count_even_if_it_succeeds(controller, make_vm):
    ignore(controller)
    controller.faults["/cancel/"] = again(1000)
    vm = make_vm()
    vm.clock.at = [(60, lambda: controller.jobs[1].update(status="successful"))]
    status, reason = vm.run()
    assert (status, "did not take" in reason) == (FAILED, True)


def test_another_vm_does_not_count_a_job_without_its_limit_either(controller, pair):
    ignore(controller, status="successful")
    assert [vm.run(resources=BOTH)[0] for vm in pair] == [FAILED] * 2
    assert len(controller.jobs) == 1


def test_a_vm_never_continues_while_a_job_without_limit_runs(controller, make_vm):
    ignore(controller)
    controller.faults["/cancel/"] = again(1000)
    vm = make_vm(grace=120)
    assert vm.run(not_before=IN_60, deadline="2020-09-13T12:31:40Z")[0] == TRY_AGAIN
    controller.faults["/cancel/"] = [(403, {}, {})]
    assert vm.run(not_before=IN_60, deadline="2020-09-13T12:41:40Z")[0] == FAILED


def test_an_event_that_starts_while_a_job_without_its_variables_runs_is_not_prepared(controller, make_vm):
    ignore(controller, extra_vars={})
    controller.faults["/cancel/"] = again(1000)
    vm = make_vm()
    vm.clock.at = [(60, lambda: vm.knows(status="Started"))]
    assert vm.run()[0] == FAILED


def test_a_job_is_launched_again_once_the_owner_has_corrected_the_template(controller, make_vm):
    launch = controller.run
    ignore(controller)
    vm = make_vm()
    assert vm.run()[0] == FAILED
    controller.run, controller.status = launch, "successful"
    assert vm.run(run=3, first=1) == successful(2)


def test_a_label_without_a_job_still_has_its_lease_in_a_later_preparation(controller, vm):
    vm.run()
    controller.add_label(LABEL + "2")
    passed = vm.clock.now
    assert vm.run(run=2, recovered=1) == successful(2)
    assert vm.clock.now - passed > controller_job.LEASE
    assert controller.labels[-1]["name"] == LABEL + "3"
