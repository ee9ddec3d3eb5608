# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of each phase that has webhooks: leaves a message for each receiver, and never fails.

It waits for no receiver, so no acknowledgement does. What it cannot do, it says; nothing stops for that.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
import uuid
from typing import Any, Dict, Mapping

from _scheduled_events.files import write_atomically
from _scheduled_events.runs import PHASES, parse_run_id

from .config import CONFIG_FILE, Receiver, WebhookError, load
from .spool import MARK, RUNTIME_DIRECTORY, STATE_DIRECTORY, Spool, SpoolError


def main(
    environment: Mapping[str, str],
    text: str,
    *,
    config: str = CONFIG_FILE,
    state: str = STATE_DIRECTORY,
    runtime: str = RUNTIME_DIRECTORY,
) -> int:
    """Leave the messages about the event in ``text``; always 0."""
    try:
        message = _message(environment, json.loads(text))
        receivers = load(config)
    except (WebhookError, ValueError, RecursionError) as error:
        _say(f"no webhook is sent: {error}")
        return 0
    spool = Spool(state)
    content = json.dumps(message).encode()
    wanted = [receiver for receiver in receivers if message["phase"] in receiver.phases]
    if wanted:
        _mark(runtime)
    for receiver in wanted:
        _put(spool, content, str(message["id"]), receiver)
    return 0


def _message(environment: Mapping[str, str], event: Any) -> Dict[str, Any]:
    phase = environment.get("SCHEDULED_EVENT_PHASE", "")
    if phase not in PHASES or not isinstance(event, dict):
        raise ValueError("expected an event on standard input, and its phase as SCHEDULED_EVENT_PHASE")
    vm_name = environment.get("SCHEDULED_EVENTS_VM_NAME", "")
    return {
        "version": 1,
        "id": message_id(vm_name, environment.get("SCHEDULED_EVENT_FIRST_RUN", "")),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "phase": phase,
        "vm_name": vm_name,
        "failed_phase": environment.get("SCHEDULED_EVENT_FAILED_PHASE") or None,
        "failed_reason": environment.get("SCHEDULED_EVENT_FAILED_REASON") or None,
        "event": event,
    }


def message_id(vm_name: str, first_run: str) -> str:
    """The id of the message: of VM, event, phase and life, so that a repetition has it too, also after a reboot.

    :param first_run: the id of the run of which all repetitions leave the same message.
    """
    if parse_run_id(first_run) is None:  # a trial by hand
        return str(uuid.uuid4())
    return str(uuid.UUID(bytes=hashlib.sha256(f"{vm_name}\0{first_run}".encode("utf-8", "replace")).digest()[:16]))


def _put(spool: Spool, content: bytes, message_id: str, receiver: Receiver) -> None:
    try:
        dropped = spool.put(
            content,
            message_id,
            receiver.name,
            max_messages=receiver.max_messages,
            max_bytes=receiver.max_bytes,
        )
    except SpoolError as error:
        _say(f"webhook {receiver.name}: the message cannot be kept and is lost: {error}")
        return
    if dropped:
        _say(f"webhook {receiver.name}: its spool is full, and {dropped} of the oldest messages were dropped")


def _mark(runtime: str) -> None:
    """Leave when something was spooled last, so that ``status`` notices a delivery that does not run.

    Before that: the delivery must not have ended by then, or nothing would ever be newer.
    """
    with contextlib.suppress(OSError):
        os.makedirs(runtime, mode=0o755, exist_ok=True)
        write_atomically(os.path.join(runtime, MARK), b"", mode=0o644)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()
