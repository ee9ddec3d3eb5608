# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The means by which something is done: hooks, acknowledgements, the state file and the history, or their dry run."""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple, Union

from _scheduled_events import engine, terms
from _scheduled_events.clock import Clock
from _scheduled_events.history_file import History
from _scheduled_events.state import RUNNING, UNKNOWN, State, StateError, StateFile

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


def first_state(state_file: AnyStateFile, path: str, *, now: float) -> State:
    """The saved state, or a fresh one.

    :param path: of the state file. It is put aside if it cannot be used.
    """
    fresh = State(serial=int(now * 1000))  # no number of an earlier state, whose results may still exist
    try:
        return engine.resume(state_file.load() or fresh)
    except StateError as error:
        kept = StateFile(path).put_aside(now)
        systemd.log(systemd.ERROR, f"{error}; kept as {kept}; the poller begins without a state: an event that")
        systemd.log(systemd.ERROR, "is announced now is prepared again, an event that is over by now is not recovered")
        return fresh._replace(unannounced=UNKNOWN)


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
        prepares=action.prepares,
        first_run=action.first_run,
        recovered=action.recovered,
        undone=action.undone,
    )
