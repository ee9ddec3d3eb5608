# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scheduled_events_info against the emulator: answers, versions, scope, filters and names."""

import datetime
import json

import pytest

from playbooks import module_task, play

INFO = "scheduled_events_info"
NEW_FIELDS = {"2019-04-01": "description", "2019-08-01": "event_source", "2020-07-01": "duration_in_seconds"}
VERSIONS = ["2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"]
TYPES_SINCE = {"Freeze": "2017-03-01", "Preempt": "2017-11-01", "Terminate": "2019-01-01"}


def ids(result):
    return [event["event_id"] for event in result["events"]]


@pytest.fixture(scope="module")
def pair(fleet):
    """An availability set of two, with a Redeploy that names both."""
    emulator = fleet("web1", "web2")
    emulator.event_id = emulator.schedule("Redeploy", "web1", "web2", description="Moving; $(reboot) {{ x }}")
    return emulator


def test_the_ad_hoc_command_answers_as_documented(ansible, pair):
    run = ansible.run_ad_hoc(INFO, f"endpoint={pair.endpoints['web2']}")
    assert run.rc == 0
    not_before = datetime.datetime.fromisoformat(pair.state()["events"][0]["not_before"])
    (event,) = run.tasks[0]["events"]
    looked_at = not_before.timestamp() - event.pop("seconds_until_not_before")
    assert run.started - 1 <= looked_at <= run.ended + 1
    assert event == {
        "event_id": pair.event_id,
        "event_type": "Redeploy",
        "event_status": "Scheduled",
        "event_source": "Platform",
        "resource_type": "VirtualMachine",
        "resources": ["web1", "web2"],
        "not_before": not_before.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "description": "Moving; $(reboot) {{ x }}",
        "duration_in_seconds": -1,
        "affects_this_vm": True,
        "is_leader": False,
        "additional": {},
    }
    rest = {
        "changed": False,
        "incarnation": 1,
        "vm_name": "web2",
        "api_version": "2020-07-01",
        "endpoint": pair.endpoints["web2"],
        "endpoint_source": "given",
    }
    assert {key: run.tasks[0][key] for key in rest} == rest


@pytest.mark.core
def test_no_text_of_a_document_is_a_template_in_a_play(ansible, web_host, tmp_path):
    owned = tmp_path / "owned"
    hostile = f"{{{{ lookup('ansible.builtin.pipe', 'touch {owned}') }}}}"
    names = ("EventId", "EventType", "EventStatus", "EventSource", "ResourceType", "Description", "NotBefore", "New")
    event = {**dict.fromkeys(names, hostile), "Resources": ["web1", hostile], hostile: hostile}
    host = web_host(200, json.dumps({"DocumentIncarnation": hostile, "Events": [event]}).encode())
    read = {**module_task(INFO, {"endpoint": host.endpoint, "vm_name": "web1"}), "register": "read"}
    use = {"ansible.builtin.set_fact": {"used": "{{ read.events[0] }}", "number": "{{ read.incarnation }}"}}
    show = {"ansible.builtin.debug": {"msg": "{{ used }} {{ number }} {{ used.resources | join(' ') }}"}}
    run = ansible.run_playbook([play([read, use, show])])
    assert run.rc == 0, run.output
    assert run.tasks[0]["events"][0]["description"] == hostile
    assert run.tasks[-1]["msg"].count("lookup(") > len(names)
    assert not owned.exists()


def test_proxy_variables_do_not_matter(ansible, pair, closed_port):
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    arguments = {"endpoint": pair.endpoints["web1"], "retry_for": 1}
    result = ansible.run_module(INFO, arguments, env=dict.fromkeys(names, closed_port))
    assert not result.failed, result["msg"]
    assert ids(result) == [pair.event_id]


@pytest.mark.core
def test_check_mode_reads_the_same(ansible, pair):
    arguments = {"endpoint": pair.endpoints["web1"]}
    assert ids(ansible.run_module(INFO, arguments, check=True)) == [pair.event_id]


