# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages of Event Grid. They follow Microsoft's pages; none of them was recorded."""

import json
import queue
import random
import time

import pytest
from scheduled_events_emulator.cli import main
from scheduled_events_emulator.event_grid import Delivery
from web_servers import Handler, WebServer

from .conftest import FLEET, LIMIT

ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
COMPUTE = "/resourceGroups/emulated/providers/Microsoft.Compute"
OTHER_KINDS = {
    "vms": [
        {"name": "pool_0", "address": "127.0.10.1", "kind": "scale_set_uniform", "set": "pool"},
        {"name": "flex_0a1b2c3d", "address": "127.0.10.2", "kind": "scale_set_flexible", "set": "flex"},
        {"name": "Web_IN_0", "address": "127.0.10.3", "kind": "cloud_service", "set": "Web"},
        *FLEET["vms"][3:],
    ]
}


def messages(served, schema="event_grid"):
    return served.control("GET", f"event-grid?schema={schema}").json["messages"]


def statuses(found):
    return [message["data"]["resourceInfo"]["properties"]["EventStatus"] for message in found]


def test_a_message_has_the_fields_of_the_document_with_the_id_in_lower_case_and_a_time_in_iso_8601(served):
    served.schedule("Redeploy", "web1", "web2", event_id=ID, notice=600, description="text")
    [message] = messages(served)
    resource = message["data"]["resourceInfo"]
    assert (message["eventTime"], message["subject"]) == ("2022-04-15T05:20:00.000Z", resource["id"])
    assert resource["id"].endswith(
        f"{COMPUTE}/availabilitySets/web/providers/microsoft.maintenance/scheduledevents/{ID.lower()}"
    )
    assert resource["name"] == ID.lower()
    assert resource["properties"] == {
        "EventId": ID.lower(),
        "EventStatus": "Scheduled",
        "EventType": "Redeploy",
        "ResourceType": "VirtualMachine",
        "Resources": ["web1", "web2"],
        "NotBefore": "2022-04-15T05:30:00Z",
        "Description": "text",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def test_each_change_has_a_message_of_its_own_until_the_end(served):
    served.schedule("Redeploy", "web1", event_id=ID)
    served.post("web1", ID)
    served.advance(3600)
    found = messages(served)
    assert statuses(found) == ["Scheduled", "Started", "Completed"]
    assert len({message["id"] for message in found}) == 3
    assert [message["data"]["resourceInfo"]["properties"]["NotBefore"] for message in found][1:] == ["", ""]


@pytest.mark.parametrize("verb", ["events/{id}/cancel", "vms/web1/deallocate"])
def test_an_event_that_goes_without_an_impact_is_canceled(served, verb):
    served.schedule("Redeploy", "web1", event_id=ID)
    served.control("POST", verb.format(id=ID), {})
    assert statuses(messages(served)) == ["Scheduled", "Canceled"]


def test_an_override_replaces_or_removes_a_field(served):
    served.schedule("Redeploy", "web1", overrides={"NotBefore": "soon", "EventSource": None, "New": 1})
    properties = messages(served)[0]["data"]["resourceInfo"]["properties"]
    assert (properties["NotBefore"], properties["New"], "EventSource" in properties) == ("soon", 1, False)


@pytest.mark.parametrize(
    ("vm", "target"),
    [
        ("alone", "virtualMachines/alone"),
        ("pool_0", "virtualMachineScaleSets/pool"),
        ("flex_0a1b2c3d", "virtualMachineScaleSets/flex"),
    ],
)
def test_the_id_of_an_event_names_the_vm_or_its_set(emulate, vm, target):
    served = emulate(OTHER_KINDS)
    served.schedule("Reboot", vm)
    [message] = messages(served)
    assert f"{COMPUTE}/{target}/providers/" in message["data"]["resourceInfo"]["id"]


def test_nothing_is_published_about_a_cloud_service_or_a_hint(emulate):
    served = emulate(OTHER_KINDS)
    served.schedule("Reboot", "Web_IN_0")
    served.schedule("SpotRebalanceRecommendation", "mySpotVM")
    assert messages(served) == []


def test_both_schemas_carry_the_same_data(served):
    served.schedule("Redeploy", "web1")
    [message], [cloud_event] = messages(served), messages(served, "cloud_events")
    assert cloud_event["specversion"] == "1.0"
    assert (cloud_event["id"], cloud_event["type"], cloud_event["time"], cloud_event["data"]) == (
        message["id"],
        message["eventType"],
        message["eventTime"],
        message["data"],
    )
    assert served.control("GET", "event-grid?schema=other").status == 400


class Receiver(WebServer):
    """A webhook on loopback that answers with ``status``. ``received``: the headers and the JSON of each request."""

    def __init__(self):
        super().__init__(Request)
        self.received, self.status = queue.Queue(), 200

    def take(self, count):
        return [self.received.get(timeout=LIMIT) for _number in range(count)]


class Request(Handler):
    def do_POST(self):
        status = self.server.status
        # Before the answer, which lets the next one come.
        self.server.received.put((self.headers, json.loads(self.content())))
        self.reply(status)


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.stop()


def test_each_message_is_posted_as_often_as_asked_with_the_token(emulate, receiver):
    served = emulate(options={"delivery": Delivery(url=receiver.url, repeats=1, token="not-a-secret")})
    served.schedule("Redeploy", "web1")
    received = receiver.take(2)
    assert [content for _headers, content in received] == [messages(served)] * 2
    assert {headers["Authorization"] for headers, _content in received} == {"Bearer not-a-secret"}


def test_a_cloud_event_is_posted_alone(emulate, receiver):
    served = emulate(options={"delivery": Delivery(url=receiver.url, schema="cloud_events")})
    served.schedule("Redeploy", "web1")
    [(headers, content)] = receiver.take(1)
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert [content] == messages(served, "cloud_events")


def test_the_time_of_the_platform_passes_although_no_vm_asks(emulate, receiver):
    served = emulate(options={"delivery": Delivery(url=receiver.url)})
    served.schedule("Redeploy", "web1", notice=60, started_for=60)
    served._clock.move_to(served._clock.now() + 60)
    assert statuses(content[0] for _headers, content in receiver.take(2)) == ["Scheduled", "Started"]


def test_a_message_that_is_refused_is_posted_again(emulate, receiver):
    receiver.status = 500
    served = emulate(options={"delivery": Delivery(url=receiver.url)})
    served.schedule("Redeploy", "web1")
    receiver.take(1)
    receiver.status = 200
    give_up_at = time.monotonic() + LIMIT
    while receiver.received.empty() and time.monotonic() < give_up_at:
        served.real += 60
        time.sleep(0.01)
    assert [content for _headers, content in receiver.take(1)] == [messages(served)]


def test_messages_can_be_late_and_so_overtake_one_another(emulate, receiver, monkeypatch):
    asked, late = [], iter((90.0, 60.0, 30.0))
    monkeypatch.setattr(random, "uniform", lambda *limits: asked.append(limits) or next(late))
    served = emulate(options={"delivery": Delivery(url=receiver.url, disorder=100)})
    served.schedule("Redeploy", "web1")
    served.advance(3600)
    served.advance(3600)
    for message in reversed(messages(served)):
        served.real += 30
        assert [content for _headers, content in receiver.take(1)] == [[message]]
    assert asked == [(0, 100)] * 3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--event-grid-url", "ftp://here"], "is not a URL such as"),
        (["--event-grid-token-file", "/dev/null"], "is not a readable file with a token"),
    ],
)
def test_options_that_cannot_be_used_are_refused(capsys, arguments, reason):
    with pytest.raises(SystemExit):
        main(["serve", "--fleet", "fleet.json", *arguments])
    assert reason in capsys.readouterr().err


def test_the_command_prints_one_message_a_line(served, capsys):
    served.schedule("Redeploy", "web1")
    assert main(["--control", served.control_url, "event-grid"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == messages(served)
