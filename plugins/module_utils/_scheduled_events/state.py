# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the poller must not forget, and the file that keeps it."""

import datetime
import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type, Union

from .document import Incarnation, ScheduledEvent, parse_not_before
from .files import write_atomically
from .runs import FAILED, OK, PHASES, TIMEOUT

VERSION = 1

RUNNING = "running"
NO_HOOKS = "no hooks"
INTERRUPTED = "interrupted"  # the VM went down before the hooks had ended, and they are no longer of use
_OUTCOMES = (RUNNING, NO_HOOKS, INTERRUPTED, OK, FAILED, TIMEOUT)


class StateError(ValueError):
    """The text is no state of this poller; the message says where and why."""


class Run(NamedTuple):
    """The hooks of one phase of one event. Times: ``not_later_than`` and ``deadline`` are seconds since the epoch,
    ``give_up_at`` monotonic seconds of the boot ``boot_id``, ``timeout`` a number of seconds."""

    request_id: str = ""
    outcome: str = RUNNING
    reason: str = ""
    boot_id: str = ""
    issued: bool = True
    timeout: float = 0.0
    not_later_than: Optional[float] = None
    deadline: float = 0.0
    give_up_at: float = 0.0


class Approval(NamedTuple):
    """How far the acknowledgement is. ``next_try``: monotonic seconds of the boot ``boot_id``."""

    accepted: bool = False
    tries: int = 0
    next_try: float = 0.0
    boot_id: str = ""
    error: str = ""


class EventState(NamedTuple):
    """One event of this VM.

    ``event``: as it was seen last. ``present``: the last document held it, and named this VM. ``impact``: it was seen
    Started once. ``runs``: by phase. ``failures``: phases that failed and whose ``failed`` hooks have not ended.
    ``note``: what was reported last.
    """

    event: ScheduledEvent
    first_seen: float
    present: bool = True
    impact: bool = False
    runs: Dict[str, Run] = {}  # never changed in place
    failures: Tuple[str, ...] = ()
    approval: Approval = Approval()
    note: str = ""


class State(NamedTuple):
    """``serial``: the number of the last request. ``unnamed``: events of this VM without an EventId."""

    serial: int
    incarnation: Incarnation = None
    unnamed: int = 0
    events: Dict[str, EventState] = {}  # by EventId in lower case; never changed in place


def dump(state: State) -> str:
    """The state as JSON."""
    events = {key: _dump_event(entry) for key, entry in state.events.items()}
    return json.dumps({"version": VERSION, **state._asdict(), "events": events}, indent=1) + "\n"


def _dump_event(entry: EventState) -> Dict[str, Any]:
    event = entry.event._asdict()
    event["not_before"] = entry.event.not_before.isoformat() if entry.event.not_before else None
    plain = entry._asdict()
    plain["event"] = event
    plain["runs"] = {phase: run._asdict() for phase, run in entry.runs.items()}
    plain["approval"] = entry.approval._asdict()
    return dict(plain)


def parse(text: str) -> State:
    """Read what :func:`dump` wrote.

    :raises StateError: it is something else.
    """
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"no JSON: {error}") from error
    root = _object(decoded, "the state")
    if root.get("version") != VERSION:
        raise StateError(f"version {root.get('version')!r} is not {VERSION}, which this poller writes")
    events = _object(root.get("events"), "events")
    return State(
        serial=_typed(root, "serial", int, "the state"),
        incarnation=root.get("incarnation"),
        unnamed=_typed(root, "unnamed", int, "the state"),
        events={key: _parse_entry(value, f"events.{key}") for key, value in events.items()},
    )


