# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the source sends to a rulebook while the emulator announces, changes and ends events."""

import asyncio
import contextlib
import os
import socket

import pytest
from raw_service import Hang, Mark, RawService
from test_hostile_answers import FAULTS, whole

ANNOUNCED = b'{"DocumentIncarnation":2,"Events":[{"EventId":"A1","EventStatus":"Started","Resources":["vm1"]}]}'
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def approve(served, vm, event_id):
    assert served.post(vm, event_id).status == 200


def polls(served, vm):
    return served.control("GET", "polls").json["polls"][vm]["polls"]


def poll_again(served, vm, times=2):
    """Let the source poll, whole, since now."""
    served.wait_for_polls(vm, polls(served, vm) + times)


def inject(served, **fault):
    assert served.control("POST", "faults", fault).status == 201


# News


def test_an_event_is_new_then_changed_then_gone(served, listen):
    event_id = served.schedule("Reboot", "web1", "web2", description="rack 7")
    rulebook = listen(served.endpoint("web1"))
    [new] = rulebook.take(1)
    assert new.pop("seconds_until_not_before") < 0  # the emulator lives in 2022
    told = new.pop("id")
    assert told.startswith(event_id.lower() + "-scheduled-")
    assert new == {
        "meta": {"hosts": ["web1", "web2"]},
        "event_id": event_id,
        "event_type": "Reboot",
        "event_status": "Scheduled",
        "event_source": "Platform",
        "resource_type": "VirtualMachine",
        "resources": ["web1", "web2"],
        "not_before": "2022-04-15T05:35:00Z",
        "description": "rack 7",
        "duration_in_seconds": -1,
        "affects_this_vm": True,
        "is_leader": True,
        "additional": {},
        "change": "new",
        "repeated": 0,
        "vm_name": "web1",
        "endpoint": served.endpoint("web1"),
    }
    approve(served, "web2", event_id)
    changed = rulebook.take(2)[1]
    assert (changed["change"], changed["event_status"], changed["not_before"]) == ("changed", "Started", None)
    served.control("POST", f"events/{event_id}/complete")
    gone = rulebook.take(3)[2]
    assert (gone["change"], gone["event_status"], gone["id"]) == ("gone", "Started", event_id.lower() + "-gone")
    assert len({told, changed["id"], gone["id"]}) == 3
    poll_again(served, "web1")
    assert len(rulebook.received) == 3


def test_an_event_of_a_neighbour_is_sent_unless_the_source_is_for_one_vm(served, listen):
    theirs = served.schedule("Reboot", "web2")
    mine = served.schedule("Freeze", "web1")
    alone, everybody = listen(served.endpoint("web1"), scope="this_vm"), listen(served.endpoint("web1"))
    events = {event["event_id"]: event["affects_this_vm"] for event in everybody.take(2)}
    assert events == {theirs: False, mine: True}
    poll_again(served, "web1", 4)
    assert [event["event_id"] for event in alone.received] == [mine]


def test_a_name_that_is_given_is_not_asked_for(served, listen):
    inject(served, kind="status", status=404, paths=["name"])
    event_id = served.schedule("Preempt", "mySpotVM")
    rulebook = listen({"endpoint": served.endpoint("mySpotVM") + "/", "vm_name": " MYSPOTVM "})
    [event] = rulebook.take(1)
    assert (event["event_id"], event["vm_name"], event["endpoint"]) == (
        event_id,
        "MYSPOTVM",
        served.endpoint("mySpotVM"),
    )


def test_two_endpoints_of_one_event_send_it_each_with_one_id(served, listen):
    served.schedule("Redeploy", "web1", "web2")
    rulebook = listen(served.endpoint("web1"), served.endpoint("web2"))
    events = rulebook.take(2)
    assert {(event["vm_name"], event["is_leader"]) for event in events} == {("web1", True), ("web2", False)}
    assert len({event["id"] for event in events}) == 1


