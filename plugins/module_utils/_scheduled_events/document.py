# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure says: documents, their events, which of them are mine, and what changed from one to the next."""

import datetime
import email.utils
import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

EVENT_TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
EVENT_STATUSES = ("Scheduled", "Started")
EVENT_SOURCES = ("Platform", "User")

# The preview put "_" before each name in Resources; no later version does (contract: table of api-versions).
UNDERSCORE_VERSION = "2017-03-01"

Incarnation = Union[int, str, None]

_FIELDS = (
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
)
_ISO_8601 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:[Zz]|([+-]\d\d):?(\d\d))?\Z")
_TIME_OF_DAY = re.compile(r"\b\d\d?:\d\d:\d\d\b")


class DocumentError(ValueError):
    """The text is no Scheduled Events document, which never means that there are no events."""


class ScheduledEvent(NamedTuple):
    """One event as the service described it.

    A field that the event lacks, or whose value has another type than the contract gives, is ``None`` (``resources``:
    empty). ``unreadable`` keeps such values under Azure's name of the field, ``additional`` the fields not known here.
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
        return [
            f"{name} {json.dumps(value)} of event {self.event_id} cannot be read and counts as absent"
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
    """One successfully read answer of the service. Compare incarnations with ``!=`` only: the number can go back."""

    incarnation: Incarnation
    events: Tuple[ScheduledEvent, ...]

    def find(self, event_id: str) -> Optional[ScheduledEvent]:
        """The event with this EventId in any case, or ``None``."""
        wanted = event_id.lower()
        return next((event for event in self.events if event.key == wanted), None)


class Filter(NamedTuple):
    """Which events somebody asks for. A condition that is empty holds for every event.

    ``vm_name`` set: only events that name this VM.
    """

    event_ids: Sequence[str] = ()
    event_types: Sequence[str] = ()
    event_statuses: Sequence[str] = ()
    event_sources: Sequence[str] = ()
    vm_name: Optional[str] = None

    def select(self, document: Document) -> Tuple[ScheduledEvent, ...]:
        """The events of the document for which every condition holds, in its order."""
        return tuple(event for event in document.events if self._matches(event))

    def _matches(self, event: ScheduledEvent) -> bool:
        return (
            one_of(event.event_id, self.event_ids)
            and one_of(event.event_type, self.event_types)
            and one_of(event.event_status, self.event_statuses)
            and one_of(event.event_source, self.event_sources)
            and (self.vm_name is None or event.affects(self.vm_name))
        )


class Changes(NamedTuple):
    """What distinguishes a document from the one before it."""

    appeared: Tuple[ScheduledEvent, ...]
    updated: Tuple[ScheduledEvent, ...]
    vanished: Tuple[ScheduledEvent, ...]


def parse(text: Union[bytes, str], *, api_version: str) -> Document:
    """Read a response body.

    :param text: the body as it came.
    :param api_version: the version that was asked for; it decides how Resources spells a name.
    :raises DocumentError: the body is not a JSON object with an array ``Events`` of objects.
    """
    try:
        # The vendor's hosts send UTF-8, sometimes with a byte order mark, which json.loads refuses in a str.
        decoded = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"no JSON: {error}: {excerpt(text)}") from error
    if not isinstance(decoded, dict):
        raise DocumentError(f"a JSON object was expected: {excerpt(text)}")
    events = decoded.get("Events")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise DocumentError(f"an array Events of objects was expected: {excerpt(text)}")
    incarnation = decoded.get("DocumentIncarnation")
    number = _integer(incarnation)
    return Document(
        incarnation=incarnation if number is None and isinstance(incarnation, str) else number,
        events=tuple(_parse_event(event, api_version=api_version) for event in events),
    )


def _parse_event(raw: Dict[str, Any], *, api_version: str) -> ScheduledEvent:
    resources = _resources(raw.get("Resources"))
    not_before_text = _text(raw.get("NotBefore"))
    read: Dict[str, Any] = {
        "EventId": _text(raw.get("EventId")),
        "EventStatus": _known(_text(raw.get("EventStatus")), EVENT_STATUSES),
        "EventType": _known(_text(raw.get("EventType")), EVENT_TYPES),
        "ResourceType": _text(raw.get("ResourceType")),
        "Resources": resources,
        # "" is how the service says that the event has started: readable, and no date.
        "NotBefore": "" if not_before_text == "" else parse_not_before(not_before_text),
        "Description": _text(raw.get("Description")),
        "EventSource": _known(_text(raw.get("EventSource")), EVENT_SOURCES),
        "DurationInSeconds": _integer(raw.get("DurationInSeconds")),
    }
    return ScheduledEvent(
        event_id=read["EventId"],
        event_type=read["EventType"],
        event_status=read["EventStatus"],
        event_source=read["EventSource"],
        resource_type=read["ResourceType"],
        resources=resources or (),
        names=tuple(_comparable(name, api_version) for name in resources or ()),
        not_before=read["NotBefore"] or None,
        description=read["Description"],
        duration_in_seconds=read["DurationInSeconds"],
        additional={name: value for name, value in raw.items() if name not in _FIELDS},
        unreadable={name: raw[name] for name in _FIELDS if raw.get(name) is not None and read[name] is None},
    )


def parse_not_before(text: Optional[str]) -> Optional[datetime.datetime]:
    """Read any date form that the service and its imitations use: RFC 1123, or ISO 8601 with any or no zone.

    A wrong weekday does not matter, a date without a zone is UTC.

    :returns: an aware UTC time, or ``None`` for an unreadable text, which never means "now".
    """
    text = (text or "").strip()
    iso = _ISO_8601.match(text)
    try:
        if iso:
            day, time_of_day, hours, minutes = iso.groups()
            moment = datetime.datetime.strptime(day + " " + time_of_day, "%Y-%m-%d %H:%M:%S")
            offset = datetime.timedelta(hours=abs(int(hours or 0)), minutes=int(minutes or 0))
            moment += offset if (hours or "").startswith("-") else -offset
        elif _TIME_OF_DAY.search(text):
            moment = email.utils.parsedate_to_datetime(text)  # English names whatever the locale, weekday not checked
        else:
            return None
        if moment.tzinfo is None:
            return moment.replace(tzinfo=datetime.timezone.utc)
        return moment.astimezone(datetime.timezone.utc)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def changes(previous: Optional[Document], current: Document) -> Changes:
    """Compare two documents by EventId. Without a previous document, every event has appeared.

    An event without an EventId cannot be followed from one document to the next and is left out.
    """
    before = {event.key: event for event in (previous.events if previous else ()) if event.key}
    after = {event.key: event for event in current.events if event.key}
    return Changes(
        appeared=tuple(event for key, event in after.items() if key not in before),
        updated=tuple(event for key, event in after.items() if key in before and event != before[key]),
        vanished=tuple(event for key, event in before.items() if key not in after),
    )


def describe(event: ScheduledEvent, *, vm_name: str, now: datetime.datetime) -> Dict[str, Any]:
    """The event as users see it: what ``scheduled_events_info`` returns and what a hook reads on standard input.

    :param vm_name: the name of this VM in Azure.
    :param now: an aware time, from which ``seconds_until_not_before`` counts.
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
        "seconds_until_not_before": round((not_before - now).total_seconds(), 3) if not_before else None,
        "description": event.description,
        "duration_in_seconds": event.duration_in_seconds,
        "affects_this_vm": event.affects(vm_name),
        "is_leader": event.is_led_by(vm_name),
        "additional": event.additional,
    }


