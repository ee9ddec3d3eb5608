# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of Resource Graph against histories. The rows follow Microsoft's pages; none of them came from Azure."""

import json

import pytest
from histories import AT, ID, a_fact, a_maintenance, a_phase, announcement
from hypothesis import given
from hypothesis import strategies as st

from plugins.module_utils._scheduled_events.history import format_moment
from plugins.plugin_utils._report.audit import AMBIGUOUS, NO_TERMINATE, NOT_FOUND, NOT_PUBLISHED, compare
from plugins.plugin_utils._report.data import as_json
from plugins.plugin_utils._report.page import LARGEST, page
from plugins.plugin_utils._report.story import tell

HOSTILE = "</section><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
COMPUTE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
PUBLISHES = {"scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": True}}}
NOTIFIES = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT5M"}}


def a_row(status="Completed", resources=("web1",), not_before="", event_id=ID, **more):
    known = {"EventId": event_id, "EventStatus": status, "EventType": "Redeploy", "NotBefore": not_before}
    return {"name": event_id, "properties": {**known, "Resources": list(resources), **more}}


def a_vm(name="web1", *, kind="virtualMachines", **more):
    known = {"id": f"{COMPUTE}/{kind}/{name}", "name": name, "type": f"microsoft.compute/{kind.lower()}"}
    return {**known, "policy": PUBLISHES, "profile": NOTIFIES, **more}


def audited(events=(), policies=(), histories=None, *, unread=(), names=None, since=0.0, ids=None):
    histories = {"web1": []} if histories is None else histories
    reasons = {host: ["it cannot be read"] for host in unread}
    names = names or {host: host for host in histories}
    return compare(events, policies, histories, tell(histories, reasons), names, vm_ids=ids or {}, since=since)


def problems(*arguments, **more):
    return [(each.host, each.problem) for each in audited(*arguments, **more).findings]


def without(facts, *kinds):
    return [fact for fact in facts if fact.kind not in kinds]


@pytest.mark.parametrize("status", ["Scheduled", "Started", "Completed", "Canceled", "completed"])
def test_an_event_without_a_fact_of_its_vm_was_not_heard(status):
    assert problems([a_row(status)]) == [("web1", "it was not heard")]


@pytest.mark.parametrize(
    ("vm_id", "is_found"),
    [
        (None, True),
        (17, True),
        (f"{COMPUTE}/virtualMachines/web1".upper(), True),
        (f"{COMPUTE}/x".replace("/g/", "/staging/"), False),
    ],
)
def test_an_event_of_a_vm_of_the_same_name_in_another_resource_group_is_not_one_of_the_host(vm_id, is_found):
    row = {**a_row(), "id": f"{COMPUTE}/virtualMachines/web1/providers/microsoft.maintenance/scheduledevents/{ID}"}
    assert bool(problems([row], ids={"web1": vm_id})) is is_found
    assert problems([a_row()], ids={"web1": vm_id})  # a row whose group is not known


def test_an_event_of_a_host_without_a_whole_history_may_not_have_been_heard():
    assert problems([a_row()], unread=["web1"]) == [
        ("web1", "its history is incomplete, so it may not have been heard")
    ]


def test_what_a_host_prepared_and_acknowledged_is_not_found_in_any_case_of_its_id_and_name():
    found = audited(
        [a_row(event_id=ID.upper(), resources=["WEB1"])], histories={"host1": a_maintenance()}, names={"host1": "Web1"}
    )
    assert (found.findings, found.event_count, found.is_good) == ((), 1, True)
    assert found.coverage["heard_all_of_them"] == ["host1"]


def test_a_host_that_only_acknowledged_for_another_one_did_not_hear_the_event():
    by_hand = a_fact("acknowledged", 10)._replace(source="operator")
    assert problems([a_row()], histories={"web1": [by_hand]}) == [("web1", "it was not heard")]


def test_an_event_that_was_heard_and_not_prepared_shows_why():
    held = [announcement(), a_fact("held", 1, reason="no hook is configured"), a_fact("started", 900)]
    [(_host, problem)] = problems([a_row()], histories={"web1": held})
    assert problem == "heard, and nothing prepared for it: no hook is configured"


