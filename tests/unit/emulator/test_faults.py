# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures on demand: each kind as a client meets it, for the requests that were asked for and no others."""

import http.client
import json
import socket

import pytest

METADATA = {"Metadata": "true"}
NAME = "/metadata/instance/compute/name?api-version=2017-08-01&format=text"


def inject(served, **fault):
    answer = served.control("POST", "faults", fault)
    assert answer.status == 201, answer.body
    return answer.json["fault_id"]


def test_18_a_burst_of_410_ends_after_its_count(served):
    inject(served, kind="status", status=410, count=3)
    assert [served.get("web1").status for _number in range(4)] == [410, 410, 410, 200]


def test_18_a_fault_that_is_used_up_is_not_shown(served):
    inject(served, kind="status", status=500, count=1, vms=["web1", "web2"])
    served.get("web1")
    assert len(served.control("GET", "faults").json["faults"]) == 1
    served.get("web2")
    assert served.control("GET", "faults").json["faults"] == []


def test_18_a_count_is_each_vms_own(served):
    inject(served, kind="status", status=500, count=1)
    assert [served.get(vm).status for vm in ("web1", "web2", "web1", "web2")] == [500, 500, 200, 200]


def test_18_a_fault_lasts_its_seconds_of_real_time(served):
    inject(served, kind="status", status=500, seconds=20)
    served.real += 19.9
    assert served.get("web1").status == 500
    served.real += 0.1
    assert served.get("web1").status == 200
    assert served.control("GET", "faults").json == {"faults": []}


def test_18_an_injected_429_has_its_text_body(served):
    inject(served, kind="status", status=429)
    answer = served.get("web1")
    assert (answer.status, answer.body) == (429, b"Throttle Result: Too Many Requests")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_18_a_fault_can_concern_posts_alone_and_then_approves_nothing(served):
    event_id = served.schedule("Reboot", "web1")
    inject(served, kind="status", status=500, methods=["POST"])
    assert served.post("web1", event_id).status == 500
    assert served.events("web1")[0]["EventStatus"] == "Scheduled"
    assert [(entry["event_ids"], entry["status"]) for entry in served.log("post")] == [([event_id], 500)]


def test_18_a_fault_can_concern_one_vm_alone(served):
    inject(served, kind="status", status=500, vms=["WEB2"])
    assert [served.get(vm).status for vm in ("web1", "web2")] == [200, 500]


def test_18_faults_concern_the_name_only_when_asked(served, send):
    inject(served, kind="status", status=500, paths=["name"])
    assert send(served.endpoint("web1"), "GET", NAME, headers=METADATA).status == 500
    assert served.get("web1").status == 200


def test_18_a_hanging_request_gets_no_answer_until_the_fault_is_lifted(served):
    inject(served, kind="hang")
    with pytest.raises(socket.timeout):
        served.get("web1", timeout=0.2)
    assert served.control("DELETE", "faults").json == {"cleared": 1}
    assert served.get("web1").status == 200


def test_18_a_reset_connection(served):
    inject(served, kind="reset")
    with pytest.raises(ConnectionResetError):
        served.get("web1")


def test_18_a_cut_body_is_shorter_than_announced(served):
    served.schedule("Reboot", "web1")
    whole = served.get("web1").body
    inject(served, kind="cut")
    with pytest.raises(http.client.IncompleteRead) as cut:
        served.get("web1")
    assert whole.startswith(cut.value.partial)
    assert len(cut.value.partial) == len(whole) // 2


def test_18_broken_json_comes_as_a_complete_200(served):
    inject(served, kind="broken_json")
    answer = served.get("web1")
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        _document = answer.json


def test_18_wrong_types_are_json_without_a_list_of_events(served):
    inject(served, kind="wrong_types")
    assert isinstance(served.get("web1").json["Events"], dict)


def test_18_an_empty_200(served):
    inject(served, kind="empty")
    answer = served.get("web1")
    assert (answer.status, answer.body) == (200, b"")


def test_18_a_page_instead_of_a_document(served):
    inject(served, kind="html")
    answer = served.get("web1")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<html" in answer.body


@pytest.mark.parametrize("location", [None, "http://127.0.10.9:1/elsewhere"])
def test_18_a_redirect_points_to_the_configured_place_or_to_the_same_host(served, location):
    inject(served, kind="redirect", location=location)
    answer = served.get("web1")
    assert answer.status == 302
    assert answer.headers["Location"] == (location or f"{served.endpoint('web1')}/redirected")


@pytest.mark.parametrize(("given", "status"), [({}, 403), ({"status": 421}, 421)])
def test_18_a_closed_refuses_a_caller_and_closes_the_connection(served, given, status):
    inject(served, kind="closed", count=1, **given)
    answer = served.get("web1")
    assert (answer.status, answer.body, answer.headers["Connection"]) == (status, b"", "close")
    assert served.get("web1").status == 200


def test_06_a_slow_answer_is_the_right_one(served):
    inject(served, kind="slow", delay=0.01, count=1)
    assert served.get("web1").json == {"DocumentIncarnation": 1, "Events": []}
    assert served.control("GET", "polls").json["polls"]["web1"]["failures_injected"] == 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({}, "kind: missing, expected a value"),
        ({"kind": "explode"}, 'kind: "explode" is not one of status, hang'),
        ({"kind": "status", "status": 700}, "status: 700 is not a number from 200 to 599"),
        ({"kind": "status", "status": 100}, "status: 100 is not a number from 200 to 599"),
        ({"kind": "closed", "status": 500}, "status: 500 is not 403 (not on the list) or 421"),
        ({"kind": "status", "vms": ["unknown"]}, 'vm "unknown": not in the fleet'),
        ({"kind": "status", "count": 0}, "count: 0 is not a number from 1 to 10000000000"),
        ({"kind": "status", "methods": ["PUT"]}, 'methods: "PUT" is not one of GET, POST'),
        ({"kind": "status", "probability": 1}, "probability: unknown key"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(served, fault, message):
    answer = served.control("POST", "faults", fault)
    assert answer.status == 400
    assert message in answer.json["error"]
    assert served.control("GET", "faults").json == {"faults": []}
