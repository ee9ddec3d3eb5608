# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection of the library to AnsibleModule. Private to the collection: it may change in any release."""

import re
from typing import Any, Callable, Dict, Iterable, List, Optional

from ansible.module_utils.basic import missing_required_lib

from ._checked_module import CheckedModule
from ._scheduled_events.announced import DIRECTORY as DRILL_DIRECTORY
from ._scheduled_events.announced import PREFIX as DRILL_PREFIX
from ._scheduled_events.checks import WrongValue, check
from ._scheduled_events.client import REQUEST_TIMEOUT, REQUESTS_IMPORT_ERROR, RETRY_FOR, ImdsClient, ImdsError
from ._scheduled_events.clock import CLOCK, Clock
from ._scheduled_events.discovery import DEFAULT_NETWORKS, ENDPOINT_OR_AUTO, NETWORKS, VM_NAME, FoundEndpoint, find
from ._scheduled_events.document import (
    DEFAULT_API_VERSION,
    EVENT_SOURCES,
    EVENT_STATUSES,
    TYPES,
    Filter,
    ScheduledEvent,
    describe,
    one_of,
)
from ._scheduled_events.exchange import DEFAULT_ENDPOINT, Exchanger

COMMON_OPTIONS: Dict[str, Dict[str, Any]] = {
    "endpoint": {"type": "str", "default": DEFAULT_ENDPOINT},
    "endpoint_networks": {"type": "list", "elements": "str", "default": list(DEFAULT_NETWORKS)},
    "api_version": {"type": "str", "default": DEFAULT_API_VERSION},
    "vm_name": {"type": "str"},
    "request_timeout": {"type": "float", "default": REQUEST_TIMEOUT},
    "retry_for": {"type": "float", "default": RETRY_FOR},
    "drill_directory": {"type": "path", "default": DRILL_DIRECTORY},
}
FILTER_OPTIONS: Dict[str, Dict[str, Any]] = {
    "event_id": {"type": "list", "elements": "str", "aliases": ["event_ids"]},
    "event_types": {"type": "list", "elements": "str"},
    "event_statuses": {"type": "list", "elements": "str"},
    "event_sources": {"type": "list", "elements": "str"},
    "scope": {"type": "str", "choices": ["this_vm", "all"], "default": "this_vm"},
}


# Option → what it is called, and the words that Azure has for it.
KNOWN_WORDS = {
    "event_types": ("an event type", tuple(TYPES)),
    "event_statuses": ("a status", EVENT_STATUSES),
    "event_sources": ("a source", EVENT_SOURCES),
}
EVENT_ID = re.compile(rf"({DRILL_PREFIX})?[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\Z", re.IGNORECASE)

NAME_CHECK_TIMEOUT = 2.5  # seconds for an answer that only leads to a warning


