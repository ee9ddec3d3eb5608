# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a batch of a rolling maintenance may begin. Private to the collection: facts in, a decision out.

A round is one maintenance of all hosts of the play. Each host remembers the number of the round in which it was done.
As long as not all have the highest number, that round goes on with the hosts that lack it; then the next one begins.
So a run that stopped is taken up by the next one, and whoever stops where leaves nothing to clean up.
"""

from __future__ import annotations

import typing as t

Event = t.Mapping[str, t.Any]

WAIT, SKIP = "wait", "skip"


class Seen(t.NamedTuple):
    """What was seen of one host. ``unmarked``: why it could not be marked as under maintenance; empty if it was or
    need not be. ``document``: its answer of scheduled_events_info; None if there is none."""

    host: str
    reached: bool
    unmarked: str
    drained: bool
    document: t.Mapping[str, t.Any] | None
    problem: str
    finished: t.Mapping[str, t.Any] | None


class Settings(t.NamedTuple):
    """``budget`` is a number of hosts; ``settle`` and ``resume_within`` are seconds."""

    play_hosts: t.Sequence[str]
    fleet: t.Sequence[str]
    batch: t.Sequence[str]
    budget: int
    on_event: str
    settle: float
    resume_within: float


class Decision(t.NamedTuple):
    """``batch``: the hosts to maintain; ``own``: those of them with an event; ``settle_left``: seconds."""

    open: bool
    batch: list[str]
    done: list[str]
    own: list[str]
    skipped: list[str]
    round: int
    reasons: dict[str, str]
    waits_for: list[str]
    settle_left: float
    memory: dict[str, t.Any]


def decide(seen: t.Sequence[Seen], settings: Settings, *, memory: t.Mapping[str, t.Any], now: float) -> Decision:
    """Decide on a batch.

    :param seen: every host of the play and of the fleet.
    :param memory: of the decision before in this run, or empty.
    :param now: seconds since the epoch.
    """
    number, done = _round(seen, settings, now)
    events = _events(seen)
    of_host = {each.host: _events_of(each, events) for each in seen}
    told = {each.host: _reason(each, of_host[each.host]) for each in seen}
    reasons = {host: reason for host, reason in told.items() if reason}
    due = [host for host in settings.batch if host not in done]
    own = [host for host in due if of_host[host]]
    skipped = own if settings.on_event == SKIP else []
    batch = [host for host in due if host not in skipped]
    fleet_events = {event["event_id"] for host in settings.fleet for event in of_host.get(host, [])}
    recalled = _recall(memory, fleet_events, all_read=all(each.document is not None for each in seen), now=now)
    settle_left = max(0.0, recalled["left_at"] + settings.settle - now) if recalled["left_at"] else 0.0
    unavailable = [host for host in settings.fleet if host in reasons and host not in batch]
    unfit = [each.host for each in seen if _unfit(each)]
    shut_by = [host for host in batch if host in own or host in unfit]
    waits_for = _obstacles(batch, unavailable, shut_by, settings, reasons) if batch else []
    if batch and settle_left > 0:
        waits_for = [*waits_for, f"{settle_left:.0f} s more, since an event has left"]
    return Decision(
        open=not waits_for,
        batch=batch,
        done=[host for host in settings.batch if host in done],
        own=own,
        skipped=skipped,
        round=number,
        reasons=reasons,
        waits_for=waits_for,
        settle_left=settle_left,
        memory=recalled,
    )


def pause(waited: float, *, settle_left: float, only_settling: bool) -> float:
    """Seconds until the next look: an eighth of what was ``waited``, so that hours need few looks."""
    return settle_left if only_settling else min(max(waited / 8, 2.0), 60.0)


def budget_of(wish: t.Any, hosts: int) -> int:
    """How many of the ``hosts`` a number or a percentage (rounded down) allows.

    :raises ValueError: naming the wish, unless it allows at least one.
    """
    text = str(wish)
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(
            f"maintenance_max_unavailable is {text}, expected a number such as 2 or a percentage such as 25%"
        )
    allowed = int(digits) * hosts // 100 if text.endswith("%") else int(digits)
    if allowed < 1:
        raise ValueError(
            f"maintenance_max_unavailable is {text}, which allows none of {hosts} hosts; expected at least one"
        )
    return allowed


def _round(seen: t.Sequence[Seen], settings: Settings, now: float) -> tuple[int, set[str]]:
    finished = {each.host: each.finished for each in seen if each.finished and each.host in settings.play_hosts}
    fresh = {host: f for host, f in finished.items() if f["finished_at"] > now - settings.resume_within}
    latest = max((f["round"] for f in fresh.values()), default=0)
    done = {host for host, f in fresh.items() if f["round"] == latest}
    if latest and done != set(settings.play_hosts):
        return latest, done
    return max((f["round"] for f in finished.values()), default=0) + 1, set()


def _events(seen: t.Sequence[Seen]) -> list[Event]:
    by_id = {
        event["event_id"].lower(): event
        for each in seen
        if each.document is not None
        for event in each.document["events"]
        if event["event_id"]
    }
    return list(by_id.values())


def _events_of(host: Seen, events: t.Sequence[Event]) -> list[Event]:
    """Its own, and those that other hosts saw earlier than it did."""
    if host.document is None:
        return []
    name = host.document["vm_name"].lower()
    own = [event for event in host.document["events"] if event["affects_this_vm"] and event["event_id"]]
    ids = {event["event_id"].lower() for event in own}
    named = [event for event in events if name in [resource.lower() for resource in event["resources"]]]
    return own + [event for event in named if event["event_id"].lower() not in ids]


def _unfit(host: Seen) -> str:
    """Why nothing certain is known of the host; empty if that is not so."""
    if not host.reached:
        return "cannot be reached"
    if host.unmarked:
        return f"cannot be marked as under maintenance: {host.unmarked}"
    return f"its events cannot be read: {host.problem}" if host.document is None else ""


def _reason(host: Seen, events: t.Sequence[Event]) -> str:
    unfit = _unfit(host)
    if unfit:
        return unfit
    if events:
        first = events[0]
        until = f", NotBefore {first['not_before']}" if first["not_before"] else ""
        return f"{first['event_type']} {first['event_status']}{until}"
    return "drained" if host.drained else ""


def _recall(memory: t.Mapping[str, t.Any], events: set[str], *, all_read: bool, now: float) -> dict[str, t.Any]:
    before, left_at = set(memory.get("events", [])), memory.get("left_at", 0)
    if not all_read:  # an event that nobody could read has not left
        return {"events": sorted(before | events), "left_at": left_at}
    return {"events": sorted(events), "left_at": now if before - events else left_at}


def _obstacles(
    batch: list[str], unavailable: list[str], shut_by: list[str], settings: Settings, reasons: dict[str, str]
) -> list[str]:
    obstacles = [f"{host} ({reasons[host]})" for host in shut_by]
    needed = len([host for host in batch if host in settings.fleet])
    if len(unavailable) + needed > settings.budget:
        others = [f"{host} ({reasons[host]})" for host in unavailable]
        what = f"{needed} of at most {settings.budget} unavailable hosts would be the batch"
        obstacles += [f"{other}" for other in others] or [what + ": make serial smaller"]
    return obstacles
