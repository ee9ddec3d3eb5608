# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often the hooks ask a controller: however many VMs an event names, and however slow the controller is."""

import pytest
from controller_vm import IN_60, IN_900, LABEL, again
from scheduled_events_poller.notify.controller_hook import DONE, TRY_AGAIN
from scheduled_events_poller.notify.job import launch_within


def vms(count):
    return [f"vm{number}" for number in range(1, count + 1)]


@pytest.fixture
def running(controller):
    """Another VM has launched the job, which runs."""
    controller.status = "running"
    controller.add_label(LABEL + "1")
    controller.run({"limit": "vm1", "labels": [1]})


def looks_of(controller, vm, *, slow=0.0):
    """The moments of the looks for the job, in seconds; an answer to one takes ``slow`` seconds."""
    moments, carry_out = [], controller.answer

    def answer(method, path, query, body):
        if path == "/api/v2/jobs/" and vm.clock.now not in moments:
            moments.append(vm.clock.now)
            vm.clock.sleep(slow)
        return carry_out(method, path, query, body)

    controller.answer = answer
    return moments


def test_the_hooks_of_many_vms_share_ten_looks_in_a_second(controller, make_vm):
    controller.add_label(LABEL + "1")  # whose VM has ended
    vm = make_vm()
    vm.spread = 1.25
    moments = looks_of(controller, vm)
    assert vm.run(resources=vms(200)) == (DONE, "job 1 has ended: successful")
    assert moments == [20, 45, 70, 95, 120, 145]


def test_the_retries_of_many_vms_share_them_too(controller, vm):
    controller.faults["GET /api/v2/jobs/"] = again(3)
    moments = looks_of(controller, vm)
    assert vm.run(resources=vms(200))[0] == DONE
    assert moments == [0, 20, 40, 60, 80]


@pytest.mark.usefixtures("running")
def test_no_rest_is_longer_than_a_quarter_of_the_time_that_is_left(controller, vm):
    vm.spread = 2.0
    moments = looks_of(controller, vm)
    assert vm.run(resources=vms(1000)) == (TRY_AGAIN, "job 1 is running")
    assert moments[:3] == [75, 75 + 56.25, 75 + 56.25 + 42.1875]
    assert max(moments) > 295  # so the end of the job is seen in time


@pytest.mark.usefixtures("running")
def test_a_slow_controller_has_ten_times_as_long_to_rest(controller, vm):
    moments = looks_of(controller, vm, slow=2.0)
    vm.run()
    assert moments[:3] == [0, 22, 44]


@pytest.mark.usefixtures("running")
def test_the_longer_a_job_runs_the_longer_is_the_rest(controller, vm):
    moments = looks_of(controller, vm)
    vm.run(deadline=IN_900)
    rests = [(moment, later - moment) for moment, later in zip(moments, moments[1:]) if moment < 600]
    assert rests == [(moment, pytest.approx(max(1, 0.05 * moment), abs=0.06)) for moment, _rest in rests]


def test_the_vm_for_which_all_others_wait_does_not_rest(controller, vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(3, 429)
    moments = looks_of(controller, vm)
    assert vm.run(resources=vms(1000)) == (DONE, "job 1 has ended: successful")
    assert moments[:4] == [0, 1, 3, 7]
    assert (len(controller.labels), len(controller.jobs)) == (1, 1)


def test_a_launcher_whose_last_look_is_slow_sends_nothing(controller, vm):
    looks = controller.faults["GET /api/v2/jobs/"] = []
    controller.faults["POST /api/v2/labels/"] = [lambda: looks.append(lambda: vm.clock.sleep(launch_within(15.0) + 1))]
    vm.run(deadline=IN_60)
    assert (controller.launched(), len(controller.labels)) == ([], 1)


@pytest.mark.parametrize("seconds", [7, 14])
def test_a_controller_that_answers_within_the_time_of_a_request_launches_the_job(controller, vm, seconds):
    answer = controller.answer

    def slowly(*request):
        vm.clock.sleep(seconds)
        return answer(*request)

    controller.answer = slowly
    assert vm.run(deadline=IN_900) == (DONE, "job 1 has ended: successful")
    assert (len(controller.labels), len(controller.jobs)) == (1, 1)