class ImdsModule:
    """A module run: its parameters, checked, the client they describe, and the name of this VM.

    :param module: an AnsibleModule, or what stands for one on the control node.
    :param exchanger: what carries the requests to the VM; by default a connection of this machine.
    :param warn: takes each warning; by default the module.
    """

    def __init__(
        self,
        module: Any,
        exchanger: Optional[Exchanger] = None,
        clock: Clock = CLOCK,
        warn: Optional[Callable[[str], None]] = None,
    ) -> None:
        self.module = module
        self._warn = warn or module.warn
        self.is_on_the_vm = exchanger is None
        self.clock = clock
        self.params: Dict[str, Any] = module.params
        self.found = _find_endpoint(self.params)
        self.client = ImdsClient(
            endpoint=self.found.endpoint,
            api_version=self.params["api_version"],
            request_timeout=self.params["request_timeout"],
            retry_for=RETRY_FOR if self.params["retry_for"] is None else self.params["retry_for"],
            drill_directory=self.params["drill_directory"] if self.is_on_the_vm else None,
            exchanger=exchanger,
            clock=clock,
        )
        self._vm_name: Optional[str] = None
        self._given_name: Optional[str] = self.params["vm_name"] and self.params["vm_name"].strip()
        self.params["vm_name"] = self._given_name
        if self._given_name is not None:
            check(self._given_name, VM_NAME, "vm_name")
        self._warn_of_filters()

    def where(self) -> Dict[str, str]:
        """The return values for the service that answered and the way it was found."""
        return {"endpoint": self.client.endpoint, "endpoint_source": self.found.source}

    def vm_name(self, *, seconds: Optional[float] = None) -> str:
        """The name of this VM in Azure, asked of the service once unless the option gives it.

        :param seconds: ask once, for so long at most; otherwise again after transient failures.
        :raises ImdsError: the service does not give it.
        """
        if self._vm_name is None:
            if self._given_name is not None:
                # Where the service does not answer soon, the option counts as it is.
                brief = min(seconds or NAME_CHECK_TIMEOUT, NAME_CHECK_TIMEOUT)
                warning = self.client.other_name(self._given_name, brief)
                if warning:
                    self._warn(warning)
                self._vm_name = self._given_name
            elif seconds is None:
                self._vm_name = self.client.fetch_name()
            else:
                self._vm_name = self.client.poll_name(request_timeout=seconds)
        return self._vm_name

    def wanted(self, seconds: Optional[float] = None, *, hints: bool = True) -> Filter:
        """The filter that the module's options describe.

        :param seconds: see :meth:`vm_name`.
        :param hints: whether events with the status Advisory count without being asked for.
        :raises ImdsError: the service does not give the name of this VM.
        """
        vm_name = self.vm_name(seconds=seconds)
        return Filter(
            event_ids=self.params["event_id"] or (),
            event_types=self.params["event_types"] or (),
            event_statuses=self.params["event_statuses"] or (),
            event_sources=self.params["event_sources"] or (),
            vm_name=vm_name if self.params["scope"] == "this_vm" else None,
            hints=hints,
        )

    def describe(self, events: Iterable[ScheduledEvent]) -> List[Dict[str, Any]]:
        """The events as the module returns them, with a warning for each field that could not be read.

        :raises ImdsError: the service does not give the name of this VM.
        """
        now = self.clock.wall()
        described = []
        for event in events:
            for problem in event.problems():
                self._warn(problem)
            described.append(describe(event, vm_name=self.vm_name(), now=now))
        return described

    def _warn_of_filters(self) -> None:
        """Warn of conditions that no event meets, most likely slips of the pen; Azure may know them one day."""
        for option, (what, known) in KNOWN_WORDS.items():
            for word in self.params.get(option) or ():
                if not one_of(word, known):
                    self._warn(
                        f'{option}: "{word}" is not {what} that Azure is known to use, so it may select no event; '
                        f"known are {', '.join(known)}"
                    )
        for event_id in self.params.get("event_id") or ():
            if not EVENT_ID.match(event_id):
                self._warn(
                    f'event_id: "{event_id}" is not the id of an event, so no event has it; '
                    "expected a GUID such as C7061BAC-AFDC-4513-B24B-AA5F13A16123"
                )


def _find_endpoint(params: Dict[str, Any]) -> FoundEndpoint:
    """The endpoint that the options name, or that is found.

    :raises ImdsError: none is found.
    """
    endpoint = check(params["endpoint"], ENDPOINT_OR_AUTO, "endpoint")
    networks = check(params["endpoint_networks"], NETWORKS, "endpoint_networks")
    return find(endpoint, api_version=params["api_version"], networks=networks)


def run_module(options: Dict[str, Dict[str, Any]], work: Callable[[ImdsModule], Dict[str, Any]]) -> None:
    """Run a module: check its parameters, do its work, and fail with the message of a library's error, once.

    :param options: the argument specification beyond the common options.
    :param work: returns what the module returns.
    """
    module = CheckedModule(dict(COMMON_OPTIONS, **options))
    if REQUESTS_IMPORT_ERROR is not None:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_IMPORT_ERROR)
    module.exit_json(**carry_out(module, work))


def carry_out(
    module: Any,
    work: Callable[[ImdsModule], Dict[str, Any]],
    exchanger: Optional[Exchanger] = None,
    clock: Clock = CLOCK,
) -> Dict[str, Any]:
    """Do the work of a module, and return what it returns; for the parameters see :class:`ImdsModule`."""
    try:
        return work(ImdsModule(module, exchanger, clock))
    except (ImdsError, WrongValue) as error:
        return module.fail_json(msg=str(error))  # type: ignore[no-any-return]  # it never returns
