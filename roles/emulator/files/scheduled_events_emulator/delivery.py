# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Post the messages of Event Grid to a webhook."""

from __future__ import annotations

import asyncio
import json
from typing import Callable

import aiohttp

from scheduled_events_emulator.event_grid import CLOUD_EVENTS, RETRY_AFTER, Delivery, Message, Outbox

TICK = 0.1  # seconds between two looks for messages
TIMEOUT = 30.0  # seconds for which Event Grid waits for an answer


async def post_messages(outbox: Outbox, sync: Callable[[], float]) -> None:
    """Post what is due, until cancelled. ``sync`` lets the time of the platform pass, which no VM may ask for."""
    limit = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(timeout=limit, headers=_headers(outbox.delivery)) as session:
        while True:
            sync()
            message = outbox.due()
            if message is None:
                await asyncio.sleep(TICK)
            elif not await _post(session, outbox.delivery, message):
                outbox.post_later(message, RETRY_AFTER)


def _headers(delivery: Delivery) -> dict[str, str]:
    kind = "cloudevents+json" if delivery.schema == CLOUD_EVENTS else "json"
    headers = {"Content-Type": f"application/{kind}; charset=utf-8", "aeg-event-type": "Notification"}
    return {**headers, "Authorization": f"Bearer {delivery.token}"} if delivery.token else headers


async def _post(session: aiohttp.ClientSession, delivery: Delivery, message: Message) -> bool:
    """Post one copy; return whether the receiver has taken it."""
    content = message.to_json(delivery.schema)
    body = json.dumps(content if delivery.schema == CLOUD_EVENTS else [content])
    try:
        async with session.post(str(delivery.url), data=body, allow_redirects=False) as response:
            return 200 <= response.status < 300
    except (aiohttp.ClientError, asyncio.TimeoutError):
        return False
