# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scheduled_event_approve: what it returns, and what the emulator says was posted."""

import json

import pytest
import yaml
from emulation import until

from playbooks import module_task, play

APPROVE = "scheduled_event_approve"
LISTS = ("approved", "already_started", "absent", "skipped_ids")
GONE = "00000000-0000-4000-8000-00000000DEAD"
WAITS = {"cotenant_delay": 3600}  # an approved event stays Scheduled


def outcome(result):
    """The lists that are not empty, and whether something changed."""
    return {name: result[name] for name in LISTS if result[name]}, result["changed"]


def task(emulator, vm, *event_ids, **more):
    return APPROVE, {"endpoint": emulator.endpoints[vm], "event_id": list(event_ids), **more}


@pytest.fixture(scope="module")
def one_by_one(ansible, fleet, tmp_path_factory):
    """Ways of acknowledging that do not fail: way → (result, what was posted, what was expected of both)."""
    emulators, calls, expected = {}, [], []

    def way(name, vm, event_ids, returns, posts, check=False, **more):
        emulator = emulators[name] = fleet("web1", "web2")
        chosen = event_ids(emulator)
        calls.append((name, task(emulator, vm, *chosen, **more), check))
        expected.append((returns(chosen), posts(chosen)))

    def scheduled(emulator, count=1, vms=("web1", "web2"), **fields):
        return [emulator.schedule("Reboot", *vms, **{**WAITS, **fields}) for _number in range(count)]

    history = tmp_path_factory.mktemp("history")
    way(
        "once",
        "web1",
        scheduled,
        lambda e: ({"approved": e}, True),
        lambda e: [("web1", e, 200)],
        history_directories=["/nowhere", str(history)],
    )
    way(
        "in lower case, and twice",
        "web1",
        lambda emulator: [name.lower() for name in scheduled(emulator) * 2],
        lambda e: ({"approved": [e[0].upper()]}, True),
        lambda e: [("web1", [e[0].upper()], 200)],
    )
    way(
        "one of each",
        "web1",
        lambda emulator: [*scheduled(emulator), GONE, *scheduled(emulator, direct_started=True)],
        lambda e: ({"approved": e[:1], "absent": [e[1]], "already_started": e[2:]}, True),
        lambda e: [("web1", e[:1], 200)],
    )
    way(
        "in check mode",
        "web1",
        lambda emulator: [*scheduled(emulator, 2), GONE],
        lambda e: ({"approved": e[:2], "absent": [GONE]}, True),
        lambda _: [],
        check=True,
    )
    way(
        "leader_only by the leader",
        "web1",
        scheduled,
        lambda e: ({"approved": e}, True),
        lambda e: [("web1", e, 200)],
        leader_only=True,
    )
    way(
        "leader_only by another",
        "web2",
        scheduled,
        lambda e: ({"skipped_ids": e}, False),
        lambda _: [],
        leader_only=True,
    )
    way(
        "leader_only of two",
        "web2",
        lambda emulator: scheduled(emulator) + scheduled(emulator, vms=("web2",)),
        lambda e: ({"approved": e[1:], "skipped_ids": e[:1]}, True),
        lambda e: [("web2", e[1:], 200)],
        leader_only=True,
    )
    way(
        "by a neighbour that it does not name",
        "web2",
        lambda emulator: scheduled(emulator, vms=("web1",)),
        lambda e: ({"approved": e}, True),
        lambda e: [("web2", e, 200)],
    )
    tasks = [module_task(*call, check_mode=check) for _name, call, check in calls]
    results = ansible.run_playbook([play(tasks)]).tasks
    (written,) = (json.loads(line) for line in (history / "history.jsonl").read_text().splitlines())
    assert (written["kind"], written["source"]) == ("acknowledged", "operator")
    assert written["by"] == "the module scheduled_event_approve"
    return {
        name: (result, emulators[name].posts(), *wanted)
        for (name, _call, _check), result, wanted in zip(calls, results, expected, strict=True)
    }


WAYS = [
    "once",
    "in lower case, and twice",
    "one of each",
    "in check mode",
    "leader_only by the leader",
    "leader_only by another",
    "leader_only of two",
    "by a neighbour that it does not name",
]


@pytest.mark.parametrize("way", WAYS)
def test_the_result_shows_the_outcome_of_each_event(one_by_one, way):
    result, _posted, returns, _posts = one_by_one[way]
    assert not result.failed, result["msg"]
    assert outcome(result) == returns


@pytest.mark.parametrize("way", WAYS)
def test_the_emulator_was_posted_exactly_what_the_result_says(one_by_one, way):
    _result, posted, _returns, posts = one_by_one[way]
    assert posted == posts


