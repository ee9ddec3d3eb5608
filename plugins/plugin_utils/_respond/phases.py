# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the play runs in each phase, by the options of the role. Private to the collection."""

from __future__ import annotations

import typing as t

from .context import Context

PHASES = ("prepare", "started", "recover", "advised")
FORGET_STEP = "forget.yml"  # a tasks file of the role, as are the next two
LOAD_BALANCER_STEP, HANDLERS_STEP = "load_balancer.yml", "handlers.yml"
NOT_BEFORE_MARGIN = 10.0  # seconds between the last moment of a drain and NotBefore


class Phases:
    """The phases of one host."""

    def __init__(self, context: Context) -> None:
        self._options, self._clock, self._has_failed = context.options, context.clock, context.has_failed

    def has_work(self, phase: str) -> bool:
        """Whether the play has anything to run in the phase."""
        return bool(self._tasks_of(phase) or self._balances(phase))

    def outcome_without_the_play(self, following: dict[str, t.Any]) -> dict[str, t.Any] | None:
        """The outcome of a phase for which the play has nothing to run; None if it has, or if nothing follows."""
        phase = following.get("next")
        if phase not in PHASES or self.has_work(phase):
            return None
        return {"phase": phase, "ok": True, "reason": "", **{key: following[key] for key in ("request_ids", "events")}}

    def describe(self, shown: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The result for the play when the host has a phase to run."""
        phase = shown["next"]
        balance = {"recover": "active", "advised": ""}.get(phase, "drained")
        return {
            "next": phase,
            "changed": True,
            "events": shown["events"],
            "request_ids": shown["request_ids"],
            "steps": self._steps(phase),
            "load_balancer": balance if self._options["load_balancer"] else "",
            # The impact does not wait for connections.
            "drain_timeout": 0 if phase == "started" else int(self._options["drain_timeout"]),
            "drain_deadline": self._drain_deadline(phase, shown["events"]),
            "drain_on_timeout": "continue" if phase == "started" else self._options["drain_on_timeout"],
        }

    def _tasks_of(self, phase: str) -> str:
        return str(self._options[f"{phase}_tasks"])

    def _balances(self, phase: str) -> bool:
        return bool(self._options["load_balancer"]) and phase != "advised"

    def _steps(self, phase: str) -> list[dict[str, t.Any]]:
        """The tasks files of the phase, in order.

        Each names all of them: where hosts run in lockstep, Ansible includes equal items once for all hosts, at the
        place where the first host has them.
        """
        balancer = [LOAD_BALANCER_STEP] if self._balances(phase) else []
        tasks = [self._tasks_of(phase)] if self._tasks_of(phase) else []
        # The handlers run after all steps in any case.
        files = [*tasks, HANDLERS_STEP, *balancer] if phase == "recover" and balancer else [*balancer, *tasks]
        # What a failed phase notified runs now, and not after the tasks of this one.
        files = [FORGET_STEP, HANDLERS_STEP, *files] if self._has_failed else files
        return [{"file": file, "number": number, "of": files} for number, file in enumerate(files, 1)]

    def _drain_deadline(self, phase: str, events: t.Sequence[t.Mapping[str, t.Any]]) -> float:
        """When the drain has to be over, by the clock of the control node; 0 if at no special time."""
        left = [event["seconds_until_not_before"] for event in events if phase == "prepare"]
        moments = [self._clock.wall() + seconds - NOT_BEFORE_MARGIN for seconds in left if seconds is not None]
        return max(1.0, min(moments)) if moments else 0.0
