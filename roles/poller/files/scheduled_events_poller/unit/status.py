# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status file of the unit, and its rating for monitoring."""

import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from _scheduled_events import condition as conditions
from _scheduled_events import policies, terms
from _scheduled_events.document import ADVISORY, format_epoch, format_time
from _scheduled_events.files import STALE
from _scheduled_events.state import State
from _scheduled_events.text import counted

if TYPE_CHECKING:  # which need requests, and a hook reads the status
    from _scheduled_events.discovery import FoundEndpoint

    from .config import Settings
    from .service import Polled

VERSION = 2

# Exit codes of `scheduled-events status`, as monitoring plugins have them.
OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3

CLOCK_TOLERANCE = 5.0  # seconds by which a time may lie in the future
LONG_ATTEMPT = 30.0  # seconds after which an attempt to acknowledge is no longer usual


class Polls(NamedTuple):
    """The result of polling.

    ``last_success``: seconds since the epoch. ``named``: how many events of the last document name this VM, also those
    that a rule ignores. ``drill``: whether one of them is that of a drill; ``drill_problem``: why a drill adds none.
    ``misnamed``: a warning if the service gives this VM another name, under which its events are not found.
    """

    vm_name: Optional[str] = None
    last_success: Optional[float] = None
    failures: int = 0
    error: str = ""
    named: int = 0
    drill: bool = False
    drill_problem: str = ""
    misnamed: str = ""

    def differs(self, before: "Polls") -> bool:
        """Whether more than the time has changed."""
        return before.last_success is None or self._replace(last_success=before.last_success) != before


def polls_of(polled: "Polled", before: Polls, *, now: float) -> Polls:
    """The result of a poll that succeeded, after that of ``before``. An advisory event announces no maintenance."""
    document, vm_name = polled.document, polled.vm_name
    return Polls(
        vm_name=vm_name,
        last_success=now,
        named=sum(event.affects(vm_name) and event.event_status != ADVISORY for event in document.events),
        drill=bool(document.drill),
        drill_problem=document.drill_problem,
        misnamed=polled.misnamed or before.misnamed,
    )


class View(NamedTuple):
    """What is shown.

    ``config``: ``None`` while the name of this VM is not known. ``found``: the service, if it is known.
    ``acknowledging_for``: seconds for which the present attempt to acknowledge has been going on. ``unsaved``: why the
    state cannot be saved, or what of it a dry run hides; empty if it is saved. ``unheard``: why requests for hooks
    wait; empty if none does.
    """

    now: float
    settings: "Settings"
    state: State
    config: Optional[terms.Config]
    polls: Polls
    found: "Optional[FoundEndpoint]"
    acknowledging_for: float
    unsaved: str
    unheard: str


def describe(view: View, *, unrecorded: str) -> Dict[str, Any]:
    """The content of the status file.

    :param unrecorded: why the history or the metrics cannot be written; empty if they can.
    """
    state, config, polls, found, now = view.state, view.config, view.polls, view.found, view.now
    dry_run = view.settings.dry_run
    events = [] if config is None else [_event(state, key, config, dry_run=dry_run) for key in state.events]
    unread = polls.last_success is None or not -CLOCK_TOLERANCE <= now - polls.last_success <= STALE
    pending = [key for key in state.events if config is None or policies.is_pending(state, key, config)]
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "time": now,
        "dry_run": dry_run,
        "endpoint": found.endpoint if found else view.settings.endpoint,
        "endpoint_source": found.source if found else None,
        "vm_name": polls.vm_name,
        "incarnation": state.incarnation,
        "last_successful_poll": polls.last_success,
        "failed_polls": polls.failures,
        "error": polls.error,
        "misnamed": polls.misnamed,
        "unsaved": view.unsaved,
        "unrecorded": unrecorded,
        "unheard": view.unheard,
        "acknowledging_for": view.acknowledging_for,
        "missing_hooks": {} if config is None else {phase: list(names) for phase, names in config.missing.items()},
        "prepares": config is None or config.preparation != "",
        "unnamed_events": state.unnamed,
        "lost": state.lost,
        # The state of a dry run is not what was done.
        "unrecovered": [*filter(None, [view.unsaved])] if dry_run else policies.unrecovered(state),
        "drill": polls.drill,
        "drill_problem": polls.drill_problem,
        # Without a document nothing is known, and without a saved state not all: neither means that there is no
        # maintenance. An event of the document counts before it is in the state, and if a rule ignores it.
        "maintenance_pending": unread
        or bool(polls.misnamed or view.unsaved or pending or state.unnamed or state.lost or polls.named),
        "events": events,
    }


