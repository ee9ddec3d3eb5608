# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control API: what it shows, what it does, and how it refuses."""

import pytest

from .conftest import ask

INF = float("inf")
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"


def test_the_state_shows_an_event_with_its_approvers(served):
    served.schedule("Redeploy", "web1", "web2", event_id=ID, notice=600)
    served.post("web2", ID)
    state = served.control("GET", "state").json
    assert (state["now"], state["next_change"]) == ("2022-04-15T05:20:00.000Z", "2022-04-15T05:25:00.000Z")
    assert state["events"] == [
        {
            "event_id": ID,
            "type": "Redeploy",
            "status": "Started",
            "resources": ["web1", "web2"],
            "not_before": "2022-04-15T05:30:00.000Z",
            "source": "Platform",
            "description": "",
            "duration": -1,
            "overrides": {},
            "scheduled_at": "2022-04-15T05:20:00.000Z",
            "approved_at": "2022-04-15T05:20:00.000Z",
            "approved_by": [{"vm": "web2", "at": "2022-04-15T05:20:00.000Z"}],
            "started_at": "2022-04-15T05:20:00.000Z",
            "impact_ended_at": "2022-04-15T05:20:00.000Z",
            "ended_at": None,
        }
    ]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_web_page_controls_nothing(served, method):
    answer = ask(served.control_url, method, "/control/events", headers={"Origin": "http://127.0.0.1"})
    assert (answer.status, answer.json) == (403, {"error": "a web page asks: expected a request without an Origin"})


def test_the_state_keeps_events_that_have_gone(served):
    served.schedule("Redeploy", "web1", event_id=ID)
    served.control("POST", f"events/{ID}/cancel")
    state = served.control("GET", "state").json
    assert (state["events"], [event["status"] for event in state["ended"]]) == ([], ["Canceled"])


def test_the_log_shows_approvals_and_transitions_in_order(served):
    served.schedule("Redeploy", "web1", event_id=ID)
    served.advance(1.5)
    served.post("web1", ID)
    served.advance(3600)
    log = served.control("GET", "log").json["log"]
    assert [(entry["seq"], entry["at"], entry["kind"]) for entry in log] == [
        (1, "2022-04-15T05:20:00.000Z", "scheduled"),
        (2, "2022-04-15T05:20:01.500Z", "approved"),
        (3, "2022-04-15T05:20:01.500Z", "started"),
        (4, "2022-04-15T05:20:01.500Z", "post"),
        (5, "2022-04-15T05:25:01.500Z", "removed"),
    ]
    assert (log[3]["vm"], log[3]["event_ids"], log[3]["status"]) == ("web1", [ID], 200)
    assert all(isinstance(entry["at_real"], float) for entry in log)
    assert [entry["seq"] for entry in served.control("GET", "log?since=3").json["log"]] == [4, 5]


def test_polls_are_counted_for_each_vm(served):
    served.get("web1")
    served.advance(10)
    served.get("web1")
    served.post("web1", ID)
    polls = served.control("GET", "polls").json["polls"]
    assert polls["web1"] == {
        "polls": 2,
        "posts": 1,
        "failures_injected": 0,
        "throttled": 0,
        "first": "2022-04-15T05:20:00.000Z",
        "last": "2022-04-15T05:20:10.000Z",
    }
    assert (polls["web2"]["polls"], polls["web2"]["first"]) == (0, None)


def test_events_are_started_completed_and_cancelled_by_hand(served):
    event_id = served.schedule("Reboot", "web1")
    assert served.control("POST", f"events/{event_id}/start").status == 200
    assert served.events("web1")[0]["EventStatus"] == "Started"
    assert served.control("POST", f"events/{event_id}/cancel").status == 409
    assert served.control("POST", f"events/{event_id}/complete").status == 200
    assert served.events("web1") == []


def test_until_next_steps_to_the_next_change(served):
    served.schedule("Reboot", "web1", notice=900)
    answer = served.control("POST", "advance", {"until": "next"})
    assert answer.json == {"now": "2022-04-15T05:35:00.000Z"}
    assert served.events("web1")[0]["EventStatus"] == "Started"


def test_until_next_without_anything_pending_is_refused(emulate):
    answer = emulate().control("POST", "advance", {"until": "next"})
    assert (answer.status, answer.json) == (
        409,
        {"error": "no change of state is pending, expected a live event to step to"},
    )


def test_20_deallocation_clears_events_and_a_restart_does_not(served):
    event_id = served.schedule("Reboot", "web1")
    assert served.control("POST", "vms/web1/restart").json == {"vm": "web1", "cleared": []}
    assert len(served.events("web1")) == 1
    assert served.control("POST", "vms/WEB1/deallocate").json == {"vm": "web1", "cleared": [event_id]}
    assert served.events("web1") == []


