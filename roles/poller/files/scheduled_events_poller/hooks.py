# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The poller's side of hooks: leaves requests for root, and reads the results."""

import contextlib
import json
import os
import subprocess
import sys
from typing import FrozenSet, NamedTuple, Optional

from . import runner
from .engine import HookResult, RunHooks
from .runner import MAX_REQUEST, OUTCOMES, PHASES, Directories, hook_names


class HookEnded(NamedTuple):
    """The result of a run, and the seconds that it took."""

    result: HookResult
    phase: str
    seconds: float


def phases_with_hooks(hooks_directory: str) -> FrozenSet[str]:
    """The phases that have a hook. One whose directory we may not read counts: root can tell, and will."""
    return frozenset(phase for phase in PHASES if _has_hooks(os.path.join(hooks_directory, f"{phase}.d")))


def _has_hooks(directory: str) -> bool:
    try:
        return bool(hook_names(directory))
    except OSError:
        return True


class HookRequests:
    """Requests for hooks and their results.

    :param spawn: run the root side as processes of our own user, for tests and where there is no systemd.
    """

    def __init__(self, directories: Directories, *, spawn: bool = False) -> None:
        self._directories = directories
        self._spawn = spawn
        self._children: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> None:
        """Make the directory of the requests, which starts the root side as soon as it holds one.

        :raises OSError: it cannot be made.
        """
        os.makedirs(self._directories.requests, mode=0o700, exist_ok=True)

    def ask(self, action: RunHooks, vm_name: str) -> Optional[HookResult]:
        """Ask root to run hooks; a repetition is harmless.

        :returns: a result if it is clear at once that they cannot be run.
        """
        request = {
            "version": 1,
            "event": action.event,
            "vm_name": vm_name,
            "timeout": action.timeout,
            "not_later_than": action.not_later_than,
            "deadline": action.deadline,
        }
        text = json.dumps(request).encode()
        if len(text) > MAX_REQUEST:
            reason = f"the event takes {len(text)} bytes, more than the {MAX_REQUEST} that a hook can be given"
            return HookResult(action.request_id, runner.FAILED, reason)
        # Not in the directory itself, so that what is in there is always whole.
        temporary = os.path.join(self._directories.runtime, f".{action.request_id}")
        try:
            with open(temporary, "wb") as file:
                file.write(text)
            os.replace(temporary, os.path.join(self._directories.requests, action.request_id))
        except OSError as error:
            return HookResult(action.request_id, runner.FAILED, f"the request cannot be written: {error}")
        if self._spawn:
            self._start_root_side()
        return None

    def _start_root_side(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]
        options = runner.directory_options(self._directories)
        self._children.append(
            subprocess.Popen(
                [sys.executable, "-IS", runner.__file__, *options, "dispatch", "--spawn"],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def result(self, request_id: str) -> Optional[HookEnded]:
        """The result of a run, if it has ended."""
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            with open(os.path.join(self._directories.results, request_id), encoding="utf-8") as file:
                raw = json.load(file)
            if raw["outcome"] in OUTCOMES:
                result = HookResult(request_id, raw["outcome"], str(raw["reason"]))
                return HookEnded(result, str(raw["phase"]), float(raw["seconds"]))
        return None
