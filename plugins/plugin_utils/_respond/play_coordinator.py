# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The coordination of the hosts of a play before an event is acknowledged. Private to the collection.

Each host of a play has its own process, so they share a directory of the control node: one file per host,
written whole, empty files as marks, and one ``mkdir`` per event that only one of them can win. No host waits there.
"""

from __future__ import annotations

import enum
import os
import typing as t
from pathlib import Path

from ...module_utils._scheduled_events.files import write_once
from .._ansible.run import digest, keep_file, kept

PREPARED, FAILED, UNCONFIGURED, HELD, IN_PART = "prepared", "failed", "unconfigured", "held", "in part"

WAY_OUT = "add it to the play, or name it in respond_speak_for if it needs no preparation"


class ClaimStatus(enum.Enum):
    """The state of the acknowledgement of an event."""

    FREE = "free"
    CLAIMED = "claimed"
    ACCEPTED = "accepted"


class SeenEvent(t.NamedTuple):
    """An event as a document shows it: what the hosts prepare for, and what the acknowledgement has to agree with."""

    event_type: str
    names: t.Sequence[str]  # of its VMs, in lower case


class Outcome(t.NamedTuple):
    """What became of the preparation, and the type of the event for which that is so.

    ``kind``: ``prepared``, also where a rule says that no preparation is required; ``failed``; ``unconfigured``, where
    nothing is configured that prepares; ``held`` by a rule; or ``in part``, where tags may have left out tasks.
    """

    kind: str
    event_type: str


class HostReport(t.NamedTuple):
    """The report of one host to the others.

    :param sight: the events that it sees and that can be acknowledged, by id; None if it could not read a document.
    :param outcomes: for each event that it has dealt with, by id.
    :param busy: whether its tasks run.
    :param recovers: whether it is being put back, so that nothing counts as prepared there until it looks again.
    :param last: what it did last, and when, for people.
    """

    host: str
    vm_name: str
    sight: t.Mapping[str, SeenEvent] | None = None
    outcomes: t.Mapping[str, Outcome] = {}
    busy: bool = False
    last: str = ""
    recovers: bool = False


class PlayCoordinator:
    """What the hosts of one play know of each other, and which of them acknowledges an event.

    :param directory: of the control node, created if missing; empty at the start of a play.
    :param play_hosts: all hosts of the play, whether they are reached or not.
    :param speak_for: the VMs outside the play that hold no event, by name; None for all of them.
    """

    def __init__(
        self, directory: Path, *, play_hosts: t.Sequence[str], speak_for: t.Collection[str] | None = ()
    ) -> None:
        self._directory = directory
        self.play_hosts = play_hosts
        self._speak_for = None if speak_for is None else {name.lower() for name in speak_for}

    def publish(self, report: HostReport) -> None:
        """Store the report of a host. It replaces the host's earlier report, except for events that it does not see.

        A host recovers from an event that it saw go, or that no longer named it, so it is no longer prepared if the
        event comes back.
        """
        before = self._read(report.host)
        sight = {event_id.lower(): seen for event_id, seen in (report.sight or {}).items()}
        outcomes = {event_id.lower(): outcome for event_id, outcome in report.outcomes.items()}
        kept = {event_id: value for event_id, value in before.get("outcomes", {}).items() if event_id not in sight}
        known = {*before.get("gone", ()), *(before.get("sight", ()) if report.sight is not None else ())}
        # What an earlier run prepared has an outcome alone: this run has not seen it.
        undone = {*before.get("sight", ()), *sight, *kept, *outcomes} if report.recovers else set()
        vm_name = report.vm_name.lower()
        told = {
            "host": report.host,
            "vm_name": vm_name,
            "sight": {**before.get("sight", {}), **sight},
            "outcomes": {**kept, **outcomes},
            "gone": sorted((known - sight.keys()) | undone),
            "last": report.last,
        }
        self._write(report.host, told)
        self._set("busy", report.host, report.busy)
        self._set("ended", report.host, False)
        for event_id in {*sight, *outcomes}:
            self._set(f"dealt-{digest(event_id)}", vm_name, event_id in outcomes)
        self._set("idle", vm_name, False)
        self._set("called", vm_name, False)
        idle = self._marks("idle")
        for name in {name for seen in sight.values() if vm_name in seen.names for name in seen.names}:
            if digest(name) in idle:
                self._set("called", name, True)

    def tell(self, host: str, prepared: t.Mapping[str, SeenEvent], *, last: str) -> None:
        """Store that the tasks of a host have prepared it, before a turn on the host records it there.

        :param prepared: for each event, what the host has prepared for.
        """
        report = self._read(host)
        told = {event_id.lower(): seen for event_id, seen in prepared.items()}
        outcomes = {event_id: Outcome(PREPARED, seen.event_type) for event_id, seen in told.items()}
        outcomes = {**report["outcomes"], **outcomes}
        self._write(host, {**report, "outcomes": outcomes, "told": told, "last": last})
        for event_id in told:
            self._set(f"dealt-{digest(event_id)}", report["vm_name"], True)

    def twin(self, host: str, vm_name: str) -> str | None:
        """Another host of the play that is the same VM, unless this host was the first to report it."""
        folder = self._directory / "names"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / digest(vm_name.lower())
        if write_once(path, host.encode(), mode=0o600):
            return None
        owner = path.read_text()
        return None if owner == host else owner

    def obstacle(self, event_id: str, seen: SeenEvent, *, assuming: str = "") -> str | None:
        """Why the event must not be acknowledged; None if every VM that it names is prepared or spoken for.

        Another host may have read a newer document that names more VMs. These must be prepared, too.

        :param seen: the event as the host that asks has seen it last.
        :param assuming: the host that counts as prepared for it, in spite of its reports.
        """
        event_id, reports = event_id.lower(), self._read_all()
        # A host that the event does not name does not follow it, so its sight may be old.
        sights = [report["sight"][event_id][1] for report in reports if report["vm_name"] in _names(report, event_id)]
        names = dict.fromkeys(name for each in [seen.names, *sights] for name in each)
        outcomes = {report["vm_name"]: _outcome(report, event_id) for report in reports}
        assumed = [report["vm_name"] for report in reports if report["host"] == assuming]
        outcomes.update(dict.fromkeys(assumed, Outcome(PREPARED, seen.event_type)))
        changed = [report["vm_name"] for report in reports if not _is_told_as(report, event_id, seen)]
        if changed:
            return f"{changed[0]} has prepared for other VMs, or another type, than the event has now"
        ready = Outcome(PREPARED, seen.event_type)
        if ready not in [outcomes.get(name) for name in names]:
            reasons = (self._unprepared(name, outcome, seen) for name, outcome in outcomes.items() if name in names)
            return next(filter(None, reasons), None) or "no host has prepared"
        return next(filter(None, (self._objection(name, seen, outcomes, reports) for name in names)), None)

    def _objection(
        self,
        name: str,
        seen: SeenEvent,
        outcomes: t.Mapping[str, Outcome | None],
        reports: t.Sequence[t.Mapping[str, t.Any]],
    ) -> str | None:
        if name in outcomes:
            ready = outcomes[name] == Outcome(PREPARED, seen.event_type)
            return None if ready else self._unprepared(name, outcomes[name], seen) or _waited_for(name, reports)
        if self._speak_for is not None and name in self._speak_for:
            return None
        silent = self._silent(reports)
        if silent:
            return f"{name} may be one of the hosts that have not answered: {', '.join(silent)}"
        return None if self._speak_for is None else f"{name} is not a host of this play; {WAY_OUT}"

    def _silent(self, reports: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
        """The hosts that have not reported anything: any of them may be a VM that is not known yet."""
        return sorted(set(self.play_hosts) - {report["host"] for report in reports})

    def not_started(self, seen: SeenEvent) -> list[str]:
        """The hosts that the event may name, and that have not reported anything."""
        reports = self._read_all()
        known = {report["vm_name"] for report in reports} | (self._speak_for or set())
        return self._silent(reports) if set(seen.names) - known else []

    @staticmethod
    def _unprepared(name: str, outcome: Outcome | None, seen: SeenEvent) -> str:
        if outcome is None:
            return ""
        if outcome.kind == FAILED:
            return f"{name} failed to prepare"
        if outcome.kind == UNCONFIGURED:
            return f"nothing is configured that prepares {name} for it"
        if outcome.kind == HELD:
            return f"the action of a rule is hold for {name}"
        if outcome.kind == IN_PART:
            return (
                f"the tags of this run may leave out tasks that prepare {name}. Run the role without --skip-tags and "
                "--tags untagged, or set respond_allow_skip_tags to true"
            )
        return f"{name} has prepared for a {outcome.event_type}, and the event is a {seen.event_type} now"

    def neglected(self, event_id: str, seen: SeenEvent) -> str | None:
        """The obstacle, unless a rule or a host that fails for it says enough."""
        outcomes = [_outcome(report, event_id.lower()) for report in self._read_all()]
        if any(outcome and outcome.kind in (FAILED, HELD) for outcome in outcomes):
            return None
        return self.obstacle(event_id, seen)

    def is_ahead_of_others(self, event_id: str, seen: SeenEvent, hosts: t.Iterable[str]) -> bool:
        """Whether one of these hosts that the event names, or may name, has its preparation for it before it."""
        names = {digest(name) for name in seen.names} - self._marks(f"dealt-{digest(event_id.lower())}")
        unknown = names - self._marks("names")
        at_work = {digest(host) for host in hosts} - self._marks("ended")
        if unknown and at_work - self._marks("hosts"):
            return True
        return any(host in at_work for host in self._hosts_of(names - unknown))

    def _hosts_of(self, vms: t.Iterable[str]) -> t.Iterator[str]:
        """The marks of the hosts of these VMs, by the marks of the VMs. Each is a file to read: take what is needed."""
        return (digest((self._directory / "names" / vm).read_text()) for vm in vms)

    def is_called(self, vm_name: str) -> bool:
        """Whether an event has grown to a VM whose host has ended."""
        return digest(vm_name.lower()) in self._marks("called")

    def calls(self, hosts: t.Iterable[str]) -> bool:
        """Whether one of these hosts that has ended is called."""
        active = set(map(digest, hosts))
        return any(host in active for host in self._hosts_of(self._marks("called") & self._marks("names")))

    def others_respond(self, host: str, hosts: t.Iterable[str], *, silent: bool) -> bool:
        """Whether another one of these hosts has not ended; ``silent``: or has not reported anything."""
        others = {digest(each) for each in hosts} - {digest(host)} - self._marks("ended")
        return bool(others if silent else others & self._marks("hosts"))

    def end(self, host: str) -> None:
        """Note that a host has nothing more to do for what it has seen."""
        vm_name = self._read(host).get("vm_name", "")
        self._set("busy", host, False)
        self._set("ended", host, True)
        self._set("idle", vm_name, True)

    def end_tasks(self, host: str) -> None:
        """Note that the tasks of a host have ended, whatever became of them."""
        self._set("busy", host, False)

    def others_have_work(self, host: str, hosts: t.Iterable[str]) -> bool:
        """Whether another one of these hosts has running tasks."""
        return bool(self._marks("busy") & (set(map(digest, hosts)) - {digest(host)}))

    def rest(self, host: str, *, rests: bool, holds_fork: bool = False) -> None:
        """Note whether a host waits while others prepare, and whether it has its fork meanwhile."""
        self._set("resting", host, rests)
        self._set("holding", host, holds_fork)

    def forks_suffice(self, hosts: t.Iterable[str], forks: int) -> bool:
        """Whether there is a fork for each of these hosts that has not ended, beside those of the hosts that rest.

        A host that rests and gave its fork back needs none.
        """
        at_work = {digest(each) for each in hosts} - self._marks("ended") - self._marks("resting")
        return len(at_work) + len(self._marks("holding")) <= forks

    def claim(self, event_id: str, seen: SeenEvent, *, assuming: str = "") -> bool:
        """Take the acknowledgement of a complete event over, for one host of the run alone.

        The host acknowledges only what equals ``seen`` when it reads the next document.

        :param assuming: the host that is taken for prepared. It acknowledges only if that turns out to be so.
        """
        if self.status(event_id) is not ClaimStatus.FREE or not self._is_complete(event_id, seen, assuming):
            return False
        try:
            self._claim_of(event_id).mkdir(parents=True)
        except FileExistsError:
            return False
        # A host that is put back looks for a claim after it has reported so. If it came too early, its report is there.
        if self._is_complete(event_id, seen, assuming):
            return True
        self.release(event_id)
        return False

    def _is_complete(self, event_id: str, seen: SeenEvent, assuming: str) -> bool:
        return self.obstacle(event_id, seen, assuming=assuming) is None and not self._saw_it_go(event_id, seen)

    def _saw_it_go(self, event_id: str, seen: SeenEvent) -> bool:
        """Whether a host that the event names saw the event go or recovers, and has not looked since."""
        reports = [report for report in self._read_all() if report["vm_name"] in seen.names]
        return any(event_id.lower() in report["gone"] for report in reports)

    def release(self, event_id: str) -> None:
        """Give back what was taken over and was not accepted, for the host that asks next."""
        self._claim_of(event_id).rmdir()

    def accept(self, event_id: str) -> None:
        """Note that the service has accepted the acknowledgement."""
        (self._claim_of(event_id) / ClaimStatus.ACCEPTED.value).touch()

    def status(self, event_id: str) -> ClaimStatus:
        """The state of the acknowledgement."""
        claim = self._claim_of(event_id)
        if (claim / ClaimStatus.ACCEPTED.value).exists():
            return ClaimStatus.ACCEPTED
        return ClaimStatus.CLAIMED if claim.exists() else ClaimStatus.FREE

    def _claim_of(self, event_id: str) -> Path:
        return self._directory / "claims" / digest(event_id.lower())

    def _set(self, kind: str, name: str, holds: bool) -> None:
        """Set or remove a mark of a host or a VM: an empty file, so that many hosts are looked at with one listing."""
        path = self._directory / kind / digest(name)
        if holds:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def _marks(self, kind: str) -> set[str]:
        try:
            names = os.listdir(self._directory / kind)
        except FileNotFoundError:
            return set()
        return {name for name in names if not name.startswith(".")}  # which another host is writing just now

    def _write(self, host: str, value: t.Any) -> None:
        keep_file(self._directory / "hosts" / digest(host), value)

    def _read(self, host: str) -> dict[str, t.Any]:
        path = self._directory / "hosts" / digest(host)
        return kept(path) if path.exists() else {}

    def _read_all(self) -> list[dict[str, t.Any]]:
        return [kept(self._directory / "hosts" / name) for name in sorted(self._marks("hosts"))]


def _names(report: t.Mapping[str, t.Any], event_id: str) -> t.Sequence[str]:
    return report["sight"][event_id][1] if event_id in report["sight"] else ()


def _outcome(report: t.Mapping[str, t.Any], event_id: str) -> Outcome | None:
    return Outcome(*report["outcomes"][event_id]) if event_id in report["outcomes"] else None


def _is_told_as(report: t.Mapping[str, t.Any], event_id: str, seen: SeenEvent) -> bool:
    """Whether a preparation that the host itself has not recorded yet is for the event as it is."""
    told = report.get("told", {}).get(event_id)
    return told is None or (told[0], set(told[1])) == (seen.event_type, set(seen.names))


def _waited_for(name: str, reports: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    did = [
        f" ({report['host']} {report['last']})" for report in reports if report["vm_name"] == name and report["last"]
    ]
    return f"{name} has not prepared{''.join(did)}"
