# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acknowledge events: decide from a fresh document, ask once for all, and look up what became of a refusal."""

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from . import policies, terms
from .client import ImdsClient, ImdsError, Refused, Unreachable
from .document import Document, ScheduledEvent


class Approvals(NamedTuple):
    """The outcome for each event id, spelled as in the document, or as given if the document lacks the event.

    ``drill``: whether a drill has added an event to the document. Its acknowledgement counts and is never sent.
    """

    approved: List[str]
    already_started: List[str]
    absent: List[str]
    skipped: List[str]
    drill: bool = False


class ApprovalFailed(Exception):
    """The service did not accept the acknowledgement of the events ``left``; ``status`` is its HTTP status, if any.

    ``refused``: it refused the request itself, as it most likely will again. A document that it refuses says nothing
    about a request, so it is not an ``ApprovalFailed``.
    """

    def __init__(self, error: ImdsError, *, left: List[str], outcome: Approvals) -> None:
        # Without an answer, or with a strange one, the request may have been carried out.
        refused = isinstance(error, Unreachable) or (error.status or 0) >= 300
        super().__init__(f"{error}; not {'' if refused else 'known to be '}acknowledged: {', '.join(left)}")
        self.status: Optional[int] = error.status
        self.refused = isinstance(error, Refused)
        self.left = left
        self.outcome = outcome


def approve(
    client: ImdsClient,
    event_ids: Sequence[str],
    *,
    may_approve: Callable[[ScheduledEvent], bool],
    still_wanted: Callable[[], bool] = lambda: True,
    dry_run: bool = False,
) -> Approvals:
    """Acknowledge those of the events that are Scheduled, all in one request.

    After a transient failure the document is read and judged again before the next request.

    :param event_ids: ids in any case.
    :param may_approve: asked for each Scheduled event of the document read right before; false skips the event.
    :param still_wanted: asked right before each request; false skips all events that it would have named.
    :param dry_run: only report what would be acknowledged.
    :raises ImdsError: the document could not be read; nothing was sent.
    :raises ApprovalFailed: the acknowledgement was sent and not accepted.
    """
    last: List[Tuple[Approvals, ImdsError]] = []

    def sort(document: Document) -> Approvals:
        return _sort(document, event_ids, may_approve)

    if dry_run:
        return sort(client.fetch())
    try:
        return client.retry(lambda: _attempt(client, sort, still_wanted, last))
    except ImdsError:
        if not last:
            raise
        # Also where the document could not be read since: the refusal of the request is what matters.
        outcome, failure = last[0]
        raise ApprovalFailed(failure, left=outcome.approved, outcome=outcome._replace(approved=[])) from failure


def acknowledge(
    client: ImdsClient,
    actions: Sequence[terms.Approve],
    config: terms.Config,
    *,
    change: Callable[[ScheduledEvent], str] = lambda _event: "",
    still_wanted: Callable[[], bool] = lambda: True,
    dry_run: bool = False,
) -> Tuple[List[terms.ApprovalResult], str]:
    """Acknowledge what the engine decided, in one request, as far as a fresh document agrees with each decision.

    :param change: says what else keeps an event of that document from its acknowledgement; empty if nothing does.
    :returns: the result for each action, and why the service could not be asked or did not accept, if so.
    """
    by_key = {action.key: action for action in actions}
    reasons = dict.fromkeys(by_key, "the latest document no longer matches the decision")

    def may_approve(event: ScheduledEvent) -> bool:
        changed = change(event)
        if changed:
            reasons[event.key] = changed
        return not changed and policies.still_agrees(by_key[event.key], event, config)

    outcome, left, refused, failure = Approvals([], [], [], []), list(by_key), False, ""
    try:
        outcome = approve(
            client,
            [action.event_id for action in actions],
            may_approve=may_approve,
            still_wanted=still_wanted,
            dry_run=dry_run,
        )
        left = []
    except ApprovalFailed as error:
        outcome, left, refused, failure = error.outcome, error.left, error.refused, str(error)
    except ImdsError as error:
        failure = str(error)
    for ids, reason in (
        (left, failure),
        (outcome.already_started, "it has already started"),
        (outcome.absent, "it is already over"),
        (outcome.approved, ""),
    ):
        reasons.update((event_id.lower(), reason) for event_id in ids)
    accepted, failed = ({event_id.lower() for event_id in ids} for ids in (outcome.approved, left))
    return [
        terms.ApprovalResult(key, accepted=key in accepted, error=reasons[key], refused=refused and key in failed)
        for key in by_key
    ], failure


def _attempt(
    client: ImdsClient,
    sort: Callable[[Document], Approvals],
    still_wanted: Callable[[], bool],
    last: List[Tuple[Approvals, ImdsError]],
) -> Approvals:
    """Read the document, and acknowledge what it allows.

    :param last: the last request that was not accepted: what it was made from, and why.
    :raises ImdsError: either failed.
    """
    while True:
        document = client.poll()
        outcome = sort(document)
        # The service answers an absent id with 400 or 404, for all ids of the request
        # (docs/contract.md, section 5). So a refusal counts only if all of them are present.
        for asked, failure in last:
            if isinstance(failure, Refused) and len(outcome.approved) >= len(asked.approved):
                raise failure
        if not outcome.approved:
            return outcome
        if not still_wanted():
            return outcome._replace(approved=[], skipped=outcome.skipped + outcome.approved)
        try:
            # Only what the drill has added is kept back: an event of the service has any id.
            sent = [event_id for event_id in outcome.approved if event_id.lower() != document.drill]
            if sent:
                client.approve(sent)
            return outcome
        except ImdsError as error:
            last[:] = [(outcome, error)]
            if not isinstance(error, Refused):
                raise


def _sort(document: Document, event_ids: Sequence[str], may_approve: Callable[[ScheduledEvent], bool]) -> Approvals:
    outcome = Approvals([], [], [], [], drill=bool(document.drill))
    for key, event_id in {event_id.lower(): event_id for event_id in event_ids}.items():
        # A document should hold an id once. If it holds it more often, all of them must agree.
        found = [event for event in document.events if event.event_id is not None and event.key == key]
        if not found:
            outcome.absent.append(event_id)
        elif all(event.event_status == "Started" for event in found):
            outcome.already_started.append(found[0].event_id or "")
        elif all(event.event_status == "Scheduled" and may_approve(event) for event in found):
            outcome.approved.append(found[0].event_id or "")
        else:
            outcome.skipped.append(found[0].event_id or "")
    return outcome
