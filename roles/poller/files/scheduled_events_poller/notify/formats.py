# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The formats of messages: the body of each, what its receivers need, and the request for a receiver.

A new format is an entry of FORMATS, and a choice in the argument specification of the role.
"""

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import template

if TYPE_CHECKING:
    from _scheduled_events.exchange import HttpRequest

    from .settings import Receiver

HEADER_PREFIX = "X-Scheduled-Events-"

LONGEST_TEXT = 1000  # characters of a line for people; the services cut or refuse longer ones
LONGEST_DEDUP_KEY = 255

Message = Mapping[str, Any]


def text(message: Message) -> str:
    """The message as a line for people."""
    event = message["event"]
    words = _TEXTS[message["phase"]].format(
        vm=message["vm_name"] or "this VM",
        type=event.get("event_type") or "an event",
        not_before=event.get("not_before") or "an unknown time",
        failed_phase=message.get("failed_phase") or "hooks",
        reason=message.get("failed_reason") or "no reason is known",
    )
    return f"{words} ({event.get('event_id')})"[:LONGEST_TEXT]


_TEXTS = {
    "prepare": "{vm}: {type} is announced, not before {not_before}; the VM prepares",
    "started": "{vm}: {type} has started",
    "recover": "{vm}: {type} is over or was cancelled; the VM recovers",
    "advised": "{vm}: Azure gives a hint, {type}; nothing starts",
    "failed": "{vm}: the {failed_phase} hooks for {type} failed: {reason}",
}


def _json(message: Message, _routing_key: Optional[str]) -> Dict[str, Any]:
    return {**message["event"], **{name: value for name, value in message.items() if name != "event"}}


def _slack(message: Message, _routing_key: Optional[str]) -> Dict[str, Any]:
    # So that no text of an event is a link, or calls everybody in the channel.
    escaped = text(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped}


def _teams(message: Message, _routing_key: Optional[str]) -> Dict[str, Any]:
    facts = [{"title": title, "value": _plain(value)} for title, value in _facts(message)]
    style = {"failed": "attention", "recover": "good"}.get(message["phase"], "warning")
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": _plain(text(message)), "wrap": True, "weight": "Bolder", "color": style},
            {"type": "FactSet", "facts": facts},
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _facts(message: Message) -> List[Tuple[str, str]]:
    event = message["event"]
    facts = [
        ("VM", message["vm_name"]),
        ("Event", event.get("event_type")),
        ("Status", event.get("event_status")),
        ("Source", event.get("event_source")),
        ("Not before", event.get("not_before")),
        ("Resources", ", ".join(map(str, event.get("resources") or []))),
        ("Description", event.get("description")),
        ("Event ID", event.get("event_id")),
    ]
    return [(title, str(value)[:LONGEST_TEXT]) for title, value in facts if value]


def _plain(value: str) -> str:
    """Without the brackets that make a link in a card."""
    return value.replace("[", "(").replace("]", ")")


def _pagerduty(message: Message, routing_key: Optional[str]) -> Dict[str, Any]:
    event = message["event"]
    incident = {
        "routing_key": routing_key,
        "dedup_key": f"{message['vm_name']}/{event.get('event_id')}"[:LONGEST_DEDUP_KEY],
        "event_action": "resolve" if message["phase"] == "recover" else "trigger",
    }
    payload = {
        "summary": text(message),
        "source": message["vm_name"] or "unknown",
        "severity": {"failed": "error", "advised": "info"}.get(message["phase"], "warning"),
        "timestamp": message["time"],
        "component": "Azure Scheduled Events",
        "class": event.get("event_type"),
        "custom_details": _json(message, None),
    }
    return {**incident, "payload": payload}


class Format(NamedTuple):
    """A format of messages.

    ``body``: the body of a message, with the routing key of the receiver. ``url``: where messages go unless the owner
    names another place. ``routing_key``: whether a receiver needs one. ``template``: whether the owner may replace the
    body. ``hub_signature``: whether a signed message has ``X-Hub-Signature-256`` too, which the webhook source of
    Event-Driven Ansible checks by itself, with its option hmac_secret.
    """

    body: Callable[[Message, Optional[str]], Dict[str, Any]]
    url: Optional[str] = None
    routing_key: bool = False
    template: bool = False
    hub_signature: bool = False


FORMATS: Dict[str, Format] = {
    "json": Format(_json, template=True),
    "eda": Format(_json, template=True, hub_signature=True),
    "teams": Format(_teams),
    "slack": Format(_slack),
    "pagerduty": Format(_pagerduty, url="https://events.pagerduty.com/v2/enqueue", routing_key=True),
}
DEFAULT_FORMAT = "json"


def build(receiver: "Receiver", message: Message, *, now: float) -> "HttpRequest":
    """The request for a message, with a body in ASCII alone.

    :param now: the time of sending, in seconds since the epoch.
    """
    from _scheduled_events.exchange import HttpRequest  # here, since only the delivery needs it, and not its hook

    if receiver.template is not None:
        document = template.fill(receiver.template, {**message["event"], **message, "text": text(message)})
    else:
        document = FORMATS[receiver.format].body(message, receiver.routing_key)
    body = json.dumps(document)
    message_id, timestamp = str(message["id"]), str(int(now))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "maintops-scheduled-events",
        **receiver.headers,
        f"{HEADER_PREFIX}Id": message_id,
        f"{HEADER_PREFIX}Timestamp": timestamp,
    }
    if receiver.secret is not None:
        headers[f"{HEADER_PREFIX}Signature"] = f"sha256={_digest(receiver.secret, f'{message_id}.{timestamp}.{body}')}"
        if FORMATS[receiver.format].hub_signature:
            headers["X-Hub-Signature-256"] = f"sha256={_digest(receiver.secret, body)}"
    return HttpRequest("POST", receiver.url, headers=headers, body=body)


def _digest(key: str, signed: str) -> str:
    return hmac.new(key.encode(), signed.encode(), hashlib.sha256).hexdigest()
