# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure Resource Graph has of the events and policies of hosts, compared with their histories.

Private to the collection. No clock and no I/O. A row can have anything.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ...module_utils._scheduled_events import document
from ...module_utils._scheduled_events.document import ScheduledEvent
from ...module_utils._scheduled_events.history import Fact, needed, preparations
from ...module_utils._scheduled_events.runs import OK
from ...module_utils._scheduled_events.text import counted, shown, some
from .lives import PREPARE
from .story import Lane, Story, approves

STATUSES = (document.SCHEDULED, document.STARTED, "Canceled", "Completed")  # an event never goes back
MOST = 10  # reasons why rows cannot be read that are shown
UNHEARD = "it was not heard"
UNKNOWN = "its history is incomplete, so it may not have been heard"
UNPREPARED = "heard, and nothing prepared for it"
UNACKNOWLEDGED = "prepared, and no host acknowledged it"
PUBLISHED = ("policy", "scheduledEventsAdditionalPublishingTargets", "eventGridAndResourceGraph", "enable")
TERMINATE = ("profile", "terminateNotificationProfile")
SETS = ("scaleSet", "availabilitySet")  # of a VM, whose policy is theirs
NOT_PUBLISHED = "Resource Graph has no policy that publishes events: this audit cannot show what these hosts missed"
NOT_FOUND = "Resource Graph has no VM of this name that the audit may read: it cannot show what these hosts missed"
BEGINS_AS_STARTED = "automaticallyApprove: a {} by a user begins as Started, prepare hooks will not run"
NO_TERMINATE = "terminate notification is off: no Terminate event"
AMBIGUOUS = "several VMs have this name: which policy holds is not known"
_MINUTES = re.compile(r"PT(\d{1,3})M\Z", re.ASCII)
_INSTANCE = re.compile(r"(.+)_\d+\Z", re.ASCII)  # of a uniform scale set


class Finding(t.NamedTuple):
    """An event that a VM was not ready for."""

    event_id: str
    event_type: str
    event_status: str
    host: str
    problem: str


class Audit(t.NamedTuple):
    """What was found.

    :param event_count: how many events name a host.
    :param coverage: names of hosts by what holds for them; ``vms_without_a_host``: names of VMs of the events.
    :param policies: the consequences, with the hosts for which they hold.
    :param unreadable: why rows cannot be read.
    """

    event_count: int
    findings: tuple[Finding, ...]
    coverage: t.Mapping[str, list[str]]
    policies: t.Mapping[str, list[str]]
    unreadable: list[str]

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.unreadable

    @property
    def verdict(self) -> str:
        """The audit in a sentence or more."""
        lines = [f"Azure published {counted(self.event_count, 'event')} of these hosts."]
        if self.findings:
            hosts = some(sorted({each.host for each in self.findings}))
            lines.append(f"The audit found {counted(len(self.findings), 'problem')}, on {hosts}.")
        if self.unreadable:
            lines.append(f"{counted(len(self.unreadable), 'row')} of Resource Graph cannot be read.")
        return " ".join(lines)

    def as_dict(self) -> dict[str, t.Any]:
        """The audit as JSON has it."""
        return {
            **self._asdict(),
            "verdict": self.verdict,
            "findings": [each._asdict() for each in self.findings],
            "policies": [{"policy": text, "hosts": hosts} for text, hosts in self.policies.items()],
            "unreadable": self.unreadable[:MOST],
        }


