# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests for receivers: body and headers, made from a message of the spool and the configuration."""

import hashlib
import hmac
import json
from typing import Any, Dict, NamedTuple

from . import template
from .config import HEADER_PREFIX, Receiver
from .formats import FORMATS, Message, text


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
    return Request(body, headers)


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def fields(message: Message) -> Dict[str, Any]:
    """The fields that a template can name."""
    known = {**message["event"], **message, "text": text(message)}
    return {name: known.get(name) for name in template.FIELDS}
