# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The durable state and its file."""

import datetime
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union

from . import checks
from .checks import Kind, WrongValue
from .document import Incarnation, ScheduledEvent, parse_not_before
from .files import NotPlain, read_plain, remove_half_written, write_atomically
from .runs import OUTCOMES, PHASES
from .text import clean, sanitize_fields

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

    request_id: str
    serial: int
    first: int
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

    phase: str
    reason: str


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

    ``event``: as it was seen last. ``present``: the last document held it, and named this VM. ``elsewhere``: the last
    document held it for a name that this VM had in its configuration before. ``impact``: it was seen Started once.
    ``runs``: by phase. ``failures``: those whose ``failed`` hooks have not ended. ``ran``: prepare or
    started hooks ran, or may have, and are not undone. ``owed``: recover hooks were configured when they began.
    ``did``: the number of a run before which another one did something, or may have, that ``runs`` shows no longer.
    ``lost_recovery``: the first run of a recovery that a reboot interrupted, or that failed and is repeated, or 0.
    ``unannounced``: ``State.unannounced`` when it was seen first, or UNKNOWN. ``waits_until``: when the
    preparation begins, or the acknowledgement is sent, in seconds since the epoch, if a rule chose a later moment;
    ``window``: the one that opens then. ``hurried``: the operator does not want it to wait.
    """

    event: ScheduledEvent
    first_seen: float
    present: bool = True
    elsewhere: bool = False
    impact: bool = False
    runs: Dict[str, Run] = {}  # never changed in place
    failures: Tuple[Failure, ...] = ()
    approval: Approval = Approval()
    ran: bool = False
    owed: bool = False
    did: Optional[int] = None
    lost_recovery: int = 0
    unannounced: int = 0
    waits_until: Optional[float] = None
    window: str = ""
    hurried: bool = False

    @property
    def is_announced(self) -> bool:
        """Whether the last document held it, for whatever name of this VM."""
        return self.present or self.elsewhere

    @property
    def is_put_off(self) -> bool:
        """Whether this VM is in service until the moment that a rule chose."""
        return self.waits_until is not None and not self.ran


class State(NamedTuple):
    """``serial``: the number of the last run. ``recovered``: what it was when a recovery of this VM, by hooks or by
    hand, ended last; what began before that may be undone. ``unnamed``: how many events of this VM have no EventId.
    ``recoveries``: how many recoveries ended. ``unannounced``: the value of ``recoveries`` when the last document was
    read, or UNKNOWN: recoveries that ended later may have ended after a new event was announced.
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


def parse(text: Union[bytes, str]) -> State:
    """Read what :func:`dump` wrote.

    :raises WrongValue: it is something else.
    """
    raw = checks.decoded(text)
    version = raw.get("version") if isinstance(raw, dict) else None
    if version != VERSION:
        raise WrongValue(f"version {checks.show(version)} is not {VERSION}, which this release reads")
    del raw["version"]
    state: State = _record(State, _STATE).read(raw, "")
    return state


def _cleaned(value: Any) -> str:
    return clean(checks.TEXT.read(value, ""), _MAX_TEXT)


def _sanitized(value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return sanitize_fields(value, _MAX_FIELDS)


def _by_key(kind: Kind) -> Kind:
    """A dictionary by EventId."""
    entries = checks.map_of(kind, "events")
    return entries._replace(
        read=lambda value, place: {clean(key, _MAX_TEXT): each for key, each in entries.read(value, place).items()}
    )


def _record(made: Any, kinds: Mapping[str, Kind]) -> Kind:
    """A NamedTuple, in the form of its ``_asdict``."""
    required = [name for name, kind in kinds.items() if kind not in _MAY_BE_NULL]

    def read(value: Any, place: str) -> Any:
        checked = checks.check_fields(value, kinds, place=place, required=required)
        return made(**{**dict.fromkeys(kinds), **checked})

    return Kind("a dictionary", read)


_CLEAN, _FIELDS = checks.converted("a text", _cleaned), checks.converted("a dictionary", _sanitized)
_WHOLE, _NUMBER = checks.whole(-LARGEST, LARGEST), checks.number(-LARGEST, LARGEST)
_NULLABLE_TEXT, _NULLABLE_NUMBER, _NULLABLE_WHOLE = (
    _CLEAN._replace(expected="a text or null"),
    _NUMBER._replace(expected="a number or null"),
    _WHOLE._replace(expected="a whole number or null"),
)
_INCARNATION = checks.converted(
    "a number, a text or null", lambda value: value if isinstance(value, str) else _WHOLE.read(value, "")
)
_NOT_BEFORE = checks.converted("a time or null", lambda value: parse_not_before(_cleaned(value)))
_MAY_BE_NULL = (_NULLABLE_TEXT, _NULLABLE_NUMBER, _NULLABLE_WHOLE, _INCARNATION, _NOT_BEFORE)
_OF_TYPE = {
    bool: checks.FLAG,
    int: _WHOLE,
    float: _NUMBER,
    str: checks.TEXT,
    Optional[int]: _NULLABLE_WHOLE,
    Optional[float]: _NULLABLE_NUMBER,
}


def _plain_fields(made: Any) -> Dict[str, Kind]:
    """The kinds of those fields of a NamedTuple whose types show them."""
    return {name: _OF_TYPE[each] for name, each in made.__annotations__.items() if each in _OF_TYPE}


_EVENT = _record(
    ScheduledEvent,
    {
        **dict.fromkeys(ScheduledEvent._fields, _NULLABLE_TEXT),
        "resources": checks.list_of(_CLEAN, "texts"),
        "names": checks.list_of(_CLEAN, "texts"),
        "not_before": _NOT_BEFORE,
        "duration_in_seconds": _NULLABLE_WHOLE,
        "additional": _FIELDS,
        "unreadable": _FIELDS,
    },
)
_RUN = _record(Run, {**_plain_fields(Run), "outcome": checks.choice(*_OUTCOMES)})
_ENTRY = _record(
    EventState,
    {
        "event": _EVENT,
        **_plain_fields(EventState),
        "runs": checks.map_of(_RUN, "runs", keys=checks.choice(*PHASES)),
        "failures": checks.list_of(
            _record(Failure, {"phase": checks.choice(*PHASES), "reason": checks.TEXT}), "failures"
        ),
        "approval": _record(Approval, _plain_fields(Approval)),
        "window": _CLEAN,
    },
)
_STATE = {
    **_plain_fields(State),
    "incarnation": _INCARNATION,
    "events": _by_key(_ENTRY),
    "ignored": _by_key(_EVENT),
    "lost": _CLEAN,
}


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

        :raises WrongValue: the file holds something else, or is something else than a file.
        :raises OSError: the file cannot be read.
        """
        try:
            return parse(read_plain(self.path, most=MOST_BYTES))
        except FileNotFoundError:
            return None
        except (NotPlain, WrongValue) as error:
            raise WrongValue(f"{self.path}: {error}") from error

    def save(self, state: State) -> None:
        """Make the state durable before returning.

        :raises OSError: it could not be made so.
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