def test_a_scheduled_event_that_waits_for_its_preparation_is_not_found():
    assert problems([a_row("Scheduled")], histories={"web1": [announcement()]}) == []


def test_an_event_that_was_prepared_and_not_acknowledged_is_found_unless_it_was_canceled():
    histories = {"web1": without(a_maintenance(), "acknowledged")}
    assert problems([a_row()], histories=histories) == [("web1", "prepared, and no host acknowledged it")]
    assert problems([a_row("Canceled")], histories=histories) == []


def test_a_vm_that_another_one_acknowledged_for_before_it_was_prepared_is_found():
    histories = {
        "web1": a_maintenance(),
        "web2": a_maintenance("web2", later=100, leads=False),
        "web3": [announcement("web3")],
    }
    assert problems([a_row(resources=["web1", "web2", "web3"])], histories=histories) == [
        ("web2", "the polling unit of web1 acknowledged it, and this VM was prepared 61.0 s later"),
        ("web3", "the polling unit of web1 acknowledged it, and this VM was not prepared"),
    ]


@pytest.mark.parametrize("rule", ["rule 1: approve", "rule 1: ignore"])
def test_what_a_rule_of_the_owner_acknowledges_or_ignores_is_not_found(rule):
    facts = [announcement(rule=rule)]
    if rule.endswith("approve"):
        facts.append(a_fact("acknowledged", 2, rule=rule))
    assert problems([a_row()], histories={"web1": facts}) == []


def test_an_event_counts_from_its_not_before_and_always_without_one():
    rows = [a_row(event_id="A", not_before=format_moment(AT)), a_row(event_id="B"), a_row(event_id="C", not_before="?")]
    assert [each.event_id for each in audited(rows, since=AT + 1).findings] == ["B", "C"]


def test_the_last_status_of_an_event_with_several_rows_counts():
    [finding] = audited([a_row("Completed"), a_row("Scheduled")]).findings
    assert finding.event_status == "Completed"


def test_a_hint_is_not_an_event():
    assert audited([a_row("Advisory")]).event_count == 0


def test_the_coverage_names_hosts_and_the_vms_that_are_none():
    found = audited(
        [a_row(resources=["web1", "other1"])],
        [a_vm(), a_vm("web2", policy=None)],
        {"web1": [], "web2": [], "web3": []},
        unread=["web3"],
    )
    assert found.coverage == {
        "hosts": ["web1", "web2", "web3"],
        "found_in_azure": ["web1", "web2"],
        "published_by_policy": ["web1"],
        "history_read": ["web1", "web2"],
        "named_by_events": ["web1"],
        "heard_all_of_them": [],
        "vms_without_a_host": ["other1"],
    }


