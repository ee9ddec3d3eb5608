# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages of Azure Event Grid about Scheduled Events, in the shape of the event source of this collection.

ansible-rulebook runs this file by its path, once for each source, which is also how it finds the library of the
collection.
"""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
import re
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[4] / "plugins" / "module_utils"))

from _scheduled_events.checks import check, show
from _scheduled_events.document import describe, format_time, parse_event, parse_not_before
from _scheduled_events.files import write_atomically
from _scheduled_events.rulebook import (
    BOOLEAN,
    as_variables,
    content_id,
    harmless,
    host_names_of,
    hosts_of,
    with_time_left,
)
from _scheduled_events.text import shown

DOCUMENTATION = r"""
---
short_description: Turn messages of Azure Event Grid into Scheduled Events
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Reads the messages that Azure Event Grid sends about Scheduled Events, in the schema of Event Grid or as
    CloudEvents, from P(azure.azcollection.azure_service_bus#event_source), a webhook, an event stream of Automation
    Platform, or a file. A list of messages becomes one event for each message.
  - The result has the fields of the event source P(maintops.scheduled_events.scheduled_events#event_source), except
    those that depend on a VM, and C(vms), a list of C(name) and C(resource_id).
  - C(change) is V(new), V(changed), or V(gone). With V(gone), C(event_status) is V(Completed) or
    V(Canceled), which a VM never shows.
  - Messages can repeat and overtake one another. Each change of an event passes once. What is older than what has
    passed changes nothing.
  - What is not passed on as a change has no C(change), and C(ignored) has the reason. V(malformed) messages are
    counted in C(malformed) and shown in the log. A source that waits for feedback gets one event for each message.
  - Without C(memory_file), a repeated message is V(new) again after a restart of ansible-rulebook.
options:
  host_names:
    description:
      - Inventory names by the names of VMs in Azure, or by their resource ids where two VMs have the same name. Upper
        and lower case do not matter. A VM that is not listed has the same name in both.
      - List each VM whose inventory name has capital letters. An event can have its name in lower case, and Ansible
        finds no host then.
    type: dict
    default: {}
  limit_to_resources:
    description:
      - Whether to set C(meta.hosts) to the VMs that the event names. ansible-rulebook limits C(run_playbook) and
        C(run_job_template) to these hosts.
      - With V(true), an event without a VM that can be a host of the inventory is ignored.
    type: bool
    default: true
  memory_file:
    description:
      - A file of this filter alone, where it remembers the changes that have passed. Use it with C(--persistence-id) of
        ansible-rulebook. A change is written once the rules have it. Only then does a webhook answer, or a queue of
        Service Bus drop the message. A kill loses none, and repeats one only if it comes between the two.
      - Not for a source that waits for feedback.
    type: path
"""

EXAMPLES = r"""
- name: Respond to the events of a subscription
  hosts: all
  execution_strategy: parallel
  sources:
    - azure.azcollection.azure_service_bus:
        conn_str: "{{ connection_string }}"
        queue_name: scheduled-events
      filters:
        - maintops.scheduled_events.azure_events:
            host_names:
              web_0: web0.example.org
  rules:
    - name: An event is announced
      condition: event.change == "new" and event.event_status == "Scheduled"
      action:
        run_job_template:
          name: Respond to maintenance
          organization: Default
"""

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGGER = logging.getLogger("maintops.scheduled_events")

EVENT_TYPES = (
    "microsoft.resourcenotifications.maintenanceresources.scheduledeventemitted",
    "microsoft.maintenance/scheduledevents/write",
)
VALIDATION = "microsoft.eventgrid.subscriptionvalidationevent"
OVER = ("Completed", "Canceled")
ORDER = {"Scheduled": 0, "Started": 1, **dict.fromkeys(OVER, 2)}  # an event never goes back
REMEMBERED = 20_000  # events, the oldest of which are forgotten
CHANGES = 50  # of one event that are remembered
MOST_MESSAGES = 5_000  # of one list; Event Grid sends at most 1 MiB

_EVENT = re.compile(r"/providers/microsoft\.maintenance/scheduledevents/[^/]+\Z", re.IGNORECASE)
_SET = re.compile(
    r"(/subscriptions/[\w-]+/resourceGroups/[\w.()-]+/providers/Microsoft\.Compute)/(\w+)/([\w.-]+)\Z", re.IGNORECASE
)
_FRACTION = re.compile(r"\.(\d+)")


class Passed(NamedTuple):
    """The changes of an event that have passed: their ids, and the order of the last one."""

    ids: tuple[str, ...]
    order: tuple[int, str, str]


_KNOWN: collections.OrderedDict[str, Passed] = collections.OrderedDict()
_COUNTS: collections.Counter[str] = collections.Counter()
_READ: set[str] = set()  # the memory files


class Taken(dict[str, Any]):
    """Not an event: ansible-rulebook asks whether it is empty, after the rules have got what comes before it."""

    def __init__(self, path: str, lines: list[bytes]) -> None:
        super().__init__()
        self._path, self._lines = path, lines

    def __bool__(self) -> bool:
        try:
            with open(self._path, "ab") as memory:
                memory.writelines(self._lines)
                memory.flush()
                os.fsync(memory.fileno())
        except OSError as error:  # it would end the rulebook
            LOGGER.error("what has passed cannot be remembered after a restart: %s", error)
        return False


def main(
    event: dict[str, Any],
    host_names: dict[str, str] | None = None,
    limit_to_resources: bool = True,
    memory_file: str | None = None,
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return an event for each message.

    :raises ValueError: an argument cannot be used.
    """
    names, limit = host_names_of(host_names or {}), check(limit_to_resources, BOOLEAN, "limit_to_resources")
    if memory_file and str(memory_file) not in _READ:
        try:
            _read_memory(Path(memory_file))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(
                f"memory_file is {show(memory_file)}, expected a file that can be written: {error}"
            ) from error
        _READ.add(memory_file)
    meta = event.get("meta")  # the path and the headers of the request to a webhook
    meta = harmless(meta) if isinstance(meta, dict) else {}
    found = [_read(message, names, limit) for message in _messages(event)]
    events = [{**harmless(each), "meta": {**meta, **each.get("meta", {})}} for each in found]
    if memory_file:
        # The queue holds one event: when the second of these is in it, the first one was taken.
        keys = [each["event_id"].lower() for each in events if "change" in each]
        return [*events, Taken(memory_file, _lines(keys)), Taken(memory_file, [])]
    return events[0] if len(events) == 1 else events


def _read_memory(path: Path) -> None:
    """Take up what has passed before, and leave one line for each event in the file."""
    content = path.read_bytes() if path.exists() else b""
    for line in content.splitlines():
        with contextlib.suppress(ValueError, TypeError):  # the last line was not completely written
            key, ids, order = json.loads(line)
            _KNOWN[key] = Passed(tuple(ids), tuple(order))
            _KNOWN.move_to_end(key)
    write_atomically(path, b"".join(_lines(list(_KNOWN)[-REMEMBERED:])), mode=0o600, durable=True)


def _lines(keys: list[str]) -> list[bytes]:
    return [json.dumps([key, *_KNOWN[key]]).encode() + b"\n" for key in keys if key in _KNOWN]


def _messages(event: dict[str, Any]) -> Iterator[Any]:
    """The messages, wherever the source has put them."""
    content = next((event[place] for place in ("payload", "body") if place in event), event)
    if isinstance(content, str):
        with contextlib.suppress(ValueError, RecursionError):  # a text is not a message either
            content = json.loads(content)
    messages = content if isinstance(content, list) and content else [content]
    yield from messages[:MOST_MESSAGES]
    if len(messages) > MOST_MESSAGES:
        yield f"{len(messages) - MOST_MESSAGES} more messages"


def _read(message: Any, host_names: dict[str, str], limit: bool) -> dict[str, Any]:
    try:
        read = _event_of(message)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        _COUNTS["malformed"] += 1
        text = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        reason = shown(text, 1200)  # with the whole url of a validation
        LOGGER.warning("message %s cannot be read: %s: %s", _COUNTS["malformed"], reason, _beginning(message))
        return {"ignored": "malformed", "malformed": _COUNTS["malformed"], "reason": reason}
    if limit:
        hosts = _hosts_of(read, host_names)
        if not hosts:  # an empty list would be no limit at all
            LOGGER.warning(
                "event %s is ignored: none of its resources %s is a name of a host; give host_names",
                read["event_id"],
                show(read["resources"]),
            )
            return {"ignored": "without_hosts", "event_id": read["event_id"]}
        read["meta"] = {"hosts": hosts}
    return _as_change(read)


def _beginning(message: Any) -> str:
    try:
        return shown(json.dumps(message, default=str), 300)
    except (ValueError, RecursionError):
        return show(message)


def _event_of(message: Any) -> dict[str, Any]:
    """The event of a message, with its ``order``.

    :raises ValueError: it has another type, or no event.
    """
    if not isinstance(message, dict):
        raise ValueError(f"it is {show(message)}, expected an object with the fields of Event Grid")
    kind = str(message.get("eventType") or message.get("type") or "").lower()
    if kind == VALIDATION:
        url = shown(str(message["data"].get("validationUrl", "")), 1000)
        raise ValueError(f"Event Grid asks whether this webhook may get its messages. Open within 10 minutes: {url}")
    if kind not in EVENT_TYPES:
        raise ValueError(f"its type is {show(kind)}, expected {' or '.join(EVENT_TYPES)}")
    info = message["data"]["resourceInfo"]
    properties = {**info["properties"]}
    properties.setdefault("EventId", info.get("name"))
    event = parse_event(properties)  # each field is the same in a document
    status = next((word for word in ORDER if word.lower() == (event.event_status or "").lower()), None)
    found = as_variables(describe(event, vm_name="", now=time.time()))
    if found["event_id"] is None or status is None:
        raise ValueError(
            f"its EventId is {show(properties['EventId'])} and its EventStatus {show(event.event_status)}, expected an "
            f"id and one of {', '.join(ORDER)}"
        )
    text = str(message.get("eventTime") or message.get("time") or "")
    sent_at, fraction = parse_not_before(_FRACTION.sub("", text)), _FRACTION.search(text)
    if sent_at is None:
        raise ValueError(f"its time is {show(text)}, expected ISO 8601")
    del found["affects_this_vm"], found["is_leader"]
    target = _EVENT.sub("", str(info.get("id", "")))
    vms = [{"name": name, "resource_id": resource_id_of(target, name)} for name in found["resources"]]
    order = (ORDER[status], format_time(sent_at), fraction.group(1).ljust(9, "0") if fraction else "")
    return {**found, "event_status": status, "vms": vms, "order": order}


def resource_id_of(target: str, name: str) -> str:
    """The resource id of a VM of an event; empty if the id of the event does not show it.

    :param target: the resource that the event belongs to: the VM, its scale set, or its availability set.
    """
    found = _SET.match(target)
    if not found:
        return ""
    compute, kind, resource = found.groups()
    instance = re.match(rf"{re.escape(resource)}_([0-9]+)\Z", name, re.IGNORECASE)
    if kind.lower() == "virtualmachinescalesets" and instance:
        return f"{target}/virtualMachines/{instance.group(1)}"
    return f"{compute}/virtualMachines/{name}"  # also in a flexible scale set


def _hosts_of(event: dict[str, Any], host_names: dict[str, str]) -> list[str]:
    by_name = dict(host_names)
    for vm in event["vms"]:
        if vm["resource_id"].lower() in host_names:
            by_name[vm["name"].lower()] = host_names[vm["resource_id"].lower()]
    return hosts_of(event, by_name)


def _as_change(event: dict[str, Any]) -> dict[str, Any]:
    key, order = event["event_id"].lower(), event.pop("order")
    this = content_id({name: value for name, value in event.items() if name != "meta"})
    passed = _KNOWN.get(key)
    if passed and this in passed.ids and (this == passed.ids[-1] or order <= passed.order):
        return {"ignored": "repeated", "event_id": event["event_id"]}
    if passed and (order < passed.order or passed.order[0] == ORDER["Completed"]):
        return {"ignored": "overtaken", "event_id": event["event_id"]}
    _KNOWN[key] = Passed((*(passed.ids[-CHANGES:] if passed else ()), this), order)
    _KNOWN.move_to_end(key)
    if len(_KNOWN) > REMEMBERED:
        _KNOWN.popitem(last=False)
    change = "gone" if event["event_status"] in OVER else "changed" if passed else "new"
    # ansible-rulebook drops what it has stored before it was killed, and could not be remembered.
    what = f"{this} {order}" if change == "changed" else f"{key} {change}"
    meta = {**event.get("meta", {}), "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, what))}
    return with_time_left({**event, "change": change, "id": this, "repeated": 0, "meta": meta})
