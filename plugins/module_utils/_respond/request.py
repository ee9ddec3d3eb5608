# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a turn of a host is asked, on both sides: the options of the role, and the request of the control node.

Private to the collection: it may change in any release.
"""

from typing import Any, Dict, NamedTuple, Sequence, Tuple

from .._scheduled_events import rules as decisions
from .._scheduled_events import terms

# A phase of a play ends when its tasks do; silence is not judged here. NotBefore bounds what the tasks ask for.
LONGEST_PHASE = 7 * 24 * 3600.0  # seconds

# Which events a play acknowledges: those of which it has prepared all VMs, all that it has prepared for, or none.
PREPARED = "prepared"
ACKNOWLEDGE = (PREPARED, terms.ANY, terms.NEVER)

RULE_OPTIONS: Dict[str, Dict[str, Any]] = {
    "action": {"type": "str", "choices": list(decisions.ACTIONS), "required": True},
    "event_types": {"type": "list", "elements": "str"},
    "event_sources": {"type": "list", "elements": "str"},
    "event_statuses": {"type": "list", "elements": "str"},
    "min_duration": {"type": "int"},
    "max_duration": {"type": "int"},
    "max_resources": {"type": "int"},
    "lead_time": {"type": "str"},
    "windows": {
        "type": "list",
        "elements": "dict",
        "options": {
            "days": {"type": "list", "elements": "str"},
            **{name: {"type": "str"} for name in ("from", "to", "timezone", "offsets")},
        },
    },
}
OPTIONS: Dict[str, Dict[str, Any]] = {
    "rules": {"type": "list", "elements": "dict", "default": [], "options": RULE_OPTIONS},
    "acknowledge": {"type": "str", "choices": list(ACKNOWLEDGE), "default": PREPARED},
    "speak_for": {"type": "list", "elements": "str", "default": []},
    "state_directory": {"type": "path", "default": "/var/lib/maintops"},
    "maintenance_margin": {"type": "float", "default": 60},
    "published_events": {"type": "list", "elements": "dict", "default": []},
    "published_timeout": {"type": "float", "default": 300},
    "wait_timeout": {"type": "float", "default": 3600},
    "reconnect_timeout": {"type": "float", "default": 900},
    "phase_timeout": {"type": "float", "default": 900},
    "prepare_tasks": {"type": "str"},
    "started_tasks": {"type": "str"},
    "recover_tasks": {"type": "str"},
    "advised_tasks": {"type": "str"},
    "load_balancer": {"type": "bool"},
    "drain_timeout": {"type": "float", "default": 300},
    "drain_on_timeout": {"type": "str", "default": "fail"},
    "fallback": {"type": "str", "choices": ["none", "azure_resource_manager"], "default": "none"},
    "fallback_max_age": {"type": "float", "default": 300},
    "fallback_resource_id": {"type": "str"},
    "fallback_credentials": {"type": "dict", "default": {}},
    "fallback_control_node": {"type": "str", "default": "localhost"},
    "outcome": {"type": "dict"},
    "reached": {"type": "bool"},
    "flushes": {"type": "int"},
    "within_maintenance": {"type": "bool", "default": False},
    "allow_skip_tags": {"type": "bool", "default": False},
    "of_role": {"type": "bool", "default": False},
    "check_only": {"type": "bool", "default": False},
    "conclude": {"type": "str", "choices": ["events", "maintenance", "respond", "run"]},
    "result": {"type": "dict"},
}


class TurnRequest(NamedTuple):
    """The request of the control node for a turn. Times are in seconds.

    :param run: identity of the control node's run; ``host``: name of this host in its inventory.
    :param owner: where the run is, for another control node that meets its lease.
    :param first: whether it is the run's first turn on this host.
    :param abandoned: a run that does not exist any more; its lease does not count.
    :param monotonic: of the control node, now.
    :param slice: how long to poll on the host while there is nothing to do.
    :param known: ``marker`` of the turn before; the turn ends as soon as it changes.
    :param acknowledge: the events that are to be acknowledged now, once the outcome is taken: ``event_id``, and the
        ``event_type`` and ``names`` for which the hosts have prepared.
    :param prepares: whether a preparation that ends well in this run prepares this host.
    :param compute: whether to show what the service says about this VM, if an event concerns it.
    :param assume_over: for a plan: take the events for gone instead of reading the document.
    :param state: for a plan: the state, which is not kept on the host.
    """

    run: str
    host: str = ""
    owner: Dict[str, Any] = {}
    first: bool = True
    abandoned: str = ""
    monotonic: float = 0.0
    slice: float = 0.0
    known: str = ""
    acknowledge: Sequence[Dict[str, Any]] = ()
    prepares: bool = True
    compute: bool = False
    assume_over: bool = False
    state: str = ""


def engine_config(
    options: Dict[str, Any], *, vm_name: str, rules: Tuple[decisions.Rule, ...], defers: bool, prepares: bool
) -> terms.Config:
    """The settings of the engine for the options of a turn.

    :param defers: whether the host is under maintenance, so that a preparation begins only shortly before NotBefore.
    """
    started = ["started"] if options["started_tasks"] or options["load_balancer"] else []
    wanted = [*started, *(["advised"] if options["advised_tasks"] else [])]
    return terms.Config(
        vm_name=vm_name,
        hooks=frozenset(["prepare", "recover", *wanted]),
        rules=rules,
        hook_timeout=LONGEST_PHASE,
        # Whether the others are prepared, the hosts of the play agree on.
        acknowledge=terms.NEVER if options["acknowledge"] == terms.NEVER else terms.ANY,
        parallel=False,
        started_after_prepare=False,
        patience=options["phase_timeout"],
        defer=options["maintenance_margin"] if defers else None,
        preparation="tasks" if prepares and (options["prepare_tasks"] or options["load_balancer"]) else "",
    )