def test_a_scenario_returns_the_ids_of_all_its_events(served):
    answer = served.control("POST", "scenarios/fault_domains", {"vms": ["web1", "web2"]})
    assert (answer.status, len(answer.json["event_ids"])) == (201, 2)
    assert [event["EventId"] for event in served.events("web1")] == answer.json["event_ids"][:1]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "events", [], 400, "expected a JSON object, got []"),
        ("POST", "events", {"type": "Explode", "vms": ["web1"]}, 400, 'type: "Explode" is not one of Freeze, Reboot'),
        ("POST", "events", {"type": "Reboot"}, 400, "vms: missing, expected a value"),
        ("POST", "events", {"type": "Reboot", "vm": ["web1"]}, 400, "vm: unknown key, expected one of auto_approve"),
        ("POST", "events", {"type": "Reboot", "vm": ["web1"]}, 400, "did you mean vms?"),
        ("POST", "events", {"type": "Reboot", "vms": ["web1"], "overrides": {"X": INF}}, 400, "overrides: NaN and Inf"),
        ("POST", "advance", {"second": 1}, 400, "second: unknown key, expected one of seconds, until; did you mean"),
        ("POST", "faults", {"kind": "html", "body": "\ud800"}, 400, "is not a text of whole characters"),
        (
            "POST",
            "faults",
            {"kind": "redirect", "location": "a\nb: c"},
            400,
            'location: "a\\nb: c" is not a URL of ASCII',
        ),
        ("POST", "events", {"type": "Reboot", "vms": ["web9"]}, 400, 'vm "web9": not in the fleet'),
        ("POST", "events", {"type": "Reboot", "vms": ["web1", "WEB1"]}, 400, "vms: a VM is named twice"),
        ("POST", "events", {"type": "Reboot", "vms": ["web1"], "notice": -1}, 400, "notice: -1 is not a number from 0"),
        ("POST", "events", {"type": "Reboot", "vms": ["web1"], "event_id": "7"}, 400, 'event_id: "7" is not a GUID'),
        ("POST", "events", {"type": "Reboot", "vms": ["web1"], "notcie": 1}, 400, "notcie: unknown key"),
        ("POST", f"events/{ID}/start", {}, 404, f'event "{ID}": not in any VM\'s document'),
        ("POST", f"events/{ID}/explode", {}, 404, "404 Not Found"),
        ("POST", "advance", {}, 400, 'expected either {"seconds": N} or {"until": "next"}'),
        ("POST", "advance", {"seconds": -1}, 400, "seconds: -1 is not a number from 0 to 10000000000"),
        ("POST", "advance", {"seconds": 1e11}, 400, "seconds: 100000000000.0 is not a number from 0 to 10000000000"),
        ("GET", "log?since=x", None, 400, 'since: "x" is not a number'),
        ("GET", "log?since=%C2%B2", None, 400, "is not a number, expected the seq"),
        ("GET", "log?since=" + "9" * 5000, None, 400, "is not a number, expected the seq"),
        ("POST", "vms/web9/restart", {}, 404, 'vm "web9": not in the fleet'),
        ("POST", "scenarios/earthquake", {"vms": ["web1"]}, 400, 'scenario "earthquake": unknown'),
        ("PUT", "state", None, 405, "405 Method Not Allowed"),
    ],
)
def test_a_bad_request_is_refused_with_its_reason(served, method, path, body, status, message):
    answer = served.control(method, path, body)
    assert answer.status == status
    assert message in answer.json["error"]
    assert served.control("GET", "state").json["events"] == []


def test_time_does_not_run_out_of_dates(served):
    answers = [served.control("POST", "advance", {"seconds": 1e10}) for _number in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 400]
    answer = answers[3]
    assert "leads beyond the emulator's time, expected a time from 1970 to 2999" in answer.json["error"]


def test_a_raw_field_nested_too_deeply_to_be_written_is_refused(served, send):
    event_id = served.schedule("Reboot", "web1")
    deep = '{"X": ' + "[" * 200_000 + "]" * 200_000 + "}"
    answer = send(served.control_url, "POST", f"/control/events/{event_id}/overrides", body=deep)
    assert answer.status == 400
    assert served.get("web1").status == 200


def test_a_body_that_is_not_json_is_refused(emulate, send):
    answer = send(emulate().control_url, "POST", "/control/events", body="{")
    assert (answer.status, answer.json) == (400, {"error": "request body: not JSON, expected a JSON object"})


def test_a_body_that_cannot_be_unpacked_is_refused(emulate, send):
    answer = send(emulate().control_url, "POST", "/control/events", headers={"Content-Encoding": "gzip"}, body="{}")
    assert (answer.status, answer.json) == (400, {"error": "request body: cannot be decoded, expected a JSON object"})
