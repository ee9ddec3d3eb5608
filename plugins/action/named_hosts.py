# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.named_hosts import refuse_unnamed_hosts


class ActionModule(ActionBase):
    """Refuse the control node of a playbook whose hosts are not named."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        refuse_unnamed_hosts(self, task_vars or {})
        return {**result, "changed": False}
