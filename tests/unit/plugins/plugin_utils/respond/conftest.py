# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host of a play on the control node, and what its module returns."""

from plugins.module_utils._respond.request import OPTIONS as OF_ROLE
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._respond.context import Context, Notes

OPTIONS = {**{name: option.get("default") for name, option in OF_ROLE.items()}, "prepare_tasks": "/drain.yml"}
EVENT = {"event_id": "A1", "event_type": "Reboot", "seconds_until_not_before": 600.0}
OWNER = {"pid": 1, "node": "here"}


def sight(*names, event_type="Reboot"):
    return {"event_id": "A1", "event_type": event_type, "names": list(names), "drill": False}


def waiting(condition="to be acknowledged", **more):
    plain = {"event_id": "A1", "event_type": "Reboot", "present": True, "impact": False, "accepted": False}
    more = {"not_before": None, "decision": "prepare", "detail": "", "waits_until": None, **more}
    return {**plain, "condition": condition, **more}


def shown(following="wait", event=None, **more):
    """What the module returns."""
    handed_out = following in ("prepare", "started", "recover")
    return {
        "next": following,
        "events": [event or EVENT] if handed_out else [],
        "request_ids": ["1"] if handed_out else [],
        "ready": [],
        "prepared": [],
        "unprepared": [],
        "waiting": [waiting()] if following != "done" else [],
        "sight": [sight("vm1", "vm2")],
        "drill": False,
        "marker": "m",
        "acknowledged": [],
        "story": [],
        "problems": [],
        "vm_name": "vm1",
        "named": ["A1"],
        "state": "",
        **more,
    }


class PlayedHost:
    """web1, which is vm1, with a clock that the test holds. Its module gives the answers of a script; the last one is
    repeated.
    """

    def __init__(self, directory):
        self.directory = directory
        self.now, self.asked, self.said, self.warned = 1000.0, [], [], []
        self.script, self.rescued_hosts, self.in_part = [], [], False

    def answer(self, controller, outcome):
        self.asked.append((controller, outcome))
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def sleep(self, seconds):
        self.now += seconds

    def wall(self):
        return self.now

    def context(self, options, *, fresh, **more):
        return Context(
            host="web1",
            run="run1",
            owner=OWNER,
            options={**OPTIONS, **options},
            notes=Notes(self.directory / "notes" / "web1", fresh=fresh, began=self.now),
            coordinator=self.coordinator,
            execute=self.execute,
            say=self.said.append,
            warn=self.warned.append,
            rescued_hosts=self.rescued_hosts,
            in_part=self.in_part,
            clock=Clock(self.wall, lambda: self.now, self.sleep),
            **more,
        )
