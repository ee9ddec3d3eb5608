# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions of the control node in the turns of one host, until its tasks have to run. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ...module_utils._scheduled_events.condition import NOTHING_PREPARES
from ...module_utils._scheduled_events.document import DELETING_TYPES
from ...module_utils._scheduled_events.rules import APPROVE, HOLD
from .._ansible.other_host import HostLost
from .._ansible.run import has_ended, is_dead
from .conclusion import Conclusion
from .context import Context
from .phases import PHASES, Phases
from .play_coordinator import FAILED, HELD, IN_PART, PREPARED, UNCONFIGURED, ClaimStatus, HostReport, Outcome, SeenEvent
from .stay import REST_STEP, Stay
from .turns import HostTurns

DECIDED = {APPROVE: PREPARED, HOLD: HELD}  # what a rule says to the other hosts, whatever became of the preparation

RECONNECT_PAUSE = 2.0  # seconds between two attempts to reach a host that is lost
FIRST_SIGNAL = 128  # the exit status of a shell whose command a signal has ended is this, and the number of the signal
FAREWELL = 10.0  # seconds for which a VM is looked for that its event deletes
LOOK_PAUSE = 5.0  # seconds between two looks for an event that Azure has published outside the VM


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
    """The turns of one host."""

    def __init__(self, context: Context) -> None:
        self._context, self._options, self._clock = context, context.options, context.clock
        self._host, self._notes, self._coordinator = context.host, context.notes, context.coordinator
        self._stay = Stay(context)
        self._phases = Phases(context)
        self._conclusion = Conclusion(context, prepares=self._phases.has_work("prepare"))
        self._turns = HostTurns(context, self._phases)

    def next_step(self) -> dict[str, t.Any]:
        """Go on until a phase is to be run, all is done, or other hosts have work to do."""
        following: dict[str, t.Any] = {}
        try:
            following = self._next_step()
        finally:
            if "next" not in following:  # a failure, which the play may rescue: no other host waits for this one
                self._coordinator.end(self._host)
        return following

    def _next_step(self) -> dict[str, t.Any]:
        outcome = self._conclusion.explained(self._options["outcome"])
        if outcome:
            self._coordinator.end_tasks(self._host)
            self._take(outcome)
        if self._notes["ended"] and not self._coordinator.is_called(self._notes["vm_name"]):
            return self._stay_or_end(newly=False)
        self._notes["ended"] = False
        while True:
            if self._stay.rests():
                if self._stay.gives_way():
                    return self._let_others_go_on()
                continue
            try:
                shown = self._turns.report(self._notes["unreported"])
                self._notes["unreported"] = None
                following = self._follow(shown)
            except HostLost as error:
                following = self._after_loss(error, self._notes["unreported"])
            if following is None:
                continue
            outcome = self._phases.outcome_without_the_play(following)
            if outcome is None:
                return following
            self._take(outcome)

    def _take(self, outcome: dict[str, t.Any]) -> None:
        """Take the outcome of a phase. Other hosts learn of a preparation before the host does."""
        self._conclusion.note(outcome)
        self._notes["unreported"] = outcome
        ready = self._turns.completed_by(outcome)
        if self._may_rest and ready and len(ready) == len(outcome["request_ids"]):
            # As long as the host does not know the outcome, it has the lease of the phase.
            left = self._options["phase_timeout"] - (self._clock.monotonic() - self._notes["phase_began"])
            self._coordinator.tell(self._host, ready, last=f"prepared at {self._clock.utc()}")
            self._stay.begin_to_rest(list(ready), at_most=left / 2)

    @property
    def _may_rest(self) -> bool:
        # The fallback needs a document that is young.
        return not (self._context.check_mode or self._turns.fallback)

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
        if shown["ready"] and self._context.acknowledges:
            shown = self._acknowledge(shown)
            if "next" not in shown:
                return shown
        if shown["next"] in PHASES:
            return self._begin(shown)
        if shown["next"] == "done":
            return self._look_or_end(shown)
        if self._turns.fallback:
            self._turns.fallback.act([])
        if shown["ready"] and self._context.acknowledges and self._may_rest:
            self._stay.begin_to_rest(shown["ready"])
        return self._wait("")

    def _look_or_end(self, shown: dict[str, t.Any]) -> dict[str, t.Any] | None:
        """End, or look again for an event that Azure has published and that the document has not shown."""
        limit = min(self._options["published_timeout"], self._options["wait_timeout"])
        if self._conclusion.missing_events() and self._context.waited() < limit and not self._context.check_mode:
            self._clock.sleep(LOOK_PAUSE)
            return self._let_others_go_on() if self._stay.makes_room() else None
        return self._stay_or_end(newly=True) if shown["sight"] else self._conclusion.done()

    def _stay_or_end(self, *, newly: bool) -> dict[str, t.Any]:
        """End, or stay as long as an event of others may grow to this host, where the strategy keeps it anyway."""
        self._coordinator.end(self._host)
        others = self._coordinator.others_respond(self._host, self._context.active_hosts, silent=newly)
        left = self._options["wait_timeout"] - self._context.waited()
        may_stay = self._context.lockstep and not self._context.check_mode and not self._notes["failures"]
        if may_stay and others and left > 0:
            self._notes["ended"] = True
            self._clock.until(self._is_wanted, within=left, every=REST_STEP)
            return self._let_others_go_on()
        return self._conclusion.done()

    def _is_wanted(self) -> bool:
        return self._coordinator.is_called(self._notes["vm_name"]) or self._stay.has_stayed()

    def _leave_it_to(self, twin: str) -> dict[str, t.Any]:
        self._coordinator.publish(HostReport(host=self._host, vm_name=""))
        return self._conclusion.failure(
            f"{twin} and {self._host} are the same VM, {self._notes['vm_name']}, or two of this name, and {twin} "
            "responds to its events. Leave one of them out, and run the role for each resource group separately"
        )

    def _publish(self, shown: dict[str, t.Any]) -> None:
        types = {event["event_id"]: event["event_type"] or "" for event in shown["waiting"]}
        kinds = {
            **dict.fromkeys(shown["prepared"], PREPARED),
            **dict.fromkeys(shown["unprepared"], FAILED),
            **{each["event_id"]: UNCONFIGURED for each in shown["waiting"] if each["condition"] == NOTHING_PREPARES},
            **{each["event_id"]: DECIDED[each["decision"]] for each in shown["waiting"] if each["decision"] in DECIDED},
        }
        if self._context.in_part:
            kinds = {event_id: FAILED if kinds.get(event_id) == FAILED else IN_PART for event_id in types}
        doing = f"has begun the phase {shown['next']}" if shown["next"] in PHASES else "last answered"
        assumed = self._notes["over"]  # by a plan: the other hosts of the plan still count this one as prepared
        self._coordinator.publish(
            HostReport(
                host=self._host,
                vm_name=shown["vm_name"],
                sight=None if assumed or shown["sight"] is None else _sight(shown["sight"]),
                outcomes={event_id: Outcome(kind, types[event_id]) for event_id, kind in kinds.items()},
                busy=shown["next"] in PHASES and self._phases.has_work(shown["next"]),
                recovers=shown["next"] == "recover" and not assumed,
                last=f"{doing} at {self._clock.utc()}",
            )
        )

    def _begin(self, shown: dict[str, t.Any]) -> dict[str, t.Any] | None:
        if shown["next"] == "recover":
            claims = [self._coordinator.status(event_id) for event_id in self._notes["prepared_for"]]
            if ClaimStatus.CLAIMED in claims:  # another host is about to acknowledge what this one has prepared for
                self._clock.sleep(REST_STEP)
                return self._wait("")
        if shown["next"] == "prepare":
            ids = [event["event_id"] for event in shown["events"]]
            self._notes["prepared_for"].update({event_id: self._notes.seen(event_id) for event_id in ids})
        self._notes["phase_began"] = self._clock.monotonic()
        if self._phases.has_work(shown["next"]):
            kept = {name: shown[name] for name in ("request_ids", "events")}
            self._notes["handed_out"] = {"phase": shown["next"], **kept}
        self._notes.keep()
        return self._phases.describe(shown)

    def _acknowledge(self, shown: dict[str, t.Any]) -> dict[str, t.Any]:
        claimed = [event_id for event_id in shown["ready"] if self._turns.claim(event_id)]
        if not claimed:
            return shown
        answer = self._turns.ask_while_claimed(claimed)
        if answer.get("next") not in (None, "locked"):
            self._publish(answer)
        return answer

    def _wait(self, why: str) -> dict[str, t.Any] | None:
        # A plan is a step or two more, however long the play was busy.
        waited = self._stay.seconds if self._context.check_mode else self._context.waited()
        left = self._options["wait_timeout"] - waited
        if left <= 0:
            return self._conclusion.failure(why or self._conclusion.still_held())
        moments = [each["waits_until"] for each in self._notes["waiting"]]
        latest = self._clock.wall() + (0 if self._context.check_mode else left)
        if moments and all(moment and moment > latest for moment in moments):
            return self._stay_or_end(newly=True)  # the next run does it
        return self._let_others_go_on() if self._stay.makes_room() else None

    def _let_others_go_on(self) -> dict[str, t.Any]:
        self._notes["returns"] += 1
        self._notes.keep()
        return {"next": "wait"}

    def _wait_for_the_other_run(self, lease: dict[str, t.Any]) -> dict[str, t.Any] | None:
        if lease["run"] == self._context.run:
            return self._leave_it_to(lease["host"])
        if is_dead(lease["owner"]) or has_ended(lease["owner"], os.environ):
            self._turns.abandoned = lease["run"]
            return None
        self._turns.locked_out = True
        left = lease["left"]
        whose = f"another run (process {lease['owner'].get('pid')} on {lease['owner'].get('node')})"
        self._context.warn_once(
            f"{whose} has this host. Waiting until that run has ended, or {left:.0f} s if it was interrupted",
            about=whose,
        )
        return self._wait(f"{whose} still has this host. Run the role again when that run has ended")

    # The end

    def _after_loss(self, error: HostLost, outcome: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
        if not self._notes["answered"]:
            raise error
        if self._turns.fallback:
            self._turns.fallback.miss(self._turns.due)
            self._turns.fallback.act([event["event_id"] for event in self._turns.prepared_by(outcome)])
        now = self._clock.monotonic()
        if self._notes["lost_since"] is None:
            self._notes["lost_since"] = now
            self._context.warn(f"{self._host}: lost ({error}); trying to reach it again")
        deleted = [each for each in self._notes["waiting"] if self._deletes(each)]
        lost_for = now - self._notes["lost_since"]
        if self._is_over_from_outside():
            lost_for = float("inf")
        if deleted and lost_for >= min(FAREWELL, self._options["reconnect_timeout"]):
            for each in deleted:
                line = {"event_id": each["event_id"], "event_type": each["event_type"], "text": "has deleted the VM"}
                self._context.show_progress(line)
            return self._conclusion.done()
        if lost_for >= self._options["reconnect_timeout"]:
            raise error
        self._clock.sleep(RECONNECT_PAUSE)
        if self._stay.seconds < self._turns.stay():
            return None
        return self._let_others_go_on() if self._stay.makes_room() else None

    def _is_over_from_outside(self) -> bool:
        """Whether Azure has published the end of each event of this host."""
        ids = [each["event_id"] for each in self._notes["waiting"]]
        return bool(ids) and all(map(self._context.published.is_over, ids))

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


def _sight(events: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, SeenEvent]:
    return {event["event_id"]: SeenEvent(event["event_type"], event["names"]) for event in events}
