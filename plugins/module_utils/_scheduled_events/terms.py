# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a step of the engine takes and gives: settings, results, and actions."""

from enum import Enum
from typing import Dict, FrozenSet, Mapping, NamedTuple, Optional, Tuple, Union

from . import rules as decisions

# What the owner may choose: what to do when prepare hooks failed, and which events this VM acknowledges.
ON_FAILURE = (decisions.HOLD, decisions.APPROVE)
ALONE, LEADER, ANY, NEVER, CONTROLLER = "alone", "leader", "any", "never", "controller"
ACKNOWLEDGE_POLICIES = (ALONE, LEADER, ANY, NEVER, CONTROLLER)

WITHOUT_ID = "an event of this VM has no EventId, so it can be neither prepared nor acknowledged"


class ReportKind(Enum):
    """What a report is about."""

    SEEN = "seen"
    UNNAMED = "unnamed"
    PROBLEM = "problem"
    ENDED = "ended"
    ACKNOWLEDGED = "acknowledged"
    RETRIED = "retried"
    CLEARED = "cleared"
    OVER = "over"


UNKNOWN_HOOKS = "."  # in place of the names of prepare hooks, where they cannot be listed; no hook has this name


class Config(NamedTuple):
    """The settings behind the decisions. Times are in seconds.

    :param hooks: the phases for which the owner configured hooks, whether they can be found or not.
    :param missing: by phase, the names of configured hooks that cannot be found. Such a phase cannot run.
    :param preparation: the names of what prepares this VM, as text; empty: nothing does. When it changes, a preparation
        that ended with ``nothing`` runs again, and one that succeeded if there are more names.
    :param parallel: whether hooks of several events run at the same time. Otherwise one phase runs at a time, that of
        the event with the earliest NotBefore first, and the events that are over are recovered together.
    :param started_after_prepare: whether started hooks also run for an event whose preparation has ended.
    :param defer: a preparation begins only this long before NotBefore, since something else has the VM until then.
    :param usual: seconds that the preparation of this VM may take by its history; no lead time of a rule is too short
        for it; 0: not known.
    :param patience: seconds for a preparation of an event that this VM will not acknowledge; ``None``: hook_timeout.
    :param controller_grace: with the policy ``controller``, this long before NotBefore a VM whose own preparation
        succeeded acknowledges after all; 0 is never.
    """

    vm_name: str
    hooks: FrozenSet[str]
    rules: Tuple[decisions.Rule, ...] = ()
    hook_timeout: float = 600.0
    margin: float = 10.0
    on_failure: str = decisions.HOLD
    acknowledge: str = ALONE
    missing: Mapping[str, Tuple[str, ...]] = {}
    parallel: bool = True
    started_after_prepare: bool = True
    defer: Optional[float] = None
    controller_grace: float = 0.0
    preparation: str = "hooks"
    usual: float = 0.0
    patience: Optional[float] = None


class HookResult(NamedTuple):
    """A run has ended with one of :data:`.runs.OUTCOMES`, and why."""

    request_id: str
    outcome: str
    reason: str = ""


class NotAsked(NamedTuple):
    """A run could not be asked for, and why. It has no outcome; the engine asks again."""

    request_id: str
    reason: str


class ApprovalResult(NamedTuple):
    """An attempt to acknowledge an event has ended.

    :param error: why it was not accepted.
    :param refused: the service refused the request itself, as it most likely will again.
    """

    key: str
    accepted: bool
    error: str = ""
    refused: bool = False


class Retry(NamedTuple):
    """The operator wants a failed preparation or recovery of the event to run again, or one that waits to begin."""

    key: str


class Clear(NamedTuple):
    """The operator has recovered the VM by hand: an event that is over is removed from the state.

    :param key: empty: all these events, and what is not known since an earlier state was lost.
    """

    key: str


class RunHooks(NamedTuple):
    """Run the hooks of a phase, once for each ``request_id``; a repetition may bring other times.

    :param event: the event as a hook reads it.
    :param timeout: seconds that the hooks may take together.
    :param not_later_than: seconds since the epoch at which they must have ended, or ``None``.
    :param deadline: the earlier of the two, in seconds since the epoch.
    :param ends_at: monotonic seconds of this boot after which none of them may be running, whatever the clock says.
    :param failed_phase: for the phase ``failed``: the phase that failed; ``failure`` says why.
    :param first_run: the id of the run that this one repeats, or its own: the same after a reboot.
    :param recovered: ``State.recovered`` when the first run began.
    :param undone: a recovery of this VM ended after the event may have been announced, or it was absent meanwhile. So
        what others did for the event before this run may be undone.
    """

    request_id: str
    phase: str
    event: Dict[str, object]
    timeout: float
    not_later_than: Optional[float]
    deadline: float
    ends_at: float
    failed_phase: str = ""
    failure: str = ""
    first_run: str = ""
    recovered: int = 0
    undone: bool = False


class Approve(NamedTuple):
    """Acknowledge the event if a fresh document agrees with this decision (:func:`.policies.still_agrees`).

    :param decision: the action of the rules, ``prepare`` or ``approve``.
    :param alone: the event must be the only one of its request, since a request that held it was refused.
    :param not_before: what the decision depended on, in seconds since the epoch, if it depended on it.
    """

    key: str
    event_id: str
    event_type: Optional[str]
    decision: str
    alone: bool
    not_before: Optional[float] = None


class Report(NamedTuple):
    """Something that the owner wants to read in the journal.

    ``text`` is a reason, or the problem itself. ``seconds``: how long an event waited for its acknowledgement.
    """

    key: str
    kind: ReportKind
    phase: str = ""
    outcome: str = ""
    text: str = ""
    seconds: float = 0.0


Result = Union[HookResult, NotAsked, ApprovalResult, Retry, Clear]
Action = Union[RunHooks, Approve, Report]
