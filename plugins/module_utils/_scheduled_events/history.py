# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fact of the history: what happened to an event on this VM, as one line of JSON. No clock, no I/O.

The module scheduled_events_history_info describes the format. A change that an old reader
would misunderstand needs another ``VERSION``; a new key does not.
"""

import datetime
import json
import math
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .checks import TEXT, Kind, WrongValue, check_fields, choice, converted, decoded, list_of, number, whole
from .document import YEARS
from .runs import OK
from .text import clean

VERSION = 1

# Who writes facts.
POLLER, RESPOND, ROLLING_MAINTENANCE, DRILL = "poller", "respond", "rolling_maintenance", "drill"
OPERATOR = "operator"  # a command or a module that acknowledges by itself
SOURCES = (POLLER, RESPOND, ROLLING_MAINTENANCE, DRILL, OPERATOR)

# What a fact can say.
KINDS = SEEN, PHASE_BEGAN, PHASE_ENDED, ACKNOWLEDGED, REFUSED, HELD, STARTED, OVER, RETURNED, IMPACT, DRILLED = (
    "seen",
    "phase_began",
    "phase_ended",
    "acknowledged",
    "refused",
    "held",
    "started",
    "over",
    "returned",
    "impact",
    "drilled",
)

# The outcomes of a fact of the kind impact.
REBOOTED, PAUSED, NO_IMPACT = "rebooted", "paused", "none"

# No line is longer, whatever its texts hold: each has a limit in characters, and a character takes four bytes at most.
MAX_LINE = 16 * 1024
MOST_RESOURCES = 20
_LIMITS = {
    "vm_name": 128,
    "boot_id": 64,
    "run": 128,
    "event_id": 128,
    "event_type": 64,
    "event_status": 64,
    "event_source": 64,
    "phase": 32,
    "outcome": 32,
    "reason": 400,
    "by": 128,
    "via": 64,
    "rule": 128,
    "maintenance": 256,
}
_RESOURCE_LIMIT = 80
SHARE = 0.95  # of the preparations are not longer than what is needed
_TIMES = ("time", "not_before")
_NUMBERS = ("announced_seconds", "measured_seconds")
LARGEST = 10**9  # seconds of a measurement
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# The latest time of a fact, as of a NotBefore: a few days can be added to each of them.
_LAST = (datetime.datetime(YEARS.stop, 1, 1, tzinfo=datetime.timezone.utc) - _EPOCH).total_seconds() - 1.0


class Fact(NamedTuple):
    """What happened, and when. A text that is not known, or does not apply, is empty; a number is ``None``.

    :param kind: one of :data:`KINDS`; ``source``: who wrote it, one of :data:`SOURCES`.
    :param time: seconds since the epoch, exact to the millisecond; so is ``not_before``.
    :param boot_id: of the boot in which it was written, as its source knows boots.
    :param run: the run of the phase, or of the play; the same in all facts of this run.
    :param outcome: of the phase, or of the impact; ``reason``: why it ended so, or why an event is held.
    :param by: who acknowledged; ``via``: the service that took it; ``rule``: the rule that allowed it.
    :param resources: the first VMs of the event; ``resource_count``: how many the event names.
    :param maintenance: of the owner, in a fact of no event; the same on all its hosts.
    :param announced_seconds: of impact, by Azure; -1: unknown. ``measured_seconds``: those that were measured.
    """

    kind: str
    time: float
    source: str
    vm_name: str = ""
    boot_id: str = ""
    run: str = ""
    event_id: str = ""
    event_type: str = ""
    event_status: str = ""
    event_source: str = ""
    phase: str = ""
    outcome: str = ""
    reason: str = ""
    by: str = ""
    via: str = ""
    rule: str = ""
    not_before: Optional[float] = None
    resources: Tuple[str, ...] = ()
    resource_count: Optional[int] = None
    announced_seconds: Optional[float] = None
    measured_seconds: Optional[float] = None
    maintenance: str = ""

    @property
    def key(self) -> str:
        """The event, in the form in which ids are compared."""
        return self.event_id.lower()


def preparations(facts: Iterable[Fact]) -> List[float]:
    """The seconds of each preparation that ended well."""
    began: Dict[Tuple[str, str, str], float] = {}
    seconds = []
    for fact in facts:
        run = (fact.source, fact.run, fact.key)
        if fact.phase != "prepare":
            continue
        if fact.kind == PHASE_BEGAN:
            began[run] = fact.time
        elif fact.kind == PHASE_ENDED and run in began:
            duration = fact.time - began.pop(run)
            if fact.outcome == OK and duration >= 0:  # less than nothing: the clock was set
                seconds.append(duration)
    return seconds


def needed(seconds: Sequence[float]) -> Optional[float]:
    """The 95th percentile, by the nearest rank; ``None`` without a preparation."""
    ordered = sorted(seconds)
    return ordered[math.ceil(SHARE * len(ordered)) - 1] if ordered else None


def cleaned(fact: Fact) -> Fact:
    """The fact as a line holds it: harmless texts of limited length, and times in milliseconds."""
    fields: Dict[str, Any] = {name: clean(getattr(fact, name), limit) for name, limit in _LIMITS.items()}
    fields.update({name: _bounded(getattr(fact, name), 0.0, _LAST) for name in _TIMES})
    fields.update({name: _bounded(getattr(fact, name), -1.0, float(LARGEST)) for name in _NUMBERS})
    fields["resources"] = tuple(clean(name, _RESOURCE_LIMIT) for name in fact.resources[:MOST_RESOURCES])
    return fact._replace(**fields)


def _bounded(seconds: Optional[float], least: float, most: float) -> Optional[float]:
    return None if seconds is None else round(min(max(seconds, least), most), 3)


def as_json(fact: Fact) -> Dict[str, Any]:
    """The fact as an object of JSON, without what is not known."""
    known = {name: value for name, value in cleaned(fact)._asdict().items() if value not in ("", None, ())}
    for name in _TIMES:
        if name in known:
            known[name] = format_moment(known[name])
    if "resources" in known:
        known["resources"] = list(known["resources"])
    return {"version": VERSION, **known}


def line_of(fact: Fact) -> bytes:
    """The fact as a line of the file."""
    return json.dumps(as_json(fact), ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"


def parse_line(line: bytes) -> Fact:
    """Read what :func:`line_of` wrote; unknown keys are left out.

    :raises WrongValue: it is something else.
    """
    if len(line) > MAX_LINE:
        raise WrongValue(f"it has more than {MAX_LINE} bytes")
    return parse(decoded(line))


def parse(raw: Any) -> Fact:
    """Read what :func:`as_json` returned.

    :raises WrongValue: it is something else.
    """
    fields = check_fields(raw, _FIELDS, required=["version", "kind", "time", "source"], others=True)
    del fields["version"]
    return cleaned(Fact(**fields))


def parse_all(raws: Iterable[Any]) -> Tuple[List[Fact], List[str]]:
    """The facts among what another machine returned, which can be anything, and what is wrong with the others."""
    facts, wrong = [], []
    for raw in raws:
        try:
            facts.append(parse(raw))
        except WrongValue as error:
            wrong.append(str(error))
    return facts, wrong


def format_moment(time: float) -> str:
    """Seconds since the epoch as a time of UTC with milliseconds."""
    moment = _EPOCH + datetime.timedelta(milliseconds=round(time * 1000))
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def parse_moment(text: str) -> float:
    """Seconds since the epoch of a time that :func:`format_moment` wrote.

    :raises ValueError: it is something else.
    """
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    if moment.year not in YEARS:
        raise ValueError(f"{moment.year} is not a year from {YEARS.start} to {YEARS.stop - 1}")
    return round((moment - _EPOCH).total_seconds(), 3)


_MOMENT = converted(f"a time from {YEARS.start}-01-01T00:00:00.000Z to {YEARS.stop - 1}", parse_moment)
_FIELDS: Dict[str, Kind] = {
    "version": whole(VERSION, VERSION)._replace(expected=f"{VERSION}, which this release reads"),
    "kind": choice(*KINDS),
    "source": choice(*SOURCES),
    **dict.fromkeys(_LIMITS, TEXT),
    **dict.fromkeys(_TIMES, _MOMENT),
    **dict.fromkeys(_NUMBERS, number(-1, LARGEST)),
    "resources": list_of(TEXT, "names"),
    "resource_count": whole(0, LARGEST),
}
