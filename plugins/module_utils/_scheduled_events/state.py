# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The durable state and its file."""

import datetime
import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type, Union

from .document import Incarnation, ScheduledEvent, parse_not_before
from .files import NotPlain, read_plain, remove_half_written, write_atomically
from .runs import OUTCOMES, PHASES
from .text import clean, parse_number, sanitize_fields, shown

VERSION = 2

UNKNOWN = -1  # no number of recoveries

RUNNING = "running"
INTERRUPTED = "interrupted"  # the run did not end, or does not count: it has to run again if it is still of use

# No number of a state is larger: times are seconds, and the name of a run takes 18 digits at most.
LARGEST = 10**15
# A state holds what documents held, which are smaller.
_MAX_TEXT, _MAX_FIELDS = 65536, 65536

MOST_BYTES = 64 * 1024 * 1024  # far more than the events of a document take

_OUTCOMES = (RUNNING, INTERRUPTED, *OUTCOMES)


class StateError(ValueError):
    """The text is not a state that this version can read; the message says where and why."""


class Run(NamedTuple):
    """The hooks of one phase of one event.

    ``serial``: its number; a higher one began later. ``first``: that of the run which it repeats, as after a reboot, or
    its own; ``recovered``: ``State.recovered`` when that began. ``issued``: this process asked for it. ``reached``: an
    earlier request for it was written, or may have been. ``asked``: how often asking failed; ``ask_at``: when to try
    again. ``event_type`` and ``not_before``: of the event that it ran for. ``preparation``: as configured then.
    ``failed_phase`` and ``failure``: for the phase ``failed``, what failed and why.
    Times: ``not_before``, ``not_later_than`` and ``deadline`` are seconds since the epoch, ``ends_at`` and ``ask_at``
    monotonic seconds of the boot ``boot_id``, ``timeout`` a number of seconds.
    """

    request_id: str = ""
    serial: int = 0
    first: int = 0
    recovered: int = 0
    outcome: str = RUNNING
    reason: str = ""
    boot_id: str = ""
    issued: bool = True
    reached: bool = False
    asked: int = 0
    ask_at: float = 0.0
    event_type: str = ""
    preparation: str = ""
    not_before: Optional[float] = None
    timeout: float = 0.0
    not_later_than: Optional[float] = None
    deadline: float = 0.0
    ends_at: float = 0.0
    failed_phase: str = ""
    failure: str = ""


class Failure(NamedTuple):
    """A phase that failed, and why."""

    phase: str = ""
    reason: str = ""


class Approval(NamedTuple):
    """How far the acknowledgement is. ``next_try``: monotonic seconds of the boot ``boot_id``. ``refused``: a request
    that held the event was refused."""

    accepted: bool = False
    tries: int = 0
    next_try: float = 0.0
    boot_id: str = ""
    error: str = ""
    refused: bool = False


class EventState(NamedTuple):
    """One event of this VM.

    ``event``: as it was seen last. ``present``: the last document held it, and named this VM. ``impact``: it was seen
    Started once. ``runs``: by phase. ``failures``: those whose ``failed`` hooks have not ended. ``ran``: prepare or
    started hooks ran, or may have, and are not undone. ``owed``: recover hooks were configured when they began.
    ``lost_recovery``: the first run of a recovery that has no outcome, such as one that a reboot interrupted, or 0.
    ``unannounced``: ``State.unannounced`` when it was seen first.
    """

    event: ScheduledEvent
    first_seen: float
    present: bool = True
    impact: bool = False
    runs: Dict[str, Run] = {}  # never changed in place
    failures: Tuple[Failure, ...] = ()
    approval: Approval = Approval()
    ran: bool = False
    owed: bool = False
    lost_recovery: int = 0
    unannounced: int = 0


