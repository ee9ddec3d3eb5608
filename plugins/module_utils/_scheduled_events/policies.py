# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the settings of the owner and the state of an event say: pure functions, without a clock."""

import math
from typing import List, Optional, Tuple

from . import rules as decisions
from .announced import is_drill
from .document import ADVISORY, SCHEDULED, STARTED, ScheduledEvent
from .runs import BESIDE, FAILED, NOTHING, OK, OUTCOMES, TIMEOUT
from .state import INTERRUPTED, RUNNING, UNKNOWN, EventState, Run, State
from .terms import ALONE, ANY, CONTROLLER, LEADER, UNKNOWN_HOOKS, Approve, Config
from .time_windows import next_opening

# In place of the names of what prepares: the event was absent meanwhile.
ABSENT = "for an absent event"

# Seconds from the moment that a rule chooses to the first hook: a poll, the dispatcher, and a unit for the run.
BEGINS_WITHIN = 5.0

# Seconds for a preparation whose event this VM will not acknowledge, however short the ones before and the timeout are:
# out of service a minute early costs little, and the notice of a Spot VM is not worth waiting for.
LEAST_PATIENCE = 60.0


def may_approve(event: ScheduledEvent, config: Config) -> bool:
    """Whether the owner wants this VM to acknowledge the event, as far as the event itself shows."""
    return (
        event.event_status == SCHEDULED
        and bool(event.event_id)
        and event.affects(config.vm_name)
        and decisions.decide(event, config.rules) in (decisions.PREPARE, decisions.APPROVE)
        and policy_allows(event, config)
    )


def still_agrees(action: Approve, event: ScheduledEvent, config: Config) -> bool:
    """Whether a decision from an earlier document still allows to acknowledge this event of a fresh document."""
    return (
        may_approve(event, config)
        and event.event_type == action.event_type
        and decisions.decide(event, config.rules) == action.decision
        and (not depends_on_not_before(event, config) or epoch(event) == action.not_before)
    )


def policy_allows(event: ScheduledEvent, config: Config) -> bool:
    """Whether the owner's policy ``acknowledge`` lets this VM acknowledge the event."""
    if config.acknowledge == ALONE:
        return event.affects_only(config.vm_name)
    if config.acknowledge == LEADER:
        return event.is_led_by(config.vm_name)
    if config.acknowledge == CONTROLLER:
        # An event that is acknowledged without a preparation starts no job, which could acknowledge it.
        return takes_over_at(event, config) is not None or (
            not left_to_controller(event, config) and event.affects_only(config.vm_name)
        )
    return config.acknowledge == ANY


def left_to_controller(event: ScheduledEvent, config: Config) -> bool:
    """Whether the job of a controller is to acknowledge the event, and this VM at most takes over."""
    return config.acknowledge == CONTROLLER and decisions.decide(event, config.rules) == decisions.PREPARE


def depends_on_not_before(event: ScheduledEvent, config: Config) -> bool:
    """Whether NotBefore decides when this VM acknowledges the event."""
    return left_to_controller(event, config) or bool(decisions.rule_for(event, config.rules).windows)


def lead_time(event: ScheduledEvent, config: Config) -> float:
    """Seconds before NotBefore at which the preparation begins at the latest; infinite: when it is announced."""
    rule = decisions.rule_for(event, config.rules)
    is_left = left_to_controller(event, config)
    around = BEGINS_WITHIN + (max(config.margin, config.controller_grace) if is_left else config.margin)
    if rule.lead_time is not None:
        return max(rule.lead_time, min(config.usual, config.hook_timeout) + around)
    is_led = config.acknowledge == LEADER and rule.action == decisions.PREPARE  # its first VM acknowledges it
    if not rule.windows and (may_approve(event, config) or is_left or is_led):
        return math.inf
    # An early preparation is of no use: the event begins at NotBefore.
    patience = config.hook_timeout if config.patience is None else min(config.hook_timeout, config.patience)
    return max(patience, LEAST_PATIENCE) + around


