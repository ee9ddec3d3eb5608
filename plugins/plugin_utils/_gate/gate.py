# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate of one batch: looks at the fleet, until the batch may begin. Private to the collection."""

from __future__ import annotations

import typing as t
import uuid

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ...module_utils._maintenance import HELD
from ...module_utils._maintenance_calls import SURVEY, WITHDRAW
from ...module_utils._scheduled_events.checks import check
from ...module_utils._scheduled_events.clock import CLOCK
from ...module_utils._scheduled_events.document import format_epoch
from ...module_utils._scheduled_events.text import some
from ...module_utils._scheduled_events.time_windows import WINDOWS, next_opening
from .._ansible.core import play_id
from .._ansible.lines import show, warn
from .._ansible.other_host import HostVariables, OtherHostError
from .._ansible.run import digest, is_dead, main_process_has_ended
from .._ansible.strategy import batches, left_out_by_limit, runs_each_host_alone
from .._ansible.tasks_files import TasksFileError, TasksFiles, left_out_by_tags, name_of
from .._ansible.zones import with_offsets
from .decision import (
    FAIL,
    RESPOND,
    Decision,
    GateError,
    GateSettings,
    Memory,
    Round,
    Seen,
    budget_of,
    decide,
    lost_hosts,
    pause,
    refuse_too_large,
)
from .fleet import Fleet, FleetHost, Result
from .store import MOST_WAITS, Store

# What may differ from host to host. Outside the role, the common variables count.
DIRECTORY = {"directory": "scheduled_events_state_directory"}
OF_SURVEY = {
    **DIRECTORY,
    "endpoint": "scheduled_events_endpoint",
    "api_version": "scheduled_events_api_version",
    "vm_name": "scheduled_events_vm_name",
    "flag": "load_balancer_probe_flag",
}
TASKS_FILES = ("rolling_maintenance_tasks", "rolling_maintenance_reboot_tasks", "rolling_maintenance_health_tasks")
REBOOT = "rolling_maintenance_reboot"
READ_TIMEOUT = 20.0  # seconds for the events of one host; the next look comes soon enough
LEASE_MARGIN = 60.0  # seconds that the mark of a gate lasts longer than a look can
RETURNS = 40  # how often at most the role reads the balancer again; it does so by inclusion, which has a limit


