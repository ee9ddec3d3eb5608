# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP rules of the metadata service, over the real server."""

import json
import socket
import time

import aiohttp
import pytest

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2017-08-01&format=text"
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
METADATA = {"Metadata": "true"}


@pytest.mark.parametrize("headers", [{}, {"Metadata": "false"}])
@pytest.mark.parametrize("path", [EVENTS, NAME])
def test_01_a_get_without_the_metadata_header_is_refused(emulate, send, path, headers):
    answer = send(emulate().endpoint("web1"), "GET", path, headers=headers)
    assert (answer.status, answer.json) == (400, {"error": "Bad request: . Required metadata header not specified"})


def test_01_a_post_without_the_metadata_header_is_refused(served):
    event_id = served.schedule("Reboot", "web1")
    assert served.post("web1", event_id, version="2017-08-01", headers={}).status == 400
    assert served.events("web1")[0]["EventStatus"] == "Scheduled"


def test_01_the_preview_takes_a_post_without_the_header_but_no_get(served):
    event_id = served.schedule("Reboot", "web1")
    assert served.get("web1", version="2017-03-01", headers={"Metadata": ""}).status == 400
    assert served.post("web1", event_id, version="2017-03-01", headers={}).status == 200


def test_02_a_forwarded_request_is_refused(emulate):
    answer = emulate().get("web1", headers={"X-Forwarded-For": "127.0.10.1"})
    assert (answer.status, answer.json) == (
        400,
        {"error": "Bad request: . Requests with an X-Forwarded-For header are not served"},
    )


def test_02_duplicate_query_parameters_are_refused(emulate, send):
    answer = send(emulate().endpoint("web1"), "GET", EVENTS + "&api-version=2020-07-01", headers=METADATA)
    assert (answer.status, answer.json) == (
        400,
        {"error": "Bad request: . Duplicate query parameters are not allowed"},
    )


@pytest.mark.parametrize("query", ["", "?api-version=", "?api-version=latest", "?api-version=2020-07-02"])
def test_02_a_missing_or_unknown_version_is_refused_with_the_newest_ones(emulate, send, query):
    answer = send(emulate().endpoint("web1"), "GET", "/metadata/scheduledevents" + query, headers=METADATA)
    assert (answer.status, answer.json) == (
        400,
        {
            "error": "Bad request. api-version is invalid or was not specified in the request.",
            "newest-versions": ["2020-07-01", "2019-08-01", "2019-04-01"],
        },
    )


@pytest.mark.parametrize("status", [400, 404])
def test_02_a_host_that_lags_refuses_a_version_that_others_know(emulate, status):
    served = emulate(newest_version="2019-08-01", unknown_version_status=status)
    assert served.get("web1", version="2020-07-01").status == status
    assert served.get("web1", version="2019-08-01").status == 200


@pytest.fixture
def begin(emulate):
    """Return a function that sends the head of a POST to web1 and gives its connection, and the emulator."""
    served = emulate()
    port = int(served.endpoint("web1").rpartition(":")[2])

    def begin(*headers):
        connection = socket.create_connection(("127.0.10.1", port), timeout=30)
        head = [f"POST {EVENTS} HTTP/1.1", "Host: web1", "Metadata: true", *headers, "", ""]
        connection.sendall("\r\n".join(head).encode())
        return connection, served

    return begin


def test_a_client_that_waits_until_its_body_is_wanted_is_told_to_go_on(begin):
    connection, served = begin("Expect: 100-continue", "Content-Length: 80", "Connection: close")
    with connection, connection.makefile("rb") as answer:
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        event_id = served.schedule("Reboot", "web1")
        body = json.dumps({"StartRequests": [{"EventId": event_id}]}, separators=(",", ":"))
        connection.sendall(body.encode().ljust(80))
        assert answer.readline() == b"\r\n"
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.skipif(aiohttp.__version__.startswith("3.7."), reason="aiohttp 3.7 ends a request with its connection")
def test_a_post_whose_body_breaks_off_is_logged_as_a_bad_one(begin):
    connection, served = begin("Content-Length: 50")
    connection.sendall(b"{}")
    connection.close()
    while not served.control("GET", "log").json["log"]:
        time.sleep(0.01)
    [entry] = served.control("GET", "log").json["log"]
    assert (entry["kind"], entry["status"]) == ("post", 400)


def test_06_the_enabling_call_waits_and_so_do_calls_meanwhile(emulate):
    served = emulate(first_answer_delay=30)
    for _number in range(2):
        with pytest.raises(socket.timeout):
            served.get("web1", timeout=0.2)
    served.wait_for_polls("web1", 2)  # else the later one might be the enabling one
    served.real += 30
    assert served.get("web1").json == {"DocumentIncarnation": 1, "Events": []}


