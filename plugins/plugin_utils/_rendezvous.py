# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the hosts of a play meet before an event is acknowledged. Private to the collection.

Each host of a play works in a process of its own, so they meet in a directory of the controller: files that are
written whole, and one ``mkdir`` per event that only one of them can win. Nobody waits there: the host that completes
an event acknowledges it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import typing as t
from pathlib import Path

from ..module_utils._scheduled_events.document import UNDERSCORE_VERSION

PREPARED, FAILED = "prepared", "failed"


class Word(t.NamedTuple):
    """What one host tells the others.

    ``events``: all that it sees, with their ``event_id`` and ``resources``. ``outcomes``: for each of its own events
    that it has dealt with, by id, ``prepared`` or ``failed``.
    """

    host: str
    vm_name: str
    endpoint: str
    api_version: str
    events: t.Sequence[t.Mapping[str, t.Any]]
    outcomes: t.Mapping[str, str]


class Rendezvous:
    """The meeting of the hosts of one run.

    :param directory: of the controller, made if need be; empty at the start of a run.
    :param play_hosts: all hosts of the play, whether they are reached or not.
    """

    def __init__(self, directory: Path, *, play_hosts: t.Sequence[str]) -> None:
        self._directory = directory
        self._play_hosts = play_hosts

    def tell(self, word: Word) -> None:
        """Leave word of one host. It replaces what the host told before, but for outcomes."""
        vm_name = word.vm_name.lower()
        self._write("hosts", word.host, {"host": word.host, "vm_name": vm_name, "endpoint": word.endpoint})
        for event in word.events:
            names = [_name(resource, word.api_version) for resource in event["resources"]]
            self._write("events", event["event_id"].lower(), {"event_id": event["event_id"], "names": names})
            self._write(_of("witnesses", event["event_id"]), word.host, word.host)
        for event_id, outcome in word.outcomes.items():
            self._write(_of("outcomes", event_id), vm_name, outcome)

    def claim(self, host: str) -> list[dict[str, t.Any]]:
        """Take over, for this host, the acknowledgement of each complete event that nobody has taken over yet.

        :returns: for each its ``event_id``, and the ``senders`` that may do it, the best one first.
        """
        return [
            {"event_id": event["event_id"], "senders": self._senders(event, host)}
            for event in self._read_all("events")
            if self._obstacle(event) is None and self._take(event["event_id"])
        ]

    def held(self, event_ids: t.Iterable[str]) -> list[dict[str, str]]:
        """Those of the events that nobody has taken over, each with the ``reason``."""
        wanted = {event_id.lower() for event_id in event_ids}
        events = [event for event in self._read_all("events") if event["event_id"].lower() in wanted]
        return [
            {"event_id": event["event_id"], "reason": self._obstacle(event) or "nobody could acknowledge it"}
            for event in events
            if not self._claim_of(event["event_id"]).exists()
        ]

    def release(self, event_ids: t.Iterable[str]) -> None:
        """Give back what was taken over and could not be acknowledged, for whoever comes next."""
        for event_id in event_ids:
            self._claim_of(event_id).rmdir()

    def _obstacle(self, event: t.Mapping[str, t.Any]) -> str | None:
        """Why not to acknowledge the event; None if every VM that it names and that is in the play is prepared."""
        hosts = self._read_all("hosts")
        outcomes = {name: self._read(_of("outcomes", event["event_id"]), name) for name in event["names"]}
        if not any(outcomes.values()):
            return "no host has prepared"  # it may be about other VMs alone, or about none
        for name, outcome in outcomes.items():
            if outcome == PREPARED:
                continue
            if outcome == FAILED:
                return f"{name} failed to prepare"
            if name in [told["vm_name"] for told in hosts]:
                return f"{name} has not prepared"
            silent = sorted(set(self._play_hosts) - {told["host"] for told in hosts})
            if silent:  # the VM may be one of them
                return f"{name} may be one of the hosts that have not answered: {', '.join(silent)}"
        return None

    def _senders(self, event: t.Mapping[str, t.Any], host: str) -> list[dict[str, str]]:
        told_by = {told["host"]: told for told in self._read_all("hosts")}
        of_name = {told["vm_name"]: told["host"] for told in told_by.values()}
        leader = of_name.get(event["names"][0]) if event["names"] else None
        witnesses = self._read_all(_of("witnesses", event["event_id"]))
        order = dict.fromkeys([leader, host, *(of_name.get(name) for name in event["names"]), *witnesses])
        return [{key: told_by[each][key] for key in ("host", "endpoint")} for each in order if each in witnesses]

    def _take(self, event_id: str) -> bool:
        try:
            self._claim_of(event_id).mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    def _claim_of(self, event_id: str) -> Path:
        return self._directory / _of("claims", event_id)

    def _write(self, kind: str, key: str, value: t.Any) -> None:
        folder = self._directory / kind
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._directory, delete=False) as stream:
            json.dump(value, stream)
        os.replace(stream.name, folder / _digest(key))

    def _read(self, kind: str, key: str) -> t.Any:
        path = self._directory / kind / _digest(key)
        return json.loads(path.read_text()) if path.exists() else None

    def _read_all(self, kind: str) -> list[t.Any]:
        folder = self._directory / kind
        return [json.loads(path.read_text()) for path in sorted(folder.iterdir())] if folder.exists() else []


def _name(resource: str, api_version: str) -> str:
    return (resource[1:] if api_version == UNDERSCORE_VERSION and resource.startswith("_") else resource).lower()


def _of(kind: str, event_id: str) -> str:
    return f"{kind}-{_digest(event_id.lower())}"


def _digest(text: str) -> str:
    """A file name for a text that somebody else chose."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
