# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the unit does around a step: the state that it begins with, results and requests of hooks, and a dry run."""

import contextlib
from typing import Iterator, List, Optional, Sequence, Tuple

from _scheduled_events import engine, history_file, terms
from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import Moment
from _scheduled_events.document import Document
from _scheduled_events.lost_state import state_from
from _scheduled_events.policies import unrecovered
from _scheduled_events.runs import OK
from _scheduled_events.state import RUNNING, State, StateFile

from .. import systemd
from ..spool import Job, RunResult
from .config import Settings
from .hooks import HookRequests


def rehearse(
    state: State, document: Optional[Document], results: Sequence[terms.Result], now: Moment, config: terms.Config
) -> Tuple[State, List[terms.Action]]:
    """Take steps until nothing more follows. Hooks count as successful, and acknowledgements as accepted.

    :returns: the last state, and the actions of all steps.
    """
    done: List[terms.Action] = []
    while True:
        state, actions = engine.step(state, document, results, now, config)
        done += actions
        document, results = None, [result for action in actions for result in _success_of(action)]
        if not results:
            return state, done


def _success_of(action: terms.Action) -> Iterator[terms.Result]:
    if isinstance(action, terms.RunHooks):
        yield terms.HookResult(action.request_id, OK)
    elif isinstance(action, terms.Approve):
        yield terms.ApprovalResult(action.key, accepted=True)


def first_state(state_file: StateFile, history: Optional[str], *, now: Moment, hook_timeout: float) -> State:
    """The saved state, or the one that follows from the history of this VM; without a history that of a dry run.

    A state that cannot be used is put aside, and replaced at once if that is possible now.

    :raises OSError: the state cannot be read, or not be put aside.
    """
    if history is None:
        return State(serial=int(now.wall * 1000))
    state_file.prepare()
    problem = ""
    try:
        saved = state_file.load()
        if saved is not None:
            return engine.resume(saved)
    except WrongValue as error:
        problem = str(error)
    found = history_file.read(history, now=now.wall)
    unread = "; ".join(found.problems)
    state = state_from(found.facts, now=now, hook_timeout=hook_timeout, unread=unread)
    if problem and not (found.facts or unread):
        state = state._replace(lost=f"there is no history in {history}")
    if problem:
        systemd.log(systemd.ERROR, f"{problem}; kept as {state_file.put_aside()}")
    if problem or state.events or state.lost:
        systemd.log(systemd.ERROR, "the poller begins without its state. An event that is announced now is prepared")
        systemd.log(systemd.ERROR, f"again; {len(state.events)} other events count as not recovered. See the status")
        with contextlib.suppress(OSError):
            state_file.save(state)  # otherwise the next process finds the same
    return state


def hidden_by_dry_run(state_file: StateFile) -> str:
    """What a dry run, which begins without the saved state, would hide of this VM; empty if nothing."""
    try:
        saved = state_file.load()
    except (OSError, WrongValue) as error:
        return f"the state from before the dry run cannot be read: {error}"
    prepared = ", ".join(unrecovered(saved)) if saved else ""
    return f"this VM was prepared for {prepared} before the dry run, and recovers after it" if prepared else ""


def ended_runs(state: State, root_side: HookRequests) -> List[Tuple[str, RunResult]]:
    """The runs that have ended, each with its phase."""
    runs = [each for entry in state.events.values() for each in entry.runs.items() if each[1].outcome == RUNNING]
    results = [(phase, root_side.result(run.request_id)) for phase, run in runs]
    return [(phase, result) for phase, result in results if result is not None]


def job_of(action: terms.RunHooks, config: terms.Config, settings: Settings) -> Job:
    """What the root side is asked to run."""
    return Job(vm_name=config.vm_name, hooks=tuple(settings.hooks.get(action.phase, ())), **action._asdict())