def test_06_the_first_answer_can_be_an_empty_200(emulate):
    served = emulate(empty_first=True)
    first, second = served.get("web1"), served.get("web1")
    assert (first.status, first.body) == (200, b"")
    assert second.json == {"DocumentIncarnation": 1, "Events": []}


def test_07_a_day_without_a_request_disables_the_service_and_resets_the_incarnation(emulate):
    served = emulate(empty_first=True)
    assert served.get("web1").body == b""
    assert served.get("web1").json["DocumentIncarnation"] == 1
    served.schedule("Reboot", "web1", notice=7 * 86400)
    assert served.get("web1").json["DocumentIncarnation"] == 2
    served.advance(24 * 3600)
    assert served.get("web1").body == b""
    assert served.get("web1").json["DocumentIncarnation"] == 1


def test_07_a_request_within_the_day_keeps_the_service_enabled(served):
    served.get("web1")
    served.schedule("Reboot", "web1", notice=7 * 86400)
    for _number in range(2):
        served.advance(24 * 3600 - 1)
        assert served.get("web1").json["DocumentIncarnation"] == 2


def test_09_an_unchanged_document_answers_304_to_its_etag(emulate):
    served = emulate(etag=True)
    etag = served.get("web1").headers["ETag"]
    unchanged = served.get("web1", headers={"If-None-Match": etag})
    assert (unchanged.status, unchanged.body, unchanged.headers["ETag"]) == (304, b"", etag)
    served.schedule("Reboot", "web1")
    assert served.get("web1", headers={"If-None-Match": etag}).status == 200


def test_09_without_the_option_there_is_no_etag(served):
    assert served.get("web1").headers["ETag"] is None
    assert served.get("web1", headers={"If-None-Match": "*"}).status == 200


def test_11_an_approval_answers_200_with_an_empty_body_and_again_when_repeated(emulate):
    served = emulate(platform={"cotenant_delay": 60})
    event_id = served.schedule("Redeploy", "web1", "web2")
    answers = [served.post(vm, event_id) for vm in ("web1", "web1", "web3")]
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"")] * 3
    assert [entry["approved"] for entry in served.log("post")] == [[event_id], [], []]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
def test_11_any_content_type_will_do(served, content_type):
    event_id = served.schedule("Reboot", "web1")
    assert served.post("web1", event_id, headers={**METADATA, "Content-Type": content_type}).status == 200
    assert served.events("web1")[0]["EventStatus"] == "Started"


def test_11_one_post_approves_many_events_in_any_case(served):
    ids = [served.schedule("Reboot", vm) for vm in ("web1", "web2", "web3")]
    assert served.post("web1", *(event_id.lower() for event_id in ids)).status == 200
    assert [event["EventStatus"] for event in served.events("web1")] == ["Started"] * 3


@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01"])
def test_11_an_extra_incarnation_in_the_post_is_tolerated(served, version):
    event_id = served.schedule("Reboot", "web1")
    body = json.dumps({"DocumentIncarnation": "5", "StartRequests": [{"EventId": event_id}]})
    assert served.post("web1", body=body, version=version).status == 200


MALFORMED = [
    "",
    "not json",
    "[]",
    "7",
    "{}",
    '{"StartRequests": []}',
    json.dumps({"StartRequests": {"EventId": ID}}),
    json.dumps({"StartRequests": [ID]}),
    '{"StartRequests": [{}]}',
    '{"StartRequests": [{"EventId": 7}]}',
    pytest.param(json.dumps({"StartRequests": [{"EventId": "x" * 2**20}]}), id="longer than a MiB"),
    json.dumps({"StartRequests": [{"EventId": ID}, {}]}),
]


@pytest.mark.parametrize("body", MALFORMED)
def test_12_a_malformed_post_is_refused_and_approves_nothing(served, body):
    served.schedule("Reboot", "web1", event_id=ID)
    assert served.post("web1", body=body).status == 400
    assert served.events("web1")[0]["EventStatus"] == "Scheduled"
    assert [entry["status"] for entry in served.log("post")] == [400]


@pytest.mark.parametrize("status", [200, 400, 404])
def test_12_an_unknown_event_answers_as_configured(emulate, status):
    served = emulate(unknown_event_status=status)
    assert served.post("web1", ID).status == status


def test_12_an_unknown_event_answers_400_by_default(emulate):
    assert emulate().post("web1", ID).status == 400


