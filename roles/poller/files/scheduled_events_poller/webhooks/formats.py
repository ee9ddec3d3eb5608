# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests for receivers: body and headers, made from a message of the spool and the configuration."""

import hashlib
import hmac
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

from . import template
from .config import EDA, HEADER_PREFIX, JSON, PAGERDUTY, SLACK, TEAMS, Receiver

LONGEST_TEXT = 1000  # characters of a line for people; the services cut or refuse longer ones
LONGEST_DEDUP_KEY = 255

Message = Mapping[str, Any]


class Request(NamedTuple):
    """The body, in ASCII alone, and the headers."""

    body: str
    headers: Dict[str, str]


def build(receiver: Receiver, message: Message, *, now: float) -> Request:
    """The request for a message.

    :param now: the time of sending, in seconds since the epoch.
    """
    if receiver.template is not None:
        document = template.fill(receiver.template, fields(message))
    else:
        document = _FORMATS[receiver.format](receiver, message)
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
        if receiver.format == EDA:
            # What the webhook source of Event-Driven Ansible checks by itself, with its option hmac_secret.
            headers["X-Hub-Signature-256"] = f"sha256={_digest(receiver.secret, body)}"
    return Request(body, headers)


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def fields(message: Message) -> Dict[str, Any]:
    """The fields that a template can name."""
    known = {**message["event"], **message, "text": text(message)}
    return {name: known.get(name) for name in template.FIELDS}


def text(message: Message) -> str:
    """The message as a line for people."""
    event = message["event"]
    words = _TEXTS[message["phase"]].format(
        vm=message["vm_name"] or "this VM",
        type=event.get("event_type") or "an event",
        not_before=event.get("not_before") or "now",
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


def _json(_receiver: Receiver, message: Message) -> Dict[str, Any]:
    own = {name: message.get(name) for name in ("id", "time", "phase", "vm_name", "failed_phase", "failed_reason")}
    return {**message["event"], **own}


def _slack(_receiver: Receiver, message: Message) -> Dict[str, Any]:
    # So that no text of an event is a link, or calls everybody in the channel.
    escaped = text(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped}


def _teams(_receiver: Receiver, message: Message) -> Dict[str, Any]:
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


def _pagerduty(receiver: Receiver, message: Message) -> Dict[str, Any]:
    event = message["event"]
    incident = {
        "routing_key": receiver.routing_key,
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
        "custom_details": _json(receiver, message),
    }
    return {**incident, "payload": payload}


_FORMATS: Dict[str, Callable[[Receiver, Message], Dict[str, Any]]] = {
    JSON: _json,
    EDA: _json,
    TEAMS: _teams,
    SLACK: _slack,
    PAGERDUTY: _pagerduty,
}
