# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions of the controller in the turns of one host, until its tasks have to run. Private to the collection."""

from __future__ import annotations

import json
import os
import time
import typing as t
import uuid
from pathlib import Path

from ...module_utils._scheduled_events.condition import NOT_ACCEPTED, NOTHING_PREPARES, TO_BE_ACKNOWLEDGED
from ...module_utils._scheduled_events.rules import APPROVE, HOLD
from ...module_utils._scheduled_events.terms import NEVER
from .._azure.acknowledgement import Answer
from .._run.identity import is_dead
from .._run.job import has_ended
from .fallback import Fallback, Moment, Settings
from .rendezvous import ACCEPTED, CLAIMED, FAILED, FREE, HELD, PREPARED, UNCONFIGURED, Outcome, Rendezvous, Seen, Word

PHASES = ("prepare", "started", "recover", "advised")
DECIDED = {APPROVE: PREPARED, HOLD: HELD}  # what a rule says to the other hosts, whatever became of the preparation
LOAD_BALANCER_STEP, HANDLERS_STEP = "load_balancer.yml", "handlers.yml"  # tasks files of the role
DELETING = ("Preempt", "Terminate")  # after which the VM is gone

LONGEST_SLICE, SHORTEST_SLICE, TAKEOVER_SLICE = 60.0, 5.0, 15.0  # seconds
# While other hosts prepare, a host that has just reported starts no module for this many times as long as its report
# took, since a busy controller needs its processors for them. After so many seconds it looks for a new event anyway.
PAUSE_FACTOR, LONGEST_PAUSE, PAUSE_STEP = 2.0, 10.0, 0.5
RECONNECT_PAUSE = 2.0  # seconds between two attempts to reach a host that is lost
FAREWELL = 10.0  # seconds for which a VM is looked for that its event deletes
NOT_BEFORE_MARGIN = 10.0  # seconds between the last moment of a drain and NotBefore

# Seconds that a turn may take in addition to its slice. A machine that is switched off leaves its connections open.
# An acknowledgement that took longer is sent again, which does no harm.
OVERHEAD = 120.0
FIRST_OVERHEAD = 900.0  # since the first request enables the service


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
    return "Traceback" not in output or "_payload" in output.rpartition("\n")[2]


class Clock(t.NamedTuple):
    """The clocks and the sleep of the controller."""

    wall: t.Callable[[], float] = time.time
    monotonic: t.Callable[[], float] = time.monotonic
    sleep: t.Callable[[float], None] = time.sleep


