# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event filter, with the messages of the emulator. They follow Microsoft's pages; none of them was recorded."""

import dataclasses
import itertools
import json
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading import loaded
from scheduled_events_emulator.event_grid import Delivery, Outbox
from scheduled_events_emulator.instance import SUBSCRIPTION

from .conftest import ROOT, of_the_emulator

FILTER = ROOT / "extensions" / "eda" / "plugins" / "event_filter" / "azure_events.py"
ID = "c7061bac-afdc-4513-b24b-aa5f13a16123"
COMPUTE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/emulated/providers/Microsoft.Compute"
SETS = f"{COMPUTE}/virtualMachineScaleSets"
OTHER_TYPE = "microsoft.maintenance/scheduledevents/write"
TYPE = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"


def load():
    return loaded(FILTER)


@pytest.fixture
def passes():
    """The filter of one source, which remembers nothing yet."""
    return load().main


def life(verb):
    """The messages of an event that is scheduled, canceled or started, and over after an hour."""
    simulation = of_the_emulator.Simulation({"vms": [{"name": "web_0", "address": "127.0.10.1"}]})
    platform = simulation.platform
    outbox = Outbox(platform.fleet, Delivery(), monotonic=simulation.clock.now)
    platform._publish = outbox.add
    simulation.schedule("Redeploy", "web_0", event_id=ID, notice=900)
    getattr(platform, verb)(ID)
    simulation.advance(3600)
    return {each.resource["properties"]["EventStatus"]: each for each in outbox.messages}


PUBLISHED = {**life("cancel"), **life("start")}


def message(status="Scheduled", at=None, target=None, schema="event_grid", **changes):
    """A message of the emulator about a status, with changes."""
    published = PUBLISHED[status]
    resource = {**published.resource, "properties": {**published.resource["properties"], **changes}}
    if target is not None:
        resource["id"] = f"{target}/providers/microsoft.maintenance/scheduledevents/{ID}"
    return dataclasses.replace(published, time=at or published.time, resource=resource).to_json(schema)


def test_a_message_becomes_an_event_of_the_source_with_the_ids_of_its_vms(passes):
    event = passes({"payload": message()})
    assert isinstance(event.pop("seconds_until_not_before"), float)
    assert event.pop("id").startswith(ID.lower() + "-scheduled-")
    assert uuid.UUID(event["meta"].pop("uuid")).version == 5
    assert event == {
        "event_id": ID,
        "event_type": "Redeploy",
        "event_status": "Scheduled",
        "event_source": "Platform",
        "resource_type": "VirtualMachine",
        "resources": ["web_0"],
        "not_before": "2022-04-15T05:35:00Z",
        "description": "",
        "duration_in_seconds": -1,
        "additional": {},
        "vms": [{"name": "web_0", "resource_id": f"{COMPUTE}/virtualMachines/web_0"}],
        "change": "new",
        "repeated": 0,
        "meta": {"hosts": ["web_0"]},
    }


@pytest.mark.parametrize(
    "arrived",
    [
        {"payload": message(), "meta": {"endpoint": "azure"}},
        {"payload": [message()], "meta": {"endpoint": "azure"}},
        {"payload": message(schema="cloud_events"), "meta": {"endpoint": "azure"}},
        {"body": message(), "meta": {"endpoint": "azure"}},
        {"body": json.dumps(message()), "meta": {"endpoint": "azure"}},
        {**message(), "meta": {"endpoint": "azure"}},
        {"payload": {**message(), "eventType": OTHER_TYPE}, "meta": {"endpoint": "azure"}},
    ],
    ids=["webhook", "a list", "CloudEvents", "Service Bus", "Service Bus as text", "file", "the other type"],
)  # fmt: skip
def test_each_way_of_a_message_leads_to_the_same_event(passes, arrived):
    event = passes(arrived)
    del event["meta"]["uuid"]
    assert (event["event_id"], event["change"], event["meta"]) == (ID, "new", {"endpoint": "azure", "hosts": ["web_0"]})