def test_12_an_event_out_of_scope_is_unknown(served):
    event_id = served.schedule("Reboot", "alone")
    assert served.post("web1", event_id).status == 400
    assert served.events("alone")[0]["EventStatus"] == "Scheduled"


def test_12_each_post_that_is_refused_is_in_the_log(emulate, send):
    served = emulate(rate_limit=3)
    for headers in ({}, {**METADATA, "X-Forwarded-For": "127.0.10.1"}):
        send(served.endpoint("web1"), "POST", EVENTS, headers=headers, body=json.dumps({"StartRequests": []}))
    for version in ("latest", "2020-07-01"):
        served.post("web1", ID, version=version)
    assert [entry["status"] for entry in served.log("post")] == [400, 400, 400, 429]


def test_18_over_five_requests_a_second_a_vm_is_throttled_in_plain_text(emulate):
    served = emulate(rate_limit=5)
    answers = [served.get("web1") for _number in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert answers[5].body == b"Throttle Result: Too Many Requests"
    assert answers[5].headers["Content-Type"].startswith("text/plain")


def test_18_the_throttle_is_each_vms_own_and_lets_go_after_a_second(emulate):
    served = emulate(rate_limit=1)
    assert [served.get(vm).status for vm in ("web1", "web2", "web1")] == [200, 200, 429]
    served.real += 1.0
    assert served.get("web1").status == 200


def test_18_all_requests_of_a_vm_share_the_throttle(emulate, send):
    served = emulate(rate_limit=2)
    send(served.endpoint("web1"), "GET", NAME, headers=METADATA)
    send(served.endpoint("web1"), "GET", "/nowhere")
    assert served.get("web1").status == 429


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD"])
def test_18_other_methods_are_not_allowed(emulate, send, method):
    assert send(emulate().endpoint("web1"), method, EVENTS, headers=METADATA).status == 405


def test_18_the_name_is_not_posted_to(emulate, send):
    assert send(emulate().endpoint("web1"), "POST", NAME, headers=METADATA).status == 405


@pytest.mark.parametrize(
    "path", ["/", "/metadata", "/metadata/scheduledevents/", "/metadata/instance/compute/nam", "/metadata/instances"]
)
def test_unknown_paths_answer_404(emulate, send, path):
    assert send(emulate().endpoint("web1"), "GET", path + "?api-version=2020-07-01", headers=METADATA).status == 404


def test_the_case_of_the_path_does_not_matter(served, send):
    shouted = send(served.endpoint("web1"), "GET", "/METADATA/ScheduledEvents?api-version=2020-07-01", headers=METADATA)
    assert shouted.json == {"DocumentIncarnation": 1, "Events": []}


def test_21_the_name_endpoint_returns_the_name_in_its_own_case(emulate, send):
    answer = send(emulate().endpoint("mySpotVM"), "GET", NAME, headers=METADATA)
    assert (answer.status, answer.body) == (200, b"mySpotVM")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_21_resources_show_a_name_in_another_case_and_never_the_hostname(served):
    served.schedule("Preempt", "mySpotVM")
    assert served.events("mySpotVM")[0]["Resources"] == ["myspotvm"]
    vm = next(vm for vm in served.control("GET", "state").json["vms"] if vm["name"] == "mySpotVM")
    assert vm["hostname"] == "spot-host"


@pytest.mark.parametrize("path", ["/metadata/instance", "/metadata/instance/", "/METADATA/Instance"])
def test_24_the_instance_is_an_object_of_compute(emulate, send, path):
    answer = send(emulate().endpoint("web1"), "GET", path + "?api-version=2019-08-01", headers=METADATA)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert list(answer.json) == ["compute"]


SCALE_SET = {
    "vms": [
        {
            "name": "pool_13",
            "address": "127.0.10.7",
            "from": ["127.0.20.7"],
            "kind": "scale_set_uniform",
            "set": "pool",
            "placement_group": "group",
            "zone": "2",
            "fault_domain": 3,
            "spot": True,
        },
        {"name": "pool_14", "address": "127.0.10.8", "kind": "scale_set_uniform", "set": "pool"},
    ]
}


def test_24_compute_says_what_the_fleet_knows_of_the_vm(emulate, send):
    path = "/metadata/instance/compute?api-version=2021-02-01"
    served = emulate(SCALE_SET)
    compute = send(served.endpoint("pool_13"), "GET", path, headers=METADATA).json
    other = send(served.endpoint("pool_14"), "GET", path, headers=METADATA).json
    known = {
        "name": "pool_13",
        "osProfile": {"computerName": "pool00000d"},
        "placementGroupId": "group",
        "platformFaultDomain": "3",
        "priority": "Spot",
        "vmScaleSetName": "pool",
        "zone": "2",
    }
    assert {key: compute[key] for key in known} == known
    assert set(compute) - set(known) == {
        "location",
        "osType",
        "resourceGroupName",
        "subscriptionId",
        "tags",
        "tagsList",
        "vmId",
    }
    assert (compute["subscriptionId"] == other["subscriptionId"], compute["vmId"] == other["vmId"]) == (True, False)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "compute/"),
        ("/compute/name", "mySpotVM"),
        ("/Compute/Location", "westeurope"),
        ("/compute/osProfile", "computerName"),
        ("/compute/osProfile/computerName", "spot-host"),
    ],
)
def test_24_as_text_a_value_is_bare_and_an_object_is_a_list_of_names(emulate, send, path, text):
    query = "?api-version=2021-02-01&format=text"
    answer = send(emulate().endpoint("mySpotVM"), "GET", "/metadata/instance" + path + query, headers=METADATA)
    assert (answer.status, answer.body.decode()) == (200, text)
    assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["", "/compute", "/compute/name"])