def hooks_end_by(not_before: float, *, now: float, margin: float) -> float:
    """When prepare hooks have to end: the margin before NotBefore. A short notice leaves them as much as the margin."""
    return max(not_before - margin, min(not_before, now + margin))


def waits_until(entry: EventState, config: Config, wall: float) -> Tuple[Optional[float], str]:
    """The moment before which the rule does not want the VM prepared, or its event acknowledged, and the window.

    :param wall: the time now, in seconds since the epoch, as is the moment; ``None`` if that has come.
    """
    event, not_before = entry.event, epoch(entry.event)
    rule = decisions.rule_for(event, config.rules)
    if not_before is None or event.event_status != SCHEDULED or entry.hurried or is_drill(event.key):
        return None, ""
    if rule.action not in (decisions.PREPARE, decisions.HOLD):
        return None, ""
    if entry.ran and not (rule.windows and may_approve(event, config)):
        return None, ""  # a preparation that began goes on
    latest = not_before - lead_time(event, config)
    opening = next_opening(rule.windows, wall)
    if opening is None or opening[0] > latest:
        return (None if latest <= wall else latest), ""
    return (None, "") if opening[0] <= wall else (opening[0], str(opening[1]))


def takes_over_at(event: ScheduledEvent, config: Config) -> Optional[float]:
    """When this VM acknowledges in place of the controller, in seconds since the epoch; ``None``: never."""
    not_before = epoch(event)
    if not_before is None or config.controller_grace <= 0 or not left_to_controller(event, config):
        return None
    return not_before - config.controller_grace


def is_running(entry: EventState, *phases: str) -> bool:
    """Whether hooks of one of the phases are running, or may be."""
    return any(entry.runs[phase].outcome == RUNNING for phase in phases if phase in entry.runs)


def never_asked(run: Optional[Run]) -> bool:
    """Whether the root side cannot have received a request for the run, so that its hooks surely do not run."""
    return run is not None and run.outcome == RUNNING and not run.issued and not run.reached


def has_failed(entry: EventState, phase: str) -> bool:
    return phase in entry.runs and entry.runs[phase].outcome in (FAILED, TIMEOUT)


def has_ended(entry: EventState, phase: str) -> bool:
    return phase in entry.runs and entry.runs[phase].outcome in OUTCOMES


def holds(event: ScheduledEvent, entry: Optional[EventState], config: Config) -> bool:
    """Whether an announced event of this VM keeps it from its recovery from others, and other work from the VM.

    :param entry: what is known of it; ``None``: it is new.
    """
    if entry is not None and (entry.ran or entry.is_put_off):
        return entry.ran
    if decisions.decide(event, config.rules) == decisions.IGNORE:
        return False
    return event.event_status != ADVISORY or (entry is not None and entry.impact)


def is_pending(state: State, key: str, config: Config) -> bool:
    """Whether an event of the state is or was a maintenance of this VM that is not over yet."""
    entry = state.events[key]
    advised_only = set(entry.runs) <= set(BESIDE) and not entry.ran
    waits = entry.present and entry.is_put_off
    return waits or not (advised_only and (not entry.present or not holds(entry.event, entry, config)))


def recovery_runs(state: State) -> bool:
    """Whether a recovery of this VM is running, or may be: nothing is acknowledged meanwhile."""
    return state.withheld or any(is_running(entry, "recover") for entry in state.events.values())


def can_prepare(config: Config) -> bool:
    """Whether something is configured that prepares this VM for an event."""
    return bool(config.preparation) and "prepare" in config.hooks


def prepared_nothing(entry: EventState) -> bool:
    """Whether the preparation has ended, and nothing prepared this VM."""
    return "prepare" in entry.runs and entry.runs["prepare"].outcome == NOTHING


