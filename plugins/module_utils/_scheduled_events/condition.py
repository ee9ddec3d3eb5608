# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The condition of an event and the reason for its wait, as data. Other modules make texts for users from it."""

from typing import NamedTuple, Tuple

from . import document, policies, terms
from . import rules as decisions
from .runs import FAILED, OK, PHASES, TIMEOUT
from .state import RUNNING, EventState, State

RUNS = "hooks run"
CANNOT_ASK = "hooks cannot be asked for"
RECOVERY_FAILED = "recovery failed"
RECOVERY_MISSING = "recover hooks missing"
RECOVERY_UNCONFIGURED = "recover hooks no longer configured"
RECOVERY_WAITS = "recovery waits for another event"
RECOVERY_NEXT = "recovery next"
UNDER_WAY = "under way"
ACKNOWLEDGED = "acknowledged"
NOT_ACCEPTED = "acknowledgement not accepted"
PREPARE_FAILED = "preparation failed"
PREPARE_MISSING = "prepare hooks missing"
PREPARE_UNCONFIGURED = "prepare hooks no longer configured"
NOTHING_PREPARES = "nothing prepares"
NOTHING_PREPARED = "nothing prepared"
ADVISORY = "advisory"
ADVISED_FAILED = "advised hooks failed"
HELD_BY_RULE = "held by a rule"
HELD_BY_POLICY = "held by the policy"
LEFT_TO_CONTROLLER = "left to the controller"
TAKES_OVER = "left to the controller until a moment"
TOOK_OVER = "taken over from the controller"
STATUS_UNKNOWN = "status unknown"
STATE_LOST = "state lost"
WAITS_FOR_RECOVERY = "waits for the recovery of another event"
TO_BE_ACKNOWLEDGED = "to be acknowledged"

# What an operator has to look at.
TROUBLES = frozenset(
    (
        CANNOT_ASK,
        RECOVERY_FAILED,
        RECOVERY_MISSING,
        RECOVERY_UNCONFIGURED,
        NOT_ACCEPTED,
        PREPARE_FAILED,
        PREPARE_MISSING,
        PREPARE_UNCONFIGURED,
        STATUS_UNKNOWN,
        STATE_LOST,
        ADVISED_FAILED,
    )
)


class Condition(NamedTuple):
    """``phases``: those whose hooks run. ``detail``: a reason, or the names of hooks. ``until``: the deadline of the
    hooks that run, or the moment at which this VM takes over from the controller, in seconds since the epoch."""

    kind: str
    phases: Tuple[str, ...] = ()
    detail: str = ""
    until: float = 0.0

    @property
    def trouble(self) -> bool:
        """Whether an operator has to look at it."""
        return self.kind in TROUBLES


def condition(state: State, key: str, config: terms.Config) -> Condition:
    """The condition of an event of the state."""
    entry = state.events[key]
    running = tuple(phase for phase in PHASES if policies.is_running(entry, phase))
    for phase in running:
        if entry.runs[phase].asked and not entry.runs[phase].issued:
            return Condition(CANNOT_ASK, (phase,), entry.runs[phase].reason)
    if running and not _recovery_failed(entry):
        return Condition(RUNS, running, until=entry.runs[running[0]].deadline)
    if not entry.present:
        return _gone(state, key, config)
    if entry.impact:
        return Condition(UNDER_WAY)
    if entry.event.event_status == document.ADVISORY:
        return _advised(entry)
    return _before_impact(state, entry, config)


def _advised(entry: EventState) -> Condition:
    run = entry.runs.get("advised")
    failed = run is not None and run.outcome in (FAILED, TIMEOUT)
    return Condition(ADVISED_FAILED, detail=run.reason) if run and failed else Condition(ADVISORY)


def _recovery_failed(entry: EventState) -> bool:
    return "recover" in entry.runs and entry.runs["recover"].outcome not in (OK, RUNNING)


