# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of webhooks: a file that all users can read, without URLs or other secrets."""

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

from _scheduled_events.document import format_epoch
from _scheduled_events.files import plain, read_status

from .messages import LOST, MARK, REASONS, MessageSpool, SpoolError

if TYPE_CHECKING:  # which needs requests
    from .delivery import Courier

FILE_NAME = "status.json"
MOST_BYTES = 1024 * 1024

SILENCE = 60.0  # seconds without a sign of a delivery that has something to do
PATIENCE = 60.0  # seconds for which a receiver may be down before that is a problem
MEMORY = 24 * 3600.0  # seconds for which a loss is a problem; it is shown for longer


def describe(couriers: Sequence["Courier"], spool: MessageSpool, *, error: str) -> Dict[str, Any]:
    """The content of the status file.

    :param error: why nothing is delivered; empty if it is.
    :raises OSError: the spool cannot be read.
    """
    entries = [entry.receiver for entry in spool.entries()]
    losses: Dict[str, Dict[str, Any]] = {}
    unknown = ""
    try:
        losses = spool.losses()
    except SpoolError as problem:
        unknown = str(problem)
    receivers = []
    for courier in couriers:
        waiting = entries.count(courier.receiver.name)
        trouble = courier.trouble if waiting else None
        lost = losses.get(courier.receiver.name, {})
        receivers.append(
            {
                "name": courier.receiver.name,
                "waiting": waiting,
                "trouble": trouble.text if trouble else "",
                "trouble_since": trouble.since if trouble else None,
                "next_attempt": trouble.next_attempt if trouble else None,
                "last_loss": lost.get("last"),
                **{reason: lost.get(reason, 0) for reason in REASONS},
            }
        )
    return {"version": 1, "waiting": len(entries), "error": error, "unknown_losses": unknown, "receivers": receivers}


def read(runtime: str) -> Dict[str, Any]:
    """The status that the delivery wrote; empty without webhooks. ``spooled``: time of the last message. ``lost`` and
    ``lost_at``: why and when the last message was lost that could not be kept.

    :raises OSError: a file cannot be read.
    :raises ValueError: it is not what the delivery writes.
    """
    known: Dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError):
        known = read_status(os.path.join(runtime, FILE_NAME))
    with contextlib.suppress(FileNotFoundError):
        known["spooled"] = os.stat(os.path.join(runtime, MARK)).st_mtime
    with contextlib.suppress(FileNotFoundError), plain(os.path.join(runtime, LOST)) as (file, found):
        known["lost"], known["lost_at"] = file.read(MOST_BYTES).decode("utf-8", "replace").strip(), found.st_mtime
    return known


def judge(known: Dict[str, Any], now: float) -> Tuple[List[str], List[str]]:
    """Problems for the summary of ``status``, and a line for each receiver, by what :func:`read` found.

    :param now: seconds since the epoch.
    """
    problems: List[str] = []
    lines: List[str] = []
    told, spooled = known.get("time", 0.0), known.get("spooled", 0.0)
    if told > now + SILENCE:  # before the clock was set back: no sign of a delivery that lives
        told = 0.0
    if (known.get("waiting") and now - told > SILENCE) or (spooled > told and now - spooled > SILENCE):
        problems.append("messages of webhooks are not delivered. See systemctl status scheduled-events-webhooks")
    if known.get("error"):
        problems.append(f"no webhook is delivered: {known['error']}")
    if known.get("lost") and now - known["lost_at"] < MEMORY:
        problems.append(known["lost"])
    if known.get("unknown_losses"):
        problems.append(f"it is not known which messages of webhooks were lost: {known['unknown_losses']}")
    for receiver in known.get("receivers", []):
        lines.append(f"  webhook {receiver['name']}: {_words(receiver)}")
        since = receiver["trouble_since"]
        if since is not None and now - since > PATIENCE:
            problems.append(f"webhook {receiver['name']}: {receiver['trouble']}")
        last_loss = receiver["last_loss"]
        if last_loss is not None and now - last_loss < MEMORY:
            problems.append(f"webhook {receiver['name']} has lost messages")
    return problems, lines


def _words(receiver: Dict[str, Any]) -> str:
    waiting = receiver["waiting"]
    parts = [f"{waiting} message{'s wait' if waiting != 1 else ' waits'}" if waiting else "nothing waits"]
    if receiver["trouble"]:
        parts.append(f"{receiver['trouble']}, next attempt at {format_epoch(receiver['next_attempt'])}")
    reasons = {
        "dropped": "dropped, as the spool was full",
        "refused": "dropped, as the receiver refused them",
        "unreadable": "dropped, as their files could not be read",
    }
    parts += [f"{receiver[reason]} {words}" for reason, words in reasons.items() if receiver[reason]]
    if receiver["last_loss"] is not None:
        parts.append(f"the last loss was at {format_epoch(receiver['last_loss'])}")
    return "; ".join(parts)