def unrecovered(state: State) -> List[str]:
    """The ids of the events that this VM is prepared for, or may be, and has not recovered from; what was lost, too."""
    ran = [entry for entry in state.events.values() if entry.ran]
    did = [entry for entry in ran if entry.did or "started" in entry.runs or not prepared_nothing(entry)]
    ids = [entry.event.event_id or "" for entry in did]
    return [*ids, *([f"an event that is not known ({state.lost})"] if state.lost else [])]


def no_longer_announced(entry: EventState, elsewhere: Optional[ScheduledEvent]) -> EventState:
    """The entry of an event that a document lacks, or has for a former name of this VM as ``elsewhere``.

    A hook that notices that ends before it has prepared anything, also if other hooks of its phase end well, and it may
    have noticed first.
    """
    if entry.present and (is_running(entry, "prepare") or prepared_nothing(entry)):
        # Others may have noticed, and undone what they did.
        runs = {**entry.runs, "prepare": entry.runs["prepare"]._replace(preparation=ABSENT)}
        entry = entry._replace(runs=runs, unannounced=UNKNOWN)
    impact = entry.impact or (elsewhere is not None and elsewhere.event_status == STARTED)
    return entry._replace(present=False, elsewhere=elsewhere is not None, impact=impact)


def counts_no_longer(run: Run, event: ScheduledEvent, *, recovered: int) -> bool:
    """Whether what a run of prepare or started hooks did is not for the event as it is, or a recovery that ended since
    may have undone it.

    :param recovered: ``State.recovered``.
    """
    return run.preparation == ABSENT or run.serial <= recovered or run.event_type != (event.event_type or "")


def must_prepare(entry: EventState, config: Config, *, recovered: int) -> bool:
    """Whether the prepare hooks have to run, or to run again, before the event counts as prepared.

    :param recovered: ``State.recovered``.
    """
    run = entry.runs.get("prepare")
    if run is None:
        return "prepare" in config.hooks
    if run.outcome == RUNNING:
        return False
    return (
        run.outcome == INTERRUPTED
        or counts_no_longer(run, entry.event, recovered=recovered)
        or (run.outcome == TIMEOUT and _has_more_time(run, entry.event))
        # What may prepare was configured since.
        or (run.outcome == NOTHING and can_prepare(config) and run.preparation != config.preparation)
        or (run.outcome == OK and not entry.approval.accepted and _has_more_hooks(run, config))
    )


def _has_more_hooks(run: Run, config: Config) -> bool:
    """Whether a hook was configured since, without which the VM is not prepared."""
    before, now = (set(names.split("/")) for names in (run.preparation, config.preparation))
    return can_prepare(config) and UNKNOWN_HOOKS not in before | now and not now <= before


def _has_more_time(run: Run, event: ScheduledEvent) -> bool:
    """Whether NotBefore ended the run, and has been moved to a later time since."""
    before, now = run.not_before, epoch(event)
    return before is not None and now is not None and run.not_later_than == run.deadline and now > before


def is_ready(entry: EventState, config: Config, *, recovered: int) -> bool:
    """Whether this VM is prepared for the event, or need not be by the word of its owner.

    :param recovered: ``State.recovered``.
    """
    if not entry.present or entry.impact:
        return False
    if decisions.decide(entry.event, config.rules) == decisions.APPROVE:
        return True
    if must_prepare(entry, config, recovered=recovered):
        return False
    run = entry.runs.get("prepare")
    if run is None:
        return False  # nothing has prepared this VM, so the event is left to its NotBefore
    if run.outcome == OK:
        return True
    # Hooks that failed may have left a job of the controller running, which acknowledges when it is prepared.
    may_fail = config.on_failure == decisions.APPROVE and config.acknowledge != CONTROLLER and run.preparation
    return bool(may_fail) and run.outcome in (FAILED, TIMEOUT)


def epoch(event: ScheduledEvent) -> Optional[float]:
    return None if event.not_before is None else event.not_before.timestamp()
