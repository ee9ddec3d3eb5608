# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bad input is refused with the value and what was expected, before anything is asked."""

import pytest

MODULES = ("scheduled_events_info", "scheduled_event_approve", "scheduled_events_wait")
NO_URL = "endpoint: expected http://HOST or http://HOST:PORT, or auto, not"
NO_TIME = "expected a number above 0"
NO_VERSION = "api_version: expected a date, such as 2020-07-01, or auto, not"

# (arguments beyond a good endpoint, message), for every module
NO_EVENT = "event_id contains an empty text: expected the id of an event in each place"
COMMON = [
    ({"endpoint": "not a url"}, f'{NO_URL} "not a url"'),
    ({"endpoint": "ftp://127.0.0.1"}, f'{NO_URL} "ftp://127.0.0.1"'),
    ({"endpoint": "http://user:secret@127.0.0.1"}, f'{NO_URL} "http://…@127.0.0.1"'),
    ({"api_version": "latest"}, f'{NO_VERSION} "latest"'),
    ({"api_version": "2020-7-1"}, f'{NO_VERSION} "2020-7-1"'),
    ({"request_timeout": 0}, f"request_timeout is 0, {NO_TIME}"),
    ({"request_timeout": -1}, f"request_timeout is -1, {NO_TIME}"),
    ({"retry_for": 0}, f"retry_for is 0, {NO_TIME}"),
    ({"retry_for": "nan"}, f"retry_for is nan, {NO_TIME}"),
    ({"vm_name": " "}, 'vm_name: expected the name of a VM in Azure, or null to ask the service, not ""'),
    ({"vm_name": ["web1"]}, "vm_name: expected the name of a VM in Azure, or null to ask the service, not"),
    ({"vm": "web1"}, "Unsupported parameters for"),
    ({"event_id": ""}, NO_EVENT),  # of an empty variable, where every wait for absence would end at once
]
OWN = {
    "scheduled_events_info": [
        ({"scope": "mine"}, "value of scope must be one of: this_vm, all, got: mine"),
        ({"retry_for": "soon"}, "argument 'retry_for' is of type"),
    ],
    "scheduled_event_approve": [
        ({"event_id": ["A", ""]}, NO_EVENT),
        ({"event_id": None}, "missing required arguments: event_id"),
    ],
    "scheduled_events_wait": [
        ({"event_id": " "}, NO_EVENT),
        ({"timeout": 0}, f"timeout is 0, {NO_TIME}"),
        ({"timeout": "inf"}, "timeout is inf, expected a number from 0 to"),
        ({"sleep": -2}, f"sleep is -2, {NO_TIME}"),
        (
            {"stable_for": -1},
            "stable_for is -1, expected a number from 0 to 1e+08",
        ),
        (
            {"stable_for": 5},
            "stable_for 5 is out of range: expected seconds, 0 or more and less than timeout, which is 5",
        ),
        ({"state": "gone"}, "value of state must be one of: absent, present, got: gone"),
    ],
}
BASE = {
    "scheduled_events_info": {},
    "scheduled_event_approve": {"event_id": ["A"]},
    "scheduled_events_wait": {"timeout": 5},
}
CASES = {
    f"{module} {arguments}": (module, arguments, message)
    # What all modules share is checked by shared code: one of them shows it for all values.
    for module in MODULES
    for arguments, message in [*(COMMON if module == MODULES[0] else COMMON[3:4]), *OWN[module]]
}


FALLBACK = {"fallback": "azure_resource_manager"}
TURN = [
    ({"fallback": "email"}, "value of fallback must be one of: none, azure_resource_manager, got: email"),
    ({**FALLBACK, "fallback_max_age": 30}, "fallback_max_age is 30, but the fallback acts after 30 seconds of silence"),
    ({**FALLBACK, "fallback_max_age": "nan"}, "fallback_max_age is nan"),
    ({**FALLBACK, "phase_timeout": "20"}, "phase_timeout is 20"),
    ({**FALLBACK, "fallback_resource_id": "web1"}, "fallback_resource_id is 'web1', expected /subscriptions/"),
    (FALLBACK, "the collection azure.azcollection is not installed on the control node. Install it with"),
]
CASES.update({f"turn {arguments}": ("scheduled_events_turn", arguments, message) for arguments, message in TURN})


@pytest.fixture(scope="module")
def host(web_host):
    """A host that would answer."""
    return web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"vm1"})


@pytest.fixture(scope="module")
def results(ansible, host):
    """Case → result."""
    calls = []
    for module, arguments, _message in CASES.values():
        given = {"endpoint": host.endpoint, **BASE.get(module, {}), **arguments}
        calls.append((module, {name: value for name, value in given.items() if value is not None}))
    # Only the collection itself counts as installed, whatever else this Python has.
    alone = {"ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
    return dict(zip(CASES, ansible.run_modules(calls, env=alone), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_a_message(results, case):
    message = CASES[case][2]
    assert results[case].failed
    assert message in results[case]["msg"]
    assert "secret" not in results[case]["msg"]


def test_nothing_was_asked(results, host):
    assert results
    assert host.asked == []


def test_the_same_arguments_without_the_mistake_ask(ansible, web_host):
    host = web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"vm1"})
    calls = [(module, {"endpoint": host.endpoint, **arguments}) for module, arguments in BASE.items()]
    found = [(run.failed, run["endpoint"], run["endpoint_source"]) for run in ansible.run_modules(calls)]
    assert found == [(False, host.endpoint, "given")] * 3
    assert len(host.asked) >= 3
