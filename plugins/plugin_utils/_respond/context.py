# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of Ansible knows about one host, and how it reaches it. Private to the collection."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ...module_utils._scheduled_events.checks import WrongValue, show
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.terms import NEVER
from .._ansible.run import keep_file, kept
from .._azure.acknowledgement import AcknowledgementResult
from .play_coordinator import PlayCoordinator, SeenEvent

AHEAD, OVER = ("scheduled", "started"), ("completed", "canceled")
Execute = t.Callable[[t.Dict[str, t.Any], t.Optional[t.Dict[str, t.Any]], float], t.Dict[str, t.Any]]
Send = t.Callable[[str, str, float], AcknowledgementResult]


class Published:
    """The events that Azure has published outside the VMs, by id, as the event filter C(azure_events) shows them.

    They say for which events a host waits, and for which it no longer does. Whether an event is prepared for,
    acknowledged and recovered from, the document of the VM alone says.

    :raises WrongValue: one is not such an event.
    """

    def __init__(self, events: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        self._names: dict[str, set[str]] = {}
        self._over: set[str] = set()
        for number, event in enumerate(events):
            event_id, status, names = (event.get(key) for key in ("event_id", "event_status", "resources"))
            if not (isinstance(event_id, str) and event_id and isinstance(status, str) and isinstance(names, list)):
                raise WrongValue(
                    f"respond_published_events[{number}] is {show(event)}, expected event_id, event_status and "
                    "resources. Pass the event of the filter azure_events, such as ansible_eda.event"
                )
            if status.lower() in OVER:
                self._over.add(event_id.lower())
            elif status.lower() in AHEAD:
                self._names.setdefault(event_id.lower(), set()).update(str(name).lower() for name in names)

    def missing(self, vm_name: str, shown: t.Collection[str]) -> list[str]:
        """The ids of the events of a VM that are not over, except for those that its document has shown."""
        ahead = (event_id for event_id, names in self._names.items() if vm_name.lower() in names)
        return sorted({*ahead} - self._over - {event_id.lower() for event_id in shown})

    def is_over(self, event_id: str) -> bool:
        """Whether Azure has published the end of the event."""
        return event_id.lower() in self._over


class Notes(t.Dict[str, t.Any]):
    """The knowledge of the run about one host between two tasks, in a file of the control node.

    ``fresh``: this is the first task. ``began``: seconds of the monotonic clock.
    """

    def __init__(self, path: Path, *, fresh: bool, began: float) -> None:
        self._path = path
        self.update(
            options={},
            began=began,
            vm_name="",
            marker="",
            state="",
            answered=False,
            over=False,
            ended=False,
            begun=[],
            handed_out=None,
            flushed=False,
            drill=False,
            named=[],
            prepared=[],
            acknowledged=[],
            recovered=[],
            failures=[],
            announced={},
            seen={},
            prepared_for={},
            waiting=[],
            unreported=None,
            phase_began=0.0,
            rest=None,
            returns=0,
            lost_since=None,
            resource_id="",
            last_read=None,
            silent_since=None,
            fallback={},
            story={},
            told=[],
            warned=[],
            facts=[],
        )
        if not fresh and path.exists():
            self.update(kept(path))

    def add(self, name: str, values: t.Iterable[str]) -> None:
        """Add to a list what it does not hold yet."""
        self[name] = list(dict.fromkeys([*self[name], *values]))

    def keep(self) -> None:
        """Write them for the next task."""
        keep_file(self._path, self)

    def seen(self, event_id: str) -> SeenEvent | None:
        """The event as the last document of this host showed it."""
        return SeenEvent(*self["seen"][event_id]) if event_id in self["seen"] else None


@dataclasses.dataclass
class Context:
    """The run, for one host.

    :param run: identity of the run; ``owner``: its process, for another run that meets its lease.
    :param options: those of the module ``scheduled_events_turn``.
    :param execute: ``execute(control_node, outcome, within)`` runs the module on the host with what the control node
        adds to its options. It raises :class:`HostLost`, also if there is no answer within these seconds.
    :param say: show a line to people; ``warn``: one that they should look at.
    :param active_hosts: those of the play that have neither failed nor become unreachable.
    :param rescued_hosts: those that Ansible takes for failed. They go on in a rescue section, or are lost.
    :param in_part: whether tags may leave out tasks of a phase, so that nothing counts as prepared.
    :param has_failed: whether a task of this host has failed before.
    :param forks: how many hosts of the play may run a task at the same time.
    :param lockstep: whether each host waits for the others at each task.
    :param published: the events that Azure has published outside the VMs.
    :param send: ``send(scope, event_id, patience)`` acknowledges in the place of a host; raises :class:`ArmError`.
    """

    host: str
    run: str
    owner: dict[str, t.Any]
    options: t.Mapping[str, t.Any]
    notes: Notes
    coordinator: PlayCoordinator
    execute: Execute
    say: t.Callable[[str], None]
    warn: t.Callable[[str], None]
    active_hosts: t.Sequence[str]
    rescued_hosts: t.Sequence[str]
    in_part: bool
    has_failed: bool
    forks: int
    lockstep: bool
    check_mode: bool
    clock: Clock = CLOCK
    send: Send | None = None
    published: Published = dataclasses.field(default_factory=lambda: Published([]))

    @property
    def shares_fork(self) -> bool:
        """Whether there are fewer forks than hosts, so a host that waits keeps another one from starting."""
        return self.forks < len(self.coordinator.play_hosts)

    @property
    def acknowledges(self) -> bool:
        """Whether this run may acknowledge events of the host."""
        return bool(self.options["acknowledge"] != NEVER) and not self.in_part

    def waited(self) -> float:
        """The seconds since this host began."""
        return self.clock.monotonic() - float(self.notes["began"])

    def warn_once(self, text: str, *, about: str = "") -> None:
        """Show a warning, unless this run has shown it for this host, or another one about the same."""
        if (about or text) not in self.notes["warned"]:
            self.notes.add("warned", [about or text])
            self.warn(f"{self.host}: {text}")

    def show_progress(self, line: t.Mapping[str, t.Any]) -> None:
        """Show what happened to an event."""
        event = f"{line['event_type']} {line['event_id']}"
        self.notes["told"].append({**line, "at": self.clock.utc()})
        self.notes["story"].setdefault(event, []).append(line["text"])
        self.say(f"{self.host}: {event} {line['text']}")