class Gate:
    """The gate of one batch."""

    def __init__(
        self, action: ActionBase, task_vars: dict[str, t.Any], arguments: t.Mapping[str, t.Any], store: Store
    ) -> None:
        self._action, self._task_vars, self._arguments, self._store = action, task_vars, arguments, store
        self._simulate = bool(action._task.check_mode)
        self._run, self._play = store.this_run(), play_id(action._task)
        self._all = list(task_vars["ansible_play_hosts_all"])
        self._batch = list(task_vars["ansible_play_batch"])
        # A strategy that lets each host go its own way runs this for each, whatever run_once says.
        each = runs_each_host_alone(str(action._task.get_play().strategy))
        self._own = [task_vars["inventory_hostname"]] if each else self._batch
        self._counted = list(dict.fromkeys(arguments["fleet"])) or self._all
        self._checked = arguments["checked_hosts"]
        self._everyone = list(dict.fromkeys([*self._counted, *self._all]))
        self._others = [host for host in self._everyone if host not in self._own]
        self._fleet = Fleet(action, task_vars, store, self._everyone)
        self._in_part = "" if arguments["allow_skip_tags"] else left_out_by_tags(task_vars)
        self._to_check: list[str] = []
        self._dead: set[tuple[str, str]] = set()  # hosts, each with an owner: what one shows is not for another
        self._names: dict[str, str] = {}
        self._warned: set[str] = set()

    def wait(self) -> Result:
        """Look until the gate may open, or the role has to do something, or the time is up.

        :raises GateError: it can never open, or it did not in time.
        """
        result = {**self._wait(), "in_part": self._in_part}
        self._store.note_decision(self._play, self._own, result)
        return result

    def _wait(self) -> Result:
        arrived, responded = self._arrive()
        began, said = CLOCK.monotonic(), ""
        reads_balancer = self._arguments["hosts_without_traffic"] is not None
        while True:
            answers = self._look()
            decision = self._decide(answers)
            marked = [host for host, answer in answers.items() if answer.get("marked")]
            if decision.own and self._arguments["on_event"] == FAIL:
                self._withdraw(marked)
                raise GateError(f"{'; '.join(decision.waits_for)}: rolling_maintenance_on_event is fail")
            if self._simulate or (decision.open and not (said and reads_balancer)):
                return self._leave(decision, marked)
            if not decision.insists:
                self._withdraw(marked)
            if decision.open:  # by what the balancer said before the batch waited: the role reads it again
                return _shut(decision)
            said = self._say_once(decision, said)
            due = {each for ids in decision.own.values() for each in ids} - set(responded)
            if due and self._arguments["on_event"] == RESPOND:
                with self._store.open() as store:
                    store["gates"][self._key()]["responded"].extend(due)
                return {**_shut(decision), "respond": list(decision.own)}
            self._pause(decision, arrived, marked)
            if reads_balancer and CLOCK.monotonic() - began >= max(60.0, self._arguments["timeout"] / RETURNS):
                self._withdraw(marked)
                return _shut(decision)

    def _say_once(self, decision: Decision, said: str) -> str:
        """Say what the batch waits for, unless that was ``said`` before and only seconds have passed."""
        waits_for = [*decision.waits_for[:-1], "the settling time"] if decision.settle_left else decision.waits_for
        essence = "; ".join(waits_for)
        if essence != said:
            show(self._text(decision))
            with self._store.open() as store:
                waits = store["gates"][self._key()].setdefault("waits", [])
                waits.append({"at": CLOCK.monotonic(), "why": essence})
                del waits[:-MOST_WAITS]
        return essence

    def _pause(self, decision: Decision, arrived: float, marked: list[str]) -> None:
        """Sleep until the next look.

        :raises GateError: the timeout has passed, or the run was killed, so that the gate must not open.
        """
        timeout, now = self._arguments["timeout"], CLOCK.monotonic()
        left = arrived + timeout - now
        if left <= 0:
            self._withdraw(marked)
            raise GateError(
                f"The gate stayed shut for {timeout:g} s: {', '.join(decision.batch)} "
                f"{'waits' if len(decision.batch) == 1 else 'wait'} for "
                f"{'; '.join(decision.waits_for)}"
            )
        if CLOCK.until(main_process_has_ended, within=min(left, pause(now - arrived, decision))):
            self._withdraw(marked)
            raise GateError("The run of Ansible was ended while the batch waited at the gate")

    def _arrive(self) -> tuple[float, list[str]]:
        """When the batch came to the gate, and to which events it responded here.

        :raises GateError: it must not begin, or can never begin.
        """
        with self._store.open() as store:
            here = store.get("gates", {}).get(self._key())
            progress = store.get("progress", {}).get(self._play, {})
        if here:
            self._names = here["names"]
            return here["arrived"], here["responded"]
        self._refuse(progress)
        self._names = names_of_maintenances(
            self._action, self._task_vars, hosts=self._all, batch=self._batch, name=self._arguments["name"]
        )
        if self._in_part:  # what it leaves out, a run without these tags must not take for done
            self._names = {host: f"{name} {self._in_part}" for host, name in self._names.items()}
        now = CLOCK.monotonic()
        with self._store.open() as store:
            gate = {"arrived": now, "responded": [], "names": self._names}
            store.setdefault("gates", {})[self._key()] = gate
            store.setdefault("progress", {}).setdefault(self._play, {}).update(dict.fromkeys(self._own, "gate"))
        return now, []

    def _refuse(self, progress: t.Mapping[str, str]) -> None:
        lost = lost_hosts(self._all, list(self._task_vars["ansible_play_hosts"]), self._batch, progress)
        if lost:
            raise GateError(
                f"{', '.join(lost)} failed or was lost, so no further host is taken down. Fix the cause, and run "
                "the play again. It leaves out the hosts that are finished"
            )
        known = self._task_vars["hostvars"]
        for option, named, expected, of in (
            ("fleet", self._counted, "hosts of the inventory", known),
            ("checked_hosts", self._checked, "hosts of the fleet or of the play", self._everyone),
        ):
            unknown = [host for host in named if host not in of]
            if unknown:
                raise GateError(
                    f"rolling_maintenance_{option} names {', '.join(unknown)}, expected {expected}. Correct the name"
                )
        left_out = [] if self._arguments["fleet"] else left_out_by_limit(self._action, self._task_vars)
        if left_out:
            raise GateError(
                f"--limit leaves out {some(left_out)}, so the gate would not count a host that is unavailable there. "
                "Set rolling_maintenance_fleet to all hosts that serve together, such as \"{{ groups['web'] }}\""
            )
        number, hosts = str(self._arguments["max_unavailable"]).strip(), len(self._counted)
        # With --limit, the fleet can be one host. The first batch says it for all.
        if self._budget() > hosts > 1 and not number.endswith("%") and not progress:
            warn(
                f"rolling_maintenance_max_unavailable is {number}, and the fleet has {hosts} hosts, so all of them may "
                "be unavailable at the same time. Use a smaller number, or a percentage such as 50%"
            )
        play = self._action._task.get_play()
        later = batches(self._all, play.serial or []) if play.order in (None, "inventory") else []
        for batch in (self._batch, *later):
            refuse_too_large(batch, self._counted, self._budget())

    def _leave(self, decision: Decision, marked: list[str]) -> Result:
        self._withdraw([host for host in marked if host not in decision.batch])
        with self._store.open() as store:
            waits = store["gates"].pop(self._key(), {}).get("waits", [])
            current = decision.memory.round
            rounds = store.setdefault("rounds", {}).setdefault(self._play, {})
            for host in decision.batch:
                rounds[host] = {**(current._asdict() if current else {}), "name": self._names[host], "waits": waits}
        text = self._text(decision)
        show(text)
        return {**_shut(decision), "open": decision.open, "msg": text}

    def _key(self) -> str:
        return f"{self._play} {' '.join(self._own)}"

    def _budget(self) -> int:
        return budget_of(self._arguments["max_unavailable"], len(self._counted))

    def _look(self) -> dict[str, Result]:
        with self._store.open() as store:
            # What the operator says of a host counts for one look: not for what another run leaves there later.
            self._to_check = [host for host in self._checked if host not in store.get("checked", [])]
        answers = self._survey()
        dead = _dead(answers)
        mine = {each for each in dead.items() if each[0] in [*self._own, *self._to_check]}
        if mine and not self._simulate:  # a run of this control node was killed: its marks are to be taken over
            self._dead |= mine
            answers = self._survey()
            dead = _dead(answers)
        for host in dead:
            answers[host]["mark"]["live"] = False
        with self._store.open() as store:
            store.setdefault("checked", []).extend(host for host in self._to_check if "marked" in answers[host])
        said = [f"{host}: {text}" for host, answer in answers.items() for text in answer.get("remarks") or []]
        for text in dict.fromkeys(said):
            if text not in self._warned:
                warn(text)
        self._warned.update(said)
        return answers

    def _survey(self) -> dict[str, Result]:
        """Mark the own hosts, then look at the others: so of two gates at least one sees the marks of the other."""
        return {**self._fleet.ask(self._own, self._survey_of), **self._fleet.ask(self._others, self._survey_of)}

    def _survey_of(self, host: FleetHost) -> dict[str, t.Any]:
        options = {
            "step": SURVEY,
            **host.options(OF_SURVEY),
            "request_timeout": READ_TIMEOUT,
            "retry_for": READ_TIMEOUT,
        }
        if self._simulate:
            return options
        dead = sorted(owner for name, owner in self._dead if name == host.name)
        options.update(ended_owners=dead, checked=host.name in self._to_check)
        if host.name in self._own:
            # A mark must not run out before the look is over that it was made for.
            lease = self._fleet.longest(self._own) + self._fleet.longest(self._others) + LEASE_MARGIN
            options.update(owner=self._owner(host.name), by=self._run.owner, lease=lease)
        return options

    def _owner(self, host: str) -> str:
        return f"{self._run.name}/{host}"

    def _withdraw(self, hosts: list[str]) -> None:
        """Remove the marks, so that events are responded to at once. A host that reboots now keeps its mark until the
        next look, or until its lease is over."""
        self._fleet.ask(
            hosts, lambda host: {"step": WITHDRAW, **host.options(DIRECTORY), "owner": self._owner(host.name)}
        )

    def _decide(self, answers: dict[str, Result]) -> Decision:
        seen = [self._seen(host, answers[host]) for host in self._everyone]
        settings = GateSettings(
            play_hosts=self._all,
            fleet=self._counted,
            batch=self._own,
            budget=self._budget(),
            on_event=self._arguments["on_event"],
            settle=self._arguments["settle"],
            resume_within=self._arguments["resume_within"],
            names=self._names,
            owner=self._owner(self._own[0]),
            new_round=uuid.uuid4().hex,
            closed=_closed(self._arguments["maintenance_windows"], CLOCK.wall()),
        )
        with self._store.open() as store:
            # An event that another fleet has seen is not over because this one does not see it.
            memories, fleet = store.setdefault("memory", {}), digest(" ".join(sorted(self._counted)))
            before, current = memories.get(fleet, {}), store.get("round", {}).get(self._play)
            memory = Memory(before.get("events", ()), before.get("left_at"), Round(**current) if current else None)
            decision = decide(seen, settings, memory=memory, now=CLOCK.monotonic())
            memory = decision.memory
            memories[fleet] = {"events": list(memory.events), "left_at": memory.left_at}
            store.setdefault("round", {})[self._play] = memory.round._asdict() if memory.round else None
        return decision

    def _seen(self, host: str, answer: Result) -> Seen:
        if "marked" not in answer:
            return Seen(host, reached=not answer.get("unreachable", False), problem=answer["problem"])
        mark, unfinished = answer["mark"], answer["unfinished"]
        if mark and mark["stage"] == HELD and not mark["live"]:
            unfinished = mark
        return Seen(
            host=host,
            problem=answer["problem"],
            unmarked=answer["unmarked_because"] if host in self._own and not self._simulate else "",
            mark=mark,
            unfinished={} if host in self._to_check else unfinished,
            drained=answer["drained"] or host in (self._arguments["hosts_without_traffic"] or []),
            drained_because=answer["drained_because"],
            returning_for=(answer["returning"] or {"holder": ""})["holder"],
            document=None if answer["events"] is None else {key: answer[key] for key in ("vm_name", "events")},
            records=answer["records"],
            boot_id=answer["boot_id"],
            waiting=answer["waiting"],
        )

    def _text(self, decision: Decision) -> str:
        hosts = ", ".join(decision.batch or self._own)
        ahead, waits = ("would go ahead", "would wait for") if self._simulate else ("goes ahead", "waits for")
        text = f"{hosts}: {ahead}" if decision.open else f"{hosts}: {waits} {'; '.join(decision.waits_for)}"
        if not decision.batch:
            text = f"{hosts}: nothing to do"
        if decision.done:
            text += f" ({', '.join(decision.done)} is done)"
        if decision.skipped:
            text += f" ({', '.join(decision.skipped)} is left out, for its event)"
        return text