def compare(
    event_rows: t.Sequence[t.Any],
    policy_rows: t.Sequence[t.Any],
    histories: t.Mapping[str, t.Sequence[Fact]],
    story: Story,
    vm_names: t.Mapping[str, str],
    *,
    vm_ids: t.Mapping[str, t.Any],
    since: float,
) -> Audit:
    """Find the events that hosts were not ready for.

    :param event_rows: of Microsoft.Maintenance/scheduledevents; ``policy_rows``: of VMs, scale sets, availability sets.
    :param vm_names: by host, the name of its VM in Azure; ``vm_ids``: its resource id, where that is known.
    :param since: seconds since the epoch; an event with an earlier NotBefore does not count.
    """
    events, unreadable = _events_of(event_rows, since)
    names = {host: name.lower() for host, name in vm_names.items()}
    groups = {host: _group_of(vm_id) for host, vm_id in vm_ids.items()}
    findings: list[Finding] = []
    named: set[str] = set()
    event_count = 0
    for event, group in events:
        lanes = [lane for heard in story.events if heard.event_id.lower() == event.key for lane in heard.lanes]
        own_group = [host for host in names if not (group and groups.get(host)) or groups[host] == group]
        hosts = [host for host in own_group if event.affects(names[host])]
        event_count += bool(hosts)
        named.update(hosts)
        for host in hosts:
            own = [lane for lane in lanes if lane.host == host and lane.is_watched]
            problem = _problem(event, own, lanes) if own else UNKNOWN if host in story.unread else UNHEARD
            if problem:
                kind, status = event.event_type or "event", str(event.event_status)
                findings.append(Finding(str(event.event_id), kind, status, host, shown(problem, 400)))
    policies, vms = _Policies(policy_rows), {host: (name, groups.get(host, "")) for host, name in names.items()}
    coverage: dict[str, t.Collection[str]] = {
        "hosts": names,
        "found_in_azure": [host for host, vm in vms.items() if policies.rows_of(vm)],
        "published_by_policy": [host for host, vm in vms.items() if policies.is_on(vm, *PUBLISHED)],
        "history_read": histories.keys() - story.unread.keys(),
        "named_by_events": named,
        "heard_all_of_them": named - {each.host for each in findings if each.problem in (UNKNOWN, UNHEARD)},
        "vms_without_a_host": {name for event, _group in events for name in event.names}.difference(names.values()),
    }
    consequences: dict[str, list[str]] = {}
    for host, vm in sorted(vms.items()):
        for text in policies.consequences(vm, needed(preparations(histories.get(host, ())))):
            consequences.setdefault(text, []).append(host)
    every = {what: sorted(hosts) for what, hosts in coverage.items()}
    return Audit(event_count, tuple(findings), every, dict(sorted(consequences.items())), unreadable)


def _group_of(resource_id: t.Any) -> str:
    """The subscription and the resource group of a VM or of an event, whose VMs are all in one group."""
    group, found, _rest = str(resource_id).lower().partition("/providers/")
    return group if found else ""


def _events_of(rows: t.Sequence[t.Any], since: float) -> tuple[list[tuple[ScheduledEvent, str]], list[str]]:
    """The events since then, each once and with its group, and why rows cannot be read."""
    found: dict[str, tuple[ScheduledEvent, str]] = {}
    wrong: list[str] = []
    for row in rows:
        try:
            event = document.parse_event(row["properties"])
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            wrong.append(f"a row cannot be read: {shown(str(error))}")
            continue
        status = (event.event_status or "").capitalize()
        if status == document.ADVISORY or (event.not_before and event.not_before.timestamp() < since):
            continue
        if not event.key or status not in STATUSES or not event.names:
            had = f"EventId {event.event_id}, EventStatus {event.event_status}, and {counted(len(event.names), 'VM')}"
            wrong.append(f"a row has {shown(had)}, expected an id, one of {', '.join(STATUSES)}, and VMs")
            continue
        before = found.get(event.key)
        if before is None or STATUSES.index(status) >= STATUSES.index(str(before[0].event_status)):
            found[event.key] = event._replace(event_status=status), _group_of(row.get("id"))
    return list(found.values()), wrong


