# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import typing as t

from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.action import HAProxyAction
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.balancers import (
    Membership,
    MembershipSettings,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._provider.holding import (
    RecordFailed,
    record_on_host,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import OtherHostError


class ActionModule(HAProxyAction):
    """Take a host out of its HAProxies, and put it back."""

    ARGUMENTS = {
        "state": {"type": "str", "choices": ["drained", "active"], "required": True},
        "server": {"type": "str"},
        "backends": {"type": "list", "elements": "str", "default": []},
        "holder": {"type": "str", "default": "operator"},
        "drain_timeout": {"type": "float", "default": 300},
        "finish_within": {"type": "float", "default": -1},
        "on_timeout": {"type": "str", "choices": ["fail", "continue"], "default": "fail"},
        "return_timeout": {"type": "float", "default": 120},
        "wait_at_most": {"type": "float", "default": 0},
        "resume": {"type": "dict", "default": {}},
        "directory": {"type": "str", "default": "/var/lib/maintops"},
    }

    def _work(self) -> dict[str, t.Any]:
        arguments = self._arguments
        settings = MembershipSettings(
            server=arguments["server"] or self._variables["inventory_hostname"],
            backends=arguments["backends"],
            holder=arguments["holder"],
            drain_timeout=max(0.0, arguments["drain_timeout"]),
            on_timeout=arguments["on_timeout"],
            return_timeout=max(0.0, arguments["return_timeout"]),
            wait_at_most=max(0.0, arguments["wait_at_most"]),
            simulate=self._task.check_mode,
            finish_within=arguments["finish_within"] if arguments["finish_within"] >= 0 else math.inf,
        )
        record = record_on_host(self, arguments["directory"], self._variables)
        membership = Membership(arguments["balancers"], settings, ask=self._ask, record=record, errors=OtherHostError)
        work = membership.drain if arguments["state"] == "drained" else membership.restore
        try:
            return work(arguments["resume"])
        except RecordFailed as failure:
            return t.cast("dict[str, t.Any]", failure.args[0])