def test_a_source_that_starts_again_sends_what_is_announced_with_the_same_id(served, listen):
    served.schedule("Reboot", "web1")
    first = listen(served.endpoint("web1"))
    [before] = first.take(1)
    first.stop()
    [after] = listen(served.endpoint("web1")).take(1)
    assert (after["change"], after["id"]) == ("new", before["id"])


def test_an_event_that_stays_scheduled_is_sent_again_until_it_starts(served, listen):
    event_id = served.schedule("Reboot", "web1")
    rulebook = listen(served.endpoint("web1"), repeat=0.01)
    events = rulebook.take(3)
    assert [(event["change"], event["repeated"]) for event in events[:3]] == [("new", 0), ("new", 1), ("new", 2)]
    assert len({event["id"] for event in events}) == 1
    approve(served, "web1", event_id)
    rulebook.until(lambda: rulebook.received[-1]["event_status"] == "Started")
    count = len(rulebook.received)
    poll_again(served, "web1", 3)
    assert len(rulebook.received) == count


def test_each_repetition_comes_after_twice_the_time_of_the_one_before(source):
    event = {"event_id": "A", "event_status": "Scheduled"}
    news = source.News(repeat=300)
    sent = [(now, known.repeated) for now in range(0, 7 * 24 * 3600, 60) for _key, known in news.of([event], now)]
    assert sent[:4] == [(0, 0), (300, 1), (900, 2), (2100, 3)]
    assert len(sent) == 11


def test_an_event_is_sent_once_where_repeat_is_zero(served, listen):
    served.schedule("Reboot", "web1")
    rulebook = listen(served.endpoint("web1"), repeat=0)
    rulebook.take(1)
    poll_again(served, "web1", 3)
    assert len(rulebook.received) == 1


def test_polling_continues_while_actions_run_and_the_latest_change_of_each_event_waits(served, listen):
    rulebook = listen(served.endpoint("web1"))
    rulebook.block()
    held = served.schedule("Freeze", "web1")  # the one that put waits with
    poll_again(served, "web1")
    started, ended = served.schedule("Reboot", "web1"), served.schedule("Redeploy", "web1")
    poll_again(served, "web1")
    approve(served, "web1", started)
    served.control("POST", f"events/{ended}/cancel")
    poll_again(served, "web1")
    rulebook.go_on()
    events = {event["event_id"]: (event["change"], event["event_status"]) for event in rulebook.take(3)}
    assert events == {held: ("new", "Scheduled"), started: ("new", "Started"), ended: ("gone", "Scheduled")}
    poll_again(served, "web1")
    assert len(rulebook.received) == 3


# Hosts to limit actions to


def test_the_resources_become_the_hosts_of_the_inventory(served, listen):
    served.schedule("Reboot", "web1", "web2")
    rulebook = listen(served.endpoint("web1"), limit_to_resources="true", host_names={"WEB2": "web2.example.org"})
    assert rulebook.take(1)[0]["meta"] == {"hosts": ["web1", "web2.example.org"]}


def test_a_resource_that_would_be_a_pattern_is_not_a_host_and_an_event_without_hosts_is_not_sent(source, caplog):
    settings = source.read_settings({"limit_to_resources": True, "host_names": {"vm 1": "one", "!x": "two"}})
    names = [
        "all,localhost",
        "!web1",
        "@/etc/passwd",
        "&web",
        "~.*",
        "web[1:9]",
        "-e",
        "a:b",
        "*",
        "",
        "vm 1",
        "all",
        "ungrouped",
        "ok-1.x_2",
    ]
    assert source.hosts_of({"resources": names}, settings.host_names) == ["one", "ok-1.x_2"]
    outbox = source.Outbox()
    watch = source.Watch(source.Endpoint("http://127.0.0.1", "vm1"), settings, None, outbox)
    known = source.Known({"resources": names[:3]}, "id", "new", 0, 0.0)
    watch._send("a1", known)
    assert not outbox._filled.is_set()
    assert "event a1 is not sent: none of its resources" in caplog.text


