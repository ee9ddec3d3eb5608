# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents: their exact bytes, what each api-version shows, and when the incarnation changes."""

import json
import pathlib

import pytest

HINT = "SpotRebalanceRecommendation"
VERSIONS = ["2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"]
BASE = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
ADDED = {"2019-04-01": "Description", "2019-08-01": "EventSource", "2020-07-01": "DurationInSeconds"}
PAYLOADS = pathlib.Path(__file__).resolve().parents[2] / "payloads"
SET = {
    "vms": [
        {"name": f"WestNO_{number}", "address": f"127.0.30.{number + 1}", "kind": "scale_set_uniform", "set": "WestNO"}
        for number in range(2)
    ]
}


@pytest.mark.parametrize("version", VERSIONS)
def test_03_the_fields_of_an_event_and_their_order_are_those_of_the_version(served, version):
    served.schedule("Freeze", "web1")
    added = [field for since, field in ADDED.items() if version >= since]
    assert list(served.events("web1", version)[0]) == BASE + added


@pytest.mark.parametrize("version", VERSIONS)
def test_03_only_the_preview_writes_an_underscore_before_names(served, version):
    served.schedule("Freeze", "web1", "web2")
    expected = ["_web1", "_web2"] if version == "2017-03-01" else ["web1", "web2"]
    assert served.events("web1", version)[0]["Resources"] == expected


@pytest.mark.parametrize(
    ("event_type", "since"), [("Preempt", "2017-11-01"), ("Terminate", "2019-01-01"), (HINT, "2024-07-09")]
)
@pytest.mark.parametrize("version", [*VERSIONS, "2024-07-09"])
def test_04_a_type_is_hidden_from_versions_before_it(emulate, event_type, since, version):
    served = emulate(SET, newest_version="2024-07-09")
    served.schedule(event_type, "WestNO_0")
    assert len(served.events("WestNO_0", version)) == (1 if version >= since else 0)


def test_04_a_hint_is_advisory_and_has_no_not_before(emulate):
    served = emulate(SET, newest_version="2024-07-09")
    served.schedule(HINT, "WestNO_0")
    [shown] = served.events("WestNO_0", "2024-07-09")
    assert (shown["EventType"], shown["EventStatus"], shown["NotBefore"]) == (HINT, "Advisory", "")


def test_02_the_preview_of_hints_is_unknown_unless_the_host_knows_it(emulate):
    assert emulate(SET).get("WestNO_0", version="2024-07-09").status == 400


def test_04_an_event_that_a_version_hides_does_not_change_its_incarnation(emulate):
    served = emulate(SET)
    before = [served.get("WestNO_0", version=version).json["DocumentIncarnation"] for version in VERSIONS]
    served.schedule("Terminate", "WestNO_0")
    after = [served.get("WestNO_0", version=version).json["DocumentIncarnation"] for version in VERSIONS]
    assert (before, after) == ([1] * 7, [1, 1, 1, 2, 2, 2, 2])


def test_05_a_live_migration_gives_the_recorded_documents_byte_for_byte(emulate):
    served = emulate(SET)
    bodies = [served.get("WestNO_0").body]
    recorded = [
        (PAYLOADS / f"live-migration-{name}.json").read_bytes().strip()
        for name in ("1-empty", "2-scheduled", "3-started", "4-removed")
    ]
    event_id = json.loads(recorded[1])["Events"][0]["EventId"]
    description = json.loads(recorded[1])["Events"][0]["Description"]
    served.schedule("Freeze", "WestNO_0", "WestNO_1", event_id=event_id, duration=5, description=description)
    bodies.append(served.get("WestNO_1").body)
    served.advance(900)
    bodies.append(served.get("WestNO_0").body)
    served.advance(300)
    bodies.append(served.get("WestNO_0").body)
    # Recorded on another day; all else is the same. The second VM was enabled later, at its incarnation 1.
    expected = [
        document.replace(b"Mon, 11 Apr 2022 22:26:58 GMT", b"Fri, 15 Apr 2022 05:35:00 GMT") for document in recorded
    ]
    expected[1] = expected[1].replace(b'Incarnation":2', b'Incarnation":1')
    assert bodies == expected


