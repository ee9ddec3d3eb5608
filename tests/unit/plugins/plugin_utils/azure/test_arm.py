# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to a stand-in of Azure Resource Manager; nothing here ran against Azure."""

import json

import pytest
from arm_stand_in import POOL, ArmStandIn, ModuleFailed, Refused, run_module

from plugins.plugin_utils._azure.arm import Arm, ArmError, error_in

# As ansible-core 2.16 and 2.19 show the same exception
FAILURES = [
    "localhost: MODULE FAILURE\nSee stdout/stderr for the exact error (Traceback (most recent call last):\n"
    "  File \"ansiballz\", line 1, in run_module('azure_rm_resource')\n    _run(('a', 'b'), 100)\n"
    "ansible_collections.azure.azcollection.plugins.module_utils.azure_rm_common_rest.SendRequestException: {})",
    "localhost: Module failed: {}",
]


class Clock:
    def __init__(self):
        self.now, self.pauses = 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stand_in():
    stand_in = ArmStandIn()
    stand_in.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    return stand_in


@pytest.fixture
def arm(stand_in, clock):
    def run(module, arguments):
        assert arguments["auth_source"] == "msi"
        return run_module(stand_in, module, arguments)

    return Arm(
        run, errors=ModuleFailed, credentials={"auth_source": "msi"}, patience=600, clock=clock, sleep=clock.sleep
    )


def refuse_times(stand_in, number, *refusal):
    left = iter(range(number))

    def answer(*_):
        if next(left, None) is not None:
            raise Refused(*refusal)

    stand_in.answers.append(answer)


@pytest.mark.parametrize("shown", FAILURES)
@pytest.mark.parametrize("quote", ["it's", 'it"s', "two\r\nlines"])
def test_status_code_and_message_are_read_from_the_exception_of_the_module(shown, quote):
    body = {
        "error": {
            "code": "AuthorizationFailed",
            "message": f"no {quote}",
            "details": [{"code": "More", "message": "x"}],
        }
    }
    error = error_in(shown.format((json.dumps(body), 403)), "GET /x")
    assert (error.status, error.code, error.message) == (403, "AuthorizationFailed", f"no {quote} More: x")
    assert str(error).startswith("GET /x was answered 403: AuthorizationFailed no")


def test_a_body_that_is_not_json_keeps_its_status():
    assert error_in("Module failed: ('<html>', 502)", "GET /x").fleeting


def test_a_collection_that_is_not_installed_is_named():
    text = "localhost: The module azure.azcollection.azure_rm_resource was not found in configured module paths"
    assert "ansible-galaxy collection install azure.azcollection" in str(error_in(text, "GET /x"))


def test_other_failures_are_shown_as_they_are():
    text = "localhost: Failed to import the required Python library (ansible[azure])"
    assert str(error_in(text, "GET /x")) == f"GET /x: {text}"


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("exceeded the backend storage limit. Please try again after '6' seconds.", 6),
        ("exceeded the limit of '12000'. Please try again after '5' minutes.", 300),
        ("Please try again after '0' seconds.", 1),
        ("Retry-After: 17", 17),
    ],
)
def test_the_pause_that_azure_asks_for_is_kept(arm, stand_in, clock, message, seconds):
    refuse_times(stand_in, 1, 429, "SubscriptionRequestsThrottled", message)
    assert arm.read(POOL, "2024-05-01")["name"] == "www"
    assert clock.pauses == [seconds]


def test_without_a_pause_in_the_answer_the_pauses_grow(arm, stand_in, clock):
    refuse_times(stand_in, 5, 429, "TooManyRequests", "Too many requests.")
    arm.read(POOL, "2024-05-01")
    assert clock.pauses == [5, 10, 20, 40, 60]


def test_a_throttled_write_is_sent_again(arm, stand_in):
    refuse_times(stand_in, 2, 429, "TooManyRequests", "Please try again after '2' seconds.")
    arm.write("PUT", POOL, "2024-05-01", arm.read(POOL, "2024-05-01"))
    assert stand_in.count("PUT") == 1


def test_a_pause_longer_than_the_patience_fails_at_once(arm, stand_in, clock):
    refuse_times(stand_in, 1, 429, "TooManyRequests", "Please try again after '11' minutes.")
    with pytest.raises(ArmError, match="answered 429: TooManyRequests"):
        arm.read(POOL, "2024-05-01")
    assert clock.pauses == []


def test_a_read_is_repeated_when_the_service_fails_for_a_moment_and_a_write_is_not(arm, stand_in):
    refuse_times(stand_in, 2, 503, "ServiceUnavailable", "")
    arm.read(POOL, "2024-05-01")
    stand_in.answers.clear()
    refuse_times(stand_in, 1, 503, "ServiceUnavailable", "")
    with pytest.raises(ArmError) as caught:
        arm.write("PUT", POOL, "2024-05-01", {})
    assert caught.value.fleeting
    assert stand_in.count("PUT") == 1


def test_a_429_because_of_another_operation_is_a_conflict(arm, stand_in):
    refuse_times(stand_in, 1, 429, "RetryableError", "A retryable error occurred.")
    with pytest.raises(ArmError) as caught:
        arm.write("PUT", POOL, "2024-05-01", {})
    assert caught.value.conflict


def test_a_resource_that_does_not_exist_is_named(arm):
    with pytest.raises(ArmError, match=r"GET /nowhere was answered 404: ResourceNotFound .*Correct the id"):
        arm.read("/nowhere", "2024-05-01")