@pytest.mark.parametrize(
    ("query", "headers", "message"),
    [
        ("?api-version=2021-02-01&format=text", {}, "Required metadata header not specified"),
        ("?api-version=2021-02-01&format=text", {**METADATA, "X-Forwarded-For": "127.0.0.1"}, "X-Forwarded-For"),
        ("?format=text", METADATA, "api-version is invalid or was not specified"),
        ("?api-version=latest&format=text", METADATA, "api-version is invalid or was not specified"),
        ("?api-version=2021-02-01&api-version=2021-02-01", METADATA, "Duplicate query parameters"),
        ("?api-version=2021-02-01&format=xml", METADATA, "The format is json or text"),
    ],
)
def test_24_the_rules_for_requests_hold_for_the_instance_too(emulate, send, path, query, headers, message):
    answer = send(emulate().endpoint("web1"), "GET", "/metadata/instance" + path + query, headers=headers)
    assert answer.status == 400
    assert message in answer.json["error"]


def test_24_the_instance_is_not_posted_to(emulate, send):
    answer = send(
        emulate().endpoint("web1"), "POST", "/metadata/instance?api-version=2021-02-01", headers=METADATA, body="{}"
    )
    assert answer.status == 405


def test_24_a_fault_of_the_name_lets_the_instance_fail_too(served, send):
    served.control("POST", "faults", {"kind": "status", "status": 500, "paths": ["name"]})
    path = "/metadata/instance?api-version=2021-02-01"
    assert send(served.endpoint("web1"), "GET", path, headers=METADATA).status == 500


@pytest.mark.parametrize("query", ["?format=text", "?api-version=latest&format=text", "?api-version=2017-08-01"])
def test_21_the_name_endpoint_refuses_a_bad_query(emulate, send, query):
    answer = send(emulate().endpoint("web1"), "GET", "/metadata/instance/compute/name" + query, headers=METADATA)
    assert answer.status == 400


def test_the_name_endpoint_does_not_enable_the_service(emulate, send):
    served = emulate(empty_first=True)
    send(served.endpoint("web1"), "GET", NAME, headers=METADATA)
    assert served.get("web1").body == b""


@pytest.mark.parametrize("address", ["127.0.10.200", "::ffff:127.0.10.200"])
def test_a_vm_is_identified_by_the_address_of_its_request(emulate, send, address):
    fleet = {"vms": [{"name": "outside", "from": ["127.0.0.1"]}]}
    served = emulate(fleet, options={"listen": [address]})
    assert send(served.endpoint("outside"), "GET", NAME, headers=METADATA).body == b"outside"


def test_an_unknown_caller_gets_404_with_the_reason(emulate, send):
    fleet = {"vms": [{"name": "elsewhere", "from": ["127.0.99.99"]}]}
    served = emulate(fleet, options={"listen": ["127.0.10.200"]})
    answer = send(served.endpoint("elsewhere"), "GET", NAME, headers=METADATA)
    assert (answer.status, answer.json) == (
        404,
        {"error": "Not found: this emulator has no VM that calls from 127.0.0.1 or to 127.0.10.200"},
    )


@pytest.mark.parametrize("kind", [None, "status"])
def test_12_a_body_that_cannot_be_unpacked_is_refused(served, send, kind):
    if kind:
        served.control("POST", "faults", {"kind": kind, "status": 500})
    answer = send(served.endpoint("web1"), "POST", EVENTS, headers={**METADATA, "Content-Encoding": "gzip"}, body="{}")
    assert answer.status == 400
    assert "Malformed request body" in answer.json["error"]
    assert [entry["status"] for entry in served.log("post")] == [400]
