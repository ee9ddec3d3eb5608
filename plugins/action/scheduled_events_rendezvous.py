# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._rendezvous import (
    FAILED,
    PREPARED,
    Rendezvous,
    Word,
)

ARGUMENTS = {
    "vm_name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
    "api_version": {"type": "str", "required": True},
    "events": {"type": "list", "elements": "dict", "default": []},
    "prepared": {"type": "list", "elements": "str", "default": []},
    "failed": {"type": "list", "elements": "str", "default": []},
    "claim": {"type": "bool", "default": True},
    "release": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ActionBase):
    """Let a host leave word and learn what it is to acknowledge. It runs on the controller and never waits."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        host = variables["inventory_hostname"]
        rendezvous = Rendezvous(
            # Ansible makes this directory for each run, and removes it at the end.
            Path(constants.DEFAULT_LOCAL_TMP) / "scheduled-events-rendezvous",
            play_hosts=list(variables["ansible_play_hosts_all"]),
        )
        events = [event for event in arguments["events"] if event.get("event_id")]
        outcomes = {
            **dict.fromkeys(arguments["prepared"], PREPARED),
            **dict.fromkeys(arguments["failed"], FAILED),
        }
        rendezvous.release(arguments["release"])
        rendezvous.tell(
            Word(
                host=host,
                vm_name=arguments["vm_name"],
                endpoint=arguments["endpoint"],
                api_version=arguments["api_version"],
                events=events,
                outcomes=outcomes,
            )
        )
        claimed = rendezvous.claim(host) if arguments["claim"] else []
        held = rendezvous.held(event["event_id"] for event in events if event.get("affects_this_vm"))
        return {**result, "changed": False, "acknowledge": claimed, "held": held}