@pytest.fixture(scope="module")
def by_version(ansible, emulate):
    """Version → the result for it, of an event of each kind of type."""
    vms = [{"name": "set_0", "kind": "scale_set_uniform", "set": "set"}]
    emulator = emulate(vms, "--manual-clock", "--rate-limit", "0")
    for event_type in TYPES_SINCE:
        emulator.schedule(event_type, "set_0", duration=7, description="Why")
    calls = [(INFO, {"endpoint": emulator.endpoints["set_0"], "api_version": version}) for version in VERSIONS]
    return dict(zip(VERSIONS, ansible.run_modules(calls), strict=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_fields_that_a_version_lacks_are_null(by_version, version):
    values = {"description": "Why", "event_source": "Platform", "duration_in_seconds": 7}
    expected = {field: values[field] if version >= since else None for since, field in NEW_FIELDS.items()}
    assert by_version[version]["events"], "no event"
    for event in by_version[version]["events"]:
        assert {field: event[field] for field in expected} == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_the_types_are_those_of_the_version(by_version, version):
    expected = [event_type for event_type, since in TYPES_SINCE.items() if version >= since]
    assert [event["event_type"] for event in by_version[version]["events"]] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_this_vm_is_recognised_with_and_without_the_underscore_of_the_preview(by_version, version):
    resources = ["_set_0"] if version == "2017-03-01" else ["set_0"]
    for event in by_version[version]["events"]:
        assert (event["resources"], event["affects_this_vm"], event["is_leader"]) == (resources, True, True)
    assert (by_version[version]["vm_name"], by_version[version]["api_version"]) == ("set_0", version)


@pytest.mark.core
@pytest.mark.parametrize("status", [400, 404])
def test_a_version_that_the_host_lacks_is_named_with_what_it_answered(ansible, emulate, status):
    options = ("--newest-version", "2019-08-01", "--unknown-version-status", str(status))
    emulator = emulate([{"name": "vm1"}], *options)
    calls = [(INFO, {"endpoint": emulator.endpoints["vm1"], "api_version": "2020-07-01", "retry_for": 30})]
    (result,) = ansible.run_modules(calls)
    url = f"{emulator.endpoints['vm1']}/metadata/scheduledevents?api-version=2020-07-01"
    phrase = {400: "400 Bad Request", 404: "404 Not Found"}[status]
    assert result.failed
    assert result["msg"].startswith(f"GET {url} answered {phrase}: ")
    assert "2020-07-01" in result["msg"].removeprefix(f"GET {url}")
    assert "2019-08-01" in result["msg"], "what the host knows"
    assert emulator.polls("vm1")["polls"] == 1, "asked again what is refused for good"


@pytest.mark.parametrize(("newest", "asked"), [("2019-08-01", 2), ("2024-07-09", 1)])
def test_the_newest_version_that_the_host_knows_is_asked_for_with_auto(ansible, emulate, newest, asked):
    emulator = emulate([{"name": "vm1"}], "--newest-version", newest)
    [result] = ansible.run_modules([(INFO, {"endpoint": emulator.endpoints["vm1"], "api_version": "auto"})])
    assert (result["api_version"], emulator.polls("vm1")["polls"]) == (newest, asked)


@pytest.fixture(scope="module")
def filtered(ansible, fleet):
    """Way of reading → the names of the events that vm1 gets that way; way → the whole result."""
    emulator = fleet("vm1", "vm10", "VM2")
    events = {
        "mine": emulator.schedule("Reboot", "vm10", "vm1", source="User"),
        "other": emulator.schedule("Freeze", "vm10"),
        "started": emulator.schedule("Redeploy", "vm1", direct_started=True),
        "odd": emulator.schedule("Freeze", "VM2", overrides={"EventType": "freeze", "Resources": ["VM1"]}),
    }
    names = {event_id: name for name, event_id in events.items()}
    ways = {
        "default": {},
        "all": {"scope": "all"},
        "type": {"event_types": ["reboot"]},
        "types": {"event_types": ["Freeze", "Redeploy"]},
        "status": {"event_statuses": ["Started"]},
        "source": {"event_sources": ["User"], "scope": "all"},
        "id": {"event_id": [events["other"].lower(), events["mine"]], "scope": "all"},
        "ids in one text": {"event_id": f" {events['other']}, {events['mine']}", "scope": "all"},
        "id, by the name of the option in the plural": {"event_ids": [events["mine"]]},
        "id of another VM": {"event_id": [events["other"]]},
        "two conditions": {"event_types": ["Freeze"], "event_sources": ["User"], "scope": "all"},
        "an empty answer of a survey": {"event_types": "", "event_statuses": "", "event_sources": ""},
        "an answer of a survey": {"event_types": "Freeze, Redeploy"},
        "empty lists": {"event_types": [], "event_id": [], "event_statuses": [], "event_sources": []},
        "as another VM": {"vm_name": "Vm2"},
        "as vm10": {"vm_name": "VM10"},
    }
    calls = [(INFO, {"endpoint": emulator.endpoints["vm1"], **arguments}) for arguments in ways.values()]
    results = dict(zip(ways, ansible.run_modules(calls), strict=True))
    return {way: [names[event_id] for event_id in ids(result)] for way, result in results.items()}, results


@pytest.mark.core
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("default", ["mine", "started", "odd"]),
        ("all", ["mine", "other", "started", "odd"]),
        ("type", ["mine"]),
        ("types", ["started", "odd"]),
        ("status", ["started"]),
        ("source", ["mine"]),
        ("id", ["mine", "other"]),
        ("ids in one text", ["mine", "other"]),
        ("id, by the name of the option in the plural", ["mine"]),
        ("id of another VM", []),
        ("two conditions", []),
        ("an empty answer of a survey", ["mine", "started", "odd"]),
        ("an answer of a survey", ["started", "odd"]),
        ("empty lists", ["mine", "started", "odd"]),
        ("as another VM", []),
        ("as vm10", ["mine", "other"]),
    ],
)
def test_the_selected_events_are(filtered, way, expected):
    assert filtered[0][way] == expected


