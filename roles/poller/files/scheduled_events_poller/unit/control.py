# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's requests, which the command sends to the unit as a datagram, and the answer."""

import json
import socket
from typing import Callable, Dict, Optional, Union

from _scheduled_events.terms import Clear, Retry

Command = Union[Retry, Clear]

VERBS: Dict[str, Callable[[str], Command]] = {"retry": Retry, "clear": Clear}
ANSWER_TIMEOUT = 10.0  # seconds
LARGEST = 256 * 1024  # bytes of a request or of an answer; a datagram of Linux has fewer


class NoUnit(Exception):
    """No polling unit accepts the request. The message contains the reason."""


def parse(message: bytes) -> Optional[Command]:
    """The request in a datagram; ``None`` for other content, such as the sign that hooks have ended."""
    try:
        raw = json.loads(message.decode("utf-8"))
        return VERBS[raw["verb"]](str(raw["event_id"]).lower())  # without an id: see terms.Clear
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def send(path: str, verb: str, event_id: str) -> str:
    """Send a request to the unit; returns why it cannot be fulfilled, or an empty text.

    :param path: the socket of the unit, which only root and the unit's own user can reach.
    :raises NoUnit: the unit does not accept the request, or does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.bind("")  # the kernel chooses a name, so that the unit can answer
        sender.settimeout(ANSWER_TIMEOUT)
        try:
            sender.sendto(json.dumps({"verb": verb, "event_id": event_id}).encode(), path)
            return sender.recv(LARGEST).decode("utf-8", "replace")
        except PermissionError as error:
            raise NoUnit("only root can do this. Run the command with sudo") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoUnit("the polling unit does not run. Start scheduled-events-poller.service") from error
        except OSError as error:
            raise NoUnit(f"the polling unit does not answer: {error}. See its journal") from error