def _closed(windows: t.Sequence[t.Mapping[str, t.Any]], now: float) -> str:
    """The window that a batch waits for; empty if one is open, or if there is none.

    :raises GateError: a value of a window is wrong.
    """
    try:
        place = "rolling_maintenance_windows"
        opening = next_opening(check(with_offsets(list(windows), place), WINDOWS, place), now)
    except ValueError as error:
        raise GateError(str(error)) from error
    if opening is None or opening[0] <= now:
        return ""
    return f"the window {opening[1]}, which opens at {format_epoch(opening[0])}"


def _shut(decision: Decision) -> Result:
    return {
        "open": False,
        "batch": decision.batch,
        "done": decision.done,
        "left_out": decision.skipped,
        "respond": [],
        "waits_for": decision.waits_for,
        "msg": "",
    }


def _dead(answers: t.Mapping[str, Result]) -> dict[str, str]:
    """The hosts with a live mark of a run that is dead, each with its owner."""
    marks = {host: answer["mark"] for host, answer in answers.items() if answer.get("mark")}
    return {host: mark["owner"] for host, mark in marks.items() if mark["live"] and is_dead(mark["by"])}


def names_of_maintenances(
    action: ActionBase, task_vars: t.Mapping[str, t.Any], *, hosts: list[str], batch: list[str], name: str | None
) -> dict[str, str]:
    """The name of the maintenance of each host, whose tasks files are checked for it.

    :raises GateError: a tasks file of some host is missing or broken.
    """
    files, names, problems = TasksFiles(action), {}, dict[str, list[str]]()
    for host in hosts:
        try:
            variables = HostVariables(action, host, task_vars)
            paths = {variable: str(variables.get(variable) or "") for variable in TASKS_FILES}
            reboot = str(variables.get(REBOOT, "if_needed"))
        except (AnsibleError, OtherHostError):
            if host in batch:
                raise
            continue  # made from what a later batch finds out; that batch looks
        try:
            digests = {variable: files.digest(variable, path) for variable, path in paths.items()}
        except TasksFileError as error:
            problems.setdefault(str(error), []).append(host)
            continue
        if REBOOT in variables and not paths[TASKS_FILES[0]] and reboot != "always":  # in the role
            problem = (
                f"rolling_maintenance_tasks is not set, and {REBOOT} is {reboot}, so there is nothing to do. Set "
                f"rolling_maintenance_tasks to a tasks file, or {REBOOT} to always"
            )
            problems.setdefault(problem, []).append(host)
        # The health check is left out: it may be corrected, and the run taken up where it stopped.
        names[host] = name or name_of([digests[each] for each in TASKS_FILES[:2]], reboot)
    if problems:
        raise GateError("; ".join(f"{', '.join(affected)}: {problem}" for problem, affected in problems.items()))
    return names