def one_of(value: Optional[str], wanted: Sequence[str]) -> bool:
    """Whether the value is among the wanted words, without regard to case; true if none is wanted in particular."""
    return not wanted or (value is not None and value.lower() in [word.lower() for word in wanted])


def format_time(moment: datetime.datetime) -> str:
    """An aware time as ISO 8601 in UTC with whole seconds and ``Z``."""
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _comparable(name: str, api_version: str) -> str:
    if api_version == UNDERSCORE_VERSION and name.startswith("_"):
        name = name[1:]
    return name.lower()


def _resources(value: Any) -> Optional[Tuple[str, ...]]:
    if not isinstance(value, list):
        return None
    # An element that is no name stays as its JSON text: it names nobody, yet the event still names somebody else.
    return tuple(item if isinstance(item, str) else json.dumps(item) for item in value)


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> Optional[int]:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.match(r"-?[0-9]{1,18}\Z", value):
        return int(value)
    return None


def _known(value: Optional[str], known: Tuple[str, ...]) -> Optional[str]:
    """The contract's spelling of a known word that came in another case; an unknown word passes through."""
    lowered = (value or "").lower()
    return next((word for word in known if word.lower() == lowered), value)


def excerpt(text: Union[bytes, str]) -> str:
    """The beginning of a text in quotes and on one line, fit for a message."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    shown = " ".join(shown.split())
    return f'"{shown}"' if len(shown) <= 200 else f'"{shown[:200]}…"'
