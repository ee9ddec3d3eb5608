# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import json

import pytest
from _scheduled_events import terms
from _scheduled_events.approval import ApprovalFailed, acknowledge, approve
from _scheduled_events.client import ImdsClient, Refused

from .conftest import document_text, event


@pytest.fixture
def client(service, clock):
    asking = ImdsClient(endpoint=service.endpoint, retry_for=2, clock=clock)
    yield asking
    asking.close()


def may(_event):
    return True


def posted(service):
    return [
        [each["EventId"] for each in json.loads(body)["StartRequests"]]
        for method, _path, _headers, body in service.asked
        if method == "POST"
    ]


def test_each_event_is_sorted_by_its_state_and_one_request_sent_for_all_that_are_scheduled(service, client):
    service.answers(
        document_text(event(EventId="A1"), event(EventId="b2"), event(EventId="C3", EventStatus="Started")), ""
    )
    outcome = approve(client, ["a1", "B2", "c3", "d4", "A1"], may_approve=may)
    assert outcome._asdict() == {
        "approved": ["A1", "b2"],
        "already_started": ["C3"],
        "absent": ["d4"],
        "skipped": [],
        "drill": False,
    }
    assert posted(service) == [["A1", "b2"]]


def test_an_event_that_may_not_be_approved_is_skipped(service, client):
    service.answers(document_text(event(EventId="A1"), event(EventId="B2")), "")
    outcome = approve(client, ["A1", "B2"], may_approve=lambda each: each.event_id == "B2")
    assert (outcome.approved, outcome.skipped) == (["B2"], ["A1"])
    assert posted(service) == [["B2"]]


def test_an_event_in_an_unknown_state_is_skipped(service, client):
    service.answers(document_text(event(EventStatus="Paused")))
    assert approve(client, ["A1"], may_approve=may).skipped == ["A1"]
    assert posted(service) == []


def test_nothing_is_sent_where_nothing_is_scheduled(service, client):
    service.answers(document_text())
    assert approve(client, ["A1"], may_approve=may).absent == ["A1"]
    assert posted(service) == []


def test_a_dry_run_shows_the_ids_and_sends_nothing(service, client):
    service.answers(document_text(event()))
    assert approve(client, ["A1"], may_approve=may, dry_run=True).approved == ["A1"]
    assert posted(service) == []


def test_an_id_without_an_event_does_not_match_an_event_without_an_id(service, client):
    service.answers(document_text({"EventStatus": "Scheduled", "Resources": ["vm1"]}))
    assert approve(client, [""], may_approve=may).absent == [""]


@pytest.mark.parametrize("status", [400, 404])
def test_a_refusal_of_an_event_that_has_left_the_document_counts_as_absent(service, client, status):
    service.answers(document_text(event()), (status, ""), document_text())
    assert approve(client, ["A1"], may_approve=may).absent == ["A1"]
    assert posted(service) == [["A1"]]


def test_the_remaining_events_are_acknowledged_again_after_one_has_left(service, client):
    both = document_text(event(EventId="A1"), event(EventId="B2"))
    service.answers(both, (400, ""), document_text(event(EventId="B2")), "")
    outcome = approve(client, ["A1", "B2"], may_approve=may)
    assert (outcome.approved, outcome.absent) == (["B2"], ["A1"])
    assert posted(service) == [["A1", "B2"], ["B2"]]


def test_a_refusal_of_a_remaining_event_fails_with_the_status_and_the_remaining_ids(service, client):
    service.answers(document_text(event()), (400, '{"error":"no"}'), document_text(event()))
    with pytest.raises(ApprovalFailed) as caught:
        approve(client, ["A1", "x"], may_approve=may)
    assert (caught.value.status, caught.value.left) == (400, ["A1"])
    assert caught.value.outcome == ([], [], ["x"], [], False)
    assert str(caught.value) == (
        f"POST {service.endpoint}/metadata/scheduledevents?api-version=2020-07-01 answered 400 Bad Request: no; "
        "not acknowledged: A1"
    )


def test_a_request_with_a_server_error_is_repeated_and_then_fails_with_the_remaining_ids(service, client):
    service.answers(*[document_text(event()), (500, "")] * 20)
    with pytest.raises(ApprovalFailed) as caught:
        approve(client, ["A1"], may_approve=may)
    assert (caught.value.status, caught.value.left) == (500, ["A1"])
    assert len(posted(service)) > 1


@pytest.mark.parametrize("answer", [None, "<html>", (204, "")])
def test_a_request_that_may_have_been_carried_out_is_not_reported_as_refused(service, client, answer):
    service.answers(*[document_text(event()), answer] * 20)
    with pytest.raises(ApprovalFailed) as caught:
        approve(client, ["A1"], may_approve=may)
    assert str(caught.value).endswith("; not known to be acknowledged: A1")
    assert caught.value.left == ["A1"]


def test_a_server_error_that_passes_does_no_harm(service, client):
    service.answers(document_text(event()), (500, ""), document_text(event()), (200, ""))
    assert approve(client, ["A1"], may_approve=may).approved == ["A1"]


def test_before_it_asks_again_the_document_is_read_and_judged_again(service, client):
    changed = document_text(event(EventType="Freeze"), event(EventId="B2"))
    service.answers(document_text(event(), event(EventId="B2")), (500, ""), changed, "")
    outcome = approve(client, ["A1", "B2"], may_approve=lambda each: each.event_type == "Reboot")
    assert (outcome.approved, outcome.skipped) == (["B2"], ["A1"])
    assert posted(service) == [["A1", "B2"], ["B2"]]