def test_05_generated_ids_are_guids_in_upper_case(served):
    served.schedule("Freeze", "web1")
    event_id = served.events("web1")[0]["EventId"]
    assert event_id == event_id.upper()
    assert [len(part) for part in event_id.split("-")] == [8, 4, 4, 4, 12]


def test_05_an_event_without_a_scheduled_phase_has_an_empty_not_before(served):
    served.schedule("Reboot", "web1", direct_started=True)
    event = served.events("web1")[0]
    assert (event["EventStatus"], event["NotBefore"]) == ("Started", "")


def test_08_the_incarnation_is_an_integer_and_changes_only_with_the_array(served):
    def incarnation():
        return served.get("web1").json["DocumentIncarnation"]

    seen = [incarnation(), incarnation()]
    served.schedule("Reboot", "alone")
    served.advance(30)
    seen.append(incarnation())
    event_id = served.schedule("Reboot", "web2")
    seen += [incarnation(), incarnation()]
    served.post("web1", event_id)
    seen += [incarnation(), incarnation()]
    served.advance(300)
    seen.append(incarnation())
    assert seen == [1, 1, 1, 2, 2, 3, 3, 4]


def test_08_a_pending_approval_does_not_change_the_document(emulate):
    served = emulate(platform={"cotenant_delay": 60})
    event_id = served.schedule("Reboot", "web1")
    before = served.get("web1").body
    served.post("web1", event_id)
    assert served.get("web1").body == before


def test_08_the_incarnation_may_skip_numbers(served):
    served.get("web1")
    served.schedule("Reboot", "web1", notice=10, started_for=10)
    served.advance(20)
    assert served.get("web1").json == {"DocumentIncarnation": 4, "Events": []}


@pytest.mark.parametrize(
    ("overrides", "field", "shown"),
    [
        ({"NotBefore": "soon"}, "NotBefore", "soon"),
        ({"NotBefore": "Mon, 19 Sep 2019 18:29:47 GMT"}, "NotBefore", "Mon, 19 Sep 2019 18:29:47 GMT"),
        ({"EventType": "freeze"}, "EventType", "freeze"),
        ({"EventStatus": "SCHEDULED"}, "EventStatus", "SCHEDULED"),
        ({"EventType": "SpotRebalanceRecommendation"}, "EventType", "SpotRebalanceRecommendation"),
        ({"SomethingNew": {"a": [1]}}, "SomethingNew", {"a": [1]}),
        ({"Resources": []}, "Resources", []),
        ({"Resources": None}, "Resources", "absent"),
        ({"DurationInSeconds": None}, "DurationInSeconds", "absent"),
    ],
)
def test_23_raw_fields_are_replaced_added_and_dropped(served, overrides, field, shown):
    served.schedule("Freeze", "web1", overrides=overrides)
    assert served.events("web1")[0].get(field, "absent") == shown


def test_23_the_raw_fields_of_a_live_event_can_change_and_so_does_the_incarnation(served):
    event_id = served.schedule("Freeze", "web1")
    before = served.get("web1").json
    assert served.control("POST", f"events/{event_id}/overrides", {"Description": "\u00fc\ud800"}).status == 200
    after = served.get("web1").json
    assert after["Events"][0]["Description"] == "\u00fc\ud800"
    assert after["DocumentIncarnation"] == before["DocumentIncarnation"] + 1


@pytest.mark.parametrize("shown", [None, 7])
def test_an_event_that_shows_no_id_or_a_wrong_one_is_acknowledged_by_no_request(served, shown):
    event_id = served.schedule("Reboot", "web1", overrides={"EventId": shown})
    assert [served.post("web1", each).status for each in (str(shown), event_id)] == [400, 400]
    assert served.events("web1")[0]["EventStatus"] == "Scheduled"


def test_an_event_is_acknowledged_by_the_id_that_its_document_shows(served):
    served.schedule("Reboot", "web1", overrides={"EventId": "of-another-kind"})
    assert served.post("web1", served.events("web1")[0]["EventId"]).status == 200
    assert served.events("web1")[0]["EventStatus"] == "Started"