def test_a_list_of_messages_becomes_an_event_for_each(passes):
    events = passes({"payload": [message(), message(EventId="other"), message()]})
    assert [(event.get("change"), event.get("ignored")) for event in events] == [
        ("new", None),
        ("new", None),
        (None, "repeated"),
    ]


@pytest.mark.parametrize(
    ("target", "name", "expected"),
    [
        (f"{SETS}/web", "web_12", f"{SETS}/web/virtualMachines/12"),
        (f"{SETS}/WEB", "web_12", f"{SETS}/WEB/virtualMachines/12"),
        (f"{SETS}/web", "web_8c21d4f3", f"{COMPUTE}/virtualMachines/web_8c21d4f3"),
        (f"{COMPUTE}/availabilitySets/front", "web_0", f"{COMPUTE}/virtualMachines/web_0"),
        ("/subscriptions/{{ 7 * 7 }}/resourceGroups/a/providers/Microsoft.Compute/virtualMachines/web_0", "web_0", ""),
        ("", "web_0", ""),
    ],
    ids=["uniform", "in another case", "flexible", "availability set", "a template", "nothing"],
)  # fmt: skip
def test_the_id_of_a_vm_is_put_together_from_that_of_its_event(passes, target, name, expected):
    event = passes({"payload": message(target=target, Resources=[name])})
    assert event["vms"] == [{"name": name, "resource_id": expected}]


def test_hosts_have_the_names_of_the_inventory_by_name_or_by_resource_id(passes):
    names = {"WEB_0": "web0.example.org", f"{COMPUTE}/virtualMachines/db".upper(): "db.shop.example.org"}
    event = passes({"payload": message(Resources=["web_0", "db", "plain", "all,!web"])}, host_names=names)
    assert event["meta"]["hosts"] == ["web0.example.org", "db.shop.example.org", "plain"]


def test_a_host_by_resource_id_is_found_whatever_the_case_of_the_name_of_its_vm(passes):
    names = {f"{COMPUTE}/virtualMachines/db": "db.shop.example.org"}
    event = passes({"payload": message(Resources=["DB"])}, host_names=names)
    assert event["meta"]["hosts"] == ["db.shop.example.org"]


def test_an_event_without_a_host_is_ignored_unless_it_is_not_to_be_limited(passes):
    odd = {"payload": message(Resources=["a b"])}
    assert passes(odd)["ignored"] == "without_hosts"
    assert passes(odd, limit_to_resources=False)["change"] == "new"


def test_completed_and_canceled_are_kept_and_end_an_event(passes):
    assert passes({"payload": message()})["change"] == "new"
    over = passes({"payload": message("Completed", at="2026-05-04T10:20:00Z")})
    assert (over["change"], over["event_status"]) == ("gone", "Completed")
    for late in (message("Started", at="2026-05-04T10:30:00Z"), message("Canceled", at="2026-05-04T10:31:00Z")):
        assert passes({"payload": late})["ignored"] == "overtaken"
    assert (
        passes({"payload": message("Canceled", EventId="other", EventStatus="canceled")})["event_status"] == "Canceled"
    )


@pytest.mark.parametrize(
    ("first", "late"),
    [
        (message("Started", at="2026-05-04T10:00:00Z"), message("Scheduled", at="2026-05-04T10:05:00Z")),
        (message(at="2026-05-04T10:00:00.25Z"), message(at="2026-05-04T10:00:00.1Z", NotBefore="")),
        (message(at="2026-05-04T10:00:01Z"), message(at="2026-05-04T11:00:00+02:00", NotBefore="")),
    ],
    ids=["an earlier status", "an earlier time", "an earlier time in another zone"],
)
def test_what_is_older_than_what_has_passed_changes_nothing(passes, first, late):
    assert passes({"payload": first})["change"] == "new"
    assert passes({"payload": late})["ignored"] == "overtaken"