@pytest.mark.parametrize(
    ("row", "consequences"),
    [
        (a_vm(), []),
        (a_vm(policy=None), [NOT_PUBLISHED]),
        (a_vm(profile=None), [NO_TERMINATE]),
        (a_vm(profile={"terminateNotificationProfile": {"enable": False}}), [NO_TERMINATE]),
        (
            a_vm(policy={**PUBLISHES, "userInitiatedReboot": {"automaticallyApprove": True}}),
            ["automaticallyApprove: a restart by a user begins as Started, prepare hooks will not run"],
        ),
        (
            a_vm(policy={**PUBLISHES, "userInitiatedRedeploy": {"automaticallyApprove": True}}),
            ["automaticallyApprove: a redeploy by a user begins as Started, prepare hooks will not run"],
        ),
        (
            a_vm(profile={"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "soon"}}),
            ["notBeforeTimeout is soon, expected PT5M to PT15M"],
        ),
    ],
    ids=["right", "not published", "no profile", "terminate off", "reboot", "redeploy", "unreadable timeout"],
)
def test_a_policy_has_its_consequences_in_words(row, consequences):
    assert audited(policies=[row]).policies == {text: ["web1"] for text in consequences}


def test_a_terminate_notification_that_is_shorter_than_preparations_names_both():
    slow = {"web1": [announcement(), *a_phase("prepare", 0, 412)], "web2": a_maintenance("web2")}
    assert audited(policies=[a_vm(), a_vm("web2")], histories=slow).policies == {
        "PT5M is less than this host's p95 preparation of 412 s": ["web1"]
    }


def test_the_policy_of_a_set_is_that_of_its_vms():
    policy = {**PUBLISHES, "userInitiatedReboot": {"automaticallyApprove": True}}
    uniform = a_vm("pool", kind="virtualMachineScaleSets", policy=policy)
    of_web1 = a_vm("pair", kind="availabilitySets", policy=policy, profile=None)
    web1 = a_vm(policy=None, availabilitySet=of_web1["id"].upper())
    found = audited(policies=[uniform, of_web1, web1], histories={"pool_7": [], "web1": []})
    assert list(found.policies.values()) == [["pool_7", "web1"]]
    assert found.coverage["published_by_policy"] == ["pool_7", "web1"]


def test_vms_of_the_same_name_are_not_told_apart():
    assert audited(policies=[a_vm(), a_vm(id="/subscriptions/other")]).policies == {AMBIGUOUS: ["web1"]}


def test_the_policy_of_a_vm_of_the_same_name_in_another_resource_group_is_not_that_of_the_host():
    vm_id = f"{COMPUTE}/virtualMachines/web1"
    other = a_vm(id=vm_id.replace("/g/", "/staging/"), policy=None)
    assert audited(policies=[other, a_vm()], ids={"web1": vm_id}).policies == {}
    found = audited(policies=[other], ids={"web1": vm_id})
    assert (found.policies, found.coverage["found_in_azure"]) == ({NOT_FOUND: ["web1"]}, [])


def test_a_host_of_a_subscription_that_may_not_be_read_is_not_one_that_missed_nothing():
    assert audited(policies=[a_vm("web2")], histories={"web1": [], "web2": []}).policies == {NOT_FOUND: ["web1"]}


def test_a_row_that_cannot_be_read_is_counted_and_does_not_hide_the_others():
    rows = [None, {}, {"properties": "x"}, a_row(status="Odd"), a_row(resources=()), *[7] * 10, a_row()]
    found = audited(rows)
    assert (len(found.findings), found.is_good) == (1, False)
    assert len(found.as_dict()["unreadable"]) == 10
    assert found.verdict.endswith("15 rows of Resource Graph cannot be read.")


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "id", "name", "type", "policy", "Resources"]), inner)
    ),
    max_leaves=10,
)


@given(st.lists(anything, max_size=4), st.lists(anything, max_size=4))
def test_rows_of_any_content_are_compared(events, policies):
    json.dumps(audited(events, policies).as_dict())


def test_the_page_escapes_what_azure_sent_and_stays_below_its_limit():
    many = {f"{HOSTILE}{number}": [] for number in range(3000)}
    rows = [a_row(resources=list(many), event_id=f"E{HOSTILE}"), a_row(status=HOSTILE), HOSTILE]
    audit = audited(rows, [a_vm(name, policy={}) for name in many], many)
    text = page(tell(many, {}), made=AT, version="1.0.0", audit=audit)
    assert len(audit.findings) == 3000
    assert "<script" not in text
    assert "<img" not in text
    assert "more.</p>" in text
    assert len(text.encode()) <= LARGEST


def test_the_page_and_the_json_show_the_audit():
    audit = audited([a_row()], [a_vm(policy=None)])
    text = page(tell({}, {}), made=AT, version="1.0.0", audit=audit)
    for expected in ("<h2>Audit</h2>", "it was not heard", NOT_PUBLISHED, "vms without a host", audit.verdict):
        assert expected in text
    shown = json.loads(as_json(tell({}, {}), made=AT, version="1.0.0", audit=audit))["audit"]
    assert shown == json.loads(json.dumps(audit.as_dict()))
    assert shown["verdict"] == "Azure published 1 event of these hosts. The audit found 1 problem, on web1."
