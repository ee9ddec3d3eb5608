# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The poller's side of hooks: leaves requests for root, and reads the results."""

import contextlib
import os
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from _scheduled_events.files import read_plain, write_atomically
from _scheduled_events.runs import PHASES, WEBHOOK_HOOK
from _scheduled_events.terms import UNKNOWN_HOOKS

from .. import spool

UNHEARD = 10.0  # seconds after which a request waits for longer than usual; root takes one within a second


class Phases(NamedTuple):
    """The phases that have hooks, and by phase the hooks that should be there and are not.

    ``preparation``: the names of the prepare hooks, without that of the webhooks.
    """

    configured: FrozenSet[str]
    missing: Dict[str, Tuple[str, ...]]
    preparation: str


def phases(hooks_directory: str, required: Mapping[str, Sequence[str]]) -> Phases:
    """Which phases have hooks.

    A phase has hooks if the configuration requires a hook, or if there is a hook. A directory that this process cannot
    read counts as well, since root reads it later.

    :param required: names of the hooks that the configuration requires, by phase.
    """
    sets = spool.hook_sets(hooks_directory)  # once for all phases
    configured, missing, preparation = set(), {}, ""
    for phase in PHASES:
        names = required.get(phase, ())
        try:
            there: Optional[List[str]] = list(spool.find_hooks(sets, phase))
        except OSError:
            there = None
        if names or there is None or there:
            configured.add(phase)
        if phase == "prepare":
            preparation = UNKNOWN_HOOKS if there is None else "/".join(sorted({*names, *there} - {WEBHOOK_HOOK}))
        absent = tuple(name for name in names if there is not None and name not in there)
        if absent:
            missing[phase] = absent
    return Phases(frozenset(configured), missing, preparation)


class HookRequests:
    """Requests for hooks and their results."""

    def __init__(self, directories: spool.Directories) -> None:
        self._directories = directories
        self._seen: Dict[str, float] = {}  # when requests that wait were seen first

    def prepare(self) -> None:
        """Make the directory of the requests, which starts the root side as soon as it holds one.

        What a crash left half written is removed.

        :raises OSError: it cannot be made.
        """
        os.makedirs(self._directories.requests, mode=0o700, exist_ok=True)
        for name in os.listdir(self._directories.runtime):
            if name.startswith("."):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._directories.runtime, name))

    def ask(self, job: spool.Job) -> str:
        """Ask root to run hooks. A repetition is harmless, and one with other times moves the deadline of the run.

        :returns: why it could not be asked, and has to be asked later; empty if it was.
        """
        path = os.path.join(self._directories.requests, job.request_id)
        try:
            # It may have been removed since :meth:`prepare`.
            os.makedirs(self._directories.requests, mode=0o700, exist_ok=True)
            # The root side starts as soon as the directory of the requests holds a name.
            write_atomically(path, spool.format_request(job), mode=0o600, directory=self._directories.runtime)
        except OSError as error:
            return f"the request for the hooks cannot be written: {error}"
        return ""

    def unheard(self, now: float) -> str:
        """Why requests of earlier looks still wait; empty if none does.

        :param now: monotonic seconds.
        """
        names: List[str] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._directories.requests)
        self._seen = {name: self._seen.get(name, now) for name in names}
        if all(now - since <= UNHEARD for since in self._seen.values()):
            return ""
        return (
            "requests for hooks are not taken. Look at the units scheduled-events-hooks.path and "
            "scheduled-events-hooks.service"
        )

    def result(self, request_id: str) -> Optional[spool.RunResult]:
        """The result of a run, if it has ended."""
        path = os.path.join(self._directories.results, request_id)
        try:
            return spool.parse_result(read_plain(path, most=spool.MAX_RESULT, linked=True), request_id)
        except OSError:
            return None