class State(NamedTuple):
    """``serial``: the number of the last run. ``recovered``: what it was when a recovery of this VM, by hooks or by
    hand, ended last; what began before that may be undone. ``unnamed``: how many events of this VM have no EventId.
    ``recoveries``: how many of those ended. ``unannounced``: how many had ended before the last document of which every
    event of this VM is in the state, or UNKNOWN: an event that is new afterwards may have been announced since then.
    ``lost``: why nothing says what an earlier state held, until an operator has looked at the VM; empty otherwise.
    ``withheld``: until then nothing is acknowledged, since a recovery may run that the history would show.
    """

    serial: int
    recovered: int = 0
    incarnation: Incarnation = None
    unnamed: int = 0
    events: Dict[str, EventState] = {}  # by EventId in lower case; never changed in place
    recoveries: int = 0
    unannounced: int = 0
    ignored: Dict[str, ScheduledEvent] = {}  # by EventId in lower case; never changed in place
    lost: str = ""
    withheld: bool = False


def dump(state: State) -> str:
    """The state as JSON."""
    events = {key: _dump_entry(entry) for key, entry in state.events.items()}
    ignored = {key: _dump_event(event) for key, event in state.ignored.items()}
    return json.dumps({"version": VERSION, **state._asdict(), "events": events, "ignored": ignored}, indent=1) + "\n"


def _dump_event(event: ScheduledEvent) -> Dict[str, Any]:
    return dict(event._asdict(), not_before=event.not_before.isoformat() if event.not_before else None)


def _dump_entry(entry: EventState) -> Dict[str, Any]:
    plain = entry._asdict()
    plain["event"] = _dump_event(entry.event)
    plain["runs"] = {phase: run._asdict() for phase, run in entry.runs.items()}
    plain["failures"] = [failure._asdict() for failure in entry.failures]
    plain["approval"] = entry.approval._asdict()
    return dict(plain)