def _event(state: State, key: str, config: terms.Config, *, dry_run: bool) -> Dict[str, Any]:
    """An event. What a dry run would have done was not done."""
    entry = state.events[key]
    event = entry.event
    condition = conditions.condition(state, key, config)
    return {
        **{name: getattr(event, name) for name in ("event_id", "event_type", "event_status", "event_source")},
        "not_before": None if event.not_before is None else format_time(event.not_before),
        "waits_until": None if entry.waits_until is None else format_epoch(entry.waits_until),
        "resources": list(event.resources),
        "present": entry.present,
        "acknowledged": entry.approval.accepted and not dry_run,
        "hooks": {} if dry_run else {phase: run.outcome for phase, run in entry.runs.items()},
        "condition": condition.kind,
        "doing": ("would be: " if dry_run else "") + condition.sentence(event.event_id),
        "trouble": condition.kind.trouble,
    }


def judge(known: Dict[str, Any], now: float) -> Tuple[int, List[str]]:
    """Exit code of a status file, and its problems; without a problem, what the unit knows.

    :param now: seconds since the epoch.
    """
    code, found = _judge(known, now)
    return code, [("dry run, " if known["dry_run"] else "") + found[0], *found[1:]]


def _judge(known: Dict[str, Any], now: float) -> Tuple[int, List[str]]:
    silence = now - known["time"]
    if silence < -CLOCK_TOLERANCE:
        return CRITICAL, [f"the status is from {-silence:.0f} seconds in the future. Check the clock of this VM"]
    if silence > STALE:
        return CRITICAL, [f"the polling unit has not written its status for {silence:.0f} seconds"]
    last = known["last_successful_poll"]
    if last is not None and now - last < -CLOCK_TOLERANCE:
        ahead = f"{last - now:.0f} seconds in the future"
        return CRITICAL, [f"the last document is from {ahead}. Check the clock of this VM"]
    if last is None or now - last > STALE:
        since = "since it was started" if last is None else f"for {now - last:.0f} seconds"
        reason = known["error"] or "the service has not answered yet"
        return (CRITICAL if known["failed_polls"] else WARNING), [f"no document {since}: {reason}"]
    problems = _problems(known)
    if known["lost"]:
        lost = (
            f"the state of the polling unit was lost, and its history does not show what was done on this VM: "
            f"{known['lost']}. Look at this VM, then run 'scheduled-events clear --all'"
        )
        return UNKNOWN, [lost, *problems]
    if problems:
        return WARNING, problems
    events = counted(len(known["events"]), "event")
    unprepared = "" if known["prepares"] else ", no prepare hooks"
    return OK, [f"{events} of {known['vm_name']}, incarnation {known['incarnation']}{unprepared}"]


def _problems(known: Dict[str, Any]) -> List[str]:
    problems = []
    events = f"{counted(len(known['events']), 'event')} of {known['vm_name']}"
    if known["dry_run"] and known["events"]:
        problems.append(f"nothing is done about {events}")
    troubled = sum(1 for event in known["events"] if event["trouble"])
    if troubled:
        problems.append(f"{troubled} of {events} in trouble")
    problems += [
        f"the {phase} hook {name} is configured but missing. Run the role poller again"
        for phase, names in known["missing_hooks"].items()
        for name in names
    ]
    if known["unnamed_events"]:
        problems.append(terms.WITHOUT_ID)
    if known["acknowledging_for"] > LONG_ATTEMPT:
        problems.append(f"an acknowledgement has been under way for {known['acknowledging_for']:.0f} seconds")
    problems += [known[why] for why in ("misnamed", "unsaved", "unrecorded", "unheard", "error") if known[why]]
    return problems
