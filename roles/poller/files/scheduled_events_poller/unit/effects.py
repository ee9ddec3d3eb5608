# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The means by which something is done: hooks, acknowledgements, the state file and the history, or their dry run."""

import contextlib
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, Union

from _scheduled_events import engine, history_file, terms
from _scheduled_events.clock import Clock, Moment
from _scheduled_events.history_file import History
from _scheduled_events.lost_state import state_from
from _scheduled_events.state import RUNNING, State, StateError, StateFile

from .. import systemd
from ..spool import Directories, Job, RunResult
from . import hooks
from .config import Settings
from .dry_run import DryRunAcknowledger, DryRunHooks, DryRunStateFile
from .endpoint_resolver import EndpointResolver
from .service import Acknowledger

Hooks = Union[hooks.HookRequests, DryRunHooks]
AnyAcknowledger = Union[Acknowledger, DryRunAcknowledger]
AnyStateFile = Union[StateFile, DryRunStateFile]


class Means(NamedTuple):
    """The means of the unit, or those of a dry run, which has no history since nothing happens."""

    hooks: Hooks
    acknowledger: AnyAcknowledger
    state_file: AnyStateFile
    history: Optional[History]


def prepare(
    settings: Settings,
    state_file: str,
    history_directory: str,
    directories: Directories,
    resolver: EndpointResolver,
    deliver: Callable[[Any], None],
    *,
    drill: str,
    spawn_hooks: bool,
    clock: Clock,
) -> Means:
    """Make the means that the settings ask for.

    :param deliver: takes the outcome of an attempt to acknowledge, in another thread.
    :param drill: directory in which a drill announces its event.
    :param spawn_hooks: run hooks as processes of our own instead of units.
    :raises OSError: a directory cannot be used.
    """
    if settings.dry_run:
        means = Means(DryRunHooks(), DryRunAcknowledger(deliver), DryRunStateFile(), None)
    else:
        means = Means(
            hooks.HookRequests(directories, spawn=spawn_hooks),
            Acknowledger(settings, resolver, deliver, drill=drill, clock=clock),
            StateFile(state_file),
            History(history_directory),
        )
    means.hooks.prepare()
    means.state_file.prepare()
    return means


def first_state(state_file: AnyStateFile, history: Optional[History], *, now: Moment, hook_timeout: float) -> State:
    """The saved state, or the one that follows from the history of this VM.

    A state that cannot be used is put aside, and replaced at once if that is possible now.

    :param history: ``None``: nothing is carried out, so nothing can be owed.
    :raises OSError: the state cannot be read, or not be put aside.
    """
    problem = ""
    try:
        saved = state_file.load()
        if saved is not None:
            return engine.resume(saved)
    except StateError as error:
        problem = str(error)
    if history is None:
        return State(serial=int(now.wall * 1000))
    found = history_file.read(history.directory, now=now.wall)
    unread = "; ".join(found.problems)
    state = state_from(found.facts, now=now, hook_timeout=hook_timeout, unread=unread)
    if problem and not (found.facts or unread):
        state = state._replace(lost=f"there is no history in {history.directory}")
    if problem and isinstance(state_file, StateFile):
        systemd.log(systemd.ERROR, f"{problem}; kept as {state_file.put_aside()}")
    if problem or state.events or state.lost:
        systemd.log(systemd.ERROR, "the poller begins without its state. An event that is announced now is prepared")
        systemd.log(systemd.ERROR, f"again; {len(state.events)} other events count as not recovered. See the status")
        with contextlib.suppress(OSError):
            state_file.save(state)  # otherwise the next process finds the same
    return state


def ended_runs(state: State, root_side: Hooks) -> List[Tuple[str, RunResult]]:
    """The runs that have ended, each with its phase."""
    ended = []
    for entry in state.events.values():
        for phase, run in entry.runs.items():
            result = root_side.result(run.request_id) if run.outcome == RUNNING else None
            if result is not None:
                ended.append((phase, result))
    return ended


def job_of(action: terms.RunHooks, config: terms.Config, settings: Settings) -> Job:
    """What the root side is asked to run."""
    return Job(
        request_id=action.request_id,
        phase=action.phase,
        event=action.event,
        vm_name=config.vm_name,
        timeout=action.timeout,
        not_later_than=action.not_later_than,
        deadline=action.deadline,
        ends_at=action.ends_at,
        hooks=tuple(settings.hooks.get(action.phase, ())),
        failed_phase=action.failed_phase,
        failure=action.failure,
        first_run=action.first_run,
        recovered=action.recovered,
        undone=action.undone,
    )