def _gone(state: State, key: str, config: terms.Config) -> Condition:
    entry = state.events[key]
    if _recovery_failed(entry):
        return Condition(RECOVERY_FAILED, detail=entry.runs["recover"].reason)
    if "recover" in config.missing:
        return Condition(RECOVERY_MISSING, detail=", ".join(config.missing["recover"]))
    if entry.ran and "recover" not in config.hooks:
        return Condition(RECOVERY_UNCONFIGURED)
    others = (each for other, each in state.events.items() if other != key and each.present)
    if state.unnamed or any(policies.holds(each.event, each, config) for each in others):
        return Condition(RECOVERY_WAITS)
    return Condition(RECOVERY_NEXT)


def _before_impact(state: State, entry: EventState, config: terms.Config) -> Condition:
    left = policies.left_to_controller(entry.event, config)
    if entry.approval.accepted:
        return Condition(TOOK_OVER, detail=_said(entry)) if left else Condition(ACKNOWLEDGED)
    decision = decisions.decide(entry.event, config.rules)
    if decision == decisions.IGNORE:  # by a rule that is newer than its hooks
        return Condition(HELD_BY_RULE)
    if entry.event.event_status != document.SCHEDULED:
        return Condition(STATUS_UNKNOWN, detail=entry.event.event_status or "missing")
    if decision != decisions.APPROVE and _nothing_prepares(entry, config):
        return _unprepared(entry, config, left=left)
    if not policies.is_ready(entry, config, recovered=state.recovered):
        return _not_ready(state, entry, config)
    if decision == decisions.HOLD:
        return Condition(HELD_BY_RULE)
    return _ready(state, entry, config, left=left)


def _ready(state: State, entry: EventState, config: terms.Config, *, left: bool) -> Condition:
    if left and not entry.approval.error:
        moment = policies.takes_over_at(entry.event, config) if "prepare" in entry.runs else None
        kind = LEFT_TO_CONTROLLER if moment is None else TAKES_OVER
        return Condition(kind, detail=_said(entry), until=moment or 0.0)
    if not policies.policy_allows(entry.event, config):
        return Condition(HELD_BY_POLICY, detail=config.acknowledge)
    if state.withheld:
        return Condition(STATE_LOST, detail=state.lost)
    if policies.recovery_runs(state):
        return Condition(WAITS_FOR_RECOVERY)
    if entry.approval.error:
        return Condition(NOT_ACCEPTED, detail=entry.approval.error)
    return Condition(TO_BE_ACKNOWLEDGED)


def _nothing_prepares(entry: EventState, config: terms.Config) -> bool:
    if "prepare" in entry.runs and not policies.prepared_nothing(entry):
        return False
    return not policies.can_prepare(config)


def _unprepared(entry: EventState, config: terms.Config, *, left: bool) -> Condition:
    """Why an event that nothing prepares for is not acknowledged: what the owner chose comes first."""
    if decisions.decide(entry.event, config.rules) == decisions.HOLD:
        return Condition(HELD_BY_RULE)
    if left and (policies.takes_over_at(entry.event, config) is None or not policies.prepared_nothing(entry)):
        return Condition(LEFT_TO_CONTROLLER, detail=_said(entry))
    if not policies.policy_allows(entry.event, config):
        return Condition(HELD_BY_POLICY, detail=config.acknowledge)
    if policies.prepared_nothing(entry) and policies.can_prepare(config):
        return Condition(NOTHING_PREPARED, detail=entry.runs["prepare"].reason)
    return Condition(NOTHING_PREPARES)


def _said(entry: EventState) -> str:
    """The output of the prepare hooks about the job of the controller."""
    run = entry.runs.get("prepare")
    return (run.reason if run else "") or "this VM has no information about its job"


def _not_ready(state: State, entry: EventState, config: terms.Config) -> Condition:
    if "prepare" in config.missing:
        return Condition(PREPARE_MISSING, detail=", ".join(config.missing["prepare"]))
    if policies.must_prepare(entry, config, recovered=state.recovered):
        return Condition(PREPARE_UNCONFIGURED)
    if policies.prepared_nothing(entry):
        return _unprepared(entry, config, left=policies.left_to_controller(entry.event, config))
    return Condition(PREPARE_FAILED, detail=entry.runs["prepare"].reason)
