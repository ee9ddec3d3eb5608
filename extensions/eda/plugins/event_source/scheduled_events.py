# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Scheduled Events of Azure VMs as a source of ansible-rulebook.

ansible-rulebook runs this file by its path, which is also how it finds the library of the collection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

sys.path.append(str(Path(__file__).resolve().parents[4] / "plugins" / "module_utils"))

from _scheduled_events.checks import Kind, WrongValue, check_fields, choice, converted, list_of, number, show, text
from _scheduled_events.document import DEFAULT_API_VERSION, describe, parse
from _scheduled_events.exchange import API_VERSION, DEFAULT_ENDPOINT, ENDPOINT, MAX_BODY
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
short_description: Receive the Scheduled Events of Azure VMs
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Polls the metadata service of one or several VMs. Sends an event to the rulebook when Azure announces a maintenance
    (C(change) is V(new)), when the announcement changes (V(changed)), and when the maintenance is over or cancelled
    (V(gone)).
  - Each event has the fields that M(maintops.scheduled_events.scheduled_events_info) returns, and C(change), C(id),
    C(repeated), C(vm_name) and C(endpoint).
  - C(id) is the same for the same content of an event, from all endpoints, after a lost connection, and after a
    restart. Use it in C(throttle) to act once.
  - Each event is delivered at least once. After a restart all events that Azure announces at that time are V(new).
    Since an action can fail, an event that is still V(Scheduled) is sent again, see O(repeat). C(repeated) is the
    number of repetitions.
  - While the rulebook accepts no events because of running actions, only the latest change of each event waits.
  - A failed poll (no connection, an error, an empty or broken answer) changes nothing. The source runs until
    ansible-rulebook stops it.
  - A metadata service answers only inside its VM. Run ansible-rulebook on a VM, or forward the endpoints to the host of
    ansible-rulebook.