def test_names_of_the_preview_lose_their_underscore(source):
    settings = source.read_settings({"limit_to_resources": True, "api_version": "2017-03-01"})
    assert source.hosts_of({"resources": ["_mysrv"]}, settings.host_names, settings.api_version) == ["mysrv"]


# Outages


FAULTS_OF_THE_EMULATOR = {
    "gone": {"kind": "status", "status": 410},
    "throttled": {"kind": "status", "status": 429},
    "error": {"kind": "status", "status": 500},
    "unknown": {"kind": "status", "status": 404},
    "empty": {"kind": "empty"},
    "cut": {"kind": "cut"},
    "broken": {"kind": "broken_json"},
    "mistyped": {"kind": "wrong_types"},
    "html": {"kind": "html"},
    "reset": {"kind": "reset"},
    "hanging": {"kind": "hang", "delay": 3600},
    "redirected": {"kind": "redirect", "location": "http://127.0.0.1:9/"},
}


def test_a_failed_poll_is_logged_and_changes_nothing_and_the_source_continues(emulate, listen, caplog):
    names = list(FAULTS_OF_THE_EMULATOR)
    served = emulate({"vms": [{"name": name, "address": f"127.0.11.{at}"} for at, name in enumerate(names, 1)]})
    event_ids = [served.schedule("Reboot", name) for name in names]
    rulebook = listen(*[served.endpoint(name) for name in names], request_timeout=2)
    rulebook.take(len(names))
    for name, fault in FAULTS_OF_THE_EMULATOR.items():
        inject(served, vms=[name], count=2, methods=["GET"], **fault)
    before = {name: polls(served, name) for name in names}
    for name in names:
        served.wait_for_polls(name, before[name] + 4)
    assert [name for name in names if f"{served.endpoint(name)}: a poll failed, which" not in caplog.text] == []
    assert rulebook.changes() == [("new", "Scheduled")] * len(names)
    for event_id in event_ids:
        served.control("POST", f"events/{event_id}/cancel")
    gone = rulebook.take(2 * len(names))[len(names) :]
    assert sorted((event["vm_name"], event["change"]) for event in gone) == sorted((name, "gone") for name in names)


def test_no_hostile_answer_ends_the_source_or_makes_an_event_gone(listen):
    services = {what: RawService([whole(ANNOUNCED)]) for what in FAULTS}
    try:
        endpoints = [{"endpoint": service.endpoint, "vm_name": "vm1"} for service in services.values()]
        rulebook = listen(*endpoints, request_timeout=1)

        def answer(scripts):
            """Answer with them from now on, and wait until each has been the answer to a poll."""
            wanted = {service: service.connections + 2 for service in services.values()}
            for what, service in services.items():
                service.scripts = [scripts[what]]
            rulebook.until(lambda: all(service.connections >= count for service, count in wanted.items()))

        rulebook.take(len(services))  # a busy machine may need several polls
        answer({what: fault[0] for what, fault in FAULTS.items()})
        answer({what: [whole(ANNOUNCED)] for what in FAULTS})
        changes = {
            what: [event["change"] for event in rulebook.received if event["endpoint"] == service.endpoint]
            for what, service in services.items()
        }
        assert {what: each for what, each in changes.items() if each != ["new"]} == {}
        for service in services.values():
            whole_requests = [request for request in service.requests if request]  # a client may go before it asks
            assert whole_requests
            assert all(b"\r\nMetadata: true\r\n" in request for request in whole_requests)
    finally:
        for service in services.values():
            service.stop()


def test_proxy_variables_are_ignored(emulate, listen, monkeypatch):
    for name in PROXIES:
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    served = emulate()
    served.schedule("Reboot", "web1")
    assert listen(served.endpoint("web1")).take(1)


