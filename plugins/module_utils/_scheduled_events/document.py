# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents of Azure, their events, and the events of this VM.

Whatever a document holds is made harmless here, once: each text can be encoded and printed, each value has a limit.
"""

import datetime
import email.utils
import json
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .text import clean, excerpt, parse_number, sanitize_fields, sanitize_or_report, shown


class EventType(NamedTuple):
    """A type of events. ``least_notice``: seconds (docs/contract.md, section 7), ``None`` for a hint, which never
    starts. ``deletes``: whether the VM is gone afterwards.
    """

    least_notice: Optional[float]
    deletes: bool = False


TYPES = {
    "Freeze": EventType(900.0),
    "Reboot": EventType(900.0),
    "Redeploy": EventType(600.0),
    "Preempt": EventType(30.0, deletes=True),
    "Terminate": EventType(300.0, deletes=True),
    "SpotRebalanceRecommendation": EventType(None),  # of a newer preview (docs/contract.md, section 3)
}
LEAST_NOTICE = {name: kind.least_notice for name, kind in TYPES.items() if kind.least_notice is not None}
EVENT_TYPES = tuple(LEAST_NOTICE)
DELETING_TYPES = tuple(name for name, kind in TYPES.items() if kind.deletes)

SCHEDULED, STARTED, ADVISORY = "Scheduled", "Started", "Advisory"
EVENT_STATUSES = (SCHEDULED, STARTED, ADVISORY)
EVENT_SOURCES = ("Platform", "User")

# The preview put "_" before each name in Resources; no later version does (docs/contract.md, section 3).
UNDERSCORE_VERSION = "2017-03-01"
DEFAULT_API_VERSION = "2020-07-01"
API_VERSIONS = (  # newest first
    *("2024-07-09", DEFAULT_API_VERSION, "2019-08-01", "2019-04-01"),
    *("2019-01-01", "2017-11-01", "2017-08-01", UNDERSCORE_VERSION),
)

Incarnation = Union[int, str, None]

# Far beyond what the service sends, and little enough for an event to be kept, passed to a hook, and shown.
MAX_OBJECTS = 10000  # objects and lists of a document
MAX_ID, MAX_WORD, MAX_DESCRIPTION = 256, 256, 8192  # characters
MAX_INCARNATION, MAX_NOT_BEFORE = 64, 64
MAX_ADDITIONAL, MAX_UNREADABLE, MAX_ODD_RESOURCE = 16384, 1024, 256  # characters as JSON
MAX_NUMBER = 10**15
YEARS = range(1970, 2200)

_ISO_8601 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:[Zz]|([+-]\d\d):?(\d\d))?\Z", re.ASCII)
_TIME_OF_DAY = re.compile(r"\b\d\d?:\d\d:\d\d\b", re.ASCII)


class DocumentError(ValueError):
    """The text is not a Scheduled Events document, which never means that there are no events."""


class ScheduledEvent(NamedTuple):
    """One event as the service described it, with its texts cleaned.

    A field that the event lacks, or whose value has another type than it should (docs/contract.md, section 4), is
    ``None`` (``resources``: empty). ``unreadable`` keeps such values under Azure's name of the field, ``additional``
    the fields not known here; of a value that is too long or nested too deep, both keep a text that says so.
    """

    event_id: Optional[str]
    event_type: Optional[str]
    event_status: Optional[str]
    event_source: Optional[str]
    resource_type: Optional[str]
    resources: Tuple[str, ...]
    names: Tuple[str, ...]  # resources in the form in which they compare with a VM's name
    not_before: Optional[datetime.datetime]  # aware, UTC
    description: Optional[str]
    duration_in_seconds: Optional[int]
    additional: Dict[str, Any]
    unreadable: Dict[str, Any]

    def problems(self) -> List[str]:
        """One sentence for each field that could not be read, with the value as it came."""
        whose = "an event without a readable EventId" if self.event_id is None else f"event {self.event_id}"
        return [
            f"{name} {shown(json.dumps(value))} of {whose} cannot be read and counts as absent"
            for name, value in sorted(self.unreadable.items())
        ]

    @property
    def key(self) -> str:
        """The identity of the event: its EventId, which compares without regard to case; "" if it has none."""
        return (self.event_id or "").lower()

    def affects(self, vm_name: str) -> bool:
        """Whether a whole element of Resources equals the VM's name, without regard to case."""
        return bool(vm_name) and vm_name.lower() in self.names

    def is_led_by(self, vm_name: str) -> bool:
        """Whether the VM is the leader: the first element of Resources is its name."""
        return self.affects(vm_name) and self.names[0] == vm_name.lower()

    def affects_only(self, vm_name: str) -> bool:
        """Whether the event names this VM and no other."""
        return self.affects(vm_name) and set(self.names) == {vm_name.lower()}


class Document(NamedTuple):
    """One successfully read answer of the service. Compare incarnations with ``!=`` only: the number can go back.

    :param drill: key of the event that a drill has added; empty without one. ``drill_problem``: why a drill adds none.
    """

    incarnation: Incarnation
    events: Tuple[ScheduledEvent, ...]
    drill: str = ""
    drill_problem: str = ""


