# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command of webhooks: the hook of each phase that has webhooks, and the unit that delivers their messages.

scheduled-events-webhooks COMMAND [CONFIG STATE RUNTIME]
spool: leave the event on standard input for the receivers, and end well whatever happens.
deliver: send them what waits.

The hook waits for no receiver, so no acknowledgement does. It imports no more than it needs.
"""

import contextlib
import hashlib
import json
import os
import sys
import uuid
from typing import Any, Dict, List, Mapping, Union

from _scheduled_events.clock import CLOCK
from _scheduled_events.files import write_atomically
from _scheduled_events.runs import PHASES, parse_run_id

from .. import systemd
from ..spool import MAX_REQUEST, WEBHOOKS_RUNTIME_DIRECTORY
from .messages import LOST, MARK, STATE_DIRECTORY, MessageSpool, SpoolError
from .settings import WEBHOOKS_FILE, load_receivers

PLACES = (WEBHOOKS_FILE, STATE_DIRECTORY, WEBHOOKS_RUNTIME_DIRECTORY)


def main(arguments: List[str]) -> Union[int, str]:
    """Carry out the command; returns an exit status, or how it is used."""
    if len(arguments) not in (1, 4) or arguments[0] not in ("spool", "deliver"):
        return __doc__
    config, state, runtime = arguments[1:] or PLACES
    if arguments[0] == "spool":
        environment = {_text(name): _text(value) for name, value in os.environb.items()}
        leave(environment, _text(sys.stdin.buffer.read(MAX_REQUEST)), config, state, runtime)
        return 0
    from .delivery import Delivery

    return Delivery(config, state, runtime).run()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def leave(environment: Mapping[str, str], text: str, config: str, state: str, runtime: str) -> None:
    """Leave the messages about the event in ``text``."""
    try:
        message = _message(environment, json.loads(text))
        receivers = [each for each in load_receivers(config) if message["phase"] in each.phases]
    except (ValueError, RecursionError) as error:
        _say_lost(runtime, f"no webhook is sent: {error}")
        return
    if receivers:
        # So that ``status`` notices a delivery that does not run. Before the message: once that is delivered, nothing
        # newer comes.
        _leave_sign(runtime, MARK)
    spool, content, kept = MessageSpool(state), json.dumps(message).encode(), False
    for each in receivers:
        try:
            dropped = spool.put(content, str(message["id"]), each.name, max_messages=each.max_messages)
        except SpoolError as error:
            _say_lost(runtime, f"webhook {each.name}: the message cannot be kept and is lost: {error}")
        else:
            kept = True
            if dropped:
                systemd.say(
                    f"webhook {each.name}: its spool is full, and {dropped} of the oldest messages were dropped"
                )
    with contextlib.suppress(OSError):
        if receivers and not kept and spool.is_empty():  # nothing waits for a delivery
            os.unlink(os.path.join(runtime, MARK))


def _message(environment: Mapping[str, str], event: Any) -> Dict[str, Any]:
    phase = environment.get("SCHEDULED_EVENT_PHASE", "")
    if phase not in PHASES or not isinstance(event, dict):
        raise ValueError("expected an event on standard input, and its phase as SCHEDULED_EVENT_PHASE")
    vm_name = environment.get("SCHEDULED_EVENTS_VM_NAME", "")
    return {
        "version": 1,
        "id": message_id(vm_name, environment.get("SCHEDULED_EVENT_FIRST_RUN", "")),
        "time": CLOCK.utc(),
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


def _leave_sign(runtime: str, name: str, text: str = "") -> None:
    """Leave a file for ``status``."""
    with contextlib.suppress(OSError):
        os.makedirs(runtime, mode=0o755, exist_ok=True)
        write_atomically(os.path.join(runtime, name), text.encode("utf-8", "replace"), mode=0o644)


def _say_lost(runtime: str, text: str) -> None:
    systemd.say(text)
    _leave_sign(runtime, LOST, text)