def test_the_name_is_asked_for_until_it_is_answered(served, listen):
    inject(served, kind="html", paths=["name"], count=1)
    inject(served, kind="empty", paths=["name"], count=1)
    served.schedule("Reboot", "web1")
    assert listen(served.endpoint("web1")).take(1)[0]["vm_name"] == "web1"


@pytest.mark.parametrize(("body", "name"), [(b"{{ x }}", "{ { x }}"), ("\ufeffweb1".encode(), "web1")])
def test_a_name_reaches_a_play_without_its_template_and_its_byte_order_mark(listen, body, name):
    service = RawService([whole(body)], [whole(ANNOUNCED)])
    try:
        assert listen(service.endpoint).take(1)[0]["vm_name"] == name
    finally:
        service.stop()


def test_an_endpoint_that_does_not_answer_does_not_hold_up_another(served, listen):
    inject(served, kind="hang", vms=["web2"], delay=3600, paths=["events", "name"])
    served.schedule("Reboot", "web1", "web2")
    rulebook = listen(served.endpoint("web2"), served.endpoint("web1"))
    assert rulebook.take(1)[0]["vm_name"] == "web1"


def test_an_endpoint_that_becomes_silent_after_an_answer_is_asked_again_soon(listen, source, monkeypatch):
    monkeypatch.setattr(source, "TIMEOUT_AFTER_SUCCESS", 0.1)
    given_up = Mark()
    service = RawService([whole(b'{"Events":[]}')], [Hang(), given_up], [whole(ANNOUNCED)])
    try:
        assert listen({"endpoint": service.endpoint, "vm_name": "vm1"}).take(1)
        assert given_up.reached.wait(60)
    finally:
        service.stop()


def test_any_number_of_endpoints_that_do_not_answer_does_not_hold_up_another(served, listen):
    served.schedule("Reboot", "web1")
    silent = [socket.create_server(("127.0.0.1", 0)) for _number in range(150)]  # the kernel takes the connections
    with contextlib.ExitStack() as stack:
        for each in silent:
            stack.enter_context(each)
        urls = [f"http://127.0.0.1:{each.getsockname()[1]}" for each in silent]
        rulebook = listen(*urls, served.endpoint("web1"), request_timeout=3600)
        assert rulebook.take(1)[0]["vm_name"] == "web1"
        rulebook.stop()


# The end, and the beginning


def test_a_cancelled_source_leaves_no_task_behind(served, listen):
    served.schedule("Reboot", "web1")
    rulebook = listen(served.endpoint("web1"), served.endpoint("web2"))
    rulebook.take(1)
    rulebook.stop()
    assert rulebook.left_over == []


def test_without_endpoints_the_metadata_service_of_this_vm_is_asked(source, listen, refused_contacts):
    [endpoint] = source.read_settings({}).endpoints
    assert endpoint.url == "http://169.254.169.254"
    listen(endpoint.url).until(lambda: refused_contacts)
    refused_contacts.clear()


# What the rules have taken


def test_an_event_is_sent_again_until_the_rules_have_taken_it(served, source, monkeypatch):
    event_id = served.schedule("Reboot", "web1")
    monkeypatch.setattr(source, "FEEDBACK_TIMEOUT", 0.05)

    async def course():
        queue, feedback = asyncio.Queue(1), asyncio.Queue(1)
        args = {"endpoints": [served.endpoint("web1")], "feedback": True, "eda_feedback_queue": feedback}
        listening = asyncio.create_task(source.main(queue, args))
        sent = [await queue.get(), await queue.get()]
        for _time in range(3):  # a filter can make several events of one
            await feedback.put(sent[-1])
        before = polls(served, "web1")
        while polls(served, "web1") < before + 2:
            await asyncio.sleep(0.1)
        left = queue.qsize()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        return sent, left

    sent, left = asyncio.run(course())
    assert [event["event_id"] for event in sent] == [event_id] * 2
    assert left <= 1  # it waited in the queue when the rules took the other
