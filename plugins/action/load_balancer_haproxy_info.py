# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.action import HAProxyAction
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._haproxy.balancers import Balancers
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import OtherHostError


class ActionModule(HAProxyAction):
    """Read which servers get no traffic from at least one balancer."""

    def _work(self) -> dict[str, t.Any]:
        balancers = Balancers(self._arguments["balancers"], ask=self._ask, errors=OtherHostError)
        return {"changed": False, "servers_without_traffic": balancers.out()}