def parse(text: str) -> State:
    """Read what :func:`dump` wrote.

    :raises StateError: it is something else.
    """
    try:
        decoded = json.loads(text, parse_int=parse_number, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StateError(f"it is not JSON: {shown(str(error))}") from error
    root = _object(decoded, "the state")
    if root.get("version") != VERSION:
        raise StateError(f"version {_show(root.get('version'))} is not {VERSION}, which this release reads")
    events = _object(root.get("events"), "events")
    ignored = _object(root.get("ignored"), "ignored")
    return State(
        serial=_typed(root, "serial", int, "the state"),
        recovered=_typed(root, "recovered", int, "the state"),
        incarnation=_parse_incarnation(root.get("incarnation")),
        unnamed=_typed(root, "unnamed", int, "the state"),
        events={clean(key, _MAX_TEXT): _parse_entry(value, _place("events", key)) for key, value in events.items()},
        recoveries=_typed(root, "recoveries", int, "the state"),
        unannounced=_typed(root, "unannounced", int, "the state"),
        ignored={clean(key, _MAX_TEXT): _parse_event(value, _place("ignored", key)) for key, value in ignored.items()},
        lost=clean(_typed(root, "lost", str, "the state"), _MAX_TEXT),
        withheld=_typed(root, "withheld", bool, "the state"),
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _parse_incarnation(value: Any) -> Incarnation:
    if value is None or isinstance(value, str):
        return value
    number: int = _typed({"incarnation": value}, "incarnation", int, "the state")
    return number


def _parse_entry(value: Any, place: str) -> EventState:
    raw = _object(value, place)
    runs = _object(raw.get("runs"), f"{place}.runs")
    failures = raw.get("failures")
    if not isinstance(failures, list):
        raise StateError(f"{place}.failures: a list was expected, not {_show(failures)}")
    read = tuple(_parse_tuple(Failure, failure, f"{place}.failures") for failure in failures)
    if any(phase not in PHASES for phase in [*runs, *(failure.phase for failure in read)]):
        raise StateError(f"{place}: phases are {', '.join(PHASES)}")
    return EventState(
        event=_parse_event(raw.get("event"), f"{place}.event"),
        first_seen=float(_typed(raw, "first_seen", (int, float), place)),
        present=_typed(raw, "present", bool, place),
        impact=_typed(raw, "impact", bool, place),
        runs={phase: _parse_run(run, _place(f"{place}.runs", phase)) for phase, run in runs.items()},
        failures=read,
        approval=_parse_tuple(Approval, raw.get("approval"), f"{place}.approval"),
        ran=_typed(raw, "ran", bool, place),
        owed=_typed(raw, "owed", bool, place),
        lost_recovery=_typed(raw, "lost_recovery", int, place),
        unannounced=_typed(raw, "unannounced", int, place),
    )


def _parse_run(value: Any, place: str) -> Run:
    run: Run = _parse_tuple(Run, value, place)
    if run.outcome not in _OUTCOMES:
        raise StateError(f"{place}.outcome: {_show(run.outcome)} is not one of {', '.join(_OUTCOMES)}")
    return run


def _parse_event(value: Any, place: str) -> ScheduledEvent:
    raw = dict(_object(value, place))
    texts = ("event_id", "event_type", "event_status", "event_source", "resource_type", "not_before", "description")
    if set(raw) != set(ScheduledEvent._fields):
        raise StateError(f"{place}: the fields are not {', '.join(ScheduledEvent._fields)}")
    for name in texts:
        if raw[name] is not None:
            raw[name] = clean(_typed(raw, name, str, place), _MAX_TEXT)
    for name in ("resources", "names"):
        if not isinstance(raw[name], list) or not all(isinstance(item, str) for item in raw[name]):
            raise StateError(f"{place}.{name}: a list of texts was expected")
        raw[name] = tuple(clean(item, _MAX_TEXT) for item in raw[name])
    if raw["duration_in_seconds"] is not None:
        _typed(raw, "duration_in_seconds", int, place)
    for name in ("additional", "unreadable"):
        raw[name] = sanitize_fields(_object(raw[name], f"{place}.{name}"), _MAX_FIELDS)
    not_before: Optional[datetime.datetime] = parse_not_before(raw["not_before"])
    raw["not_before"] = not_before
    return ScheduledEvent(**raw)


def _parse_tuple(kind: Any, value: Any, place: str) -> Any:
    """Read a NamedTuple whose fields all have defaults, which show their types (``None``: a number or null)."""
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
        raise StateError(f"{place}: an object was expected, not {_show(value)}")
    return value


def _typed(raw: Dict[str, Any], name: str, kind: Union[Type[Any], Tuple[Type[Any], ...]], place: str) -> Any:
    value = raw.get(name)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(each.__name__ for each in kinds)
        raise StateError(f"{place}.{name}: {expected} was expected, not {_show(value)}")
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise StateError(f"{place}.{name}: a number from {-LARGEST} to {LARGEST} was expected, not {_show(value)}")
    return value


def _place(holder: str, key: str) -> str:
    return f"{holder}.{shown(key)}"


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):  # which may be nested deeper than Python can follow
        return "an object" if isinstance(value, dict) else "a list"
    return shown(json.dumps(value))


class StateFile:
    """The file that keeps the state."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Remove what a crash left half written. No other process may write the state meanwhile.

        :raises OSError: the directory cannot be read.
        """
        remove_half_written(self.path)

    def load(self) -> Optional[State]:
        """The state, or ``None`` if there is no file yet.

        :raises StateError: the file holds something else, or is something else than a file.
        :raises OSError: the file cannot be read.
        """
        try:
            return parse(read_plain(self.path, most=MOST_BYTES).decode("utf-8"))
        except FileNotFoundError:
            return None
        except (NotPlain, StateError, UnicodeDecodeError) as error:
            raise StateError(f"{self.path}: {error}") from error

    def save(self, state: State) -> None:
        """Make the state durable before returning.

        :raises OSError: it could not be made so; the file is as it was.
        """
        write_atomically(self.path, dump(state).encode(), mode=0o640, durable=True)

    def put_aside(self) -> str:
        """Keep an unreadable file under another name, which is returned.

        Until :meth:`save` replaces it, the file is in its place as well: at no moment is there no state.

        :raises OSError: it cannot be kept.
        """
        changed = datetime.datetime.fromtimestamp(os.lstat(self.path).st_mtime, datetime.timezone.utc)
        kept = f"{self.path}.broken-{changed:%Y%m%dT%H%M%SZ}"
        try:
            os.link(self.path, kept, follow_symlinks=False)
        except FileExistsError:
            pass  # an earlier process kept it, and ended
        except OSError:
            os.replace(self.path, kept)  # a directory has no second name
        return kept