options:
  endpoints:
    description:
      - Base URLs of the metadata services to poll.
      - An element is a URL, or a dictionary of C(endpoint) and C(vm_name), the name of the VM in Azure. Without a name,
        the source asks the service for it.
    type: list
    elements: raw
    default: [http://169.254.169.254]
  scope:
    description:
      - V(all) sends every event that the endpoint has. All VMs of an availability set or of a placement group see the
        same events, so one endpoint is sufficient for them. V(this_vm) sends only the events that name the VM of the
        endpoint.
    type: str
    choices: [this_vm, all]
    default: all
  limit_to_resources:
    description:
      - Whether to set C(meta.hosts) to the VMs that the event names. ansible-rulebook limits C(run_playbook) and
        C(run_job_template) to these hosts. With V(false), they run on all hosts of the rulebook.
      - With V(true), an event without a VM that can be a host of the inventory is not sent, and causes a warning.
    type: bool
    default: true
  host_names:
    description:
      - Inventory names by the names of VMs in Azure, for O(limit_to_resources). Upper and lower case of the names in
        Azure do not matter. A VM that is not listed has the same name in both.
      - List each VM whose inventory name has capital letters. An event can have its name in lower case, and Ansible
        finds no host then.
    type: dict
    default: {}
  interval:
    description:
      - Seconds between two polls of an endpoint, from 0.25 to 5. After failed polls the source waits longer, up to 5
        seconds.
    type: float
    default: 1
  repeat:
    description:
      - Seconds after which an event that is still V(Scheduled) is sent again. Each further repetition comes after twice
        the time of the one before. V(0) sends the event once.
    type: float
    default: 300
  request_timeout:
    description:
      - Seconds for one answer. The first request to the service can take two minutes.
      - After a poll that succeeded, an answer has 10 seconds at most. So a dead connection hides no event for long.
    type: float
    default: 125
  api_version:
    description:
      - Version of the Scheduled Events API.
    type: str
    default: '2020-07-01'
  feedback:
    description:
      - Whether to send an event again until the rules have taken it, every 60 seconds.
      - Needs the option C(--persistence-id) of ansible-rulebook 1.3. With a database, an action that was interrupted
        when ansible-rulebook was killed runs again after its start.
      - V(true) must be a literal, since ansible-rulebook reads it before it evaluates variables.
    type: bool
    default: false
notes:
  - Proxy variables are ignored, and redirects are not followed. An answer of more than 1 MiB is a failed poll.
  - If a text of an event contains the start of an Ansible template, the source inserts a space there, so that no play
    evaluates the template.
"""

EXAMPLES = r"""
- name: Respond to the events of this VM and its neighbours
  hosts: all
  execution_strategy: parallel
  sources:
    - maintops.scheduled_events.scheduled_events:
        host_names:
          web_0: web0.example.org
          web_1: web1.example.org
  rules:
    - name: An event is announced, has changed, or is over
      condition: event.change is defined
      throttle:
        once_within: 1 minutes
        group_by_attributes:
          - event.id
      action:
        run_playbook:
          name: maintops.scheduled_events.respond
          lock: '{{ event.event_id }} {{ event.resources | join(" ") }}'
"""

EVENTS_PATH = "/metadata/scheduledevents"
FEEDBACK_QUEUE = "eda_feedback_queue"  # what ansible-rulebook adds to the arguments
NAME_PATH = "/metadata/instance/compute/name"
NAME_QUERY = {"api-version": "2017-08-01", "format": "text"}

CONNECT_TIMEOUT = 5.0
TIMEOUT_AFTER_SUCCESS = 10.0
LONGEST_PAUSE = 5.0
FEEDBACK_TIMEOUT = 60.0

LOGGER = logging.getLogger("maintops.scheduled_events")


# Arguments of the rulebook


class Endpoint(NamedTuple):
    """One metadata service. ``vm_name`` None: ask it."""

    url: str
    vm_name: str | None


class SourceSettings(NamedTuple):
    """The arguments of the source, checked."""

    endpoints: tuple[Endpoint, ...] = (Endpoint(DEFAULT_ENDPOINT, None),)
    scope: str = "all"
    limit_to_resources: bool = True
    host_names: dict[str, str] = {}
    interval: float = 1
    repeat: float = 300
    request_timeout: float = 125
    api_version: str = DEFAULT_API_VERSION
    feedback: bool = False


def read_settings(args: dict[str, Any]) -> SourceSettings:
    """Check the arguments.

    :raises WrongValue: one of them cannot be used; the message names it and its value.
    """
    given = {name: value for name, value in args.items() if name != FEEDBACK_QUEUE}
    return SourceSettings(**check_fields(given, _KINDS, required=list(given)))


def _endpoints(value: Any, place: str) -> tuple[Endpoint, ...]:
    endpoints: tuple[Endpoint, ...] = _LIST_OF_ENDPOINTS.read(value, place)
    urls = [endpoint.url for endpoint in endpoints]
    for url in urls:
        if urls.count(url) > 1:
            raise WrongValue(f"{place}: expected each endpoint once, not {show(url)} twice")
    return endpoints


def _endpoint(item: Any, place: str) -> Endpoint:
    fields = item if isinstance(item, dict) else {"endpoint": item}
    checked = check_fields(fields, _ENDPOINT, place=place, required=["endpoint"])
    return Endpoint(checked["endpoint"], checked.get("vm_name"))


# A variable of the rulebook can be a string, and YAML takes a version for a date where it is not quoted.


def _seconds(least: float, most: float) -> Kind:
    kind = number(least, most, "seconds")
    return kind._replace(read=lambda value, place: kind.read(float(value) if isinstance(value, str) else value, place))


_ENDPOINT = {
    "endpoint": ENDPOINT,
    "vm_name": converted(
        "the name of the VM in Azure; leave it out to ask the service",
        lambda value: text(pattern=".+").read(value.strip(), ""),
    ),
}
_LIST_OF_ENDPOINTS = list_of(Kind("a URL", _endpoint), "URLs, or of dictionaries of endpoint and vm_name", least=1)
_KINDS = {
    "endpoints": Kind(_LIST_OF_ENDPOINTS.expected, _endpoints),
    "scope": choice("this_vm", "all"),
    "limit_to_resources": BOOLEAN,
    "host_names": converted("a dictionary of names of VMs to names of the inventory", host_names_of),
    "interval": _seconds(0.25, 5.0),
    "repeat": _seconds(0.0, 1e9),
    "request_timeout": _seconds(0.001, 3600.0),
    "api_version": API_VERSION._replace(read=lambda value, place: API_VERSION.read(str(value), place)),
    "feedback": BOOLEAN,
}


# Documents of the service


def read_events(body: bytes, *, vm_name: str, api_version: str) -> list[dict[str, Any]]:
    """The events of a document as scheduled_events_info shows them, but without ``seconds_until_not_before``.

    :raises ValueError: the body is not a document.
    """
    events = parse(body, api_version=api_version).events
    return [as_variables(describe(event, vm_name=vm_name, now=time.time())) for event in events]


# What the rulebook hears


class Known(NamedTuple):
    """An event as it was last sent."""

    event: dict[str, Any]
    id: str
    change: str
    repeated: int
    sent_at: float


class News:
    """Compares each document of one endpoint with the one before."""

    def __init__(self, repeat: float) -> None:
        self._repeat = repeat
        self._known: dict[str, Known] = {}

    def of(self, events: list[dict[str, Any]], now: float) -> list[tuple[str, Known]]:
        """What is to be sent after a successful poll: the event's key, and how it is sent.

        :param now: seconds of a clock that never goes back.
        """
        before, self._known = self._known, {}
        news = []
        for event in events:
            told = content_id(event)
            key = (event["event_id"] or told).lower()
            known = self._next(before.get(key), Known(event, told, "new", 0, now))
            self._known[key] = known
            if known.sent_at == now:
                news.append((key, known))
        for key, known in before.items():
            if key not in self._known:
                gone_id = f"{(known.event['event_id'] or known.id).lower()}-gone"
                news.append((key, known._replace(id=gone_id, change="gone", repeated=0, sent_at=now)))
        return news

    def _next(self, before: Known | None, now: Known) -> Known:
        if before is None:
            return now
        if before.id != now.id:
            return now._replace(change="changed")
        waits = now.event["event_status"] == "Scheduled" and self._repeat > 0
        if waits and now.sent_at - before.sent_at >= self._repeat * 2**before.repeated:
            return now._replace(change=before.change, repeated=before.repeated + 1)
        return before


class Outbox:
    """The newest news of each event, until the rulebook takes it."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}
        self._filled = asyncio.Event()

    def add(self, key: tuple[str, str], message: dict[str, Any]) -> None:
        earlier = self._waiting.get(key)
        if earlier:
            if (earlier["change"], message["change"]) == ("new", "changed"):
                message["change"] = "new"  # no consumer has received it yet
            message["repeated"] = min(earlier["repeated"], message["repeated"])
        self._waiting[key] = message
        self._filled.set()

    async def take(self) -> dict[str, Any]:
        await self._filled.wait()
        message = self._waiting.pop(next(iter(self._waiting)))
        if not self._waiting:
            self._filled.clear()
        return message


class Feedback:
    """The rules say which events they have taken."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._awaited: tuple[Any, ...] = ()
        self._taken = asyncio.Event()

    async def run(self) -> None:
        while True:  # also while nothing is awaited: the rules wait for a place in the queue
            if _sending(await self._queue.get()) == self._awaited:
                self._taken.set()

    async def send(self, queue: Any, message: dict[str, Any]) -> bool:
        """Send an event, and return whether the rules have taken it."""
        self._awaited = _sending(message)
        self._taken.clear()
        await queue.put(message)
        try:
            await asyncio.wait_for(self._taken.wait(), FEEDBACK_TIMEOUT)
        except asyncio.TimeoutError:
            LOGGER.warning("event %s is sent again: the rules have not taken it", message["event_id"])
        return self._taken.is_set()


def _sending(message: dict[str, Any]) -> tuple[Any, ...]:
    return message.get("endpoint"), message.get("id"), message.get("repeated")


# Polling


class Watch:
    """Polls one endpoint for ever."""

    def __init__(
        self, endpoint: Endpoint, settings: SourceSettings, session: aiohttp.ClientSession, outbox: Outbox
    ) -> None:
        self._url, self._vm_name = endpoint
        self._settings = settings
        self._session = session
        self._outbox = outbox
        self._news = News(settings.repeat)
        self._trouble = ""
        self._pause = settings.interval
        self._timeout = settings.request_timeout

    async def run(self) -> None:
        while True:
            try:
                await self._poll()
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
                self._note(str(error) or type(error).__name__)  # a timeout has no text
                self._pause = max(self._settings.interval, min(self._pause * 2, LONGEST_PAUSE))
                self._timeout = self._settings.request_timeout
            else:
                self._note("")
                self._pause = self._settings.interval
                self._timeout = min(TIMEOUT_AFTER_SUCCESS, self._settings.request_timeout)
            await asyncio.sleep(self._pause)

    def _note(self, trouble: str) -> None:
        """Log what is different from the last poll, not every failure of an outage."""
        trouble = shown(trouble, 300)
        if trouble and trouble != self._trouble:
            LOGGER.warning("%s: a poll failed, which changes nothing: %s", self._url, trouble)
        elif self._trouble and not trouble:
            LOGGER.warning("%s: answers again", self._url)
        self._trouble = trouble

    async def _poll(self) -> None:
        if self._vm_name is None:
            self._vm_name = await self._ask_name()
        body = await self._get(EVENTS_PATH, {"api-version": self._settings.api_version})
        events = read_events(body, vm_name=self._vm_name, api_version=self._settings.api_version)
        wanted = [event for event in events if self._settings.scope == "all" or event["affects_this_vm"]]
        for key, known in self._news.of(wanted, asyncio.get_running_loop().time()):
            self._send(key, known)

    def _send(self, key: str, known: Known) -> None:
        message = {
            **known.event,
            "change": known.change,
            "id": known.id,
            "repeated": known.repeated,
            "vm_name": harmless(self._vm_name),
            "endpoint": self._url,
        }
        if self._settings.limit_to_resources:
            hosts = hosts_of(known.event, self._settings.host_names, self._settings.api_version)
            if not hosts:
                # An empty list would be no limit at all.
                LOGGER.warning(
                    "%s: event %s is not sent: none of its resources %s is a name of a host; give host_names",
                    self._url,
                    key,
                    json.dumps(known.event["resources"])[:300],
                )
                return
            message["meta"] = {"hosts": hosts}
        self._outbox.add((self._url, key), message)

    async def _ask_name(self) -> str:
        name = (await self._get(NAME_PATH, NAME_QUERY)).decode("utf-8-sig").strip()
        if not 0 < len(name) <= 256 or not name.isprintable() or "<" in name:
            raise ValueError("it is not the name of a VM; check the endpoint, or give vm_name")
        return name

    async def _get(self, path: str, query: dict[str, str]) -> bytes:
        """The body of an answer with status 200, whole and not empty.

        :raises ValueError: the answer is not usable, which never means that there are no events.
        """
        limit = aiohttp.ClientTimeout(total=self._timeout, sock_connect=CONNECT_TIMEOUT)
        async with self._session.get(self._url + path, params=query, allow_redirects=False, timeout=limit) as answer:
            if answer.status != 200:
                raise ValueError(f"GET {path} answered {answer.status} {answer.reason}")
            body = bytearray()
            async for part in answer.content.iter_chunked(65536):
                body += part
                if len(body) > MAX_BODY:
                    raise ValueError(f"GET {path} answered with more than {MAX_BODY} bytes")
        if not body.strip():
            raise ValueError(f"GET {path} answered 200 with an empty body: no document yet")
        return bytes(body)


async def main(queue: Any, args: dict[str, Any]) -> None:
    """Send the events of all endpoints to the rulebook, until cancelled.

    :raises ValueError: an argument cannot be used.
    """
    settings = read_settings(args)
    outbox = Outbox()

    feedback = Feedback(args[FEEDBACK_QUEUE]) if FEEDBACK_QUEUE in args else None

    async def send() -> None:
        while True:
            message = with_time_left(await outbox.take())
            if feedback is None:
                await queue.put(message)
                continue
            while not await feedback.send(queue, message):
                message = with_time_left(message)

    async with aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(limit=0),  # endpoints that do not answer take no place of another
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Metadata": "true", "Accept-Encoding": "identity"},
        trust_env=False,
    ) as session:
        watches = [Watch(endpoint, settings, session, outbox) for endpoint in settings.endpoints]
        # put waits while actions run, and polling goes on meanwhile.
        tasks = [asyncio.create_task(send()), *(asyncio.create_task(watch.run()) for watch in watches)]
        if feedback is not None:
            tasks.append(asyncio.create_task(feedback.run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