class Filter(NamedTuple):
    """The selected events. An empty condition holds for every event.

    ``vm_name`` set: only events that name this VM. ``hints`` false: an event with the status Advisory is selected only
    if an id, a type or a status asks for it.
    """

    event_ids: Sequence[str] = ()
    event_types: Sequence[str] = ()
    event_statuses: Sequence[str] = ()
    event_sources: Sequence[str] = ()
    vm_name: Optional[str] = None
    hints: bool = True

    def select(self, document: Document) -> Tuple[ScheduledEvent, ...]:
        """The events of the document for which every condition holds, in its order."""
        return tuple(event for event in document.events if self._matches(event))

    def _matches(self, event: ScheduledEvent) -> bool:
        asks_for_some = self.event_ids or self.event_types or self.event_statuses
        return bool(
            one_of(event.event_id, self.event_ids)
            and one_of(event.event_type, self.event_types)
            and one_of(event.event_status, self.event_statuses)
            and one_of(event.event_source, self.event_sources)
            and (self.vm_name is None or event.affects(self.vm_name))
            and (self.hints or asks_for_some or event.event_status != ADVISORY)
        )


def parse(text: Union[bytes, str], *, api_version: str) -> Document:
    """Read a response body.

    :param text: the body as it came.
    :param api_version: the version that was asked for; it decides how Resources spells a name.
    :raises DocumentError: the body is not a JSON object with an array ``Events`` of objects.
    """
    try:
        # The vendor's hosts send UTF-8, sometimes with a byte order mark, which json.loads refuses in a str.
        decoded_text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if decoded_text.count("{") + decoded_text.count("[") > MAX_OBJECTS:  # an empty one already takes 240 bytes
            raise DocumentError(f"it holds more than {MAX_OBJECTS} objects and lists: {excerpt(text)}")
        decoded = json.loads(decoded_text, parse_int=parse_number, parse_constant=str)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"it is not JSON: {error}: {excerpt(text)}") from error
    if not isinstance(decoded, dict):
        raise DocumentError(f"it is not a JSON object: {excerpt(text)}")
    events = decoded.get("Events")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise DocumentError(f"it has no array Events of objects: {excerpt(text)}")
    return Document(
        incarnation=_incarnation(decoded.get("DocumentIncarnation")),
        events=tuple(_parse_event(event, api_version=api_version) for event in events),
    )


def parse_event(raw: Any) -> ScheduledEvent:
    """Read one event, as a document of any version but the preview has it.

    :raises ValueError, TypeError, RecursionError: it is not such an event.
    """
    return parse(json.dumps({"Events": [raw]}), api_version=DEFAULT_API_VERSION).events[0]


def announcement(
    event_id: str, event_type: str, vm_name: str, *, not_before: float, description: str, duration: int = -1
) -> Dict[str, Any]:
    """An event of one VM, as a document shows it when the platform announces it.

    :param not_before: seconds since the epoch.
    """
    return {
        "EventId": event_id,
        "EventType": event_type,
        "ResourceType": "VirtualMachine",
        "Resources": [vm_name],
        "EventStatus": SCHEDULED,
        "NotBefore": email.utils.formatdate(not_before, usegmt=True),
        "Description": description,
        "EventSource": "Platform",
        "DurationInSeconds": duration,
    }


def _parse_event(raw: Dict[str, Any], *, api_version: str) -> ScheduledEvent:
    read = {name: reader(raw.get(name)) for name, (_ours, reader) in _FIELDS.items()}
    fields = {ours: read[name] for name, (ours, _reader) in _FIELDS.items()}
    resources = read["Resources"] or ()
    fields.update(resources=resources, not_before=read["NotBefore"] or None)
    return ScheduledEvent(
        **fields,
        names=tuple(plain_name(name, api_version).lower() for name in resources),
        additional=sanitize_fields({name: raw[name] for name in raw if name not in _FIELDS}, MAX_ADDITIONAL),
        unreadable={
            name: sanitize_or_report(raw[name], MAX_UNREADABLE)
            for name in _FIELDS
            if raw.get(name) is not None and read[name] is None
        },
    )


def parse_not_before(text: Optional[str]) -> Optional[datetime.datetime]:
    """Read any date form that the service and its imitations use: RFC 1123, or ISO 8601 with any or no zone.

    A wrong weekday does not matter, a date without a zone is UTC.

    :returns: an aware UTC time, or ``None`` for an unreadable text, which never means "now".
    """
    text = (text or "").strip()
    if len(text) > MAX_NOT_BEFORE:
        return None
    iso = _ISO_8601.match(text)
    try:
        if iso:
            day, time_of_day, hours, minutes = iso.groups()
            offset = datetime.timedelta(hours=abs(int(hours or 0)), minutes=int(minutes or 0))
            zone = datetime.timezone(-offset if (hours or "").startswith("-") else offset)
            moment = datetime.datetime.strptime(day + " " + time_of_day, "%Y-%m-%d %H:%M:%S").replace(tzinfo=zone)
        elif _TIME_OF_DAY.search(text):
            moment = email.utils.parsedate_to_datetime(text)  # English names whatever the locale, weekday not checked
            if str(moment.year) not in text:  # it takes the year 0001, which means "none", for 2001
                return None
        else:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        moment = moment.astimezone(datetime.timezone.utc)
        return moment if moment.year in YEARS else None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):  # all of them escape email.utils
        return None


