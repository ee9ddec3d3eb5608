# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The events as a rulebook of Event-Driven Ansible gets them, from a metadata service or from Azure Event Grid."""

import hashlib
import json
import re
import time
from typing import Any, Dict, List

from .checks import WrongValue, choice, converted, show
from .document import parse_not_before, plain_name

# A play gets the event as variables, whose values Ansible takes for templates.
_TEMPLATE = re.compile(r"\{(?=[{%#])|\A#(?=jinja2:)")
# What is not a pattern or a file to Ansible, nor a group of every inventory.
_HOST_NAME = re.compile(r"(?!(all|ungrouped)\Z)[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def _boolean(value: Any) -> bool:
    return choice("true", "yes", "false", "no").read(str(value).lower(), "") in ("true", "yes")


BOOLEAN = converted("true or false", _boolean)  # a variable of the rulebook can be a text


def as_variables(event: Dict[str, Any]) -> Dict[str, Any]:
    """A described event with a space at the start of each template, and without ``seconds_until_not_before``."""
    variables: Dict[str, Any] = harmless(event)
    del variables["seconds_until_not_before"]
    if variables["event_id"] != event["event_id"]:  # it could not be sent back verbatim
        variables["event_id"] = None
    return variables


def harmless(value: Any) -> Any:
    """The value with a space at the start of each template in it."""
    if isinstance(value, str):
        return _TEMPLATE.sub(lambda found: found.group() + " ", value)
    if isinstance(value, list):
        return [harmless(item) for item in value]
    if isinstance(value, dict):
        return {harmless(name): harmless(item) for name, item in value.items()}
    return value


def content_id(event: Dict[str, Any]) -> str:
    """Depends on the content of the event alone: not on the reader, nor on the time."""
    of_reader = ("affects_this_vm", "is_leader")
    content = {name: value for name, value in event.items() if name not in of_reader}
    content["event_id"] = (event["event_id"] or "").lower()
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return "-".join(filter(None, (content["event_id"], (event["event_status"] or "").lower(), digest)))


def host_names_of(value: Any) -> Dict[str, str]:
    """The names of hosts in the inventory, by names of VMs in lower case.

    :raises WrongValue: it is something else than a dictionary of texts.
    """
    usable = isinstance(value, dict) and all(isinstance(text, str) and text for pair in value.items() for text in pair)
    if not usable:
        raise WrongValue(
            f"host_names {show(value)} cannot be used: expected a dictionary of names of VMs to names of the inventory"
        )
    return {name.lower(): host for name, host in value.items()}


def hosts_of(event: Dict[str, Any], host_names: Dict[str, str], api_version: str = "") -> List[str]:
    """The hosts of the inventory that the event names, without what is not a name there but a pattern or a file."""
    hosts = []
    for name in (plain_name(resource, api_version) for resource in event["resources"]):
        if name.lower() in host_names:
            hosts.append(host_names[name.lower()])
        elif _HOST_NAME.match(name):
            hosts.append(name)
    return hosts


def with_time_left(message: Dict[str, Any]) -> Dict[str, Any]:
    """The message with ``seconds_until_not_before``, which goes on while the message waits."""
    moment = parse_not_before(message["not_before"])
    return dict(message, seconds_until_not_before=round(moment.timestamp() - time.time(), 3) if moment else None)