class Notes:
    """The knowledge of the run about one host between two tasks, in a file of the controller."""

    def __init__(self, path: Path, *, fresh: bool, began: float) -> None:
        self._path = path
        self.known: dict[str, t.Any] = {
            "began": began,
            "vm_name": "",
            "marker": "",
            "state": "",
            "answered": False,
            "over": False,
            "prepared": [],
            "acknowledged": [],
            "recovered": [],
            "failures": [],
            "announced": {},
            "seen": {},
            "prepared_for": {},
            "waiting": [],
            "unreported": None,
            "lost_since": None,
            "resource_id": "",
            "last_read": None,
            "silent_since": None,
            "fallback": {},
            "story": {},
            "told": [],
        }
        if not fresh and path.exists():
            self.known.update(json.loads(path.read_text()))

    def __getitem__(self, name: str) -> t.Any:
        return self.known[name]

    def __setitem__(self, name: str, value: t.Any) -> None:
        self.known[name] = value

    def add(self, name: str, values: t.Iterable[str]) -> None:
        """Add to a list what it does not hold yet."""
        self.known[name] = list(dict.fromkeys([*self.known[name], *values]))

    def keep(self) -> None:
        """Write them for the next task."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(self.known))
        os.replace(temporary, self._path)


class Responding:
    """The turns of one host.

    :param execute: ``execute(controller, outcome, within)`` runs the module on the host with what the controller adds
        to its options. It raises :class:`HostLost`, also if there is no answer within these seconds.
    :param say: show a line to people; ``warn``: one that they should look at.
    :param active_hosts: those of the play that have neither failed nor become unreachable.
    :param leave_out_all: whether the tags of the run leave out every task of a tasks file.
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
        rendezvous: Rendezvous,
        execute: t.Callable[[dict[str, t.Any], dict[str, t.Any] | None, float], dict[str, t.Any]],
        say: t.Callable[[str], None],
        warn: t.Callable[[str], None],
        active_hosts: t.Sequence[str],
        leave_out_all: t.Callable[[str], bool] = lambda _path: False,
        shares_fork: bool = False,
        lockstep: bool = False,
        check_mode: bool = False,
        clock: Clock | None = None,
        send: t.Callable[[str, str, float], Answer] | None = None,
    ) -> None:
        self._host, self._run, self._owner = host, run, owner
        self._options = options
        self._notes = notes
        self._rendezvous = rendezvous
        self._execute, self._say, self._warn = execute, say, warn
        self._active_hosts, self._leave_out_all = active_hosts, leave_out_all
        self._shares_fork, self._lockstep = shares_fork, lockstep
        self._check_mode = check_mode
        self._clock = clock or Clock()
        self._abandoned = ""
        self._locked_out = False
        self._warned: set[str] = set()
        self._resumed = self._clock.monotonic()
        self._acknowledges = options["acknowledge"] != NEVER
        self._fallback = self._make_fallback(send) if send and self._acknowledges and not check_mode else None

    def _make_fallback(self, send: t.Callable[[str, str, float], Answer]) -> Fallback:
        # Where the tasks ran longer, another run may have the host.
        max_age = min(self._options["fallback_max_age"], self._options["phase_timeout"])
        return Fallback(
            Settings(max_age, self._options["fallback_resource_id"]),
            host=self._host,
            known=self._notes.known,
            rendezvous=self._rendezvous,
            send=send,
            tell=self._tell_of_acknowledgement,
            warn=self._warn_once,
            wall=self._clock.wall,
            monotonic=self._clock.monotonic,
        )

    def until_something_is_to_be_done(self) -> dict[str, t.Any]:
        """Go on until a phase is to be run, all is done, or other hosts need their turn."""
        outcome = self._explained(self._options["outcome"])
        self._take_notes_of(outcome)
        outcome = outcome or self._notes["unreported"]
        while True:
            try:
                began, reported = self._clock.monotonic(), outcome
                shown = self._report(outcome)
                outcome = self._notes["unreported"] = None
                took = self._clock.monotonic() - began
                following = self._follow(shown)
                if following is None and reported:
                    self._leave_the_controller_to_others(took)
            except HostLost as error:
                following = self._after_loss(error, outcome)
            if following is None:
                continue
            outcome = self._outcome_without_the_play(following)
            if outcome is None:
                return following
            self._take_notes_of(outcome)

    def _leave_the_controller_to_others(self, took: float) -> None:
        until = self._clock.monotonic() + min(LONGEST_PAUSE, PAUSE_FACTOR * took)
        if self._check_mode or not self._rendezvous.others_need_a_turn(self._host):
            return
        while self._clock.monotonic() < until and self._is_held_by_others():
            self._clock.sleep(PAUSE_STEP)

    def _is_held_by_others(self) -> bool:
        return any(self._may_be_taken_over(event_id) for event_id in self._notes["announced"])

    def _outcome_without_the_play(self, following: dict[str, t.Any]) -> dict[str, t.Any] | None:
        """The outcome of a phase for which the play has nothing to run; None if it has, or if nothing follows."""
        phase = following.get("next")
        if phase not in PHASES:
            return None
        outcome = {"phase": phase, "ok": True, **{key: following[key] for key in ("request_ids", "events")}}
        if not self._has_work(phase):
            return outcome
        tasks = self._tasks_of(phase)
        if phase != "prepare" or not tasks or not self._leave_out_all(tasks):
            return None
        reason = f"the tags of this run (--tags, --skip-tags) leave out every task of {tasks}"
        return {**outcome, "ok": False, "reason": reason}

    # One turn

    def _report(self, outcome: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Take a turn with the outcome. If only this host was waited for, it acknowledges in the same turn."""
        events = self._prepared_by(outcome) if self._acknowledges else []
        claimed = [
            event["event_id"]
            for event in events
            if self._is_seen_as(event) and self._claim(event["event_id"], assuming=self._host)
        ]
        return self._ask_while_claimed(claimed, outcome) if claimed else self._ask(outcome)

    def _is_seen_as(self, event: t.Mapping[str, t.Any]) -> bool:
        seen = self._seen(event["event_id"])
        return seen is not None and seen.event_type == (event["event_type"] or "")

    def _seen(self, event_id: str) -> Seen | None:
        """The event as the last document of this host showed it."""
        return Seen(*self._notes["seen"][event_id]) if event_id in self._notes["seen"] else None

    def _claim(self, event_id: str, *, assuming: str = "") -> bool:
        seen = self._seen(event_id)
        return seen is not None and self._rendezvous.claim(event_id, seen, assuming=assuming)

    def _ask_while_claimed(self, claimed: list[str], outcome: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        accepted: set[str] = set()
        try:
            answer = self._ask(outcome, acknowledge=claimed)
            accepted = {event_id.lower() for event_id in answer.get("acknowledged", [])}
        finally:
            for event_id in claimed:
                if event_id.lower() in accepted:
                    self._rendezvous.accept(event_id)
                else:
                    self._rendezvous.release(event_id)
        return answer

    def _ask(self, outcome: dict[str, t.Any] | None, acknowledge: t.Sequence[str] = ()) -> dict[str, t.Any]:
        notes = self._notes
        notes["over"] = notes["over"] or bool(
            self._check_mode and notes["answered"] and not acknowledge and not outcome
        )
        controller = {
            "run": self._run,
            "host": self._host,
            "owner": self._owner,
            "first": not notes["answered"],
            "abandoned": self._abandoned,
            "monotonic": self._clock.monotonic(),
            "slice": 0.0 if acknowledge or self._check_mode else self._slice(),
            "known": notes["marker"],
            "acknowledge": [
                {"event_id": event_id, **Seen(*notes["seen"][event_id])._asdict()} for event_id in acknowledge
            ],
            "compute": self._fallback is not None and self._fallback.wants_compute,
            "assume_over": notes["over"],
            "state": notes["state"],
            "vm_name": notes["vm_name"],
        }
        asked_at = Moment(self._clock.monotonic(), self._clock.wall())
        overhead = OVERHEAD if notes["answered"] else FIRST_OVERHEAD
        shown = self._execute(controller, outcome, controller["slice"] + overhead)
        if "next" in shown:
            notes["lost_since"] = None
            self._learn(shown, asked_at)
        return shown

    def _learn(self, shown: dict[str, t.Any], asked_at: Moment) -> None:
        notes = self._notes
        notes["vm_name"] = shown["vm_name"]
        for line in shown["story"]:
            self._tell_people(line)
        for problem in shown["problems"]:
            self._warn_once(problem)
        if shown["next"] == "locked":
            if self._fallback:
                self._fallback.forget()
            return
        notes["answered"] = True
        notes["marker"], notes["state"] = shown["marker"], shown["state"]
        notes["waiting"] = shown["waiting"]
        notes.add("prepared", shown["prepared"])
        notes.add("acknowledged", shown["acknowledged"])
        if self._fallback:
            self._fallback.learn(shown, asked_at)
        for event in shown["sight"] or []:
            notes["seen"][event["event_id"]] = Seen(event["event_type"], sorted(set(event["names"])))
            if notes["vm_name"].lower() in event["names"]:
                notes["announced"].setdefault(event["event_id"], "")
        for event_id in shown["prepared"]:  # also what an earlier run has prepared for
            notes["prepared_for"].setdefault(event_id, self._seen(event_id))

    def _tell_people(self, line: dict[str, t.Any]) -> None:
        event = f"{line['event_type']} {line['event_id']}"
        self._notes["told"].append({**line, "at": self._utc()})
        self._notes["story"].setdefault(event, []).append(line["text"])
        self._say(f"{self._host}: {event} {line['text']}")

    def _tell_of_acknowledgement(self, event_id: str, event_type: str, text: str) -> None:
        self._notes.add("acknowledged", [event_id])
        self._tell_people({"event_id": event_id, "event_type": event_type, "text": text})

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(f"{self._host}: {text}")

    def _follow(self, shown: dict[str, t.Any]) -> dict[str, t.Any] | None:
        """Return the result for the play; None to take another turn."""
        if "next" not in shown:
            return shown  # the module failed
        if shown["next"] == "locked":
            return self._wait_for_the_other_run(shown["lease"])
        twin = self._rendezvous.twin(self._host, shown["vm_name"])
        if twin:
            return self._leave_it_to(twin)
        self._tell_hosts(shown)
        if shown["ready"] and self._acknowledges:
            shown = self._acknowledge(shown)
            if "next" not in shown:
                return shown
        if shown["next"] in PHASES:
            return self._phase(shown)
        if shown["next"] == "done":
            return self.done()
        if self._fallback:
            self._fallback.act([])
        return self._wait("")

    def _leave_it_to(self, twin: str) -> dict[str, t.Any]:
        self._rendezvous.tell(Word(host=self._host, vm_name=""))
        return self._failure(
            f"{twin} and {self._host} are the same VM, {self._notes['vm_name']}, and {twin} responds to its events. "
            "Leave one of them out of the play"
        )

    def _tell_hosts(self, shown: dict[str, t.Any]) -> None:
        types = {event["event_id"]: event["event_type"] or "" for event in shown["waiting"]}
        kinds = {
            **dict.fromkeys(shown["prepared"], PREPARED),
            **dict.fromkeys(shown["unprepared"], FAILED),
            **{each["event_id"]: UNCONFIGURED for each in shown["waiting"] if each["condition"] == NOTHING_PREPARES},
            **{each["event_id"]: DECIDED[each["decision"]] for each in shown["waiting"] if each["decision"] in DECIDED},
        }
        self._rendezvous.tell(
            Word(
                host=self._host,
                vm_name=shown["vm_name"],
                sight={event["event_id"]: Seen(event["event_type"], event["names"]) for event in shown["sight"] or []},
                outcomes={event_id: Outcome(kind, types[event_id]) for event_id, kind in kinds.items()},
                busy=shown["next"] in PHASES and self._has_work(shown["next"]),
                last=f"{self._doing(shown['next'])} at {self._utc()}",
            )
        )

    def _doing(self, following: str) -> str:
        if following not in PHASES:
            return "last answered"
        return f"has begun the phase {following}"

    def _utc(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall()))

    def _acknowledge(self, shown: dict[str, t.Any]) -> dict[str, t.Any]:
        claimed = [event_id for event_id in shown["ready"] if self._claim(event_id)]
        if not claimed:
            return shown
        answer = self._ask_while_claimed(claimed)
        if answer.get("next") not in (None, "locked"):
            self._tell_hosts(answer)
        return answer

    def _wait(self, why: str) -> dict[str, t.Any] | None:
        if self._waited() >= self._options["wait_timeout"]:
            return self._failure(why or self._still_held())
        return self._let_others_go_on()

    def _let_others_go_on(self) -> dict[str, t.Any] | None:
        lockstep = self._lockstep and self._rendezvous.others_need_a_turn(self._host)
        if not (self._shares_fork or lockstep) or self._check_mode:
            return None
        self._notes.keep()
        return {"next": "wait"}

    def _wait_for_the_other_run(self, lease: dict[str, t.Any]) -> dict[str, t.Any] | None:
        if lease["run"] == self._run:
            return self._leave_it_to(lease["host"])
        if is_dead(lease["owner"]) or has_ended(lease["owner"], os.environ):
            self._abandoned = lease["run"]
            return None
        self._locked_out = True
        left = lease["expires"] - self._clock.wall()
        whose = f"another run (process {lease['owner'].get('pid')} on {lease['owner'].get('node')})"
        if whose not in self._warned:
            self._warned.add(whose)
            self._warn(
                f"{self._host}: {whose} has this host. Waiting until that run has ended, or {left:.0f} s if it was "
                "interrupted"
            )
        return self._wait(f"{whose} still has this host. Run the role again when that run has ended")

    def _slice(self) -> float:
        """The seconds to poll on the host. They grow if each wait returns to the play, as this nests inclusions."""
        rest = max(1.0, float(self._options["wait_timeout"]) - self._waited())
        longest = min(rest, LONGEST_SLICE)
        if not self._notes["answered"]:
            # A lease of a run that is dead here is found out at once.
            return min(longest, TAKEOVER_SLICE) if self._locked_out else 0.0
        open_events = [event_id for event_id in self._notes["announced"] if self._may_be_taken_over(event_id)]
        if any(self._rendezvous.status(event_id) == CLAIMED for event_id in open_events):
            return min(longest, SHORTEST_SLICE)
        if open_events:
            longest = min(longest, TAKEOVER_SLICE)
        if self._shares_fork or self._lockstep:
            return min(longest, self._stay())
        return longest

    def _stay(self) -> float:
        """The seconds to hold the other hosts. Each time that they continue, inclusions nest deeper."""
        return max(SHORTEST_SLICE, self._waited() / 10)

    def _may_be_taken_over(self, event_id: str) -> bool:
        here = any(each["event_id"] == event_id and each["present"] for each in self._notes["waiting"])
        return here and self._rendezvous.status(event_id) in (FREE, CLAIMED)

    def _waited(self) -> float:
        return self._clock.monotonic() - float(self._notes["began"])

    # Phases

    def _tasks_of(self, phase: str) -> str:
        return str(self._options[f"{phase}_tasks"])

    def _has_work(self, phase: str) -> bool:
        return bool(self._tasks_of(phase) or self._balances(phase))

    def _prepared_by(self, outcome: t.Mapping[str, t.Any] | None) -> list[dict[str, t.Any]]:
        """The events for which a preparation has ended well, by its outcome, and that no rule holds."""
        if not outcome or outcome.get("phase") != "prepare" or not outcome["ok"] or not self._has_work("prepare"):
            return []
        held = [each["event_id"] for each in self._notes["waiting"] if each["decision"] == HOLD]
        return [event for event in outcome.get("events", []) if event["event_id"] not in held]

    def _phase(self, shown: dict[str, t.Any]) -> dict[str, t.Any]:
        phase = shown["next"]
        if phase == "prepare":
            ids = [event["event_id"] for event in shown["events"]]
            self._notes["prepared_for"].update({event_id: self._seen(event_id) for event_id in ids})
        self._notes.keep()
        balance = {"recover": "active", "advised": ""}.get(phase, "drained")
        return {
            "next": phase,
            "changed": True,
            "events": shown["events"],
            "request_ids": shown["request_ids"],
            "phase_id": uuid.uuid4().hex,
            "steps": self._steps(phase),
            "load_balancer": balance if self._options["load_balancer"] else "",
            # The impact does not wait for connections.
            "drain_timeout": 0 if phase == "started" else int(self._options["drain_timeout"]),
            "drain_deadline": self._drain_deadline(phase, shown["events"]),
            "drain_on_timeout": "continue" if phase == "started" else self._options["drain_on_timeout"],
        }

    def _balances(self, phase: str) -> bool:
        return bool(self._options["load_balancer"]) and phase != "advised"

    def _steps(self, phase: str) -> list[dict[str, t.Any]]:
        """The tasks files of the phase, in order.

        Each names all of them: where hosts run in lockstep, Ansible includes equal items once for all hosts, at the
        place where the first host has them.
        """
        balancer = [LOAD_BALANCER_STEP] if self._balances(phase) else []
        tasks = [self._tasks_of(phase)] if self._tasks_of(phase) else []
        files = [*tasks, HANDLERS_STEP, *balancer] if phase == "recover" else [*balancer, *tasks, HANDLERS_STEP]
        return [{"file": file, "number": number, "of": files} for number, file in enumerate(files, 1)]

    def _drain_deadline(self, phase: str, events: t.Sequence[t.Mapping[str, t.Any]]) -> float:
        """When the drain has to be over, by the clock of the controller; 0 if at no special time."""
        left = [event["seconds_until_not_before"] for event in events if phase == "prepare"]
        moments = [self._clock.wall() + seconds - NOT_BEFORE_MARGIN for seconds in left if seconds is not None]
        return max(1.0, min(moments)) if moments else 0.0

    def _take_notes_of(self, outcome: t.Mapping[str, t.Any] | None) -> None:
        if not outcome:
            return
        phase, events = outcome.get("phase", "a phase"), outcome.get("events", [])
        if phase == "recover" and outcome["ok"]:
            self._notes.add("recovered", [event["event_id"] for event in events])
        if not outcome["ok"]:
            names = ", ".join(f"{event['event_type']} {event['event_id']}" for event in events) or "its events"
            again = ". Run the role again to repeat it" if phase == "recover" else ""
            reason = str(outcome.get("reason")).rstrip(".")
            self._notes.add("failures", [f"{phase} failed for {names}: {reason}{again}"])

    def _explained(self, outcome: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
        if not outcome or outcome["ok"] or outcome.get("reason"):
            return outcome
        return {**outcome, "reason": self._why_it_was_stopped()}

    def _why_it_was_stopped(self) -> str:
        """The reason of a phase that failed although no task of this host did."""
        lost = [host for host in self._rendezvous.play_hosts if host not in self._active_hosts]
        if lost:
            return f"no task of this host failed. Ansible stopped it when it lost {', '.join(lost)} (any_errors_fatal)"
        return (
            "no task of this host failed. A tasks file could not be included, or another host failed (any_errors_fatal)"
        )

    # The end

    def _after_loss(self, error: HostLost, outcome: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
        if not self._notes["answered"]:
            raise error
        if self._fallback:
            self._fallback.miss()
            self._fallback.act([event["event_id"] for event in self._prepared_by(outcome)])
        now = self._clock.monotonic()
        if self._notes["lost_since"] is None:
            self._notes["lost_since"] = now
            self._warn(f"{self._host}: lost ({error}); trying to reach it again")
        deleted = [each for each in self._notes["waiting"] if self._deletes(each)]
        lost_for = now - self._notes["lost_since"]
        if deleted and lost_for >= min(FAREWELL, self._options["reconnect_timeout"]):
            for each in deleted:
                line = {"event_id": each["event_id"], "event_type": each["event_type"], "text": "has deleted the VM"}
                self._tell_people(line)
            return self.done()
        if lost_for >= self._options["reconnect_timeout"]:
            raise error
        self._clock.sleep(RECONNECT_PAUSE)
        if self._clock.monotonic() - self._resumed < self._stay():
            return None
        self._notes["unreported"] = outcome
        return self._let_others_go_on()

    def _deletes(self, event: t.Mapping[str, t.Any]) -> bool:
        if event["event_type"] not in DELETING:
            return False
        came = event["not_before"] is not None and event["not_before"] <= self._clock.wall()
        accepted = event["accepted"] or self._rendezvous.status(event["event_id"]) == ACCEPTED
        return bool(came or event["impact"] or accepted)

    def _still_held(self) -> str:
        held = [
            f"{each['event_type']} {each['event_id']} ({self._what_it_waits_for(each)})"
            for each in self._notes["waiting"]
        ]
        return (
            f"not over after {self._options['wait_timeout']:g} s: {', '.join(held)}. Run the role again to finish, "
            "or wait longer with respond_wait_timeout"
        )

    def _what_it_waits_for(self, event: t.Mapping[str, t.Any]) -> str:
        is_open = event["condition"] in (TO_BE_ACKNOWLEDGED, NOT_ACCEPTED) and self._acknowledges
        obstacle = self._obstacle(event["event_id"]) if is_open else None
        return str(obstacle or event["detail"] or event["condition"])

    def _failure(self, text: str) -> dict[str, t.Any]:
        self._notes.add("failures", [text])
        return self.done()

    def end_of_lost_host(self, error: HostLost) -> dict[str, t.Any]:
        """Return the result for a host that was given up; empty if the host never answered."""
        if not self._notes["answered"]:
            return {}
        return self._failure(f"lost, and not reached again ({error}). Run the role again to finish")

    def done(self) -> dict[str, t.Any]:
        """Return the result at the end of the run."""
        notes = self._notes
        held = self._held()
        if not (notes["failures"] or self._check_mode or self._options["within_maintenance"]):
            notes.add("failures", self._late_hosts())
        result = {
            "vm_name": notes["vm_name"],
            **{name: notes[name] for name in ("prepared", "acknowledged")},
            "held": held,
            **{name: notes[name] for name in ("recovered", "failures")},
            "story": notes["told"],
        }
        stories = [f"{event} {', '.join(texts)}" for event, texts in notes["story"].items()]
        lines = [
            *stories,
            *(f"{each['event_id']} held: {each['reason']}" for each in held),
            *(f"FAILED: {failure}" for failure in notes["failures"]),
        ]
        summary = f"{self._host}: " + ("; ".join(lines) or "no event")
        self._say(summary)
        return {
            "next": "done",
            "summary": summary,
            "respond_result": result,
            **(
                {"failed": True, "msg": f"{notes['vm_name']}: {'; '.join(notes['failures'])}"}
                if notes["failures"]
                else {}
            ),
        }

    def _late_hosts(self) -> t.Iterator[str]:
        """A failure for each event that was not acknowledged since a host of the play had no turn.

        A host that has failed, or cannot be reached, lets the run fail itself.
        """
        for event_id in self._notes["announced"] if self._has_work("prepare") else ():
            seen = self._seen(event_id)
            if seen is None:
                continue
            late = [host for host in self._rendezvous.without_a_turn(seen) if host in self._active_hosts]
            if late and self._rendezvous.status(event_id) != ACCEPTED:
                yield (
                    f"{event_id} was over before {', '.join(late)} had a turn, and it may name "
                    f"{'this host' if len(late) == 1 else 'one of these hosts'}: {', '.join(seen.names)}. "
                    "Run the role for all hosts of the play at the same time"
                )

    def _held(self) -> list[dict[str, str]]:
        return [
            {"event_id": event_id, "reason": self._obstacle(event_id) or self._why_not(event_id)}
            for event_id in self._notes["announced"]
            if self._rendezvous.status(event_id) != ACCEPTED
        ]

    def _obstacle(self, event_id: str) -> str | None:
        seen = self._seen(event_id)
        return None if seen is None else self._rendezvous.obstacle(event_id, seen)

    def _why_not(self, event_id: str) -> str:
        if not self._acknowledges:
            return "respond_acknowledge is never"
        details = [each["detail"] for each in self._notes["waiting"] if each["event_id"] == event_id]
        return next(filter(None, details), "") or "it was over before a host could acknowledge it"
