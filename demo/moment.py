# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A notice of three days in a second: python demo/moment.py REPORT. The VM waits for the window of Monday night.

The platform of the emulator announces a Redeploy, on the emulator's clock, and the engine of the polling unit decides
about each of its documents. A drain takes two minutes here. The report is that of the facts.
"""

import datetime
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "roles/emulator/files"))

from scheduled_events_emulator.clock import Clock
from scheduled_events_emulator.events import EventSpec
from scheduled_events_emulator.fleet import parse_fleet
from scheduled_events_emulator.platform import Journal, Platform
from scheduled_events_emulator.rendering import render_document

from plugins.module_utils._scheduled_events import engine, terms
from plugins.module_utils._scheduled_events.clock import Moment
from plugins.module_utils._scheduled_events.document import parse
from plugins.module_utils._scheduled_events.history import POLLER, Fact
from plugins.module_utils._scheduled_events.rules import parse_rules
from plugins.module_utils._scheduled_events.state import State
from plugins.module_utils._scheduled_events.transitions import Step, Writer, facts_of
from plugins.plugin_utils._ansible.zones import rules_with_offsets
from plugins.plugin_utils._report.gather import collection_version
from plugins.plugin_utils._report.page import page
from plugins.plugin_utils._report.story import tell

NIGHTS = {"days": ["Mon", "Tue", "Wed", "Thu", "Fri"], "from": "22:00", "to": "05:00", "timezone": "Europe/London"}
MONDAY_NOON = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC).timestamp()
NOTICE, STEP, VERSION = 3 * 86400.0, 10.0, "2020-07-01"
DRAIN, STARTED_FOR, RETURN = 120.0, 540.0, 60.0  # seconds


def three_days() -> list[Fact]:
    """The facts of the VM from Monday noon to Tuesday noon."""
    clock = Clock(MONDAY_NOON, speed=0)
    platform = Platform(parse_fleet({"vms": [{"name": "web1", "address": "127.0.0.1"}]}), clock, Journal(clock.real_at))
    vm = platform.fleet.find("web1")
    platform.schedule(EventSpec("Redeploy", ("web1",), notice=NOTICE, started_for=STARTED_FOR, event_id="R-1"))
    rules = parse_rules(rules_with_offsets([{"action": "prepare", "windows": [NIGHTS]}], "rules"))
    config = terms.Config("web1", frozenset(["prepare", "recover"]), rules=rules)
    state, facts, ends = State(serial=0), [], dict[str, float]()
    while clock.now() < MONDAY_NOON + 86400:
        now = Moment(platform.sync(), clock.now() - MONDAY_NOON, "boot")
        events = platform.scope_state(vm).events.values()
        document = parse(render_document(1, events, VERSION), api_version=VERSION)
        results = [terms.HookResult(run, "ok") for run, end in ends.items() if end <= now.wall]
        ends = {run: end for run, end in ends.items() if end > now.wall}
        while True:
            before = state
            state, actions = engine.step(before, document, results, now, config)
            facts += facts_of(Step(before, state, actions, now, config), Writer(POLLER, "the polling unit of web1"))
            asked = [action.event_id for action in actions if isinstance(action, terms.Approve)]
            ends.update(
                {
                    action.request_id: now.wall + (DRAIN if action.phase == "prepare" else RETURN)
                    for action in actions
                    if isinstance(action, terms.RunHooks)
                }
            )
            if not asked:
                break
            accepted, _unknown = platform.approve(vm, asked, partly=False)
            document, results = None, [terms.ApprovalResult(each.lower(), accepted=True) for each in accepted]
        clock.move_to(clock.now() + STEP)
    return facts


if __name__ == "__main__":
    story = tell({"web1": three_days()}, {})
    made = MONDAY_NOON + 86400
    pathlib.Path(sys.argv[1]).write_text(page(story, made=made, version=collection_version()), encoding="utf-8")
    print(story.verdict)
