# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions of the control node in the turns of one host, until its tasks have to run. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.condition import NOTHING_PREPARES
from ...module_utils._scheduled_events.document import DELETING_TYPES
from ...module_utils._scheduled_events.rules import APPROVE, HOLD
from ...module_utils._scheduled_events.terms import NEVER
from .._run.identity import is_dead
from .._run.job import has_ended
from .conclusion import Conclusion
from .notes import Notes
from .pace import Pace
from .phases import PHASES, Phases
from .play_coordinator import (
    FAILED,
    HELD,
    IN_PART,
    PREPARED,
    UNCONFIGURED,
    ClaimStatus,
    HostReport,
    Outcome,
    PlayCoordinator,
    Seen,
)
from .turns import Execute, HostTurns, Send

DECIDED = {APPROVE: PREPARED, HOLD: HELD}  # what a rule says to the other hosts, whatever became of the preparation

# While other hosts prepare or acknowledge, a host that has just reported starts no module for this many times as long
# as its report took, since a busy control node needs its processors for them. After so many seconds it looks for a new
# event anyway.
PAUSE_FACTOR, LONGEST_PAUSE, PAUSE_STEP = 2.0, 10.0, 0.5
RECONNECT_PAUSE = 2.0  # seconds between two attempts to reach a host that is lost
FIRST_SIGNAL = 128  # the exit status of a shell whose command a signal has ended is this, and the number of the signal
FAREWELL = 10.0  # seconds for which a VM is looked for that its event deletes


class HostLost(Exception):
    """The connection to the host broke. ``original``: the error of Ansible that says so, if there is one."""

    def __init__(self, message: str, original: Exception | None = None) -> None:
        super().__init__(message)
        self.original = original


def looks_cut_off(answer: t.Mapping[str, t.Any]) -> bool:
    """Whether the module's process ended without an answer, and not because of its own error.

    A host that reboots just then may empty its directory for temporary files first, which the process is loaded from.
    """
    if "invocation" in answer or "module_stderr" not in answer:
        return False
    output = f"{answer.get('module_stdout', '')}\n{answer['module_stderr']}".rstrip()
    by_a_signal = answer.get("rc", 0) > FIRST_SIGNAL  # a module that ends by itself has no such status
    return by_a_signal or "Traceback" not in output or "_payload" in output.rpartition("\n")[2]


