# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledge events: decide from a fresh document, ask once for all, and look up what became of a refusal."""

from typing import Callable, List, NamedTuple, Optional, Sequence

from .client import ImdsClient, ImdsError, Refused
from .document import Document, ScheduledEvent


class Outcome(NamedTuple):
    """What became of each event id: verbatim as the document has it, or as it was given if the document lacks it."""

    approved: List[str]
    already_started: List[str]
    absent: List[str]
    skipped: List[str]


class ApprovalFailed(Exception):
    """The service did not take the acknowledgement of the events ``left``; ``status`` is its HTTP status, if any."""

    def __init__(self, error: ImdsError, *, left: List[str], outcome: Outcome) -> None:
        super().__init__(f"{error}; not acknowledged: {', '.join(left)}")
        self.status: Optional[int] = error.status
        self.left = left
        self.outcome = outcome


def approve(
    client: ImdsClient,
    event_ids: Sequence[str],
    *,
    may_approve: Callable[[ScheduledEvent], bool],
    dry_run: bool = False,
) -> Outcome:
    """Acknowledge those of the events that are Scheduled, in one request.

    :param event_ids: ids in any case.
    :param may_approve: asked for each Scheduled event of the document read right before; false skips the event.
    :param dry_run: only tell what would be acknowledged.
    :raises ImdsError: the document could not be read; nothing was sent.
    :raises ApprovalFailed: the acknowledgement was sent and not accepted.
    """
    outcome = _sort(client.fetch(), event_ids, may_approve)
    while outcome.approved and not dry_run:
        try:
            client.approve(outcome.approved)
            break
        except Refused as error:
            # An id that is gone is answered with 400 or 404, for all ids of the request (contract: unknown EventId).
            again = _sort(client.fetch(), event_ids, may_approve)
            if len(again.approved) >= len(outcome.approved):
                raise ApprovalFailed(error, left=outcome.approved, outcome=outcome._replace(approved=[])) from error
            outcome = again
        except ImdsError as error:
            raise ApprovalFailed(error, left=outcome.approved, outcome=outcome._replace(approved=[])) from error
    return outcome


def _sort(document: Document, event_ids: Sequence[str], may_approve: Callable[[ScheduledEvent], bool]) -> Outcome:
    outcome = Outcome([], [], [], [])
    for event_id in {event_id.lower(): event_id for event_id in event_ids}.values():
        event = document.find(event_id)
        if event is None or event.event_id is None:
            outcome.absent.append(event_id)
        elif event.event_status == "Started":
            outcome.already_started.append(event.event_id)
        elif event.event_status == "Scheduled" and may_approve(event):
            outcome.approved.append(event.event_id)
        else:
            outcome.skipped.append(event.event_id)
    return outcome
