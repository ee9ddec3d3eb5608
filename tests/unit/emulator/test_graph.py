# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two tables of Resource Graph. They follow Microsoft's pages; none of their rows was recorded."""

import json

import pytest

from .conftest import ask

PATH = "/providers/Microsoft.ResourceGraph/resources"
EVENTS = 'maintenanceresources | where type =~ "microsoft.maintenance/scheduledevents" | project id, name, properties'
POLICIES = (
    "resources | project name, type, policy = properties.scheduledEventsPolicy, profile = "
    "coalesce(properties.scheduledEventsProfile, properties.virtualMachineProfile.scheduledEventsProfile), "
    "flexible = properties.virtualMachineScaleSet.id, availability = properties.availabilitySet.id | order by id asc"
)
APPROVED = {"userInitiatedReboot": {"automaticallyApprove": True}}
NOTIFIED = {"terminateNotificationProfile": {"enable": True}}


def a_vm(number, name, **more):
    return {"name": name, "address": f"127.0.10.{number}", **more}


def asked(served, query, **options):
    body = json.dumps({"subscriptions": [], "query": query, "options": options})
    return ask(served.control_url, "POST", f"{PATH}?api-version=2022-10-01", body=body)


def queried(served, query, **options):
    answer = asked(served, query, **options)
    assert answer.status == 200, answer.json
    return answer.json


def statuses(served):
    return [row["properties"]["EventStatus"] for row in queried(served, EVENTS)["data"]]


def test_a_row_changes_with_its_event_and_stays_after_the_end(served):
    event_id = served.schedule("Redeploy", "web1", "web2", notice=600)
    assert statuses(served) == ["Scheduled"]
    served.control("POST", f"events/{event_id}/start")
    served.control("POST", f"events/{event_id}/complete")
    [row] = queried(served, EVENTS)["data"]
    assert (row["name"], row["properties"]["EventStatus"]) == (event_id.lower(), "Completed")
    assert row["id"].endswith(
        f"/availabilitySets/web/providers/microsoft.maintenance/scheduledevents/{event_id.lower()}"
    )


def test_an_event_that_was_cancelled_is_canceled_in_its_row(served):
    served.control("POST", f"events/{served.schedule('Redeploy', 'alone')}/cancel")
    assert statuses(served) == ["Canceled"]


def test_the_policies_are_in_the_rows_of_vms_and_of_their_sets(emulate):
    served = emulate(
        {
            "vms": [
                a_vm(1, "alone", policy=APPROVED, profile=NOTIFIED),
                a_vm(2, "pool_0", kind="scale_set_uniform", set="pool", policy=APPROVED, profile=NOTIFIED),
                a_vm(3, "web1", kind="availability_set", set="web", policy=APPROVED),
            ]
        }
    )
    rows = {row["name"]: row for row in queried(served, POLICIES)["data"]}
    assert sorted(rows) == ["alone", "pool", "web", "web1"]
    assert rows["alone"]["type"] == "microsoft.compute/virtualmachines"
    assert [rows[name]["policy"] for name in ("alone", "pool", "web", "web1")] == [APPROVED] * 3 + [None]
    assert [rows[name]["profile"] for name in ("alone", "pool")] == [NOTIFIED] * 2
    assert rows["web1"]["availability"].endswith("/providers/Microsoft.Compute/availabilitySets/web")


def test_rows_come_in_pages(emulate):
    served = emulate({"vms": [a_vm(number, f"vm{number}") for number in range(1, 6)]})
    found, options = [], {"$top": 2}
    while True:
        answer = queried(served, "resources | project name | order by id asc", **options)
        assert (answer["totalRecords"], answer["count"]) == (5, len(answer["data"]))
        found += [row["name"] for row in answer["data"]]
        if "$skipToken" not in answer:
            break
        options = {"$top": 2, "$skipToken": answer["$skipToken"]}
    assert found == ["vm1", "vm2", "vm3", "vm4", "vm5"]


@pytest.mark.parametrize("query", ["", "networkresources", "resources | summarize count()"])
def test_a_query_that_the_emulator_does_not_know_is_refused(emulate, query):
    answer = asked(emulate(), query)
    assert answer.status == 400
    assert "is not one of those that the emulator knows" in json.dumps(answer.json)


@pytest.mark.parametrize("token", ["", "next", "-1", "²", "9" * 5000])
def test_a_token_that_no_answer_had_is_refused(emulate, token):
    answer = asked(emulate(), "resources", **{"$skipToken": token})
    assert answer.status == 400
    assert "$skipToken" in json.dumps(answer.json)


@pytest.mark.parametrize(
    ("event_type", "fields", "status"),
    [
        ("Reboot", {"source": "User"}, "Started"),
        ("Reboot", {"source": "Platform"}, "Scheduled"),
        ("Redeploy", {"source": "User"}, "Scheduled"),
    ],
)
def test_a_restart_by_a_user_begins_as_started_where_the_policy_approves_it(simulate, event_type, fields, status):
    simulation = simulate({"vms": [a_vm(1, "vm1", policy=APPROVED), a_vm(2, "vm2")]})
    assert simulation.schedule(event_type, "vm1", **fields).status == status
    assert simulation.schedule(event_type, "vm2", **fields).status == "Scheduled"
