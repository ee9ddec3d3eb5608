# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The times of a report are those of the emulator, under the manual clock of the emulator.

A host can know a change only from its next document. So a time of the report is that of the emulator's log, or later by
one interval of the polls at most.
"""

import json

import pytest
from _scheduled_events.clock import Clock
from _scheduled_events.document import parse
from scheduled_events_emulator.clock import Clock as EmulatorClock
from scheduled_events_emulator.events import parse_spec
from scheduled_events_emulator.fleet import parse_fleet
from scheduled_events_emulator.platform import Journal, Platform
from scheduled_events_emulator.rendering import render_document

from plugins.module_utils._respond import request as turn_request
from plugins.module_utils._respond import turn as turns
from plugins.module_utils._scheduled_events import history_file
from plugins.module_utils._scheduled_events.history import parse_moment
from plugins.plugin_utils._report.data import as_json
from plugins.plugin_utils._report.story import tell

START = 1_650_000_000.0
POLL_GAP = turns.INTERVALS.poll_gap
IN_REPORT = {"scheduled": "seen", "approved": "acknowledged", "started": "started", "removed": "over"}


class Service:
    """The metadata service of a VM: the platform of the emulator without a network."""

    def __init__(self, platform, vm):
        self._platform, self._machine = platform, platform.fleet.find(vm)

    def poll(self, **_how):
        self._platform.sync()
        events = self._platform.scope_state(self._machine).events.values()
        return parse(render_document(1, events, "2020-07-01"), api_version="2020-07-01")

    fetch = poll

    def retry(self, attempt):
        return attempt()

    def approve(self, event_ids):
        self._platform.approve(self._machine, event_ids, partly=False)


def respond(service, clock, directory):
    """A run of respond on the VM: each phase takes no time, and succeeds."""
    options = {name: option.get("default") for name, option in turn_request.OPTIONS.items()}
    options.update(state_directory=str(directory), prepare_tasks="/drain.yml")
    request = {"first": True, "known": "", "acknowledge": ()}
    for _turn_of_the_run in range(50):
        asked = turn_request.TurnRequest(run="run1", host="web1", owner={}, slice=60.0, **request)
        shown = turns.Turn(service, "web1", options, asked, clock=clock).take()
        if shown["next"] == "done":
            return
        ids = shown.get("request_ids", [])
        options["outcome"] = {"request_ids": ids, "ok": True, "reason": ""} if ids else None
        claims = [{"event_id": each, "event_type": "Reboot", "names": ["web1"]} for each in shown["ready"]]
        request = {"first": False, "known": shown["marker"], "acknowledge": claims}
    pytest.fail("the run does not end")


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.999])
def test_each_time_of_a_report_is_that_of_the_emulators_log_to_one_poll(tmp_path, offset):
    clock = EmulatorClock(START, speed=0)
    journal = Journal(clock.real_at)
    fleet = parse_fleet({"vms": [{"name": "web1", "address": "127.0.10.1"}]})
    platform = Platform(fleet, clock, journal, cotenant_delay=33.3 + offset)
    spec = {"type": "Reboot", "vms": ["web1"], "notice": 900, "started_for": 77.7}
    platform.schedule(parse_spec(spec))
    clock.move_to(START + offset)  # when the first poll comes
    host = Clock(clock.now, clock.now, lambda seconds: clock.move_to(clock.now() + max(seconds, 0.001)))
    respond(Service(platform, "web1"), host, tmp_path)

    found = history_file.read(str(tmp_path), now=clock.now())
    report = json.loads(as_json(tell({"web1": found.facts}, {}), made=clock.now(), version="1.0.0"))
    [lane] = report["events"][0]["hosts"]
    log = {entry["kind"]: parse_moment(entry["at"]) for entry in journal.since()}
    delays = {kind: parse_moment(lane[name]) - log[kind] for kind, name in IN_REPORT.items()}
    assert all(-0.001 <= delay <= POLL_GAP + 0.002 for delay in delays.values()), delays  # times have milliseconds
    assert parse_moment(lane["not_before"]) == START + 900
