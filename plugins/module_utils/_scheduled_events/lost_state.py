# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a VM whose state was lost, as its history has it. No clock, no I/O.

What was done for an event and not undone becomes a failed recovery: an operator has to look at the VM.
"""

import datetime
from typing import Dict, NamedTuple, Optional, Sequence

from .clock import Moment
from .document import SCHEDULED, STARTED, ScheduledEvent, parse_event
from .history import PHASE_BEGAN, PHASE_ENDED, POLLER, RETURNED, SEEN, Fact
from .history import STARTED as IMPACT_BEGAN
from .runs import FAILED, OK, parse_run_id, run_id_of, token_of
from .state import UNKNOWN, EventState, Failure, Run, State

REASON = "the state of the polling unit was lost, and by its history this VM was prepared and has not returned"


class _Open(NamedTuple):
    """An event for which hooks ran. ``recovery``: the fact of the recovery that began and did not end."""

    event: ScheduledEvent
    since: float
    recent: bool = False
    recovery: Optional[Fact] = None


LARGEST_SERIAL = 10**14  # far more milliseconds since the epoch than any clock shows


def state_from(facts: Sequence[Fact], *, now: Moment, hook_timeout: float, unread: str = "") -> State:
    """The state that a polling unit begins with, in which no number of an earlier state comes again.

    :param facts: of the history; those of this boot and of the one before count.
    :param hook_timeout: seconds that a recovery may take which runs now.
    :param unread: why facts of the history cannot be read; empty if all can.
    """
    # The clock may have been set back since a run began.
    names = [parse_run_id(fact.run) for fact in facts]
    serial = max([int(now.wall * 1000), *(name.serial for name in names if name and name.serial <= LARGEST_SERIAL)])
    events = {}
    for key, found in _open_events(facts, now.boot_id).items():
        serial += 1
        recover = _running_recovery(found.recovery, key, now, hook_timeout, most=serial) or Run(
            run_id_of(key, "recover", serial), serial, first=serial, outcome=FAILED, reason=REASON
        )
        failures = (Failure("recover", REASON),) if recover.outcome == FAILED else ()
        events[key] = EventState(
            found.event, found.since, present=False, runs={"recover": recover}, failures=failures, ran=True, owed=True
        )
    return State(serial, events=events, unannounced=UNKNOWN, lost=unread, withheld=bool(unread))


def _open_events(facts: Sequence[Fact], boot_id: str) -> Dict[str, _Open]:
    """The events of this boot and of the one before for which hooks ran that were not undone."""
    own = [fact for fact in facts if fact.source == POLLER and fact.key]
    boots = {boot_id, *[fact.boot_id for fact in own if fact.boot_id != boot_id][-1:]}
    found: Dict[str, _Open] = {}
    events: Dict[str, ScheduledEvent] = {}
    for fact in own:
        key = fact.key
        if fact.kind in (SEEN, IMPACT_BEGAN) or key not in events:
            events[key] = event_of(fact, events.get(key))
        if fact.kind in (PHASE_BEGAN, PHASE_ENDED) and fact.phase in ("prepare", "started") and key not in found:
            found[key] = _Open(events[key], fact.time)
        if key not in found:
            continue
        returned = fact.kind == PHASE_ENDED and fact.phase == "recover" and fact.outcome == OK
        if fact.kind == RETURNED or returned:
            del found[key]
            continue
        found[key] = found[key]._replace(event=events[key], recent=found[key].recent or fact.boot_id in boots)
        if fact.phase == "recover":
            found[key] = found[key]._replace(recovery=fact if fact.kind == PHASE_BEGAN else None)
    return {key: entry for key, entry in found.items() if entry.recent}


def _running_recovery(fact: Optional[Fact], key: str, now: Moment, hook_timeout: float, *, most: int) -> Optional[Run]:
    """The run of a recovery that began in this boot, and may have ended since; ``None`` if it cannot have run on."""
    name = parse_run_id(fact.run) if fact is not None and fact.boot_id == now.boot_id else None
    if fact is None or name is None or name[:2] != (token_of(key), "recover") or name.serial > most:
        return None
    return Run(
        fact.run,
        name.serial,
        first=name.serial,
        boot_id=now.boot_id,
        timeout=hook_timeout,
        deadline=now.wall + hook_timeout,
        ends_at=now.monotonic + hook_timeout,
    )


def event_of(fact: Fact, before: Optional[ScheduledEvent] = None) -> ScheduledEvent:
    """The event that a fact is about.

    :param before: as the facts before it have it.
    """
    started = fact.kind == IMPACT_BEGAN
    if before is not None and started:
        return before._replace(event_status=STARTED, not_before=None)
    moment = None
    if fact.not_before is not None and not started:
        moment = datetime.datetime.fromtimestamp(fact.not_before, datetime.timezone.utc)
    names = list(fact.resources) or [fact.vm_name]  # the first ones, and how many there are
    unknown = (fact.resource_count or 0) - len(names)
    if unknown > 0:
        own = [fact.vm_name] if fact.vm_name.lower() not in map(str.lower, names) else []
        names += [*own, *["?"] * (unknown - len(own))]
    raw = {
        "EventId": fact.event_id,
        "EventType": fact.event_type or None,
        "EventStatus": STARTED if started else fact.event_status or SCHEDULED,
        "EventSource": fact.event_source or None,
        "ResourceType": "VirtualMachine",
        "Resources": names,
        "DurationInSeconds": None if fact.announced_seconds is None else int(fact.announced_seconds),
    }
    event = parse_event({name: value for name, value in raw.items() if value is not None})
    return event._replace(not_before=moment)
