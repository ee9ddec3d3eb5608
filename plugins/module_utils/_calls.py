# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The calls of the modules that read, wait and acknowledge, on any host. Private to the collection: it may change in
any release."""

import time
from typing import Any, Dict, Optional, Sequence

from ._module import FILTER_OPTIONS, ImdsModule
from ._scheduled_events.approval import ApprovalFailed, Approvals, approve
from ._scheduled_events.checks import WrongValue
from ._scheduled_events.document import ScheduledEvent
from ._scheduled_events.history_file import DIRECTORIES, append_beside
from ._scheduled_events.transitions import acknowledgement
from ._scheduled_events.waiting import Wait, Waited, WaitTimeout

WAIT_OPTIONS: Dict[str, Dict[str, Any]] = {
    **FILTER_OPTIONS,
    "state": {"type": "str", "choices": ["absent", "present"], "default": "absent"},
    "timeout": {"type": "float", "default": 900},
    "sleep": {"type": "float", "default": 1},
    "stable_for": {"type": "float", "default": 0},
    "retry_for": {"type": "float"},
}
APPROVE_OPTIONS: Dict[str, Dict[str, Any]] = {
    "event_id": {"type": "list", "elements": "str", "required": True, "aliases": ["event_ids"]},
    "leader_only": {"type": "bool", "default": False},
    "history_directories": {"type": "list", "elements": "path", "default": list(DIRECTORIES)},
}


def read(run: ImdsModule) -> Dict[str, Any]:
    document = run.client.fetch()
    return {
        "changed": False,
        "events": run.describe(run.wanted().select(document)),
        "drill": bool(document.drill),
        "incarnation": document.incarnation,
        "vm_name": run.vm_name(),
        "api_version": run.client.api_version,
        **run.where(),
    }


def _report(run: ImdsModule, last: Optional[Waited], elapsed: float) -> Dict[str, Any]:
    return {
        "changed": False,
        "events": run.describe(last.events) if last else [],
        "elapsed": round(elapsed, 3),
        "drill": bool(last and last.document.drill),
        "incarnation": last.document.incarnation if last else None,
        **run.where(),
    }


def wait_for_state(run: ImdsModule) -> Dict[str, Any]:
    stable_for, timeout = run.params["stable_for"], run.params["timeout"]
    if timeout == 0:
        raise WrongValue("timeout is 0, expected a number above 0")
    if stable_for >= timeout:
        raise WrongValue(
            f"stable_for {stable_for:g} is out of range: expected seconds, 0 or more and less than timeout, "
            f"which is {timeout:g}"
        )
    try:
        waited = Wait(
            run.client,
            lambda seconds: run.wanted(seconds, hints=False),
            present=run.params["state"] == "present",
            timeout=timeout,
            sleep=run.params["sleep"],
            stable_for=stable_for,
            request_timeout=run.params["request_timeout"],
            retry_for=run.params["retry_for"],
            clock=run.clock,
        ).run()
    except WaitTimeout as error:
        run.module.fail_json(msg=str(error), **_report(run, error.last, error.elapsed))
    return _report(run, waited, waited.elapsed)


def _lists(run: ImdsModule, outcome: Approvals) -> Dict[str, Any]:
    found = dict(outcome._asdict(), **run.where())
    # Ansible keeps "skipped" for itself: it makes a bool of it, and a task skipped of one that has it.
    found["skipped_ids"] = found.pop("skipped")
    return found


def acknowledge(run: ImdsModule) -> Dict[str, Any]:
    leader_only = run.params["leader_only"]
    seen: Dict[str, ScheduledEvent] = {}

    def may_approve(event: ScheduledEvent) -> bool:
        seen[event.key] = event
        return not leader_only or event.is_led_by(run.vm_name())

    try:
        outcome = approve(
            run.client,
            run.params["event_id"],
            may_approve=may_approve,
            dry_run=run.module.check_mode,
        )
    except ApprovalFailed as error:
        run.module.fail_json(msg=str(error), status=error.status, not_approved=error.left, **_lists(run, error.outcome))
    if run.is_on_the_vm and not run.module.check_mode:
        _record([seen[event_id.lower()] for event_id in outcome.approved], run)
    return dict(_lists(run, outcome), changed=bool(outcome.approved))


def _record(events: Sequence[ScheduledEvent], run: ImdsModule) -> None:
    """Write who acknowledged into the history of the VM, if it has one that this user may write."""
    by, vm_name = "the module scheduled_event_approve", run.params["vm_name"] or ""
    facts = [acknowledgement(event, by=by, vm_name=vm_name, now=time.time()) for event in events]
    append_beside(run.params["history_directories"], facts)
