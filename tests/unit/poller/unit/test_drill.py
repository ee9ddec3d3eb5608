# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The polling unit handles the event of a drill like one of the service, and sends nothing of it."""

import json
import os
import time

import pytest
from _scheduled_events import history_file
from _scheduled_events.announced import LEASE, NAME, boottime
from polling_unit import ID, until

DRILL = "drill-6ba7b810-9dad-11d1-80b4-00c04fd430c8"


@pytest.fixture
def drilled(unit):
    """The unit, with hooks that write down their event, and a directory for drills."""
    os.mkdir(unit.path("drill"))
    unit.arguments.append(f"--drill-directory={unit.path('drill')}")
    for phase in ("prepare", "started", "recover"):
        unit.add_hook(phase, f'echo "{phase} $SCHEDULED_EVENT_ID" >> {unit.path("ran")}')
    unit.start()
    return unit


def announce(unit, status="Scheduled", left=LEASE - 1):
    event = {"EventId": DRILL, "EventType": "Reboot", "EventStatus": status, "Resources": ["vm1"]}
    with open(unit.path("drill/new"), "w") as file:
        json.dump({"event": event, "until": boottime() + left}, file)
    os.rename(unit.path("drill/new"), unit.path("drill/" + NAME))


def kinds(unit, event_id=DRILL):
    found = history_file.read(unit.path("history"), now=time.time())
    return [fact.kind for fact in found.facts if fact.event_id == event_id]


def status_of(unit):
    until(lambda: os.path.exists(unit.path("run/status.json")), "the first status")
    return json.loads(unit.command("status", "--json")[1])


def test_a_drill_goes_through_all_phases_and_its_acknowledgement_is_in_the_history_alone(drilled, imds):
    announce(drilled)
    until(lambda: "acknowledged" in kinds(drilled), "the acknowledgement")
    announce(drilled, "Started")
    until(lambda: "started" in drilled.ran(), "the start")
    os.unlink(drilled.path("drill/" + NAME))
    until(lambda: "recover" in drilled.ran(), "the recovery")
    assert drilled.ran().split() == ["prepare", DRILL, "started", DRILL, "recover", DRILL]
    assert imds.posts == []


def test_the_status_shows_a_drill_and_a_file_that_adds_nothing(drilled):
    announce(drilled)
    until(lambda: status_of(drilled)["drill"], "the drill in the status")
    assert "drill: its event is added" in drilled.command("status")[1]
    announce(drilled, "Paused")
    until(lambda: status_of(drilled)["drill_problem"], "the problem in the status")
    _status, shown, _errors = drilled.command("status")
    assert "adds no event: its event is not that of a drill" in shown
    assert status_of(drilled)["drill"] is False


def test_an_event_of_the_service_ends_the_drill_and_is_handled(drilled, imds):
    announce(drilled)
    until(lambda: "acknowledged" in kinds(drilled), "the acknowledgement of the drill")
    imds.announce()
    drilled.await_acknowledgement()
    assert imds.acknowledged() == [[ID]]
    assert "over" in kinds(drilled)
    imds.events = []
    os.unlink(drilled.path("drill/" + NAME))
    until(lambda: drilled.ran().count("recover") == 2, "the recoveries")


def test_a_drill_whose_file_is_not_renewed_ends_by_itself(drilled):
    announce(drilled)
    until(lambda: "prepare" in drilled.ran(), "the preparation")
    announce(drilled, left=1.0)
    until(lambda: "recover" in drilled.ran(), "the recovery")
    assert "over" in kinds(drilled)


def test_the_list_of_events_has_that_of_a_drill(drilled):
    announce(drilled)
    assert DRILL in drilled.command("list")[1]


def test_an_operator_can_acknowledge_a_drill_and_nothing_is_sent(drilled, imds):
    drilled.configure(rules=[{"action": "hold"}])
    drilled.restart()
    announce(drilled)
    status, output, _errors = drilled.command("approve", "--force", DRILL)
    assert (status, output, imds.posts) == (0, f"{DRILL}: acknowledged\n", [])
