# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The condition of an event and the reason for its wait, as data and in words."""

from typing import NamedTuple, Optional, Tuple

from . import document, policies, terms
from . import rules as decisions
from .runs import OK, PHASES
from .state import RUNNING, EventState, State
from .text import some


class ConditionKind(str):
    """The name of a condition, as a text.

    :ivar sentence: for people, with the places ``phases``, ``detail``, ``until`` and ``event_id``.
    :ivar trouble: whether an operator has to look at it.
    :ivar held: whether an event waits for an operator, a controller or another VM, or a VM for its recovery.
    """

    sentence: str
    trouble: bool
    held: bool

    def __new__(cls, name: str, sentence: str, *, trouble: bool = False, held: bool = True) -> "ConditionKind":
        kind = super().__new__(cls, name)
        kind.sentence, kind.trouble, kind.held = sentence, trouble, held
        return kind


RUNS = ConditionKind("hooks run", "{phases} hooks run, until {until} at the latest", held=False)
CANNOT_ASK = ConditionKind(
    "hooks cannot be asked for",
    "{phases} hooks cannot be started: {detail}; the poller tries again",
    trouble=True,
)
RECOVERY_FAILED = ConditionKind(
    "recovery failed",
    "recovery failed: {detail}; this VM may still be drained. "
    "Run 'scheduled-events retry {event_id}', or recover it by hand and run 'scheduled-events clear {event_id}'",
    trouble=True,
)
RECOVERY_MISSING = ConditionKind(
    "recover hooks missing",
    "over, but not recovered: the recover hooks {detail} are configured but missing. Run the role poller again",
    trouble=True,
)
RECOVERY_UNCONFIGURED = ConditionKind(
    "recover hooks no longer configured",
    "over, but not recovered: recover hooks were configured when its hooks ran, but are not configured now. "
    "Configure them, or recover it by hand and run 'scheduled-events clear {event_id}'",
    trouble=True,
)
FAILED_MISSING = ConditionKind(
    "failed hooks missing",
    "over; the failed hooks {detail} are configured but missing. Run the role poller again",
    trouble=True,
    held=False,
)
RECOVERY_WAITS = ConditionKind(
    "recovery waits for another event", "over; recovery waits until another event of this VM is over"
)
OTHER_NAME = ConditionKind(
    "announced to another name",
    "announced to {detail}, and not to the present name of this VM; recovery runs when it is over. To remove it now, "
    "recover the VM by hand and run 'scheduled-events clear {event_id}'",
    trouble=True,
)
RECOVERY_NEXT = ConditionKind("recovery next", "over; recovery is next", held=False)
UNDER_WAY = ConditionKind("under way", "started; recovery runs when the event is over", held=False)
STARTED_FAILED = ConditionKind(
    "under way, and its started hooks failed",
    "started, and its started hooks did not succeed: {detail}; recovery runs when the event is over",
    trouble=True,
    held=False,
)
ACKNOWLEDGED = ConditionKind("acknowledged", "acknowledged; waiting for its start", held=False)
NOT_ACCEPTED = ConditionKind("acknowledgement not accepted", "not acknowledged yet: {detail}", trouble=True, held=False)
PREPARE_FAILED = ConditionKind(
    "preparation failed",
    "not acknowledged, because its prepare hooks did not succeed: {detail}. "
    "Fix the cause and run 'scheduled-events retry {event_id}'",
    trouble=True,
)
PREPARE_MISSING = ConditionKind(
    "prepare hooks missing",
    "not acknowledged, because the prepare hooks {detail} are configured but missing. Run the role poller again",
    trouble=True,
)
PREPARE_UNCONFIGURED = ConditionKind(
    "prepare hooks no longer configured",
    "not acknowledged, because its preparation must run again, and no prepare hooks are configured now. "
    "Configure them, or run 'scheduled-events approve --force {event_id}'",
    trouble=True,
)
DEFERRED = ConditionKind(
    "waits for the maintenance of this host",
    "not prepared yet, because this host is in maintenance; the preparation begins {detail} before NotBefore",
)
PREPARE_NEXT = ConditionKind(
    "waits for what runs for another event", "not prepared yet; waits for what runs now for another event of this VM"
)
NOTHING_PREPARES = ConditionKind(
    "nothing prepares",
    "not acknowledged, because nothing is configured that prepares for it; waiting for NotBefore",
    trouble=True,
)
NOTHING_PREPARED = ConditionKind(
    "nothing prepared",
    "not acknowledged, because no prepare hook prepared this VM: {detail}; waiting for NotBefore. "
    "If a hook has to run again, run 'scheduled-events retry {event_id}'",
    trouble=True,
)
ADVISORY = ConditionKind("advisory", "a hint of Azure: nothing starts, and nothing is acknowledged", held=False)
ADVISED_FAILED = ConditionKind(
    "advised hooks failed", "a hint of Azure, and its advised hooks did not succeed: {detail}", trouble=True, held=False
)
HELD_BY_RULE = ConditionKind(
    "held by a rule",
    "not acknowledged by this VM, because a rule holds or ignores it; waiting for NotBefore. Run "
    "'scheduled-events approve {event_id}', with --force if it names other VMs, to acknowledge it by hand",
)
HELD_BY_POLICY = ConditionKind(
    "held by the policy",
    "not acknowledged by this VM, because acknowledge is {detail}; waiting for NotBefore. Set poller_acknowledge, "
    "or run 'scheduled-events approve {event_id}', with --force if it names other VMs, to acknowledge it by hand",
)
HELD_FOR_LEADER = ConditionKind(
    f"{HELD_BY_POLICY}: {terms.LEADER}", "acknowledged by {detail}, the VM that it names first, and not by this VM"
)
HELD_FOR_OTHERS = ConditionKind(
    "held by the policy alone",
    "not acknowledged by this VM, because acknowledge is alone, and the event also names {detail}; waiting for "
    "NotBefore. Set poller_acknowledge, or run 'scheduled-events approve --force {event_id}' to acknowledge it for all "
    "its VMs",
)
LEFT_TO_CONTROLLER = ConditionKind(
    "left to the controller", "acknowledged by the job of the controller, not by this VM: {detail}"
)
TAKES_OVER = ConditionKind(
    "left to the controller until a moment",
    "acknowledged by the job of the controller, or at {until} by this VM: {detail}",
)
TOOK_OVER = ConditionKind(
    "taken over from the controller",
    "acknowledged by this VM, which took over from the controller: {detail}",
    held=False,
)
STATUS_UNKNOWN = ConditionKind("status unknown", "not acknowledged, because its status is {detail}", trouble=True)
STATE_LOST = ConditionKind(
    "state lost",
    "not acknowledged yet, because the state of the polling unit was lost, and its history does not show what was done "
    "on this VM: {detail}. Look at this VM, then run 'scheduled-events clear --all'",
    trouble=True,
)
WAITS_FOR_RECOVERY = ConditionKind(
    "waits for the recovery of another event",
    "not acknowledged yet, because a recovery of this VM is running",
    held=False,
)
WAITS = ConditionKind(
    "waits for its moment",
    "in service: waits until {until} ({detail}). To start it now, run 'scheduled-events retry {event_id}'",
)
WAITS_RAISED = ConditionKind("waits, with more lead time than its rule has", WAITS.sentence, trouble=True)
WAITS_PREPARED = ConditionKind(
    "prepared, and waits for its moment",
    "prepared, and not acknowledged before {until} ({detail}). To acknowledge it now, run 'scheduled-events retry "
    "{event_id}'",
)
TO_BE_ACKNOWLEDGED = ConditionKind("to be acknowledged", "to be acknowledged now", held=False)