@pytest.mark.parametrize("again", [(404, ""), (500, ""), "<html>", None])
def test_a_refusal_keeps_its_status_and_the_remaining_ids_if_the_document_cannot_be_read_again(service, client, again):
    service.answers(document_text(event(), event(EventId="B2")), (400, '{"error":"no"}'), again)
    with pytest.raises(ApprovalFailed) as caught:
        approve(client, ["A1", "B2"], may_approve=may)
    assert (caught.value.status, caught.value.left) == (400, ["A1", "B2"])
    assert "answered 400 Bad Request: no; not acknowledged: A1, B2" in str(caught.value)
    assert posted(service) == [["A1", "B2"]]


def test_a_document_that_cannot_be_read_before_anything_was_sent_is_an_error_of_the_client(service, client):
    service.answers((400, ""))
    with pytest.raises(Refused):
        approve(client, ["A1"], may_approve=may)


def test_nothing_is_sent_that_is_no_longer_wanted(service, client):
    service.answers(document_text(event(), event(EventId="B2", EventStatus="Paused")), "")
    outcome = approve(client, ["A1", "B2"], may_approve=may, still_wanted=lambda: False)
    assert (outcome.approved, sorted(outcome.skipped)) == ([], ["A1", "B2"])
    assert posted(service) == []


@pytest.mark.parametrize("status", [400, 500])
def test_whether_it_is_wanted_is_asked_before_each_request(service, client, status):
    answers = [True, False]
    left = document_text(event(EventId="B2"))
    service.answers(document_text(event(), event(EventId="B2")), (status, ""), left, "")
    outcome = approve(client, ["A1", "B2"], may_approve=may, still_wanted=lambda: answers.pop(0))
    assert (outcome.approved, outcome.absent, outcome.skipped) == ([], ["A1"], ["B2"])
    assert posted(service) == [["A1", "B2"]]


def test_whether_it_is_wanted_is_not_asked_where_nothing_would_be_sent(service, client):
    asked = []
    service.answers(document_text(event(EventStatus="Started")))
    approve(client, ["A1"], may_approve=may, still_wanted=lambda: asked.append(1) or True)
    service.answers(document_text(event()))
    approve(client, ["A1"], may_approve=may, still_wanted=lambda: asked.append(1) or True, dry_run=True)
    assert asked == []


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({}, "approved"),
        ({"EventId": "a1"}, "approved"),
        ({"EventType": "Terminate"}, "skipped"),
        ({"EventStatus": "Started"}, "skipped"),
        ({"EventStatus": None}, "skipped"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_an_id_that_the_document_holds_twice_is_sent_only_if_both_allow_it(service, client, second, expected, order):
    service.answers(document_text(*[event(), event(**second)][::order]), "")
    outcome = approve(client, ["A1"], may_approve=lambda each: each.event_type == "Reboot")
    assert [name for name, ids in outcome._asdict().items() if ids] == [expected]
    assert len(posted(service)) == (expected == "approved")


def test_many_events_go_in_one_request(service, client):
    names = [f"E{number}" for number in range(200)]
    service.answers(document_text(*[event(EventId=name) for name in names]), "")
    assert approve(client, names, may_approve=may).approved == names
    assert posted(service) == [names]


def test_html_with_200_is_not_an_acceptance(service, client):
    service.answers(document_text(event()), "<html>Sign in</html>")
    with pytest.raises(ApprovalFailed) as caught:
        approve(client, ["A1"], may_approve=may)
    assert (caught.value.status, caught.value.left) == (200, ["A1"])


# What the engine decided


def decided(event_id):
    return terms.Approve(event_id.lower(), event_id, "Reboot", "prepare", alone=False)


CONFIG = terms.Config(vm_name="vm1", hooks=frozenset({"prepare"}), acknowledge=terms.ANY)


def test_each_decision_has_its_result_and_the_reason_if_it_is_not_acknowledged(service, client):
    events = [event(), event(EventId="B2", EventStatus="Started"), event(EventId="C3", EventType="Redeploy")]
    service.answers(document_text(*events, event(EventId="E5")), "")
    actions = [decided(event_id) for event_id in ("A1", "B2", "C3", "D4", "E5")]
    results, failure = acknowledge(
        client, actions, CONFIG, change=lambda each: "it grew" if each.event_id == "E5" else ""
    )
    assert failure == ""
    assert [(result.key, result.accepted, result.error) for result in results] == [
        ("a1", True, ""),
        ("b2", False, "it has already started"),
        ("c3", False, "the latest document no longer matches the decision"),
        ("d4", False, "it is already over"),
        ("e5", False, "it grew"),
    ]
    assert posted(service) == [["A1"]]


@pytest.mark.parametrize(("status", "refused"), [(400, True), (500, False)])
def test_a_failed_request_is_the_error_of_those_that_it_named(service, client, status, refused):
    service.answers(*[document_text(event(), event(EventId="B2", EventStatus="Started")), (status, "")] * 20)
    (first, second), failure = acknowledge(client, [decided("A1"), decided("B2")], CONFIG)
    assert (first.accepted, first.error, first.refused) == (False, failure, refused)
    assert failure.endswith("not acknowledged: A1")
    assert (second.error, second.refused) == ("it has already started", False)


def test_what_changes_while_a_request_is_repeated_is_not_acknowledged(service, client):
    changes = ["", "it grew"]
    service.answers(document_text(event()), (500, ""), document_text(event()), "")
    (result,), failure = acknowledge(client, [decided("A1")], CONFIG, change=lambda _event: changes.pop(0))
    assert (result.accepted, result.error, failure) == (False, "it grew", "")
    assert posted(service) == [["A1"]]