def _parse_entry(value: Any, place: str) -> EventState:
    raw = _object(value, place)
    runs = _object(raw.get("runs"), f"{place}.runs")
    failures = raw.get("failures")
    if not isinstance(failures, list) or any(phase not in PHASES for phase in [*failures, *runs]):
        raise StateError(f"{place}: phases are {', '.join(PHASES)}")
    return EventState(
        event=_parse_event(raw.get("event"), f"{place}.event"),
        first_seen=float(_typed(raw, "first_seen", (int, float), place)),
        present=_typed(raw, "present", bool, place),
        impact=_typed(raw, "impact", bool, place),
        runs={phase: _parse_run(run, f"{place}.runs.{phase}") for phase, run in runs.items()},
        failures=tuple(failures),
        approval=_parse_tuple(Approval, raw.get("approval"), f"{place}.approval"),
        note=_typed(raw, "note", str, place),
    )


def _parse_run(value: Any, place: str) -> Run:
    run: Run = _parse_tuple(Run, value, place)
    if run.outcome not in _OUTCOMES:
        raise StateError(f"{place}.outcome: {run.outcome!r} is none of {', '.join(_OUTCOMES)}")
    return run


def _parse_event(value: Any, place: str) -> ScheduledEvent:
    raw = dict(_object(value, place))
    texts = ("event_id", "event_type", "event_status", "event_source", "resource_type", "not_before", "description")
    if set(raw) != set(ScheduledEvent._fields):
        raise StateError(f"{place}: the fields are not {', '.join(ScheduledEvent._fields)}")
    for name in texts:
        if raw[name] is not None:
            _typed(raw, name, str, place)
    for name in ("resources", "names"):
        if not isinstance(raw[name], list) or not all(isinstance(item, str) for item in raw[name]):
            raise StateError(f"{place}.{name}: a list of texts was expected")
        raw[name] = tuple(raw[name])
    if raw["duration_in_seconds"] is not None:
        _typed(raw, "duration_in_seconds", int, place)
    for name in ("additional", "unreadable"):
        _object(raw[name], f"{place}.{name}")
    not_before: Optional[datetime.datetime] = parse_not_before(raw["not_before"])
    raw["not_before"] = not_before
    return ScheduledEvent(**raw)


def _parse_tuple(kind: Any, value: Any, place: str) -> Any:
    """Read a NamedTuple all of whose fields have defaults, which tell their types (``None``: a number or null)."""
    raw = _object(value, place)
    if set(raw) != set(kind._fields):
        raise StateError(f"{place}: the fields are not {', '.join(kind._fields)}")
    read = {}
    for name, default in zip(kind._fields, kind()):
        if default is None and raw[name] is None:
            continue
        number = default is None or isinstance(default, float)
        read[name] = _typed(raw, name, (int, float) if number else type(default), place)
    return kind(**read)


def _object(value: Any, place: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise StateError(f"{place}: an object was expected, not {json.dumps(value)[:100]}")
    return value


def _typed(raw: Dict[str, Any], name: str, kind: Union[Type[Any], Tuple[Type[Any], ...]], place: str) -> Any:
    value = raw.get(name)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(each.__name__ for each in kinds)
        raise StateError(f"{place}.{name}: {expected} was expected, not {json.dumps(value)[:100]}")
    return value


class StateFile:
    """The file that keeps the state."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> Optional[State]:
        """The state, or ``None`` if there is no file yet.

        :raises StateError: the file holds something else.
        :raises OSError: the file cannot be read.
        """
        try:
            with open(self.path, encoding="utf-8") as file:
                return parse(file.read())
        except FileNotFoundError:
            return None
        except (StateError, UnicodeDecodeError) as error:
            raise StateError(f"{self.path}: {error}") from error

    def save(self, state: State) -> None:
        """Make the state durable before returning.

        :raises OSError: it could not be made so; the file is as it was.
        """
        write_atomically(self.path, dump(state).encode(), mode=0o640, durable=True)

    def put_aside(self, now: float) -> str:
        """Keep an unreadable file under another name, which is returned."""
        stamp = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        kept = f"{self.path}.broken-{stamp}"
        os.replace(self.path, kept)
        return kept