class Condition(NamedTuple):
    """``phases``: those whose hooks run. ``detail``: a reason, or the names of hooks or of VMs. ``until``: the deadline
    of the hooks that run, the moment at which this VM takes over from the controller, or that a rule chose, in seconds
    since the epoch."""

    kind: ConditionKind
    phases: Tuple[str, ...] = ()
    detail: str = ""
    until: float = 0.0

    def sentence(self, event_id: Optional[str]) -> str:
        """What happens to the event, and what it waits for."""
        return self.kind.sentence.format(
            phases=" and ".join(self.phases),
            detail=self.detail,
            until=document.format_epoch(self.until),
            event_id=event_id,
        )


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
        failed = policies.has_failed(entry, "started")
        return Condition(STARTED_FAILED, detail=entry.runs["started"].reason) if failed else Condition(UNDER_WAY)
    if entry.event.event_status == document.ADVISORY:
        failed = policies.has_failed(entry, "advised")
        return Condition(ADVISED_FAILED, detail=entry.runs["advised"].reason) if failed else Condition(ADVISORY)
    return _before_impact(state, entry, config)


def _recovery_failed(entry: EventState) -> bool:
    return "recover" in entry.runs and entry.runs["recover"].outcome not in (OK, RUNNING)


def _gone(state: State, key: str, config: terms.Config) -> Condition:
    entry = state.events[key]
    if _recovery_failed(entry):
        return Condition(RECOVERY_FAILED, detail=entry.runs["recover"].reason)
    if entry.failures and not entry.ran and "failed" in config.missing:
        return Condition(FAILED_MISSING, detail=", ".join(config.missing["failed"]))
    if "recover" in config.missing:
        return Condition(RECOVERY_MISSING, detail=", ".join(config.missing["recover"]))
    if entry.ran and "recover" not in config.hooks:
        return Condition(RECOVERY_UNCONFIGURED)
    if entry.elsewhere:
        return Condition(OTHER_NAME, detail=some(entry.event.resources))
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
    if entry.is_put_off and "prepare" not in config.missing:
        return _waits(entry, config)
    if not policies.is_ready(entry, config, recovered=state.recovered):
        return _not_ready(state, entry, config)
    if decision == decisions.HOLD:
        return Condition(HELD_BY_RULE)
    return _ready(state, entry, config, left=left)