@pytest.mark.parametrize(
    "broken",
    [
        None, 7, "text", [], {}, {"eventType": TYPE}, {"eventType": TYPE, "data": None},
        {**message(), "eventType": "Microsoft.Storage.BlobCreated"},
        {**message(), "eventTime": "yesterday"}, message(EventStatus="Perhaps"), message(EventId=7),
        message(EventId="{{ x }}"), message(EventId="#jinja2: x"),
        message(Resources=[["web_0"]] * 11000),
    ],
)  # fmt: skip
def test_a_malformed_message_is_counted_and_shown_and_the_next_one_passes(passes, broken, caplog):
    assert passes({"payload": broken})["malformed"] == 1
    assert "message 1 cannot be read: " in caplog.text
    assert passes({"payload": [broken, message()]})[1]["change"] == "new"


def test_a_malformed_message_of_any_length_is_shown_by_its_beginning(passes, caplog):
    passes({"payload": message(EventStatus="Perhaps", Description="x" * 1000)})
    assert f'"subject": "{PUBLISHED["Scheduled"].resource["id"][:60]}' in caplog.text
    assert len(caplog.text) < 1000


def test_the_question_of_event_grid_whether_it_may_send_shows_the_url_to_open(passes, caplog):
    url = f"https://rp-westeurope.eventgrid.azure.net/eventsubscriptions/scheduled-events/validate?id={'1' * 700}&t=2"
    asked = {"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationUrl": url}}
    assert url in passes({"payload": [asked]})["reason"]
    assert url in caplog.text


def test_no_text_of_a_message_reaches_a_play_as_a_template(passes):
    event = passes({"payload": message(Description="{{ lookup('pipe', 'id') }}", Resources=["{{ x }}", "web_0"])})
    assert "{{" not in json.dumps(event)
    assert "{{" not in json.dumps(passes({"payload": {"eventType": "{{ x }}"}}))


def test_no_text_of_the_request_to_a_webhook_reaches_a_play_as_a_template(passes):
    meta = {"endpoint": "{{ x }}", "headers": {"X-A": "{% x %}", "{{ X-B }}": "#jinja2: x"}}
    found = passes({"payload": message(), "meta": meta})["meta"]
    assert found["endpoint"] == "{ { x }}"
    assert found["headers"] == {"X-A": "{ % x %}", "{ { X-B }}": "# jinja2: x"}


@pytest.mark.parametrize("names", [7, {"web_0": 7}, {"": "x"}])
def test_host_names_that_are_none_are_refused(passes, names):
    with pytest.raises(ValueError, match="host_names"):
        passes({"payload": message()}, host_names=names)


@pytest.mark.parametrize(("given", "limits"), [("false", False), ("no", False), (False, False), ("true", True)])
def test_a_limit_to_resources_can_be_a_text(passes, given, limits):
    assert ("hosts" in passes({"payload": message()}, limit_to_resources=given)["meta"]) is limits


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"limit_to_resources": "maybe"}, 'limit_to_resources: expected true or false, not "maybe"'),
        ({"memory_file": "/"}, 'memory_file is "/", expected a file that can be written'),
        ({"memory_file": "/nonexistent/memory"}, 'memory_file is "/nonexistent/memory", expected a file'),
        ({"memory_file": 7}, "memory_file is 7, expected a file that can be written"),
        ({"memory_file": ["/m"]}, 'memory_file is ["/m"], expected a file that can be written'),
        ({"memory_file": "/m\0"}, r'memory_file is "/m\ufffd", expected a file that can be written'),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(passes, arguments, problem):
    with pytest.raises(ValueError, match="^" + re.escape(problem)):
        passes({"payload": message()}, **arguments)


