# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The moments of the hook of a controller: however slow the controller is, and whatever it asks for, none is missed."""

import pytest
from _scheduled_events.exchange import ExchangeFailed
from controller_vm import EVENT_ID, IN_60, IN_300, IN_900, NOW, again
from fake_clock import FakeClock
from scheduled_events_poller.notify.controller import Controller
from scheduled_events_poller.notify.controller_hook import DONE, FAILED, NOTHING_PREPARED, TRY_AGAIN, ControllerHook
from scheduled_events_poller.notify.request import NotNow
from scheduled_events_poller.notify.settings import ControllerSettings

AT_290 = "2020-09-13T12:31:30Z"  # 290 seconds after NOW


@pytest.mark.parametrize("retry_after", ["60", "999999999"])
def test_the_moment_to_continue_comes_however_long_the_controller_wants_to_be_left_alone(
    controller, make_vm, retry_after
):
    controller.faults["GET /api/"] = [(429, {"Retry-After": retry_after}, b"")] * 100
    vm = make_vm(grace=12)
    status, reason = vm.run(not_before=IN_300, deadline=AT_290)
    assert (status, reason.endswith("; this VM continues without the job")) == (NOTHING_PREPARED, True)
    assert 288 <= vm.clock.now < 289


def test_the_moment_to_continue_comes_between_two_attempts(controller, make_vm):
    controller.faults["GET /api/"] = again(1000)  # the pauses become 15 seconds long
    vm = make_vm(grace=12)
    assert vm.run(not_before=IN_300, deadline=AT_290)[0] == NOTHING_PREPARED
    assert 288 <= vm.clock.now < 289


def test_the_deadline_comes_however_long_the_controller_wants_to_be_left_alone(controller, vm):
    controller.faults["GET /api/"] = [(429, {"Retry-After": "60"}, b"")] * 100
    assert vm.run(deadline=AT_290)[0] == TRY_AGAIN
    assert 290 <= vm.clock.now < 291


def test_the_start_of_an_event_is_noticed_while_the_controller_wants_to_be_left_alone(controller, vm):
    controller.faults["GET /api/"] = [(429, {"Retry-After": "60"}, b"")]
    vm.clock.at = [(5, lambda: vm.knows(status="Started"))]
    assert vm.run()[0] == FAILED
    assert vm.clock.now < 7


def test_an_answer_has_no_more_time_than_is_left(monkeypatch):
    waited = []

    def exchange(_transport, _request, seconds):
        waited.append(seconds)
        raise ExchangeFailed("slow")

    monkeypatch.setattr("scheduled_events_poller.notify.request.Transport.exchange", exchange)
    settings = ControllerSettings("http://awx", 7, token="token", request_timeout=15.0)
    for left in (100.0, 4.0, 0.0, -1.0):
        with pytest.raises(NotNow):
            Controller(settings, left=lambda left=left: left).get("jobs/")
    assert waited == [15.0, 4.0]


@pytest.mark.parametrize(
    ("passed", "busy", "left"),
    [
        (0, False, 288),
        (0, True, 290),  # a job may run, so there is no moment to continue without it
        (288, False, 2),
        (289, False, 1),
        (291, False, -1),
    ],
)
def test_what_is_left_is_the_time_to_the_next_moment(vm, passed, busy, left):
    settings = ControllerSettings("https://awx", 7, token="token", grace=12.0)
    event, environment = {"event_id": EVENT_ID, "not_before": IN_300}, {"SCHEDULED_EVENT_DEADLINE": AT_290}
    clock = FakeClock(passed, epoch=NOW)
    hook = ControllerHook(event, environment, vm.files, settings, say=vm.said.append, clock=clock)
    hook.memory.running = 1 if busy else 0
    assert hook.left() == left


def test_a_slow_network_never_makes_the_hook_miss_its_moment(controller, make_vm):
    # Each answer takes as long as it may, and is good.
    vm = make_vm(grace=12, request_timeout=15)
    carry_out = controller.answer

    def slowly(*request):
        vm.clock.sleep(14.0)
        return carry_out(*request)

    controller.answer = slowly
    controller.status = "failed"
    vm.run(not_before=IN_60, deadline="2020-09-13T12:27:30Z")
    assert controller.launched() == []  # a launch could not be answered before the moment to continue


def test_a_job_is_not_launched_when_its_answer_could_come_after_the_moment_to_continue(controller, make_vm):
    vm = make_vm(grace=50, request_timeout=15)
    status, reason = vm.run(not_before=IN_60, deadline=IN_60)
    assert (status, reason) == (
        NOTHING_PREPARED,
        "there is no time left to launch the job and to see the answer; this VM continues without the job",
    )
    assert (controller.launched(), vm.clock.now) == ([], 10.0)


def test_a_short_notice_does_not_keep_the_job_from_being_launched(controller, make_vm):
    assert make_vm(grace=120).run(not_before=IN_60, deadline=IN_60) == (DONE, "job 1 has ended: successful")
    assert len(controller.launched()) == 1


# The clock


def test_the_start_of_an_event_is_noticed_after_the_clock_was_set_back(controller, vm):
    controller.status = "running"
    vm.knows(time=NOW)  # before the hook began
    vm.clock.at = [(5, lambda: vm.knows(status="Started", time=NOW - 7200))]
    assert vm.run() == (DONE, "the event has started; job 1 is running")
    assert vm.clock.now < 7


def test_what_was_known_before_the_hook_began_does_not_end_it(vm):
    vm.knows(present=False, time=NOW + 7200)  # of an earlier life of the event, by a clock that was ahead
    assert vm.run() == (DONE, "job 1 has ended: successful")


def test_a_cancellation_is_noticed_after_the_clock_was_set_back(controller, make_vm):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: vm.knows(present=False, time=NOW - 7200))]
    assert vm.run(not_before=IN_900, deadline=IN_300) == (NOTHING_PREPARED, "the event is cancelled, and so is job 1")