def _waits(entry: EventState, config: terms.Config) -> Condition:
    wanted = decisions.rule_for(entry.event, config.rules).lead_time
    lead_time = policies.lead_time(entry.event, config)
    raised = wanted is not None and wanted < lead_time
    why = f"window {entry.window}" if entry.window else f"{round(lead_time, 1):.10g} s before NotBefore"
    if raised:
        why += f", and not {wanted:.10g} s as its rule says, since that is too late for this VM"
    kind = WAITS_PREPARED if entry.ran else WAITS_RAISED if raised else WAITS
    return Condition(kind, detail=why, until=entry.waits_until or 0.0)


def _ready(state: State, entry: EventState, config: terms.Config, *, left: bool) -> Condition:
    if left and not entry.approval.error:
        moment = policies.takes_over_at(entry.event, config) if "prepare" in entry.runs else None
        kind = LEFT_TO_CONTROLLER if moment is None else TAKES_OVER
        return Condition(kind, detail=_said(entry), until=moment or 0.0)
    if not policies.policy_allows(entry.event, config):
        return _held_by_policy(entry, config)
    if state.withheld:
        return Condition(STATE_LOST, detail=state.lost)
    if policies.recovery_runs(state):
        return Condition(WAITS_FOR_RECOVERY)
    if entry.waits_until is not None:
        return _waits(entry, config)
    if entry.approval.error:
        return Condition(NOT_ACCEPTED, detail=entry.approval.error)
    return Condition(TO_BE_ACKNOWLEDGED)


def _held_by_policy(entry: EventState, config: terms.Config) -> Condition:
    if config.acknowledge == terms.LEADER:
        return Condition(HELD_FOR_LEADER, detail=some(entry.event.resources[:1]))
    others = [name for name in entry.event.resources if name.lower() != config.vm_name.lower()]
    if config.acknowledge != terms.ALONE or not others:
        return Condition(HELD_BY_POLICY, detail=config.acknowledge)
    return Condition(HELD_FOR_OTHERS, detail=some(others))


def _nothing_prepares(entry: EventState, config: terms.Config) -> bool:
    if "prepare" in entry.runs and not policies.prepared_nothing(entry):
        return False
    return not policies.can_prepare(config)


def _unprepared(entry: EventState, config: terms.Config, *, left: bool) -> Condition:
    """Why an event that nothing prepares for is not acknowledged. That hooks did nothing comes before what the owner
    chose, which is for a VM that they have prepared.
    """
    if left and (policies.takes_over_at(entry.event, config) is None or not policies.prepared_nothing(entry)):
        return Condition(LEFT_TO_CONTROLLER, detail=_said(entry))
    allowed = policies.policy_allows(entry.event, config)
    is_led = config.acknowledge == terms.LEADER and not allowed
    if policies.prepared_nothing(entry) and policies.can_prepare(config) and not is_led:
        return Condition(NOTHING_PREPARED, detail=entry.runs["prepare"].reason)
    if decisions.decide(entry.event, config.rules) == decisions.HOLD:
        return Condition(HELD_BY_RULE)
    return Condition(NOTHING_PREPARES) if allowed else _held_by_policy(entry, config)


def _said(entry: EventState) -> str:
    """The output of the prepare hooks about the job of the controller."""
    run = entry.runs.get("prepare")
    return (run.reason if run else "") or "this VM has no information about its job"


def _not_ready(state: State, entry: EventState, config: terms.Config) -> Condition:
    if "prepare" in config.missing:
        return Condition(PREPARE_MISSING, detail=", ".join(config.missing["prepare"]))
    if policies.must_prepare(entry, config, recovered=state.recovered):
        if "prepare" not in config.hooks:
            return Condition(PREPARE_UNCONFIGURED)
        return Condition(PREPARE_NEXT) if config.defer is None else Condition(DEFERRED, detail=f"{config.defer:g} s")
    if policies.prepared_nothing(entry):
        return _unprepared(entry, config, left=policies.left_to_controller(entry.event, config))
    return Condition(PREPARE_FAILED, detail=entry.runs["prepare"].reason)
