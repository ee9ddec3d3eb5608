# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The coordination of the hosts of a play before an event is acknowledged. Private to the collection.

Each host of a play has its own process, so they share a directory of the control node: one file per host,
written whole, and one ``mkdir`` per event that only one of them can win. No host waits there.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
import tempfile
import typing as t
from pathlib import Path

PREPARED, FAILED, UNCONFIGURED, HELD, IN_PART = "prepared", "failed", "unconfigured", "held", "in part"

WAY_OUT = "add it to the play, or name it in respond_speak_for if it needs no preparation"


class ClaimStatus(enum.Enum):
    """The state of the acknowledgement of an event."""

    FREE = "free"
    CLAIMED = "claimed"
    ACCEPTED = "accepted"


class Seen(t.NamedTuple):
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
    :param ended: whether it has nothing more to do for what it has seen.
    :param last: what it did last, and when, for people.
    """

    host: str
    vm_name: str
    sight: t.Mapping[str, Seen] | None = None
    outcomes: t.Mapping[str, Outcome] = {}
    busy: bool = False
    last: str = ""
    ended: bool = False


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

        A host recovers from an event that it saw go, so it is no longer prepared if the event comes back under its id.
        """
        before = self._read(report.host)
        sight = {event_id.lower(): _as_seen(seen) for event_id, seen in (report.sight or {}).items()}
        outcomes = {event_id.lower(): outcome for event_id, outcome in report.outcomes.items()}
        kept = {event_id: value for event_id, value in before.get("outcomes", {}).items() if event_id not in sight}
        known = {*before.get("gone", ()), *(before.get("sight", ()) if report.sight is not None else ())}
        told = {
            "host": report.host,
            "vm_name": report.vm_name.lower(),
            "sight": {**before.get("sight", {}), **sight},
            "outcomes": {**kept, **outcomes},
            "gone": sorted(known - sight.keys()),
            "busy": report.busy,
            "last": report.last,
            "ended": report.ended,
        }
        self._write(report.host, told)

    def twin(self, host: str, vm_name: str) -> str | None:
        """Another host of the play that is the same VM, unless this host was the first to report it."""
        folder = self._directory / "names"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._directory) as stream:
            stream.write(host)
            stream.flush()
            with contextlib.suppress(FileExistsError):
                os.link(stream.name, folder / _digest(vm_name.lower()))
        owner = (folder / _digest(vm_name.lower())).read_text()
        return None if owner == host else owner

    def obstacle(self, event_id: str, seen: Seen, *, assuming: str = "") -> str | None:
        """Why the event must not be acknowledged; None if every VM that it names is prepared or spoken for.

        Another host may have read a newer document that names more VMs. These must be prepared, too.

        :param seen: the event as the host that asks has seen it last.
        :param assuming: the host that counts as prepared for it, in spite of its reports.
        """
        event_id, reports, own = event_id.lower(), self._read_all(), _as_seen(seen).names
        # A host that the event does not name does not follow it, so its sight may be old.
        sights = [report["sight"][event_id][1] for report in reports if report["vm_name"] in _names(report, event_id)]
        names = dict.fromkeys(name for each in [own, *sights] for name in each)
        outcomes = {report["vm_name"]: _outcome(report, event_id) for report in reports}
        outcomes.update(dict.fromkeys(_vm_of(assuming, reports), Outcome(PREPARED, seen.event_type)))
        ready = Outcome(PREPARED, seen.event_type)
        if ready not in [outcomes.get(name) for name in names]:
            reasons = (self._unprepared(name, outcome, seen) for name, outcome in outcomes.items() if name in names)
            return next(filter(None, reasons), None) or "no host has prepared"
        return next(filter(None, (self._objection(name, seen, outcomes, reports) for name in names)), None)

    def _objection(
        self,
        name: str,
        seen: Seen,
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

    def not_started(self, seen: Seen) -> list[str]:
        """The hosts that the event may name, and that have not reported anything."""
        reports = self._read_all()
        known = {report["vm_name"] for report in reports} | (self._speak_for or set())
        return self._silent(reports) if set(_as_seen(seen).names) - known - (self._speak_for or set()) else []

    @staticmethod
    def _unprepared(name: str, outcome: Outcome | None, seen: Seen) -> str:
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

    def neglected(self, event_id: str, seen: Seen) -> str | None:
        """The obstacle, unless a rule or a host that fails for it says enough."""
        outcomes = [_outcome(report, event_id.lower()) for report in self._read_all()]
        if any(outcome and outcome.kind in (FAILED, HELD) for outcome in outcomes):
            return None
        return self.obstacle(event_id, seen)

    def called_back(self, hosts: t.Collection[str]) -> list[str]:
        """Which of these hosts have ended, and are named by an event that another host has seen since."""
        reports = self._read_all()
        return [
            report["host"]
            for report in reports
            if report["host"] in hosts and report["ended"] and report["vm_name"]
            for other in reports
            for event_id, (_type, names) in other["sight"].items()
            if report["vm_name"] in names and event_id not in {*other["gone"], *report["gone"], *report["outcomes"]}
        ]

    def others_respond(self, host: str, hosts: t.Collection[str], *, silent: bool) -> bool:
        """Whether another one of these hosts has not ended; ``silent``: or has not reported anything."""
        ended = {report["host"]: report["ended"] for report in self._read_all()}
        return any(not ended.get(each, not silent) for each in hosts if each != host)

    def end(self, host: str) -> None:
        """Note that a host has nothing more to do for what it has seen."""
        told = self._read(host)
        if told:
            self._write(host, {**told, "busy": False, "ended": True})

    def others_have_work(self, host: str) -> bool:
        """Whether another host of the play has running tasks, or has not reported anything yet."""
        reports = self._read_all()
        told = {report["host"] for report in reports}
        return bool(set(self.play_hosts) - told) or any(report["busy"] for report in reports if report["host"] != host)

    def claim(self, event_id: str, seen: Seen, *, assuming: str = "") -> bool:
        """Take the acknowledgement of a complete event over, for one host of the run alone.

        The host acknowledges only what equals ``seen`` when it reads the next document.

        :param assuming: the host that is taken for prepared. It acknowledges only if that turns out to be so.
        """
        if self.obstacle(event_id, seen, assuming=assuming) is not None or self._saw_it_go(event_id, seen):
            return False
        try:
            self._claim_of(event_id).mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    def _saw_it_go(self, event_id: str, seen: Seen) -> bool:
        """Whether a host that the event names saw the event go, and has not looked since it came back."""
        names = _as_seen(seen).names
        return any(event_id.lower() in report["gone"] for report in self._read_all() if report["vm_name"] in names)

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
        return self._directory / "claims" / _digest(event_id.lower())

    def _write(self, host: str, value: t.Any) -> None:
        folder = self._directory / "hosts"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._directory, delete=False) as stream:
            json.dump(value, stream)
        os.replace(stream.name, folder / _digest(host))

    def _read(self, host: str) -> dict[str, t.Any]:
        path = self._directory / "hosts" / _digest(host)
        return json.loads(path.read_text()) if path.exists() else {}

    def _read_all(self) -> list[dict[str, t.Any]]:
        folder = self._directory / "hosts"
        return [json.loads(path.read_text()) for path in sorted(folder.iterdir())] if folder.exists() else []


def _as_seen(seen: Seen) -> Seen:
    return Seen(seen.event_type, [name.lower() for name in seen.names])


def _names(report: t.Mapping[str, t.Any], event_id: str) -> t.Sequence[str]:
    return report["sight"][event_id][1] if event_id in report["sight"] else ()


def _outcome(report: t.Mapping[str, t.Any], event_id: str) -> Outcome | None:
    return Outcome(*report["outcomes"][event_id]) if event_id in report["outcomes"] else None


def _vm_of(host: str, reports: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    return [report["vm_name"] for report in reports if report["host"] == host]


def _waited_for(name: str, reports: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    did = [
        f" ({report['host']} {report['last']})" for report in reports if report["vm_name"] == name and report["last"]
    ]
    return f"{name} has not prepared{''.join(did)}"


def _digest(text: str) -> str:
    """A file name for a text from another source."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
