# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables that the roles no longer read. Private to the collection.

The role poller refuses its own in ``module_utils/_poller/options.py``, with the rest of its options.
"""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

_MAINTENANCE = (
    "become",
    "endpoint",
    "fleet",
    "gate_timeout",
    "health_tasks",
    "hosts",
    "lease",
    "load_balancer",
    "max_unavailable",
    "name",
    "on_event",
    "reboot",
    "reboot_needed",
    "reboot_tasks",
    "reboot_timeout",
    "resume_within",
    "serial",
    "settle",
    "state_directory",
    "tasks",
)
# By role: the former name of a variable, and what to use now.
FORMER_NAMES: dict[str, dict[str, str]] = {
    "load_balancer": {"load_balancer_azure_controller": "load_balancer_azure_control_node"},
    "respond": {
        "respond_event_types": "respond_rules",
        "respond_event_sources": "respond_rules",
        "respond_fallback_controller": "respond_fallback_control_node",
        "respond_speak_for_others": "respond_speak_for, or respond_acknowledge=any",
    },
    "rolling_maintenance": {f"maintenance_{name}": f"rolling_maintenance_{name}" for name in _MAINTENANCE},
}


def refuse_former_names(role: str, variables: t.Mapping[str, t.Any]) -> None:
    """Refuse variables that would have no effect.

    :raises AnsibleActionFail: one of them is set. The message names what to use instead.
    """
    former = sorted(FORMER_NAMES[role].keys() & variables.keys())
    if former:
        new = "; ".join(f"instead of {name} use {FORMER_NAMES[role][name]}" for name in former)
        raise AnsibleActionFail(
            f"{', '.join(former)}: the role {role} no longer reads such a variable. Remove it: {new}"
        )
