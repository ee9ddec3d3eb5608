# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the library meets AnsibleModule. Private to the collection: it may change in any release."""

import datetime
import math
from typing import Any, Callable, Dict, Iterable, List, Optional

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ._scheduled_events.client import REQUEST_TIMEOUT, REQUESTS_IMPORT_ERROR, RETRY_FOR, ImdsClient, ImdsError
from ._scheduled_events.document import Filter, ScheduledEvent, describe
from ._scheduled_events.endpoint import DEFAULT_API_VERSION, DEFAULT_ENDPOINT, SettingError

COMMON_OPTIONS: Dict[str, Dict[str, Any]] = {
    "endpoint": {"type": "str", "default": DEFAULT_ENDPOINT},
    "api_version": {"type": "str", "default": DEFAULT_API_VERSION},
    "vm_name": {"type": "str"},
    "request_timeout": {"type": "float", "default": REQUEST_TIMEOUT},
    "retry_for": {"type": "float", "default": RETRY_FOR},
}
FILTER_OPTIONS: Dict[str, Dict[str, Any]] = {
    "event_id": {"type": "list", "elements": "str"},
    "event_types": {"type": "list", "elements": "str"},
    "event_statuses": {"type": "list", "elements": "str"},
    "event_sources": {"type": "list", "elements": "str"},
    "scope": {"type": "str", "choices": ["this_vm", "all"], "default": "this_vm"},
}


class ImdsModule:
    """A module run: its parameters, checked, the client they describe, and the name of this VM.

    :param single_attempts: ask for the name once at a time, as a caller does that repeats its work itself.
    """

    def __init__(self, module: AnsibleModule, *, single_attempts: bool = False) -> None:
        self.module = module
        self.params: Dict[str, Any] = module.params
        self.require_positive("request_timeout", "retry_for")
        self.client = ImdsClient(
            endpoint=self.params["endpoint"],
            api_version=self.params["api_version"],
            request_timeout=self.params["request_timeout"],
            retry_for=self.params["retry_for"],
        )
        self._ask_name = self.client.ask_name if single_attempts else self.client.vm_name
        self._vm_name: Optional[str] = None
        if self.params["vm_name"] is not None:
            self._vm_name = self.params["vm_name"].strip()
            if not self._vm_name:
                raise SettingError(
                    "vm_name is empty: expected the name of this VM in Azure; leave it out to ask the service"
                )

    def require_positive(self, *options: str) -> None:
        """Refuse a number of seconds that is zero, negative or not finite.

        :raises SettingError: the first such option.
        """
        for option in options:
            value = self.params[option]
            if not (math.isfinite(value) and value > 0):
                raise SettingError(f"{option} {value:g} is no time: expected seconds, more than 0")

    def vm_name(self) -> str:
        """The name of this VM in Azure, asked of the service once unless the option gives it.

        :raises ImdsError: the service does not tell.
        """
        if self._vm_name is None:
            self._vm_name = self._ask_name()
        return self._vm_name

    def wanted(self) -> Filter:
        """The filter that the module's options describe.

        :raises ImdsError: the service does not tell the name of this VM.
        """
        vm_name = self.vm_name()
        return Filter(
            event_ids=self.params["event_id"] or (),
            event_types=self.params["event_types"] or (),
            event_statuses=self.params["event_statuses"] or (),
            event_sources=self.params["event_sources"] or (),
            vm_name=vm_name if self.params["scope"] == "this_vm" else None,
        )

    def describe(self, events: Iterable[ScheduledEvent]) -> List[Dict[str, Any]]:
        """The events as the module returns them, with a warning for each field that could not be read.

        :raises ImdsError: the service does not tell the name of this VM.
        """
        now = datetime.datetime.now(datetime.timezone.utc)
        described = []
        for event in events:
            for problem in event.problems():
                self.module.warn(problem)
            described.append(describe(event, vm_name=self.vm_name(), now=now))
        return described


def run_module(
    options: Dict[str, Dict[str, Any]], work: Callable[[ImdsModule], Dict[str, Any]], *, single_attempts: bool = False
) -> None:
    """Run a module: check its parameters, do its work, and turn the library's errors into its failure, once.

    :param options: the argument specification beyond the common options.
    :param work: returns what the module returns.
    :param single_attempts: see :class:`ImdsModule`.
    """
    module = AnsibleModule(argument_spec=dict(COMMON_OPTIONS, **options), supports_check_mode=True)
    if REQUESTS_IMPORT_ERROR is not None:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_IMPORT_ERROR)
    try:
        result = work(ImdsModule(module, single_attempts=single_attempts))
    except (ImdsError, SettingError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)