class Responding:
    """The turns of one host.

    :param execute: ``execute(control_node, outcome, within)`` runs the module on the host with what the control node
        adds to its options. It raises :class:`HostLost`, also if there is no answer within these seconds.
    :param say: show a line to people; ``warn``: one that they should look at.
    :param active_hosts: those of the play that have neither failed nor become unreachable.
    :param in_part: whether tags may leave out tasks of a phase, so that nothing counts as prepared.
    :param shares_fork: whether there are fewer forks than hosts, so a host that waits keeps another one from starting.
    :param lockstep: whether each host waits for the others at each task.
    :param send: acknowledge in the place of a host that no longer answers, as :class:`Fallback` has it.
    """

    def __init__(
        self,
        *,
        host: str,
        run: str,
        owner: dict[str, t.Any],
        options: t.Mapping[str, t.Any],
        notes: Notes,
        coordinator: PlayCoordinator,
        execute: Execute,
        say: t.Callable[[str], None],
        warn: t.Callable[[str], None],
        active_hosts: t.Sequence[str],
        in_part: bool = False,
        shares_fork: bool = False,
        lockstep: bool = False,
        check_mode: bool = False,
        clock: Clock = CLOCK,
        send: Send | None = None,
    ) -> None:
        self._host, self._run = host, run
        self._options = options
        self._notes = notes
        self._coordinator = coordinator
        self._warn = warn
        self._shares_fork, self._lockstep = shares_fork, lockstep
        self._check_mode, self._in_part = check_mode, in_part
        self._active_hosts = active_hosts
        self._clock = clock
        self._warned: set[str] = set()
        self._resumed = self._clock.monotonic()
        self._acknowledges = options["acknowledge"] != NEVER and not in_part
        self._pace = Pace(
            wait_timeout=options["wait_timeout"],
            notes=notes,
            coordinator=coordinator,
            clock=self._clock,
            makes_room=shares_fork or lockstep,
        )
        self._phases = Phases(options, self._clock.wall)
        self._conclusion = Conclusion(
            host=host,
            notes=notes,
            coordinator=coordinator,
            acknowledges=self._acknowledges,
            must_start=self._phases.has_work("prepare") and not (check_mode or options["within_maintenance"]),
            wait_timeout=options["wait_timeout"],
            say=say,
            active_hosts=active_hosts,
        )
        self._turns = HostTurns(
            host=host,
            run=run,
            owner=owner,
            options=options,
            notes=notes,
            coordinator=coordinator,
            phases=self._phases,
            pace=self._pace,
            execute=execute,
            say=say,
            warn=warn,
            check_mode=check_mode,
            clock=self._clock,
            send=send,
            in_part=in_part,
        )

    def next_step(self) -> dict[str, t.Any]:
        """Go on until a phase is to be run, all is done, or other hosts have work to do."""
        outcome = self._conclusion.explained(self._options["outcome"])
        self._conclusion.note(outcome)
        outcome = outcome or self._notes["unreported"]
        if self._notes["ended"] and self._host not in self._coordinator.called_back([self._host]):
            return self._stay_or_end(newly=False)
        self._notes["ended"] = False
        while True:
            try:
                began, reported = self._clock.monotonic(), outcome
                shown = self._turns.report(outcome)
                outcome = self._notes["unreported"] = None
                took = self._clock.monotonic() - began
                following = self._follow(shown)
                if following is None and reported:
                    self._spare_the_control_node(took)
            except HostLost as error:
                following = self._after_loss(error, outcome)
            if following is None:
                continue
            outcome = self._phases.outcome_without_the_play(following)
            if outcome is None:
                return following
            self._conclusion.note(outcome)

    def _spare_the_control_node(self, took: float) -> None:
        until = self._clock.monotonic() + min(LONGEST_PAUSE, PAUSE_FACTOR * took)
        if self._check_mode or not (self._pace.is_claimed() or self._coordinator.others_have_work(self._host)):
            return
        while self._clock.monotonic() < until and self._pace.is_held_by_others():
            self._clock.sleep(PAUSE_STEP)

    def _follow(self, shown: dict[str, t.Any]) -> dict[str, t.Any] | None:
        """Return the result for the play; None to take another turn."""
        if "next" not in shown:
            return shown  # the module failed
        if shown["next"] == "locked":
            return self._wait_for_the_other_run(shown["lease"])
        twin = self._coordinator.twin(self._host, shown["vm_name"])
        if twin:
            return self._leave_it_to(twin)
        self._publish(shown)
        if shown["ready"] and self._acknowledges:
            shown = self._acknowledge(shown)
            if "next" not in shown:
                return shown
        if shown["next"] in PHASES:
            return self._begin(shown)
        if shown["next"] == "done":
            return self._stay_or_end(newly=True) if shown["sight"] else self._conclusion.done()
        if self._turns.fallback:
            self._turns.fallback.act([])
        return self._wait("")

    def _stay_or_end(self, *, newly: bool) -> dict[str, t.Any]:
        """End, or stay as long as an event of others may grow to this host, where the strategy keeps it anyway."""
        self._coordinator.end(self._host)
        others = self._coordinator.others_respond(self._host, self._active_hosts, silent=newly)
        if self._lockstep and others and not self._check_mode and not self._notes["failures"]:
            self._notes["ended"] = True
            self._notes.keep()
            return {"next": "wait"}
        return self._conclusion.done()

    def _leave_it_to(self, twin: str) -> dict[str, t.Any]:
        self._coordinator.publish(HostReport(host=self._host, vm_name=""))
        return self._conclusion.failure(
            f"{twin} and {self._host} are the same VM, {self._notes['vm_name']}, and {twin} responds to its events. "
            "Leave one of them out of the play"
        )

    def _publish(self, shown: dict[str, t.Any]) -> None:
        types = {event["event_id"]: event["event_type"] or "" for event in shown["waiting"]}
        kinds = {
            **dict.fromkeys(shown["prepared"], PREPARED),
            **dict.fromkeys(shown["unprepared"], FAILED),
            **{each["event_id"]: UNCONFIGURED for each in shown["waiting"] if each["condition"] == NOTHING_PREPARES},
            **{each["event_id"]: DECIDED[each["decision"]] for each in shown["waiting"] if each["decision"] in DECIDED},
        }
        if self._in_part:
            kinds = {event_id: FAILED if kinds.get(event_id) == FAILED else IN_PART for event_id in types}
        assumed = self._notes["over"]  # by a plan: the other hosts of the plan still count this one as prepared
        self._coordinator.publish(
            HostReport(
                host=self._host,
                vm_name=shown["vm_name"],
                sight=None if assumed or shown["sight"] is None else _sight(shown["sight"]),
                outcomes={event_id: Outcome(kind, types[event_id]) for event_id, kind in kinds.items()},
                busy=shown["next"] in PHASES and self._phases.has_work(shown["next"]),
                last=f"{self._doing(shown['next'])} at {self._clock.utc()}",
            )
        )

    def _begin(self, shown: dict[str, t.Any]) -> dict[str, t.Any]:
        if shown["next"] == "prepare":
            ids = [event["event_id"] for event in shown["events"]]
            self._notes["prepared_for"].update({event_id: self._notes.seen(event_id) for event_id in ids})
        self._notes.keep()
        return self._phases.describe(shown)

    def _doing(self, following: str) -> str:
        if following not in PHASES:
            return "last answered"
        return f"has begun the phase {following}"

    def _acknowledge(self, shown: dict[str, t.Any]) -> dict[str, t.Any]:
        claimed = [event_id for event_id in shown["ready"] if self._turns.claim(event_id)]
        if not claimed:
            return shown
        answer = self._turns.ask_while_claimed(claimed)
        if answer.get("next") not in (None, "locked"):
            self._publish(answer)
        return answer

    def _wait(self, why: str) -> dict[str, t.Any] | None:
        if self._pace.waited() >= self._options["wait_timeout"]:
            return self._conclusion.failure(why or self._conclusion.still_held())
        return self._let_others_go_on()

    def _let_others_go_on(self) -> dict[str, t.Any] | None:
        lockstep = self._lockstep and (
            self._coordinator.others_have_work(self._host) or bool(self._coordinator.called_back(self._active_hosts))
        )
        if not (self._shares_fork or lockstep) or self._check_mode:
            return None
        self._notes.keep()
        return {"next": "wait"}

    def _wait_for_the_other_run(self, lease: dict[str, t.Any]) -> dict[str, t.Any] | None:
        if lease["run"] == self._run:
            return self._leave_it_to(lease["host"])
        if is_dead(lease["owner"]) or has_ended(lease["owner"], os.environ):
            self._turns.abandoned = lease["run"]
            return None
        self._turns.locked_out = True
        left = lease["left"]
        whose = f"another run (process {lease['owner'].get('pid')} on {lease['owner'].get('node')})"
        if whose not in self._warned:
            self._warned.add(whose)
            self._warn(
                f"{self._host}: {whose} has this host. Waiting until that run has ended, or {left:.0f} s if it was "
                "interrupted"
            )
        return self._wait(f"{whose} still has this host. Run the role again when that run has ended")

    # The end

    def _after_loss(self, error: HostLost, outcome: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
        if not self._notes["answered"]:
            raise error
        if self._turns.fallback:
            self._turns.fallback.miss()
            self._turns.fallback.act([event["event_id"] for event in self._turns.prepared_by(outcome)])
        now = self._clock.monotonic()
        if self._notes["lost_since"] is None:
            self._notes["lost_since"] = now
            self._warn(f"{self._host}: lost ({error}); trying to reach it again")
        deleted = [each for each in self._notes["waiting"] if self._deletes(each)]
        lost_for = now - self._notes["lost_since"]
        if deleted and lost_for >= min(FAREWELL, self._options["reconnect_timeout"]):
            for each in deleted:
                line = {"event_id": each["event_id"], "event_type": each["event_type"], "text": "has deleted the VM"}
                self._turns.show_progress(line)
            return self._conclusion.done()
        if lost_for >= self._options["reconnect_timeout"]:
            raise error
        self._clock.sleep(RECONNECT_PAUSE)
        if self._clock.monotonic() - self._resumed < self._pace.stay():
            return None
        self._notes["unreported"] = outcome
        return self._let_others_go_on()

    def _deletes(self, event: t.Mapping[str, t.Any]) -> bool:
        if event["event_type"] not in DELETING_TYPES:
            return False
        came = event["not_before"] is not None and event["not_before"] <= self._clock.wall()
        accepted = event["accepted"] or self._coordinator.status(event["event_id"]) is ClaimStatus.ACCEPTED
        return bool(came or event["impact"] or accepted)

    def end_of_lost_host(self, error: HostLost) -> dict[str, t.Any]:
        """Return the result for a host that was given up; empty if the host never answered."""
        if not self._notes["answered"]:
            return {}
        return self._conclusion.failure(f"lost, and not reached again ({error}). Run the role again to finish")


def _sight(events: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, Seen]:
    return {event["event_id"]: Seen(event["event_type"], event["names"]) for event in events}
