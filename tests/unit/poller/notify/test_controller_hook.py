# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook that has a controller run a job, against a stand-in: answers that a real controller seldom gives, and times
that no test waits for. What a real AWX shows is in tests/controllers."""

import functools
import io
import json
import os
import re
import subprocess
import sys

import pytest
from _scheduled_events.checks import WrongValue
from controller_standin import Controller
from controller_vm import EVENT_ID, IN_10, IN_60, IN_300, IN_900, IN_7200, LABEL, TOKEN, Vm, again
from page_blocks import block
from polling_unit import GIVE_UP, ROOT
from scheduled_events_poller.notify import controller_hook
from scheduled_events_poller.notify import job as controller_job
from scheduled_events_poller.notify import settings as notify_settings
from scheduled_events_poller.notify.controller_hook import DONE, FAILED, NOTHING_PREPARED, TRY_AGAIN

CONTROLLER_HOOK = os.path.join(ROOT, "roles", "poller", "files", "scheduled-events-controller")

# Answers


def test_a_job_is_launched_for_the_event_and_followed(controller, make_vm):
    assert make_vm(extra_vars={"a": 1}).run(resources=["vm1", "vm2"]) == (DONE, "job 1 has ended: successful")
    (body,) = controller.launched()
    assert (body["limit"], body["labels"], body["extra_vars"]["a"]) == ("vm1,vm2", [1], 1)
    assert body["extra_vars"]["scheduled_event"]["event_id"] == EVENT_ID
    assert [label["name"] for label in controller.labels] == [LABEL + "1"]


@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        ("/api/", (401, {}, {"detail": f"no {TOKEN}"}), "401 Unauthorized: no …: its token is not valid, since it was"),
        ("/api/", (403, {}, {"detail": "no"}), "403 Forbidden: no: the user of its token has no permission: give the"),
        (
            "/job_templates/",
            (404, {}, {"detail": "Not found."}),
            "404 Not Found: Not found.: expected an object that the user of its token may see",
        ),
        ("/job_templates/", (409, {}, ["twice"]), '409 Conflict: ["twice"]'),
    ],
)
def test_an_answer_that_will_not_change_fails_the_hook_at_once(controller, vm, place, answer, expected):
    controller.faults[place] = [answer]
    status, reason = vm.run()
    assert (status, f"answered {expected}" in reason) == (FAILED, True), reason
    assert (vm.clock.now, controller.labels) == (0.0, [])


PAGE = b"<html>AWX is upgrading</html>"
FOREIGN = [
    ("/api/", (200, {}, b""), 'expected JSON, not "": '),
    ("/api/", (200, {}, PAGE), 'expected JSON, not "<html>AWX is upgrading</html>": '),
    ("/api/", (200, {}, b"[1]"), 'expected JSON, not "[1]": '),
    ("/api/", (200, {}, {"apis": {"gateway": 1}}), 'expected the path of the API, not "{"apis": {"gateway": 1}}": '),
    ("/api/", (200, {}, {"current_version": "https://evil.example.com/"}), "evil.example.com/"),
    ("/api/", (302, {"Location": "/migrations_notran/"}, b""), "a redirect to /migrations_notran/, which is not"),
    ("/api/", (401, {}, PAGE), "answered 401 Unauthorized: <html>AWX is upgrading</html>: this"),
    ("/api/", (403, {}, b""), "answered 403 Forbidden: this"),
    ("/api/", (404, {}, PAGE), "answered 404 Not Found: <html>AWX is upgrading</html>: this"),
    ("/api/", (404, {}, {"message": "no route"}), 'answered 404 Not Found: {"message": "no route"}: this'),
    ("/job_templates/", (200, {}, {}), "/api/v2/job_templates/: expected a list of results: this"),
    ("/job_templates/", (404, {}, PAGE), "answered 404 Not Found: <html>AWX is upgrading</html>: this"),
    ("/jobs/", (302, {"Location": "https://sso.example.com/"}, b""), "a redirect to https://sso.example.com/, which"),
    (
        "/jobs/",
        (307, {"Location": "/sso/"}, {"detail": "sign in"}),
        "answered 307 Temporary Redirect, a redirect to /s",
    ),
    ("/job_templates/", (302, {"Location": "/sso/"}, []), "answered 302 Found, a redirect to /sso/, which is not"),
]


@pytest.mark.parametrize(("place", "answer", "expected"), FOREIGN)
def test_what_is_not_an_answer_of_the_api_may_go_away(controller, vm, place, answer, expected):
    controller.faults[place] = [answer] * 2
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert vm.said[0].startswith(f"there is no job yet; trying again: GET {controller.url}/api/")
    assert expected in vm.said[0]
    assert vm.said[0].endswith("is not the API of a controller: correct poller_controller.url if it stays so")


@pytest.mark.parametrize(("place", "answer", "expected"), FOREIGN)
def test_the_check_fails_at_once_without_an_answer_of_the_api(controller, make_vm, place, answer, expected):
    controller.faults[place] = [answer]
    status, reason = controller_hook.check_settings(make_vm().files)
    assert (status, expected in reason, "correct poller_controller.url" in reason) == (FAILED, True, True), reason


def test_a_launch_that_a_proxy_refused_is_sent_again_under_its_label(controller, make_vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = [(403, {}, PAGE)] * 2
    assert make_vm().run() == (DONE, "job 1 has ended: successful")
    assert (len(controller.labels), len(controller.jobs)) == (1, 1)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("place", ["GET /api/", "GET /api/v2/jobs/", "GET /api/v2/job_templates/7/launch/"])
def test_an_answer_that_may_change_is_asked_for_again(controller, vm, status, place):
    controller.faults[place] = again(2, status)
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert f"there is no job yet; trying again: GET {controller.url}" in vm.said[0]
    assert f"answered {status}" in vm.said[0]


def test_the_pauses_between_requests_grow_and_the_controller_may_ask_for_longer_ones(controller, vm):
    controller.faults["GET /api/"] = [*again(5), (429, {"Retry-After": "40"}, b"")]
    assert vm.run()[0] == DONE
    assert vm.clock.now == 1 + 2 + 4 + 8 + 15 + 40 + 1


def test_vms_whose_requests_fail_together_come_back_one_after_the_other(controller, vm):
    vm.spread = 1.25
    controller.faults["GET /api/"] = [*again(2), (429, {"Retry-After": "40"}, b"")]
    assert vm.run()[0] == DONE
    assert vm.clock.now == pytest.approx(0.1 + 1.25 * (1 + 2 + 40) + 1)


def test_a_controller_that_never_answers_is_given_up_at_the_deadline(controller, make_vm):
    controller.stop()
    vm = make_vm()
    status, reason = vm.run(deadline=IN_60)
    assert (status, vm.clock.now) == (TRY_AGAIN, 60.0)
    assert reason.startswith(f"there is no job yet: GET {controller.url}/api/: ")


def test_an_answer_without_end_is_not_read_to_its_end(controller, vm):
    controller.faults["GET /api/"] = [(200, {}, b"x" * 2000000)]
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert "its body is longer than 1048576 bytes" in vm.said[0]


@pytest.mark.parametrize(
    ("launch", "template", "expected"),
    [
        ({"ask_limit_on_launch": False}, {}, 'it does not ask for limit: turn on "Prompt on launch" for that'),
        (
            {"ask_labels_on_launch": False, "ask_variables_on_launch": False},
            {},
            "does not ask for labels and variables",
        ),
        ({"variables_needed_to_start": ["a", "b"]}, {}, "its survey needs b: add it to poller_controller.extra_vars"),
        ({"passwords_needed_to_start": ["ssh"]}, {}, "a credential asks for a password: keep"),
        (
            {"inventory_needed_to_start": True},
            {},
            "it has no inventory: give it one, or set poller_controller.inventory",
        ),
        ({}, {"organization": None}, "its project has no organization, which a label needs"),
        ({}, {"job_slice_count": 2}, "it has 2 slices, which split the VMs of an event: set job_slice_count to 1"),
        ({}, {"job_type": "check"}, "its job type is check, which prepares nothing: set it to run"),
        (
            {},
            {"name": "other"},
            'expected exactly one of job_templates with the name "respond" that the user of the token may see',
        ),
    ],
)
def test_a_job_template_that_does_not_fit_is_refused_before_there_is_a_label(
    controller, make_vm, launch, template, expected
):
    controller.launch.update(launch)
    controller.template.update(template)
    status, reason = make_vm(extra_vars={"a": 1}).run()
    assert (status, expected in reason) == (FAILED, True), reason
    assert controller.labels == []


def test_a_name_of_several_job_templates_is_refused(controller, make_vm):
    both = {"results": [controller.template, dict(controller.template, id=8)]}
    controller.faults["/job_templates/"] = [(200, {}, json.dumps(both).encode())]
    status, reason = make_vm().run()
    assert (status, "found several: correct its name" in reason) == (FAILED, True), reason


@pytest.mark.parametrize("place", ["/api/v2/?a=1", "/api/v2/#a", "/other/v2/", "//elsewhere/api/v2/", 2])
def test_what_names_no_path_of_an_api_is_no_controller(controller, make_vm, place):
    controller.faults["GET /api/"] = [(200, {}, {"current_version": place})] * 1000
    status, reason = make_vm().run()
    assert (status, "expected the path of the API, not " in reason) == (TRY_AGAIN, True), reason
    assert set(controller.asked) == {"GET /api/"}


# The job


@pytest.mark.parametrize("status", ["failed", "error", "canceled"])
def test_a_job_that_does_not_succeed_fails_the_hook(controller, make_vm, status):
    controller.status = status
    assert make_vm().run() == (FAILED, f"job 1 has ended: {status}. Relaunch it on the controller first")


NOWHERE = (
    "job 1 has ended: successful: it did nothing on this VM: expected it in the inventory, and a task that runs on it, "
    "not run_once"
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (FAILED, f"{NOWHERE}. Relaunch it on the controller first")),
        ({"grace": 120}, (NOTHING_PREPARED, f"{NOWHERE}; this VM continues without the job")),
    ],
)
@pytest.mark.parametrize("resources", [["vm1"], ["VM2", "vm1"]])
def test_a_job_that_left_this_vm_out_has_not_prepared_it(controller, make_vm, resources, settings, expected):
    controller.left_out = ("vm1",)
    assert make_vm(**settings).run(resources=resources) == expected


def test_a_job_is_done_when_the_controller_has_counted_its_hosts(controller, make_vm):
    controller.faults["/job_host_summaries/"] = [(200, {}, {"results": []})] * 2
    controller.faults["/jobs/1/"] = [(200, {}, {"event_processing_finished": False})] * 2
    assert make_vm().run() == (DONE, "job 1 has ended: successful")
    assert controller.asked.count("GET /api/v2/jobs/1/job_host_summaries/") == 3


NOT_COUNTED = "the controller has not counted the hosts of job 1 yet"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (TRY_AGAIN, f"job 1 is successful: {NOT_COUNTED}")),
        ({"grace": 120}, (NOTHING_PREPARED, f"{NOT_COUNTED}; this VM continues without the job")),
    ],
)
def test_a_controller_that_never_counts_the_hosts_of_a_job_is_given_up(controller, make_vm, settings, expected):
    controller.faults["/job_host_summaries/"] = [(200, {}, {"results": []})] * 900
    controller.faults["/jobs/1/"] = [(200, {}, {"event_processing_finished": False})] * 900
    assert make_vm(**settings).run(not_before=IN_300, deadline=IN_900) == expected


def test_an_event_that_starts_before_the_hosts_of_its_job_are_counted_was_prepared_as_by_one_that_runs(controller, vm):
    controller.faults["/job_host_summaries/"] = [(200, {}, {"results": []})] * 900
    controller.faults["/jobs/1/"] = [(200, {}, {"event_processing_finished": False})] * 900
    vm.clock.at = [(10, lambda: vm.knows(status="Started"))]
    assert vm.run() == (DONE, f"the event has started; job 1 is successful: {NOT_COUNTED}")


def test_a_job_that_has_not_ended_at_the_deadline_is_left_running(controller, vm):
    controller.status = "running"
    assert vm.run(deadline=IN_60) == (TRY_AGAIN, "job 1 is running")
    assert vm.run(deadline=IN_300)[0] == TRY_AGAIN
    assert (len(controller.jobs), controller.jobs[1]["status"]) == (1, "running")


def test_a_job_that_was_relaunched_counts_instead_of_the_first(controller, make_vm):
    controller.status = "failed"
    make_vm().run()
    controller.jobs[2] = dict(controller.jobs[1], id=2, status="successful")
    assert make_vm().run() == (DONE, "job 2 has ended: successful")


def test_a_relaunch_in_check_mode_does_not_count(controller, make_vm):
    controller.status = "failed"
    make_vm().run()
    controller.jobs[2] = dict(controller.jobs[1], id=2, status="successful", launch_type="relaunch", job_type="check")
    assert make_vm().run() == (FAILED, "job 1 has ended: failed. Relaunch it on the controller first")


def test_no_job_of_the_event_may_run_when_the_hook_ends_well(controller, make_vm):
    make_vm().run()
    controller.jobs[2] = dict(controller.jobs[1], id=2)
    controller.jobs[1]["status"] = "running"
    assert make_vm().run() == (TRY_AGAIN, "job 1 is running")


# One launch


def test_a_vm_waits_for_the_job_of_another(controller, make_vm):
    controller.add_label(LABEL + "1")
    vm = make_vm()
    vm.clock.at = [(30, lambda: controller.run({"limit": "vm1", "labels": [1]}))]
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert controller.launched() == []


def test_a_vm_takes_over_from_a_launcher_that_is_silent_for_a_lease(controller, make_vm):
    controller.add_label(LABEL + "1")
    vm = make_vm()
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert controller_job.LEASE < vm.clock.now < controller_job.LEASE + 5
    assert [label["name"] for label in controller.labels] == [LABEL + "1", LABEL + "2"]


@pytest.mark.parametrize("request_timeout", [1.0, 15.0, 60.0])
def test_a_lease_outlasts_every_launch_that_is_sent_in_time(request_timeout):
    assert controller_job.launch_within(request_timeout) + request_timeout < controller_job.LEASE


def test_a_launcher_that_comes_to_it_too_late_sends_nothing(controller, vm):
    controller.faults["POST /api/v2/labels/"] = [lambda: vm.clock.sleep(controller_job.launch_within(15.0) + 1)]
    vm.run(deadline=IN_60)
    assert (controller.launched(), len(controller.labels)) == ([], 1)


def test_a_launch_that_was_surely_not_carried_out_is_sent_again_under_its_label(controller, make_vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(3, 429)
    assert make_vm().run() == (DONE, "job 1 has ended: successful")
    assert (len(controller.labels), len(controller.jobs)) == (1, 1)


def test_a_launch_without_an_answer_is_followed_if_it_was_carried_out(controller, vm):
    launch = controller.answer

    def lose_the_answer(method, path, query, body):
        answer = launch(method, path, query, body)
        return (502, {}, b"") if body and "limit" in body else answer

    controller.answer = lose_the_answer
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert (len(controller.labels), len(controller.jobs)) == (1, 1)


def test_a_launch_without_an_answer_has_the_next_attempt_after_a_lease_if_no_job_shows(controller, vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(1, 502)
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert vm.clock.now > controller_job.LEASE
    assert (len(controller.labels), len(controller.jobs)) == (2, 1)


def test_a_label_without_an_answer_may_be_that_of_another_vm(controller, make_vm):
    make_label = controller.answer

    def lose_the_answer(method, path, query, body):
        answer = make_label(method, path, query, body)
        return (500, {}, b"") if body and body.get("name", "").endswith(".1") else answer

    controller.answer = lose_the_answer
    vm = make_vm()
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert vm.clock.now > controller_job.LEASE
    assert len(controller.labels) == 2


def test_a_launch_that_is_refused_ends_the_wait_of_the_others_and_is_tried_by_who_comes_later(controller, make_vm):
    controller.add_label(LABEL + "1")
    vm = make_vm()
    vm.clock.at = [(5, lambda: controller.add_label(LABEL + "1.refused"))]
    assert vm.run() == (FAILED, "the launch of attempt 1 was refused to another VM: see its status")
    assert make_vm().run() == (DONE, "job 1 has ended: successful")
    assert [label["name"] for label in controller.labels][2:] == [LABEL + "2"]


def test_a_label_that_cannot_be_made_fails_the_hook(controller, make_vm):
    controller.faults["POST /api/v2/labels/"] = [(403, {}, {"detail": "no"})]
    status, reason = make_vm().run()
    assert (status, "make the user a member of the organization" in reason) == (FAILED, True)


# The event


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"status": "Started"}, (DONE, "the event has started; job 1 is running")),
        ({"status": "Started", "present": False}, (DONE, "the event has started; job 1 is running")),
        ({"present": False}, (NOTHING_PREPARED, "the event is cancelled; job 1 is running, and stays unchanged")),
        ({"status": "Started", "time": 0}, (DONE, "the event has started; job 1 is running")),  # the clock was set back
    ],
)
def test_what_the_polling_unit_knows_of_the_event_ends_the_hook(controller, vm, known, expected):
    controller.status = "running"
    vm.clock.at = [(5, functools.partial(vm.knows, **known))]
    assert vm.run() == expected
    assert controller.jobs[1]["status"] == "running"


@pytest.mark.parametrize("status", ["new", "pending", "waiting"])
def test_an_event_that_starts_before_its_job_runs_fails_the_hook(controller, vm, status):
    controller.status = status
    vm.clock.at = [(5, lambda: vm.knows(status="Started"))]
    assert vm.run() == (FAILED, f"the event has started; job 1 is {status}")


@pytest.mark.parametrize(("status", "ending"), [("pending", FAILED), ("running", DONE)])
def test_an_event_that_starts_before_the_first_look_at_its_job_waits_for_that_look(controller, make_vm, status, ending):
    controller.status = status
    vm = make_vm(interval=60)
    vm.clock.at = [(0.5, lambda: vm.knows(status="Started"))]
    assert vm.run() == (ending, f"the event has started; job 1 is {status}")


def test_a_job_that_began_after_the_last_look_at_it_has_prepared_for_an_event_that_starts(controller, make_vm):
    controller.status = "pending"
    vm = make_vm(interval=60)

    def begin():
        controller.jobs[1]["status"] = "running"
        vm.knows(status="Started")

    vm.clock.at = [(90, begin)]
    assert vm.run() == (DONE, "the event has started; job 1 is running")


def test_an_event_that_starts_fails_the_hook_if_the_last_look_at_a_job_that_waited_gets_no_answer(controller, make_vm):
    controller.status = "pending"
    vm = make_vm(interval=60)

    def cut():
        controller.stop()
        vm.knows(status="Started")

    vm.clock.at = [(90, cut)]
    assert vm.run() == (FAILED, "the event has started; job 1 is pending")


def test_the_job_of_a_cancelled_event_is_cancelled_if_the_owner_wants_that(controller, make_vm):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: vm.knows(present=False))]
    controller.faults["/cancel/"] = again(2)
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled, and so is job 1")
    assert controller.jobs[1]["status"] == "canceled"


def test_the_job_of_a_cancelled_event_is_cancelled_at_once_however_long_it_has_run(controller, make_vm):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(3000, lambda: vm.knows(present=False))]
    assert vm.run(not_before=IN_7200, deadline=IN_7200)[0] == NOTHING_PREPARED
    assert vm.clock.now < 3005


def test_a_cancelled_event_needs_no_preparation_although_another_vm_has_cancelled_the_job(controller, make_vm):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: controller.jobs[1].update(status="canceled")), (5, lambda: vm.knows(present=False))]
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled; job 1 is canceled")


@pytest.mark.parametrize(("ended", "expected"), [(True, NOTHING_PREPARED), (False, FAILED)])
def test_a_job_that_ended_before_it_could_be_cancelled_is_no_failure(controller, make_vm, ended, expected):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: vm.knows(present=False))]
    refusal = 405, {}, {"detail": 'Method "POST" not allowed.'}
    controller.faults["/cancel/"] = [lambda: controller.jobs[1].update(status="canceled" if ended else "running")]
    controller.faults["/jobs/1/cancel/"] = [refusal]
    assert vm.run()[0] == expected


def test_a_job_that_shows_after_the_event_was_cancelled_is_cancelled_too(controller, make_vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(1, 502)
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [
        (5, lambda: vm.knows(present=False)),
        (30, lambda: controller.run({"limit": "vm1", "labels": [1]})),
    ]
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled, and so is job 1")
    assert controller.jobs[1]["status"] == "canceled"


def test_a_launch_without_an_answer_is_waited_for_a_lease_after_the_event_was_cancelled(controller, make_vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(1, 502)
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: vm.knows(present=False))]
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled; a job may run")
    assert controller_job.LEASE < vm.clock.now < controller_job.LEASE + 10


def test_an_event_that_is_announced_again_needs_another_job_than_the_cancelled_one(controller, make_vm):
    controller.status = "running"
    vm = make_vm(cancel_on_cancelled=True)
    vm.clock.at = [(5, lambda: vm.knows(present=False))]
    assert vm.run()[0] == NOTHING_PREPARED
    controller.status = "successful"
    vm.knows()
    assert vm.run(run=2) == (DONE, "job 2 has ended: successful")


@pytest.mark.parametrize("ended", ["before", "later"])
def test_an_event_that_is_announced_again_needs_another_job_than_one_that_ended_since_it_was_gone(
    controller, make_vm, ended
):
    """The role respond recovers the VMs of such an event, and ends well."""
    controller.status = "running"
    vm = make_vm()
    vm.clock.at = [(5, lambda: vm.knows(present=False))]
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled; job 1 is running, and stays unchanged")

    def end():
        controller.jobs[1]["status"] = controller.status = "successful"

    if ended == "before":
        end()
    else:
        vm.clock.at = [(vm.clock.now + 5, end)]
    vm.knows()
    assert vm.run(run=2) == (DONE, "job 2 has ended: successful")
    assert vm.run(run=3, first=2) == (DONE, "job 2 has ended: successful")


def test_a_job_that_ended_while_its_event_was_absent_does_not_count_for_a_hook_that_noticed_nothing(vm):
    assert vm.run() == (DONE, "job 1 has ended: successful")
    assert vm.run(run=2, undone=True) == (DONE, "job 2 has ended: successful")


def test_a_job_that_a_vm_had_not_seen_when_its_event_was_gone_counts_only_as_long_as_it_runs(controller, make_vm):
    names = ["vm1", "vm2"]
    first, other = (make_vm(name=name) for name in names)
    controller.status = "running"
    assert first.run(resources=names, deadline=IN_60)[0] == TRY_AGAIN
    controller.faults["GET /api/"] = again(3)
    other.clock.at = [(1, lambda: other.knows(present=False))]
    assert other.run(resources=names) == (NOTHING_PREPARED, "the event is cancelled; there is no job yet")
    controller.faults.clear()
    other.knows()
    assert other.run(run=2, resources=names, deadline=IN_60, undone=True) == (TRY_AGAIN, "job 1 is running")
    controller.jobs[1]["status"] = controller.status = "successful"
    assert other.run(run=3, first=2, resources=names) == (DONE, "job 2 has ended: successful")


def test_a_job_whose_event_was_gone_right_after_its_launch_does_not_count_either(controller, vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = [lambda: vm.knows(present=False)]
    assert vm.run() == (NOTHING_PREPARED, "the event is cancelled; a job may run, and stays unchanged")
    vm.knows()
    assert vm.run(run=2, undone=True) == (DONE, "job 2 has ended: successful")


def test_an_event_that_starts_before_there_is_a_job_fails_the_hook(controller, vm):
    controller.faults["GET /api/"] = again(100)
    vm.clock.at = [(5, lambda: vm.knows(status="Started"))]
    status, reason = vm.run()
    assert (status, reason.startswith("the event has started; there is no job yet: GET http")) == (FAILED, True)


def test_an_event_that_starts_after_a_launch_without_an_answer_may_be_prepared(controller, vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = again(1, 502)
    vm.clock.at = [(5, lambda: vm.knows(status="Started"))]
    assert vm.run() == (DONE, "the event has started; a job may run")


def test_an_event_that_starts_after_its_job_has_failed_names_that_job(controller, vm):
    controller.status = "failed"
    vm.run()
    controller.faults["GET /api/"] = again(100)
    vm.clock.at = [(vm.clock.now + 5, lambda: vm.knows(status="Started"))]
    status, reason = vm.run()
    assert (status, reason.startswith("the event has started; the last job, 1, has ended: GET http")) == (FAILED, True)


# Taking over


def test_a_controller_that_cannot_be_reached_is_given_up_that_long_before_not_before(controller, make_vm):
    controller.stop()
    vm = make_vm(grace=120)
    status, reason = vm.run(not_before=IN_300, deadline=IN_900)
    assert (status, vm.clock.now // 15) == (NOTHING_PREPARED, 180 // 15)
    assert reason.endswith("; this VM continues without the job")


def test_a_job_that_no_vm_launches_is_given_up_at_the_same_moment(controller, make_vm):
    controller.add_label(LABEL + "1")  # whose VM has gone down since
    vm = make_vm(grace=840)
    expected = (NOTHING_PREPARED, "no VM has launched the job; this VM continues without the job")
    assert vm.run() == expected
    assert (vm.clock.now // 15, controller.launched()) == (60 // 15, [])


def test_a_not_before_that_moves_moves_the_takeover(controller, make_vm):
    controller.stop()
    vm = make_vm(grace=120)
    vm.clock.at = [(60, lambda: vm.knows(not_before=IN_900))]
    vm.run(not_before=IN_300, deadline=IN_900)
    assert vm.clock.now // 15 == 780 // 15


@pytest.mark.parametrize("job", ["failed", "error", "canceled"])
def test_a_job_that_ended_badly_lets_the_vm_go_on_without_a_preparation(controller, make_vm, job):
    controller.status = job
    expected = (NOTHING_PREPARED, f"job 1 has ended: {job}; this VM continues without the job")
    assert make_vm(grace=120).run() == expected


def test_a_job_that_ended_badly_fails_the_hook_if_the_event_has_no_not_before(controller, make_vm):
    controller.status = "failed"
    assert make_vm(grace=120).run(not_before=None)[0] == FAILED


@pytest.mark.parametrize(
    ("place", "answer"),
    [
        ("GET /api/", (401, {}, {"detail": "no"})),
        ("GET /api/v2/job_templates/", (403, {}, {"detail": "no"})),
        ("POST /api/v2/labels/", (403, {}, {"detail": "no"})),
        ("POST /api/v2/job_templates/7/launch/", (400, {}, {"detail": "no"})),
    ],
)
def test_a_controller_that_refuses_lets_the_vm_go_on_without_a_preparation(controller, make_vm, place, answer):
    controller.faults[place] = [answer]
    status, reason = make_vm(grace=120).run()
    assert (status, reason.endswith("; this VM continues without the job")) == (NOTHING_PREPARED, True), reason


def test_a_launch_that_was_refused_or_never_sent_does_not_keep_the_vm_from_going_on_later(controller, make_vm):
    controller.faults["POST /api/v2/job_templates/7/launch/"] = [(400, {}, {"detail": "no"})]
    refused, late = make_vm(grace=120), make_vm(name="vm2", grace=120)
    assert refused.run()[0] == NOTHING_PREPARED
    before_the_launch = [(200, {}, {"results": []})] * 3
    controller.faults["GET /api/v2/jobs/"] = [*before_the_launch, lambda: late.clock.sleep(10)]
    assert late.run(deadline=IN_10)[0] == TRY_AGAIN
    controller.stop()
    assert [vm.run(not_before=IN_300, deadline=IN_900)[0] for vm in (refused, late)] == [NOTHING_PREPARED] * 2


def test_a_job_that_ignored_its_limit_lets_the_vm_go_on_without_a_preparation(controller, make_vm):
    launch = controller.run
    controller.run = lambda body: dict(launch(dict(body, limit="")), ignored_fields={"limit": "vm1"})
    assert make_vm(grace=120).run()[0] == NOTHING_PREPARED


def test_settings_that_cannot_be_used_let_the_vm_go_on_without_a_preparation(make_vm):
    status, reason = make_vm(grace=120, ca_file="/nonexistent").run()
    assert (status, reason.endswith("; this VM continues without the job")) == (NOTHING_PREPARED, True)


def test_a_vm_never_continues_while_a_job_may_run(controller, make_vm):
    controller.status = "running"
    vm = make_vm(grace=120)
    vm.clock.at = [(10, lambda: controller.faults.update({"GET /api/v2/jobs/": again(1000)}))]
    assert vm.run(not_before=IN_60, deadline=IN_300)[0] == TRY_AGAIN
    status, reason = vm.run(not_before=IN_60, deadline=IN_900)  # another process, which has seen no job
    assert (status, reason.startswith("a job may run: GET ")) == (TRY_AGAIN, True), reason


def test_a_vm_never_continues_while_a_job_may_run_that_the_user_of_the_token_may_not_see_any_more(controller, make_vm):
    controller.status = "running"
    vm = make_vm(grace=120)
    vm.clock.at = [(10, lambda: setattr(controller, "hides_jobs", True))]
    status, reason = vm.run()
    assert (status, "cannot be followed: GET " in reason, "answered 403" in reason) == (FAILED, True, True), reason
    assert len(controller.jobs) == 1


def test_a_job_that_was_deleted_while_it_was_followed_is_launched_again(controller, make_vm):
    controller.status = "running"
    vm = make_vm(grace=120)

    def delete():
        controller.status = "successful"
        controller.jobs = {}
        gone = (404, {}, {"detail": "Not found."})
        controller.faults["GET /api/v2/jobs/1/"] = [gone]

    vm.clock.at = [(10, delete)]
    assert vm.run(deadline=IN_900) == (DONE, "job 1 has ended: successful")
    assert len(controller.launched()) == 2


def test_a_vm_never_continues_after_a_refusal_while_a_job_runs(controller, make_vm):
    controller.status = "running"
    vm = make_vm(grace=120)
    vm.clock.at = [(10, lambda: controller.faults.update({"GET /api/v2/jobs/": [(401, {}, {})]}))]
    status, reason = vm.run()
    assert (status, reason.startswith("job 1 is running, and cannot be followed: GET ")) == (FAILED, True), reason


def test_a_launch_without_an_answer_keeps_the_vm_from_going_on(controller, make_vm):
    def cut():
        controller.faults["GET /api/v2/jobs/"] = again(1000)

    controller.faults["POST /api/v2/job_templates/7/launch/"] = [(502, {}, b"")]
    vm = make_vm(grace=120)
    vm.clock.at = [(1, cut)]
    assert vm.run(not_before=IN_60, deadline=IN_300)[0] == TRY_AGAIN


# Settings


def test_settings_that_others_can_read_are_refused(vm):
    os.chmod(vm.files.settings, 0o640)
    expected = f"{vm.files.settings}: expected a file that only root can read: chown root and chmod 0600 it"
    assert vm.run() == (FAILED, expected)


def test_a_token_is_read_from_its_own_file_which_others_cannot_read(make_vm, tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    vm = make_vm(token="", token_file=str(path))
    path.chmod(0o644)
    assert vm.run() == (FAILED, f"{path}: expected a file that only root can read: chown root and chmod 0600 it")
    path.chmod(0o600)
    assert vm.run() == (DONE, "job 1 has ended: successful")


@pytest.mark.parametrize(
    ("resources", "settings", "hosts"),
    [
        (["vm1", "VM2"], {}, ["vm1", "VM2"]),
        (["VM1"], {"host_pattern": "{lower}.example.com"}, ["vm1.example.com"]),
        (["a_b_7"], {"host_pattern": "{set}-{instance}"}, ["a_b-7"]),
        (["VM1", "vm2"], {"host_names": {"vm1": "web.example.com"}}, ["web.example.com", "vm2"]),
    ],
)
def test_the_vms_of_an_event_have_names_in_the_inventory(resources, settings, hosts):
    made = notify_settings.ControllerSettings("https://awx", 7, **settings)
    assert notify_settings.hosts_of(resources, made) == hosts


@pytest.mark.parametrize(
    "name", ["all", "ungrouped", "a:b", "a,b", "*", "!a", "&a", "~a", "a[0]", "@/etc/hosts", "", "a b"]
)
def test_a_name_that_is_a_pattern_of_ansible_is_refused(make_vm, controller, name):
    status, reason = make_vm().run(resources=[name])
    assert (status, "add it to poller_controller.host_names" in reason) == (FAILED, True)
    assert controller.asked == []


NAMES_NO_VM = (
    "the event names no VM, so its job would have no limit, and would run on the whole inventory: name its VMs in "
    "resources"
)


@pytest.mark.parametrize("event", [{}, *({"resources": given} for given in ([], None, [1], "vm1", {}))], ids=json.dumps)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (FAILED, NAMES_NO_VM)),
        ({"grace": 120}, (NOTHING_PREPARED, f"{NAMES_NO_VM}; this VM continues without the job")),
    ],
)
def test_an_event_that_names_no_vm_has_no_job_which_would_run_on_the_whole_inventory(
    make_vm, controller, event, settings, expected
):
    given = {"event_id": EVENT_ID, "event_type": "Reboot", "not_before": IN_900, **event}
    assert make_vm(**settings).carry_out(given, {"SCHEDULED_EVENT_DEADLINE": IN_300}) == expected
    assert controller.asked == []


def test_what_is_no_text_among_the_vms_of_an_event_is_left_out(make_vm, controller):
    assert make_vm().run(resources=[None, "vm1", 1]) == (DONE, "job 1 has ended: successful")
    assert [body["limit"] for body in controller.launched()] == ["vm1"]


def test_a_name_that_does_not_fit_the_pattern_is_refused(make_vm):
    status, reason = make_vm(host_pattern="{set}-{instance}").run(resources=["vm1"])
    assert (status, reason.startswith('the VM "vm1" is not SET_INSTANCE of a scale set')) == (FAILED, True)


@pytest.mark.parametrize(
    ("text", "sent"), [("{{ x }}{% x %}{# x #}", "{ { x }}{ % x %}{ # x #}"), ("#jinja2:x", "# jinja2:x")]
)
def test_no_text_of_the_event_is_a_template_in_the_job(controller, make_vm, text, sent):
    make_vm().run(kind=text)
    (body,) = controller.launched()
    assert body["extra_vars"]["scheduled_event"]["event_type"] == sent


def test_only_the_proxy_of_the_settings_is_used(controller, make_vm, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert make_vm().run()[0] == DONE
    assert not any(each.startswith("proxy") for each in controller.asked)
    assert make_vm(url="http://127.0.0.2:9", proxy=controller.url).run()[0] == DONE
    assert "proxy for 127.0.0.2:9" in controller.asked


@pytest.mark.parametrize("url", ["http://awx.example.com", "http://10.0.0.4:8052", "http://localhost.example.com"])
def test_the_token_is_not_sent_in_clear_text_over_a_network(url):
    given = {"url": url, "job_template": 7, "token": TOKEN}
    with pytest.raises(WrongValue, match=r"controller\.url: expected https://, since http sends the token in"):
        notify_settings.parse_controller(given)
    assert notify_settings.parse_controller({**given, "allow_http": True}).url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:8052", "http://localhost", "http://[::1]:80", "https://awx"])
def test_a_controller_on_the_same_host_needs_no_tls(url):
    assert notify_settings.parse_controller({"url": url, "job_template": 7, "token": TOKEN}).url == url


@pytest.mark.edge
def test_a_certificate_must_be_of_the_host_and_signed_by_an_authority_that_is_trusted(tmp_path, certificate):
    controller = Controller(certificate=certificate + ".both")
    elsewhere = controller.url.replace("127.0.0.1", "localhost")  # not in the certificate
    for name, url, ca_file in [("one", controller.url, None), ("two", elsewhere, certificate)]:
        status, reason = Vm(str(tmp_path / name), url, ca_file=ca_file).run()
        assert (status, ": its certificate is not trusted: " in reason) == (FAILED, True), reason
        assert reason.endswith(": correct the url, the certificate of the server, or ca_file")
    assert Vm(str(tmp_path / "other"), controller.url, ca_file=certificate).run()[0] == DONE
    controller.stop()


@pytest.mark.edge
def test_a_certificate_that_has_expired_is_not_trusted(tmp_path, certificate):
    controller = Controller(certificate=certificate + ".expired")
    status, reason = Vm(str(tmp_path / "vm"), controller.url, ca_file=certificate + ".expired").run()
    assert (status, ": its certificate is not trusted: " in reason) == (FAILED, True), reason
    assert reason.endswith(": correct the url, the certificate of the server, or ca_file")
    controller.stop()


def test_authorities_that_cannot_be_read_fail_the_hook_at_once(make_vm):
    expected = (
        "/nonexistent: it cannot be read, expected the authorities of poller_controller.ca_file: correct its path"
    )
    assert make_vm(ca_file="/nonexistent").run() == (FAILED, expected)


@pytest.mark.parametrize("text", [TOKEN, "[" * 100000], ids=["text", "nested"])
def test_settings_that_are_not_json_are_not_quoted(vm, text):
    with open(vm.files.settings, "w") as file:
        file.write(text)
    assert vm.run() == (FAILED, f"{vm.files.settings}: it is not JSON: run the role poller again")


def test_the_check_shows_whether_a_job_could_be_launched_and_launches_none(controller, vm):
    expected = f"{controller.url} can launch the job template respond for an event"
    assert controller_hook.check_settings(vm.files) == (DONE, expected)
    controller.template["allow_simultaneous"] = False
    status, reason = controller_hook.check_settings(vm.files)
    assert (status, 'turn on "Concurrent jobs"' in reason) == (FAILED, True)
    controller.launch["ask_labels_on_launch"] = False
    status, reason = controller_hook.check_settings(vm.files)
    assert (status, "it does not ask for labels" in reason) == (FAILED, True)
    assert (controller.labels, controller.jobs) == ([], {})


def test_the_check_fails_where_the_user_of_the_token_may_make_no_label(controller, make_vm):
    controller.faults["POST /api/v2/labels/"] = [(403, {}, {"detail": "no"})]
    status, reason = controller_hook.check_settings(make_vm().files)
    assert (status, "member of the organization, with a token of the scope write" in reason) == (FAILED, True), reason


def may_start(start):
    """What AWX shows of a job template to a user who has the role Execute, or has it not."""
    return {"summary_fields": {"user_capabilities": {"edit": False, "start": start, "copy": False}}}


def test_the_check_fails_where_the_user_of_the_token_may_not_launch_the_job_template(controller, make_vm):
    controller.template.update(may_start(False))
    expected = 'the user of the token may not launch the job template "respond": give it the role Execute'
    assert controller_hook.check_settings(make_vm().files) == (FAILED, expected)
    assert controller.labels == []


def test_what_keeps_everyone_from_launching_the_job_template_is_not_blamed_on_the_user_of_the_token(
    controller, make_vm
):
    controller.template.update(may_start(False))
    controller.launch["inventory_needed_to_start"] = True
    status, reason = controller_hook.check_settings(make_vm().files)
    assert (status, "it has no inventory" in reason, "may not launch" in reason) == (FAILED, True, False), reason


@pytest.mark.parametrize(
    "fields",
    [
        may_start(True),
        may_start(None),
        {},
        {"summary_fields": None},
        {"summary_fields": {}},
        {"summary_fields": {"user_capabilities": [False]}},
        {"summary_fields": {"user_capabilities": {}}},
    ],
    ids=json.dumps,
)
def test_the_check_takes_a_user_who_may_launch_or_of_whom_the_controller_says_nothing(controller, make_vm, fields):
    controller.template.update(fields)
    assert controller_hook.check_settings(make_vm().files)[0] == DONE


def test_the_check_of_the_page_shows_what_the_page_shows(controller, make_vm, capfd):
    command, shown = block("docs/from-awx-and-aap.md", "# /usr/local/lib/").splitlines()
    template = re.findall("the job template (.*) for an event", shown)[0]
    places = make_vm().files
    options = [f"--{name}={getattr(places, name)}" for name in places._fields]
    controller_hook.main([*command.split()[2:], *options])
    assert capfd.readouterr().out.strip() == shown.replace("https://awx.example.com", controller.url).replace(
        template, "respond"
    )


@pytest.mark.parametrize("output", [subprocess.PIPE, "/dev/full"], ids=["a locale without umlauts", "no reader"])
def test_no_output_ends_the_hook(controller, make_vm, output):
    places = make_vm().files
    reasons = os.path.join(os.path.dirname(places.settings), "reason")
    controller.faults["GET /api/"] = [(503, {}, {"detail": "Dienst nicht verfügbar, " + "x" * 400})]
    options = [f"--{name}={getattr(places, name)}" for name in places._fields]
    with open(os.devnull if output == subprocess.PIPE else output, "wb") as file:
        ended = subprocess.run(
            [sys.executable, "-I", CONTROLLER_HOOK, *options],
            input=json.dumps({"event_id": EVENT_ID, "event_type": "Reboot", "resources": ["vm1"]}).encode(),
            env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "SCHEDULED_EVENT_REASON_FILE": reasons},
            stdout=output if output == subprocess.PIPE else file,
            stderr=subprocess.PIPE,
            timeout=GIVE_UP,
            check=False,
        )
    assert (ended.stderr.decode(), ended.returncode) == ("", DONE)
    with open(reasons) as file:
        assert file.read() == "job 1 has ended: successful"
    if output == subprocess.PIPE:
        said = ended.stdout.decode("utf-8").splitlines()
        assert ("Dienst nicht verfügbar" in said[0], said[-1]) == (True, "job 1 has ended: successful")


def test_a_hook_without_requests_names_what_to_do(make_vm, monkeypatch):
    monkeypatch.setattr("scheduled_events_poller.notify.request.REQUESTS_IMPORT_ERROR", "No module named 'requests'")
    reason = "the Python library requests is missing: run the role poller again"
    assert make_vm().run() == (FAILED, reason)
    assert make_vm(grace=120).run()[0] == NOTHING_PREPARED


def test_what_the_hook_says_is_in_a_file_for_status_until_it_ends(make_vm, monkeypatch):
    places, files = make_vm().files, []

    def run(_event, _environment, _places, say):
        say("there is no job yet")
        path = os.path.join(places.runtime, f"said-{EVENT_ID.lower()}")
        with open(path) as file:
            files.append((path, file.read()))
        return controller_hook.Ending(DONE, "job 1 has ended: successful")

    monkeypatch.setattr(controller_hook, "run", run)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"event_id": EVENT_ID})))
    assert controller_hook.main([f"--{name}={getattr(places, name)}" for name in places._fields]) == DONE
    [(path, text)] = files
    assert (text, os.path.exists(path)) == ("there is no job yet", False)


def test_a_setting_that_is_unknown_is_named():
    with pytest.raises(WrongValue, match=r"controller\.tokens: unknown key; allowed are url, job_template, token"):
        notify_settings.parse_controller({"tokens": TOKEN})


@pytest.mark.parametrize(("needed", "status"), [(5, DONE), (True, DONE), ([["a"]], FAILED), ([{"a": 1}], FAILED)])
def test_a_survey_of_another_shape_ends_the_hook_with_a_reason_at_most(controller, make_vm, needed, status):
    controller.launch["variables_needed_to_start"] = needed
    assert make_vm().run()[0] == status


def test_a_label_with_a_number_of_thousands_of_digits_is_not_an_attempt(controller, make_vm):
    controller.add_label(LABEL + "1" * 5000)
    controller.add_label(LABEL + "1" * 5000 + ".refused")
    assert make_vm().run() == (DONE, "job 1 has ended: successful")