@pytest.mark.parametrize("payload", [[[]], b"x", 7])
def test_what_is_not_a_message_says_what_was_expected(passes, payload):
    assert "expected an object with the fields of Event Grid" in passes({"payload": payload})["reason"]


def test_what_a_source_gives_in_place_of_the_request_is_left_out(passes):
    assert "hosts" in passes({"payload": message(), "meta": "x"})["meta"]


LIFE = [
    message("Scheduled"),
    message("Scheduled", at="2022-04-15T05:20:01Z", NotBefore="2022-04-15T05:40:00Z"),
    message("Started", at="2022-04-15T05:20:02Z"),
    message("Completed"),
]


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_repeated_and_disordered_messages_pass_each_change_once_and_end_as_the_newest_one(shuffled, times):
    passes, arriving = load().main, LIFE * times
    shuffled.shuffle(arriving)
    passed = [event for event in (passes({"payload": each}) for each in arriving) if "change" in event]
    assert [event["change"] for event in passed][-1] == "gone"
    assert sum(event["change"] == "gone" for event in passed) == 1
    order = ["Scheduled", "Started", "Completed"]
    statuses = [order.index(event["event_status"]) for event in passed]
    assert statuses == sorted(statuses)
    assert len({event["id"] for event in passed}) == len(passed)


def test_a_change_that_is_taken_back_is_a_change(passes):
    both = {"Resources": ["web_0", "web_1"]}
    found = [
        passes({"payload": message(at=f"2022-04-15T05:{minute}:00Z", **changes)})
        for minute, changes in ((21, both), (22, {}), (23, both), (21, both), (22, {}), (23, both))
    ]
    ends = [event.get("ignored") or event["change"] for event in found]
    assert ends == ["new", "changed", "changed", "repeated", "repeated", "repeated"]
    again = passes({"payload": message(at="2022-04-15T05:24:00Z")})
    assert again["change"] == "changed"
    assert again["meta"]["uuid"] not in [event["meta"]["uuid"] for event in found[:3]]  # ansible-rulebook would drop it


def test_it_remembers_a_bounded_number_of_events(monkeypatch):
    module = load()
    monkeypatch.setattr(module, "REMEMBERED", 3)
    for number in itertools.chain(range(5), range(5)):
        assert module.main({"payload": message(EventId=str(number))})["change"] == "new"
    assert len(module._KNOWN) == 3


def test_an_announcement_and_an_end_have_the_same_uuid_after_a_restart_whatever_comes_first_then():
    before, after = load().main, load().main
    first = [before(message(status))["meta"]["uuid"] for status in ("Scheduled", "Started", "Completed")]
    again = [after(message(status))["meta"]["uuid"] for status in ("Started", "Completed")]
    assert len(set(first)) == 3
    assert again == [first[0], first[2]]
    assert before(message(EventId="another"))["meta"]["uuid"] not in first


def test_what_the_rules_have_taken_is_remembered_after_a_restart_and_nothing_else(tmp_path):
    memory = str(tmp_path / "memory")
    before, after = load().main, load().main
    [event, first, second] = before({"payload": message()}, memory_file=memory)
    lost = before({"payload": message("Started")}, memory_file=memory)[0]
    assert (event["change"], lost["change"]) == ("new", "changed")
    assert not first  # what ansible-rulebook asks as soon as the rules have the event
    assert not second
    with open(memory, "a") as file:
        file.write('["half a li')
    late = [after({"payload": message(status)}, memory_file=memory)[0] for status in ("Scheduled", "Started")]
    assert [each.get("ignored") or each["change"] for each in late] == ["repeated", "changed"]


def test_a_memory_that_cannot_be_written_is_shown_and_ends_nothing(passes, tmp_path, caplog):
    _event, taken, _last = passes({"payload": message()}, memory_file=str(tmp_path / "memory"))
    (tmp_path / "memory").unlink()
    (tmp_path / "memory").mkdir()
    assert not taken
    assert "what has passed cannot be remembered after a restart" in caplog.text