@pytest.mark.core
def test_events_of_others_are_marked(filtered):
    marks = [(event["affects_this_vm"], event["is_leader"]) for event in filtered[1]["all"]["events"]]
    assert marks == [(True, False), (False, False), (True, True), (True, True)]


def test_a_given_vm_name_is_returned_as_given(filtered):
    assert filtered[1]["as another VM"]["vm_name"] == "Vm2"


@pytest.fixture(scope="module")
def by_vm(ansible, emulate):
    """VM → its result; the VMs' names differ from what Resources or the guest say."""
    uniform = {"kind": "scale_set_uniform", "set": "aks-pool-vmss"}
    emulator = emulate(
        [
            {"name": "mySpotVM", "resource_name": "myspotvm", "hostname": "elsewhere", "spot": True},
            {"name": "aks-pool-vmss_13", **uniform},
            {"name": "aks-pool-vmss_1", **uniform},
            {"name": "flex_0a1b2c3d", "kind": "scale_set_flexible", "set": "flex"},
            {"name": "Web_IN_0", "kind": "cloud_service", "set": "cloud"},
        ],
        "--manual-clock",
    )
    emulator.schedule("Preempt", "mySpotVM")
    emulator.schedule("Reboot", "aks-pool-vmss_13")
    emulator.schedule("Terminate", "flex_0a1b2c3d")
    emulator.schedule("Freeze", "Web_IN_0")
    calls = [(INFO, {"endpoint": endpoint}) for endpoint in emulator.endpoints.values()]
    return dict(zip(emulator.endpoints, ansible.run_modules(calls), strict=True))


@pytest.mark.parametrize(
    ("vm", "resources"),
    [
        ("mySpotVM", [["myspotvm"]]),
        ("aks-pool-vmss_13", [["aks-pool-vmss_13"]]),
        ("aks-pool-vmss_1", []),
        ("flex_0a1b2c3d", [["flex_0a1b2c3d"]]),
        ("Web_IN_0", [["Web_IN_0"]]),
    ],
)
def test_a_vm_finds_its_own_events(by_vm, vm, resources):
    assert by_vm[vm]["vm_name"] == vm
    assert [event["resources"] for event in by_vm[vm]["events"]] == resources


@pytest.mark.core
@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ("VM1", []),
        (
            "vm2",
            [
                'vm_name: "vm2" is not the name that the metadata service gives this VM, which is "vm1"; '
                "events of this VM are not found under another name"
            ],
        ),
    ],
)
def test_a_given_vm_name_is_used_with_a_warning_if_the_service_gives_another(ansible, web_host, given, warnings):
    host = web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"vm1"})
    result = ansible.run_module(INFO, {"endpoint": host.endpoint, "vm_name": given})
    assert result["vm_name"] == given
    assert list(map(str, result.result.get("warnings", []))) == warnings


def test_a_given_vm_name_is_used_where_the_service_does_not_give_one(ansible, web_host):
    host = web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"<html>"})
    result = ansible.run_module(INFO, {"endpoint": host.endpoint, "vm_name": "vm1"})
    assert (result["vm_name"], result.result.get("warnings", [])) == ("vm1", [])
    assert len(host.asked) == 2


@pytest.mark.core
def test_a_filter_that_no_event_meets_is_warned_of(ansible, web_host):
    host = web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"vm1"})
    filters = {
        "event_types": ["Rebot", "freeze", "SpotRebalanceRecommendation"],
        "event_statuses": ["Completed", "STARTED"],
        "event_sources": ["user", "Azure"],
        "event_id": ["nonsense", "c7061bac-afdc-4513-b24b-aa5f13a16123"],
    }
    result = ansible.run_module(INFO, {"endpoint": host.endpoint, **filters})
    assert not result.failed
    assert list(map(str, result["warnings"])) == [
        'event_types: "Rebot" is not an event type that Azure is known to use, so it may select no event; '
        "known are Freeze, Reboot, Redeploy, Preempt, Terminate, SpotRebalanceRecommendation",
        'event_statuses: "Completed" is not a status that Azure is known to use, so it may select no event; '
        "known are Scheduled, Started, Advisory",
        'event_sources: "Azure" is not a source that Azure is known to use, so it may select no event; '
        "known are Platform, User",
        'event_id: "nonsense" is not the id of an event, so no event has it; '
        "expected a GUID such as C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    ]


def test_an_empty_first_answer_is_not_taken_for_no_events(ansible, emulate):
    emulator = emulate([{"name": "vm1"}], "--empty-first", "--manual-clock")
    event_id = emulator.schedule("Reboot", "vm1")
    assert ids(ansible.run_module(INFO, {"endpoint": emulator.endpoints["vm1"]})) == [event_id]