def test_repeated_while_azure_waits_it_acknowledges_again_and_then_no_more(ansible, fleet):
    emulator = fleet("web1")
    event_id = emulator.schedule("Reboot", "web1", **WAITS)
    in_the_plural = (APPROVE, {"endpoint": emulator.endpoints["web1"], "event_ids": event_id})
    first, second = ansible.run_modules([task(emulator, "web1", event_id), in_the_plural])
    emulator.start(event_id)
    third = ansible.run_module(*task(emulator, "web1", event_id))
    emulator.complete(event_id)
    fourth = ansible.run_module(*task(emulator, "web1", event_id))
    assert [outcome(result) for result in (first, second, third, fourth)] == [
        ({"approved": [event_id]}, True),
        ({"approved": [event_id]}, True),
        ({"already_started": [event_id]}, False),
        ({"absent": [event_id]}, False),
    ]
    assert emulator.posts() == [("web1", [event_id], 200)] * 2
    assert [entry["vm"] for entry in emulator.log("approved")] == ["web1"]


def test_an_acknowledgement_starts_the_event(ansible, fleet):
    emulator = fleet("web1", "web2")
    event_id = emulator.schedule("Reboot", "web2", "web1")
    ansible.run_module(*task(emulator, "web1", event_id))
    assert [(entry["kind"], entry["event_id"]) for entry in emulator.log("approved", "started")] == [
        ("approved", event_id),
        ("started", event_id),
    ]


def refused_lists(result):
    return {name: result[name] for name in (*LISTS, "not_approved", "status")}


def test_refused_with_400_it_fails_with_the_ids_left_and_does_not_insist(ansible, fleet):
    emulator = fleet("web1")
    events = [emulator.schedule("Reboot", "web1") for _number in range(2)]
    emulator.fault("status", status=400, methods=["POST"], body='{"error":"Bad request. No."}')
    result = ansible.run_module(*task(emulator, "web1", *events, GONE, retry_for=2))
    url = f"{emulator.endpoints['web1']}/metadata/scheduledevents?api-version=2020-07-01"
    assert result.failed
    assert result["msg"] == (
        f"POST {url} answered 400 Bad Request: Bad request. No.; not acknowledged: {', '.join(events)}"
    )
    assert refused_lists(result) == {
        "approved": [],
        "already_started": [],
        "absent": [GONE],
        "skipped_ids": [],
        "not_approved": events,
        "status": 400,
    }
    assert emulator.posts() == [("web1", events, 400)]


def test_an_event_that_goes_between_reading_and_posting_does_not_keep_the_other_unacknowledged(ansible, fleet):
    emulator = fleet("web1")
    going, staying = (emulator.schedule("Reboot", "web1", **WAITS) for _number in range(2))
    # The POST is held up long enough for the first event to go.
    emulator.fault("slow", methods=["POST"], delay=30, count=1)
    run = ansible.start_playbook([play([module_task(*task(emulator, "web1", going, staying))])])
    until(lambda: emulator.polls("web1")["posts"] == 1, what="the POST")
    emulator.cancel(going)
    emulator.clear_faults()  # lets it go on
    assert outcome(run.result().tasks[0]) == ({"approved": [staying], "absent": [going]}, True)
    assert emulator.posts() == [("web1", [going, staying], 400), ("web1", [staying], 200)]


def test_the_example_drains_a_vm_that_had_read_before_an_event_was_announced(
    ansible, fleet, installed_collection, tmp_path
):
    module = (installed_collection / "plugins/modules/scheduled_event_approve.py").read_text()
    [of_example] = yaml.safe_load(module.partition('EXAMPLES = r"""')[2].partition('"""')[0])
    emulator = fleet("web1", "web2")
    of_example.update(
        gather_facts=False,
        module_defaults={"group/maintops.scheduled_events.imds": {"endpoint": "{{ imds_endpoint }}"}},
    )
    for name, command in (("drain", "touch"), ("recover", "true")):
        task = {"ansible.builtin.command": f"{command} {tmp_path}/{{{{ inventory_hostname }}}}"}
        (tmp_path / f"{name}.yml").write_text(json.dumps([task]))
    (tmp_path / "play.yml").write_text(json.dumps([of_example]))
    emulator.fault("slow", vms=["web2"], delay=30, count=1)  # it looks after the event is announced
    run = ansible.start_playbook(
        tmp_path / "play.yml",
        inventory={"all": {"children": {"web": emulator.inventory()["all"]}}},
        options=("--forks", "1"),
    )
    until(lambda: emulator.polls("web1")["polls"] or not run.running, what="the look of web1")
    event_id = emulator.schedule("Redeploy", "web2", "web1")
    emulator.clear_faults()
    until(lambda: emulator.posts() or not run.running, what="the acknowledgement")
    assert [name for name in ("web1", "web2") if not (tmp_path / name).exists()] == []
    emulator.complete(event_id)
    assert run.result().rc == 0
