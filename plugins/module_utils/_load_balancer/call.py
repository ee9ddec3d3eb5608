# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module load_balancer, and what it does on the host itself."""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional

from .._scheduled_events.clock import CLOCK, Clock
from .._scheduled_events.files import Folder
from .health_probe import Flag, ProbeAnswer, Probed, check_settings
from .record import Record, take_note

DRAIN_STATES, RECORD_STATES = ("drained", "active"), ("held", "returning", "interrupted", "released")
ON_HOST, ON_CONTROL_NODE = (
    ("record", "health_probe"),
    ("haproxy", "azure_load_balancer", "azure_application_gateway"),
)

HAPROXY_OPTIONS: Dict[str, Dict[str, Any]] = {
    "balancers": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "str", "default": "/run/haproxy/admin.sock"},
    "become": {"type": "bool", "default": True},
}
ARM_OPTIONS: Dict[str, Dict[str, Any]] = {
    "credentials": {"type": "dict", "default": {}},
    "control_node": {"type": "str", "default": "localhost"},
    "operation_timeout": {"type": "float", "default": 900},
}
OPTIONS: Dict[str, Dict[str, Any]] = {
    "provider": {"type": "str", "choices": [*ON_HOST, *ON_CONTROL_NODE], "required": True},
    "state": {"type": "str", "choices": [*DRAIN_STATES, *RECORD_STATES], "required": True},
    "holder": {"type": "str", "default": "operator"},
    "directory": {"type": "path", "default": "/var/lib/maintops"},
    "found": {"type": "dict", "default": {}},
    "wait": {"type": "float", "default": 60},
    "lease": {"type": "float", "default": 300},
    "settings": {"type": "dict", "default": {}},
    "was_drained": {"type": "bool", "default": False},
    "drain_timeout": {"type": "float", "default": 300},
    "finish_within": {"type": "float", "default": -1},
    "on_timeout": {"type": "str", "choices": ["fail", "continue"], "default": "fail"},
    "return_timeout": {"type": "float", "default": 120},
    "wait_at_most": {"type": "float", "default": 0},
    "resume": {"type": "dict", "default": {}},
    "flag": {"type": "path", "default": "/var/lib/maintops/drained"},
    "url": {"type": "str", "default": "http://127.0.0.1/healthz"},
    "drained_status": {"type": "int", "default": 503},
    "interval": {"type": "float", "default": 5},
    "count": {"type": "int", "default": 2},
    "ports": {"type": "list", "elements": "int", "default": [80, 443]},
    "server": {"type": "str"},
    "backends": {"type": "list", "elements": "str", "default": []},
    "pools": {"type": "list", "elements": "str", "default": []},
    "network_interfaces": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "drain_time": {"type": "float"},
    **HAPROXY_OPTIONS,
    **ARM_OPTIONS,
}


def wrong_state(options: Mapping[str, Any]) -> str:
    """What is wrong with the state for the provider; empty if nothing is."""
    states = RECORD_STATES if options["provider"] == "record" else DRAIN_STATES
    if options["state"] in states:
        return ""
    return f"state is {options['state']}, expected {' or '.join(states)} with provider {options['provider']}"


def carry_out(
    options: Mapping[str, Any],
    folder: Folder,
    *,
    simulate: bool,
    probe: Callable[[str], ProbeAnswer],
    peers: Callable[[], List[str]],
    clock: Clock = CLOCK,
    flag: Optional[Flag] = None,
    is_absolute: Callable[[str], bool] = os.path.isabs,
) -> Dict[str, Any]:
    """Carry out the options with one of the providers :data:`ON_HOST`.

    :param folder: the state directory of the host.
    :param flag: the flag, if it is not a file of this machine.
    :raises DrainError: it could not be done.
    """
    record = Record(folder, simulate=simulate, clock=clock)
    if options["provider"] == "record":
        return take_note(record, options)
    check_settings(options, is_absolute)
    host = Probed(
        options,
        record,
        probe=lambda: probe(options["url"]),
        peers=peers,
        flag=flag,
        simulate=simulate,
        clock=clock,
    )
    return host.bring()