def describe(event: ScheduledEvent, *, vm_name: str, now: float) -> Dict[str, Any]:
    """The event as users see it: what ``scheduled_events_info`` returns and what a hook reads on standard input.

    :param vm_name: the name of this VM in Azure.
    :param now: seconds since the epoch, from which ``seconds_until_not_before`` counts.
    """
    not_before = event.not_before
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "event_status": event.event_status,
        "event_source": event.event_source,
        "resource_type": event.resource_type,
        "resources": list(event.resources),
        "not_before": format_time(not_before) if not_before else None,
        "seconds_until_not_before": round(not_before.timestamp() - now, 3) if not_before else None,
        "description": event.description,
        "duration_in_seconds": event.duration_in_seconds,
        "affects_this_vm": event.affects(vm_name),
        "is_leader": event.is_led_by(vm_name),
        "additional": event.additional,
    }


def one_of(value: Optional[str], wanted: Sequence[str]) -> bool:
    """Whether the value is among the wanted words, without regard to case; true without wanted words."""
    return not wanted or (value is not None and value.lower() in [word.lower() for word in wanted])


def format_time(moment: datetime.datetime) -> str:
    """An aware time as ISO 8601 in UTC with whole seconds and ``Z``."""
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_epoch(seconds: float) -> str:
    """Seconds since the epoch, as :func:`format_time` shows them."""
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc))


def plain_name(resource: str, api_version: str) -> str:
    """The name of a VM that Resources has, without the underscore that one version puts before it."""
    return resource[1:] if api_version == UNDERSCORE_VERSION and resource.startswith("_") else resource


def _event_id(value: Any) -> Optional[str]:
    """The EventId verbatim, since it is sent back so; ``None`` if it cannot be kept as it is."""
    if isinstance(value, str) and value.strip() and len(value) <= MAX_ID and clean(value, MAX_ID) == value:
        return value
    return None


def _incarnation(value: Any) -> Incarnation:
    number = _integer(value)
    if number is not None or value is None or isinstance(value, (bool, list, dict)):
        return number
    return clean(str(value), MAX_INCARNATION)


def _not_before(value: Any) -> Union[datetime.datetime, str, None]:
    # "" is how the service says that the event has started: readable, and not a date.
    return "" if value == "" else parse_not_before(value if isinstance(value, str) else None)


def _resources(value: Any) -> Optional[Tuple[str, ...]]:
    if not isinstance(value, list):
        return None
    # An element that is not a name stays as its JSON text: it names no VM, but the event still names another VM.
    return tuple(clean(item, MAX_WORD) if isinstance(item, str) else _odd_resource(item) for item in value)


def _odd_resource(item: Any) -> str:
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)  # faster: a document of 1 MiB can have half a million numbers
    return json.dumps(sanitize_or_report(item, MAX_ODD_RESOURCE))


def _text(value: Any, limit: int = MAX_WORD) -> Optional[str]:
    return clean(value, limit) if isinstance(value, str) else None


def _integer(value: Any) -> Optional[int]:
    if isinstance(value, bool):
        return None
    whole = (
        isinstance(value, int)
        or (isinstance(value, float) and value.is_integer())
        or (isinstance(value, str) and re.match(r"-?[0-9]{1,16}\Z", value))
    )
    return int(value) if whole and abs(int(value)) < MAX_NUMBER else None


def _word_of(*known: str) -> Callable[[Any], Optional[str]]:
    """Reads a known word in its usual spelling (docs/contract.md, section 4), whatever its case; others as they are."""
    spelled = {word.lower(): word for word in known}

    def read(value: Any) -> Optional[str]:
        text = _text(value)
        return spelled.get((text or "").lower(), text)

    return read


# Azure's name of each field, ours, and what reads it.
_FIELDS: Dict[str, Tuple[str, Callable[[Any], Any]]] = {
    "EventId": ("event_id", _event_id),
    "EventStatus": ("event_status", _word_of(*EVENT_STATUSES)),
    "EventType": ("event_type", _word_of(*TYPES)),
    "ResourceType": ("resource_type", _text),
    "Resources": ("resources", _resources),
    "NotBefore": ("not_before", _not_before),
    "Description": ("description", lambda value: _text(value, MAX_DESCRIPTION)),
    "EventSource": ("event_source", _word_of(*EVENT_SOURCES)),
    "DurationInSeconds": ("duration_in_seconds", _integer),
}
