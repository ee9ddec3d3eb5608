# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded documents: what scheduled_events_info makes of each, and that the emulator writes the same events."""

import calendar
import datetime
import json
import pathlib
import time

import pytest

PAYLOADS = pathlib.Path(__file__).parents[2] / "payloads"
NAMES = sorted(path.stem for path in PAYLOADS.glob("*.json"))

LIVE_MIGRATION = {
    "event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    "event_type": "Freeze",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["WestNO_0", "WestNO_1"],
    "not_before": "2022-04-11T22:26:58Z",
    "description": ("Virtual machine is being paused because of a memory-preserving Live Migration operation."),
    "duration_in_seconds": 5,
    "affects_this_vm": True,
    "is_leader": False,
    "additional": {},
}
REBOOT_2018 = {
    "event_id": "28512AF7-C957-4500-9BC4-842D6FB531E4",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": None,
    "resource_type": "VirtualMachine",
    "resources": ["sample_4"],
    "not_before": "2018-01-24T21:20:44Z",
    "description": None,
    "duration_in_seconds": None,
    "affects_this_vm": False,
    "is_leader": False,
    "additional": {},
}
ODD = {
    **REBOOT_2018,
    "event_id": "602D9444-D2CD-49C7-8624-8643E7171299",
    "resources": ["vm10"],
    "not_before": "2019-09-19T18:29:47Z",
}

# name of the document → (name of the VM that reads it, api_version, incarnation, all events as it sees them)
EXPECTED = {
    "live-migration-1-empty": ("WestNO_1", "2020-07-01", 1, []),
    "live-migration-2-scheduled": ("WestNO_1", "2020-07-01", 2, [LIVE_MIGRATION]),
    "live-migration-3-started": (
        "WestNO_1",
        "2020-07-01",
        3,
        [{**LIVE_MIGRATION, "event_status": "Started", "not_before": None}],
    ),
    "live-migration-4-removed": ("WestNO_1", "2020-07-01", 4, []),
    "two-reboots-2018": (
        "sample_1",
        "2017-11-01",
        192,
        [
            REBOOT_2018,
            {
                **REBOOT_2018,
                "event_id": "A626E37F-793E-44E1-89B5-99AE0B96044C",
                "resources": ["sample_1"],
                "affects_this_vm": True,
                "is_leader": True,
            },
        ],
    ),
    "user-reboot-2021": (
        "flatcar-vm1",
        "2020-07-01",
        2,
        [
            {
                "event_id": "4CAEA225-A741-474D-A72E-428C86FCD853",
                "event_type": "Reboot",
                "event_status": "Scheduled",
                "event_source": "User",
                "resource_type": "VirtualMachine",
                "resources": ["flatcar-vm1"],
                "not_before": "2021-07-22T04:50:17Z",
                "description": "",
                "duration_in_seconds": -1,
                "affects_this_vm": True,
                "is_leader": True,
                "additional": {},
            }
        ],
    ),
    "freeze-started-empty-notbefore": (
        "aks-nodepool1-21922338-vmss_47",
        "2019-08-01",
        208,
        [
            {
                "event_id": "D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE",
                "event_type": "Freeze",
                "event_status": "Started",
                "event_source": "Platform",
                "resource_type": "VirtualMachine",
                "resources": ["aks-nodepool1-21922338-vmss_47"],
                "not_before": None,
                "description": "Host server is undergoing maintenance.",
                "duration_in_seconds": None,
                "affects_this_vm": True,
                "is_leader": True,
                "additional": {},
            }
        ],
    ),
    "spot-preempt-2024": (
        "aks-workloads1-15413341-vmss_3",
        "2019-08-01",
        1,
        [
            {
                "event_id": "51941B56-8080-45AC-81AE-8BDA818F5958",
                "event_type": "Preempt",
                "event_status": "Scheduled",
                "event_source": "Platform",
                "resource_type": "VirtualMachine",
                "resources": ["aks-workloads1-15413341-vmss_3"],
                "not_before": "2024-03-16T19:52:09Z",
                "description": "",
                "duration_in_seconds": None,
                "affects_this_vm": True,
                "is_leader": True,
                "additional": {},
            }
        ],
    ),
    "preview-underscore-redeploy-2017": (
        "mysrv",
        "2017-03-01",
        1,
        [
            {
                **REBOOT_2018,
                "event_id": "762D06A2-8289-469B-AB27-4D26C9C745B3",
                "event_type": "Redeploy",
                "resources": ["_mysrv"],
                "not_before": "2017-04-17T18:40:06Z",
                "affects_this_vm": True,
                "is_leader": True,
            }
        ],
    ),
    "odd-no-resources-no-notbefore": (
        "vm1",
        "2020-07-01",
        7,
        [
            {
                **REBOOT_2018,
                "event_id": "602D9444-D2CD-49C7-8624-8643E7171298",
                "event_type": "Freeze",
                "event_status": "Started",
                "resources": [],
                "not_before": None,
            }
        ],
    ),
    "odd-string-incarnation": (
        "backend_in_0",
        "2020-07-01",
        1,
        [
            {
                "event_id": "602D9444-D2CD-49C7-8624-8643E7171297",
                "event_type": "Reboot",
                "event_status": "Scheduled",
                "event_source": "Platform",
                "resource_type": "VirtualMachine",
                "resources": ["FrontEnd_IN_0", "BackEnd_IN_0"],
                "not_before": "2016-09-19T18:29:47Z",
                "description": "Host server is undergoing maintenance.",
                "duration_in_seconds": 600,
                "affects_this_vm": True,
                "is_leader": False,
                "additional": {},
            }
        ],
    ),
    "odd-wrong-weekday-iso-and-unknown": (
        "vm1",
        "2020-07-01",
        8,
        [
            ODD,
            {
                **ODD,
                "event_id": "602d9444-d2cd-49c7-8624-8643e717129a",
                "event_type": "Redeploy",
                "resources": ["vm1"],
                "not_before": "2016-09-19T18:29:47Z",
                "affects_this_vm": True,
                "is_leader": True,
            },
            {
                **ODD,
                "event_id": "602D9444-D2CD-49C7-8624-8643E717129B",
                "event_type": "SpotRebalanceRecommendation",
                "resources": ["VM1"],
                "not_before": None,
                "affects_this_vm": True,
                "is_leader": True,
                "additional": {"SomethingNew": {"a": 1}},
            },
        ],
    ),
}