def _problem(event: ScheduledEvent, own: t.Sequence[Lane], lanes: t.Sequence[Lane]) -> str:
    """Why a VM that heard the event was not ready for it; empty if it was.

    :param own: what its host did for the event; ``lanes``: what all hosts did.
    """
    senders = [(lane.acknowledged, lane) for lane in lanes if lane.acknowledged is not None]
    sent, sender = min(senders, key=lambda each: each[0], default=(0.0, None))
    by_rule = sender is not None and approves(sender.rule)  # the owner wants that
    if event.event_status == "Canceled" or by_rule or any(lane.ignored for lane in own):
        return ""
    ends = [each.end for lane in own for each in lane.stretches if each.phase == PREPARE and each.outcome == OK]
    ready = min((end for end in ends if end is not None), default=None)
    if sender and (ready is None or ready > sent):
        later = "was not prepared" if ready is None else f"was prepared {ready - sent:.1f} s later"
        return f"{sender.by or sender.host} acknowledged it, and this VM {later}"
    if sender or event.event_status == document.SCHEDULED:
        return ""
    reasons = [lane.unprepared or lane.problem for lane in own]
    return UNACKNOWLEDGED if ready is not None else ": ".join(filter(None, [UNPREPARED, *reasons]))


def _entry(value: t.Any, key: str) -> t.Any:
    return value.get(key) if isinstance(value, dict) else None


class _Policies:
    """The policies of VMs. A VM is its name in lower case, and its group, which is empty if it is not known."""

    def __init__(self, rows: t.Sequence[t.Any]) -> None:
        self._by_id = {str(row.get("id")).lower(): row for row in rows if isinstance(row, dict)}
        self._by_name: dict[tuple[str, str], list[dict[str, t.Any]]] = {}
        for row in self._by_id.values():
            kind = str(row.get("type")).lower().rpartition("/")[2]
            self._by_name.setdefault((kind, str(row.get("name")).lower()), []).append(row)

    def rows_of(self, vm: tuple[str, str]) -> list[dict[str, t.Any]]:
        """The VMs with this name, or the scale sets with this instance."""
        name, group = vm
        for key in (("virtualmachines", name), ("virtualmachinescalesets", _INSTANCE.sub(r"\1", name))):
            rows = self._by_name.get(key, [])
            rows = [row for row in rows if not group or _group_of(row.get("id")) in ("", group)]
            if rows:
                return rows
        return []

    def value(self, vm: tuple[str, str], *path: str) -> t.Any:
        """What the set of a VM says, or else the VM itself."""
        rows = self.rows_of(vm)
        parents = [self._by_id.get(str(row.get(key)).lower()) for row in rows for key in SETS]
        found = (functools.reduce(_entry, path, row) for row in (*parents, *rows))
        return next((value for value in found if value is not None), None)

    def is_on(self, vm: tuple[str, str], *path: str) -> bool:
        return self.value(vm, *path) is True

    def consequences(self, vm: tuple[str, str], seconds: float | None) -> t.Iterator[str]:
        """What the policies of a VM mean.

        :param seconds: that a preparation of it needs, if that is known.
        """
        if len(self.rows_of(vm)) != 1:
            yield AMBIGUOUS if self.rows_of(vm) else NOT_FOUND
            return
        if not self.is_on(vm, *PUBLISHED):
            yield NOT_PUBLISHED
        for setting, what in (("userInitiatedReboot", "restart"), ("userInitiatedRedeploy", "redeploy")):
            if self.is_on(vm, "policy", setting, "automaticallyApprove"):
                yield BEGINS_AS_STARTED.format(what)
        if not self.is_on(vm, *TERMINATE, "enable"):
            yield NO_TERMINATE
            return
        timeout = str(self.value(vm, *TERMINATE, "notBeforeTimeout"))
        minutes = _MINUTES.match(timeout)
        if not minutes:
            yield f"notBeforeTimeout is {shown(timeout, 40)}, expected PT5M to PT15M"
        elif seconds is not None and int(minutes.group(1)) * 60 < seconds:
            yield f"{timeout} is less than this host's p95 preparation of {seconds:.0f} s"