def epoch(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


@pytest.fixture(scope="module")
def readings(ansible, web_host):
    """Document → the host that served it; document → the result; the wall times before and after."""
    hosts, calls = {}, {}
    for name in NAMES:
        vm_name, api_version, _incarnation, _events = EXPECTED[name]
        body = (PAYLOADS / f"{name}.json").read_bytes()
        hosts[name] = web_host(200, body, path_bodies={"/metadata/instance": vm_name.encode()})
        arguments = {"endpoint": hosts[name].endpoint, "api_version": api_version, "retry_for": 1}
        calls[name] = ("scheduled_events_info", {**arguments, "scope": "all"})
    before = time.time()
    results = dict(zip(calls, ansible.run_modules(list(calls.values())), strict=True))
    return hosts, results, before, time.time()


def test_every_recorded_document_has_an_expectation():
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_info_returns_all_events_of_a_recorded_document(readings, name):
    result = readings[1][name]
    vm_name, api_version, incarnation, expected = EXPECTED[name]
    assert not result.failed, result["msg"]
    events = [dict(event) for event in result["events"]]
    for event in events:
        del event["seconds_until_not_before"]
    assert events == expected
    own = {key: result[key] for key in ("incarnation", "vm_name", "api_version", "changed")}
    assert own == {"incarnation": incarnation, "vm_name": vm_name, "api_version": api_version, "changed": False}


@pytest.mark.parametrize("name", NAMES)
def test_info_counts_the_seconds_until_not_before_from_now(readings, name):
    _hosts, results, before, after = readings
    for event in results[name]["events"]:
        seconds = event["seconds_until_not_before"]
        if event["not_before"] is None:
            assert seconds is None
        else:
            assert epoch(event["not_before"]) - after - 1 <= seconds <= epoch(event["not_before"]) - before + 1


@pytest.mark.parametrize("name", NAMES)
def test_info_asks_with_the_header_and_the_version_and_nothing_else(readings, name):
    asked = readings[0][name].asked
    targets = {
        ("GET", f"/metadata/scheduledevents?api-version={EXPECTED[name][1]}"),
        ("GET", "/metadata/instance/compute/name?api-version=2017-08-01&format=text"),
    }
    assert {(method, target) for method, target, _headers in asked} == targets
    assert len(asked) == 2
    assert all(headers["metadata"] == "true" and "x-forwarded-for" not in headers for _m, _t, headers in asked)


def test_info_warns_of_a_date_that_it_cannot_read(readings):
    result = readings[1]["odd-wrong-weekday-iso-and-unknown"]
    assert [str(warning) for warning in result["warnings"]] == [
        'NotBefore "soon" of event 602D9444-D2CD-49C7-8624-8643E717129B cannot be read and counts as absent'
    ]


# The other side: the same events, scheduled in the emulator at the recorded time, give the recorded bytes.

# document → (how the event is announced, api-version of the recording), in the order of time
ANNOUNCED = {
    "preview-underscore-redeploy-2017": ([{"type": "Redeploy", "vms": ["mysrv"]}], "2017-03-01"),
    "two-reboots-2018": (
        [{"type": "Reboot", "vms": ["sample_4"]}, {"type": "Reboot", "vms": ["sample_1"]}],
        "2017-11-01",
    ),
    "user-reboot-2021": ([{"type": "Reboot", "vms": ["flatcar-vm1"], "source": "User", "duration": -1}], "2020-07-01"),
    "live-migration-2-scheduled": (
        [
            {
                "type": "Freeze",
                "vms": ["WestNO_0", "WestNO_1"],
                "duration": 5,
                "description": LIVE_MIGRATION["description"],
            }
        ],
        "2020-07-01",
    ),
    "freeze-started-empty-notbefore": (
        [
            {
                "type": "Freeze",
                "vms": ["aks-nodepool1-21922338-vmss_47"],
                "direct_started": True,
                "description": "Host server is undergoing maintenance.",
            }
        ],
        "2019-08-01",
    ),
    "spot-preempt-2024": ([{"type": "Preempt", "vms": ["aks-workloads1-15413341-vmss_3"]}], "2019-08-01"),
}
RECORDED_FLEET = [
    {"name": "mysrv"},
    {"name": "flatcar-vm1"},
    *(
        {"name": name, "kind": "scale_set_uniform", "set": name.rpartition("_")[0]}
        for name in (
            "sample_1",
            "sample_4",
            "WestNO_0",
            "WestNO_1",
            "aks-nodepool1-21922338-vmss_47",
            "aks-workloads1-15413341-vmss_3",
        )
    ),
]
NOTICE = 300


@pytest.fixture(scope="module")
def emulated(emulate):
    """Document → the body that the emulator gives for the same events."""
    emulator = emulate(RECORDED_FLEET, "--manual-clock", "--start-time", "2017-04-01T00:00:00Z", "--rate-limit", "0")
    bodies = {}
    for name, (announced, api_version) in ANNOUNCED.items():
        events = json.loads((PAYLOADS / f"{name}.json").read_bytes())["Events"]
        not_before = next((event["not_before"] for event in EXPECTED[name][3] if event["not_before"]), None)
        if not_before:
            now = datetime.datetime.fromisoformat(emulator.state()["now"]).timestamp()
            emulator.advance(epoch(not_before) - NOTICE - now)
        for fields, event in zip(announced, events, strict=True):
            emulator.schedule(
                fields["type"],
                *fields["vms"],
                event_id=event["EventId"],
                **{"notice": NOTICE, **{key: value for key, value in fields.items() if key not in ("type", "vms")}},
            )
        bodies[name] = emulator.document(announced[-1]["vms"][-1], api_version)
    return bodies


@pytest.mark.parametrize("name", ANNOUNCED)
def test_the_emulator_writes_recorded_events_byte_for_byte(emulated, name):
    def array(body):
        return body.strip().partition(b'"Events":')[2]  # the incarnation shows how long a VM has listened

    assert array(emulated[name]) == array((PAYLOADS / f"{name}.json").read_bytes())
