# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import time
import typing as t
import uuid
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance import HELD
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.arguments import arguments_of
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.private import play_id
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.decision import (
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
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.fleet import Result, ask_all
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.fleet_host import FleetHost, HostVariables
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate.phases import MOST_WAITS
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import (
    OtherHostError,
    OtherHostUnreachable,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.os_family import is_meant_as_windows
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.balancer_choice import (
    refuse_half_a_balancer,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.identity import (
    is_dead,
    main_process_has_ended,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.job_slice import refuse_slices
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.named_hosts import refuse_unnamed_hosts
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.store import Run, Store, this_run
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.strategy import runs_each_host_alone
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._run.tasks_files import (
    TasksFileError,
    TasksFiles,
    left_out_by_tags,
    name_of,
)

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "fleet": {"type": "list", "elements": "str", "default": []},
    "max_unavailable": {"type": "str", "default": "1"},
    "on_event": {"type": "str", "choices": ["wait", "skip", "respond", "fail"], "default": "wait"},
    "timeout": {"type": "float", "default": 3600},
    "settle": {"type": "float", "default": 60},
    "name": {"type": "str"},
    "resume_within": {"type": "float", "default": 86400},
    "hosts_without_traffic": {"type": "list", "elements": "str"},
    "checked_hosts": {"type": "list", "elements": "str", "default": []},
    "allow_skip_tags": {"type": "bool", "default": False},
}
# What may differ from host to host. Outside the role, the common variables count.
DIRECTORY = ("rolling_maintenance_state_directory", "scheduled_events_state_directory")
OF_SURVEY = {
    "endpoint": ("rolling_maintenance_endpoint", "scheduled_events_endpoint"),
    "api_version": ("rolling_maintenance_api_version", "scheduled_events_api_version"),
    "vm_name": ("rolling_maintenance_vm_name", "scheduled_events_vm_name"),
    "directory": DIRECTORY,
    "flag": ("load_balancer_probe_flag",),
}
TASKS_FILES = ("rolling_maintenance_tasks", "rolling_maintenance_reboot_tasks", "rolling_maintenance_health_tasks")
REBOOT = "rolling_maintenance_reboot"

LOOK_TIMEOUT = 60.0  # seconds for one host
HOST_TIMEOUT = 20.0  # seconds more for a look at several, for each that a fork asks
READ_TIMEOUT = 20.0  # seconds for the events of one host; the next look comes soon enough
WINDOWS_PATIENCE = 4.0  # times as long, where PowerShell starts about fifteen times for a look
LEASE_MARGIN = 60.0  # seconds that the mark of a gate lasts longer than a look can
RETURNS = 40  # how often at most the role reads the balancer again; it does so by inclusion, which has a limit


class Gate:
    """The gate of one batch.

    :param own: the hosts of the batch for which this process decides: all, or the one that it runs for.
    """

    def __init__(
        self, action: ActionBase, task_vars: dict[str, t.Any], arguments: dict[str, t.Any], own: list[str]
    ) -> None:
        self._action = action
        self._task_vars = task_vars
        self._arguments = arguments
        self._simulate = bool(action._task.check_mode)
        self._all = list(task_vars["ansible_play_hosts_all"])
        self._active = list(task_vars["ansible_play_hosts"])
        self._batch = list(task_vars["ansible_play_batch"])
        self._own = own
        self._in_part = "" if arguments["allow_skip_tags"] else left_out_by_tags(task_vars)
        self._fleet = _names(arguments["fleet"]) or self._all
        self._everyone = list(dict.fromkeys([*self._fleet, *self._all]))
        self._checked = _names(arguments["checked_hosts"])
        self._to_check: list[str] = []
        directory = Path(constants.DEFAULT_LOCAL_TMP)
        self._run: Run = this_run(directory)
        self._store = Store(directory)
        self._play = play_id(action._task)
        self._forks = max(1, int(task_vars.get("ansible_forks") or 5))
        known = [task_vars["hostvars"][host] for host in self._everyone if host in task_vars["hostvars"]]
        self._patience = WINDOWS_PATIENCE if any(map(is_meant_as_windows, known)) else 1.0
        self._dead: list[str] = []
        self._names: dict[str, str] = {}

    def wait(self) -> Result:
        """Look until the gate may open, or the role has to do something, or the time is up.

        :raises GateError: it can never open, or it did not in time.
        """
        result = {**self._wait(), "in_part": self._in_part}
        self._store.note_decision(self._play, self._own, result)
        return result

    def _wait(self) -> Result:
        arrived, responded = self._arrive()
        began, said = time.monotonic(), ""
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
                self._note_responded(due)
                return {**_shut(decision), "respond": list(decision.own)}
            self._pause(decision, arrived, marked)
            if reads_balancer and time.monotonic() - began >= max(60.0, self._arguments["timeout"] / RETURNS):
                self._withdraw(marked)
                return _shut(decision)

    def _say_once(self, decision: Decision, said: str) -> str:
        """Say what the batch waits for, unless that was ``said`` before and only seconds have passed."""
        waits_for = [*decision.waits_for[:-1], "the settling time"] if decision.settle_left else decision.waits_for
        essence = "; ".join(waits_for)
        if essence != said:
            _say(self._text(decision))
            with self._store.open() as store:
                waits = store["gates"][self._key()].setdefault("waits", [])
                waits.append({"at": time.monotonic(), "why": essence})
                del waits[:-MOST_WAITS]
        return essence

    def _pause(self, decision: Decision, arrived: float, marked: list[str]) -> None:
        """Sleep until the next look.

        :raises GateError: the timeout has passed, or the run was killed, so that the gate must not open.
        """
        timeout, now = self._arguments["timeout"], time.monotonic()
        left = arrived + timeout - now
        if left <= 0:
            self._withdraw(marked)
            raise GateError(
                f"The gate stayed shut for {timeout:g} s: {', '.join(decision.batch)} waits for "
                f"{'; '.join(decision.waits_for)}"
            )
        seconds = pause(now - arrived, decision)
        until = now + min(left, seconds)
        while time.monotonic() < until:
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))
            if main_process_has_ended():
                self._withdraw(marked)
                raise GateError("The run of Ansible was ended while the batch waited at the gate")

    def _arrive(self) -> tuple[float, list[str]]:
        """When the batch came to the gate, and to which events it responded here.

        :raises GateError: it must not begin, or can never begin.
        """
        with self._store.open() as store:
            here = store.setdefault("gates", {}).get(self._key())
            progress = dict(store.get("progress", {}).get(self._play, {}))
        if here:
            self._names = here["names"]
            return here["arrived"], here["responded"]
        self._refuse(progress)
        self._names = _names_of_maintenances(
            self._action, self._task_vars, hosts=self._all, batch=self._batch, name=self._arguments["name"]
        )
        if self._in_part:  # what it leaves out, a run without these tags must not take for done
            self._names = {host: f"{name} {self._in_part}" for host, name in self._names.items()}
        now = time.monotonic()
        with self._store.open() as store:
            store.setdefault("gates", {})[self._key()] = {"arrived": now, "responded": [], "names": self._names}
            for host in self._own:
                store.setdefault("progress", {}).setdefault(self._play, {})[host] = "gate"
        return now, []

    def _refuse(self, progress: t.Mapping[str, str]) -> None:
        lost = lost_hosts(self._all, self._active, self._batch, progress)
        if lost:
            raise GateError(
                f"{', '.join(lost)} failed or was lost, so no further host is taken down. It stays out of its load "
                "balancer. Fix the cause, and run the play again. It leaves out the hosts that are finished"
            )
        unknown = [host for host in self._fleet if host not in self._task_vars["hostvars"]]
        if unknown:
            raise GateError(
                f"rolling_maintenance_fleet names {', '.join(unknown)}, expected hosts of the inventory. "
                "Correct the name"
            )
        strangers = [host for host in self._checked if host not in self._everyone]
        if strangers:
            raise GateError(
                f"rolling_maintenance_checked_hosts names {', '.join(strangers)}, expected hosts of the fleet or of "
                "the play. Correct the name"
            )
        budget = budget_of(self._arguments["max_unavailable"], len(self._fleet))
        refuse_too_large(self._batch, self._fleet, budget)

    def _leave(self, decision: Decision, marked: list[str]) -> Result:
        self._withdraw([host for host in marked if host not in decision.batch])
        with self._store.open() as store:
            waits = store["gates"].pop(self._key(), {}).get("waits", [])
            current = decision.memory.round
            rounds = store.setdefault("rounds", {}).setdefault(self._play, {})
            for host in decision.batch:
                rounds[host] = {**(current._asdict() if current else {}), "name": self._names[host], "waits": waits}
        text = self._text(decision)
        _say(text)
        return {**_shut(decision), "open": decision.open, "msg": text}

    def _note_responded(self, event_ids: t.Iterable[str]) -> None:
        with self._store.open() as store:
            store["gates"][self._key()]["responded"].extend(event_ids)

    def _key(self) -> str:
        return f"{self._play} {' '.join(self._own)}"

    def _look(self) -> dict[str, Result]:
        with self._store.open() as store:
            # What the operator says of a host counts for one look: not for what another run leaves there later.
            self._to_check = [host for host in self._checked if host not in store.get("checked", [])]
        answers = self._survey()
        dead = _dead(answers)
        mine = {owner for host, owner in dead.items() if host in [*self._own, *self._to_check]}
        if mine and not self._simulate:  # a run of this control node was killed: its marks are to be taken over
            self._dead = sorted({*self._dead, *mine})
            answers = self._survey()
            dead = _dead(answers)
        for host in dead:
            answers[host]["mark"]["live"] = False
        with self._store.open() as store:
            store.setdefault("checked", []).extend(host for host in self._to_check if "marked" in answers[host])
        return answers

    def _survey(self) -> dict[str, Result]:
        """Mark the own hosts, then look at the others: so of two gates at least one sees the marks of the other."""
        others = [host for host in self._everyone if host not in self._own]
        return {**self._ask_all(self._own, self._survey_one), **self._ask_all(others, self._survey_one)}

    def _survey_one(self, host: FleetHost) -> Result:
        options: dict[str, t.Any] = {
            **_given(host, OF_SURVEY),
            "request_timeout": READ_TIMEOUT,
            "retry_for": READ_TIMEOUT,
        }
        if host.name in self._to_check and not self._simulate:
            options.update(checked=True, ended_owners=self._dead)
        if host.name in self._own and not self._simulate:
            owner = f"{self._run.name}/{host.name}"
            options.update(owner=owner, by=self._run.owner, lease=self._lease(), ended_owners=self._dead)
        return host.run("maintenance_survey", options, within=LOOK_TIMEOUT * self._patience)

    def _withdraw(self, hosts: list[str]) -> None:
        """Remove the marks, so that events are responded to at once. A host that reboots now keeps its mark until the
        next look, or until its lease is over."""

        def take_away(host: FleetHost) -> Result:
            options = {**_given(host, {"directory": DIRECTORY}), "owner": f"{self._run.name}/{host.name}"}
            return host.run("maintenance_mark", {"state": "absent", **options}, within=LOOK_TIMEOUT * self._patience)

        if hosts:
            self._ask_all(hosts, take_away)

    def _ask_all(self, hosts: list[str], ask: t.Callable[[FleetHost], Result]) -> dict[str, Result]:
        with self._store.open() as store:
            known = store.get("facts", {})

        def ask_one(name: str) -> Result:
            try:
                host = FleetHost(self._action, name, self._task_vars, facts=known.get(name, {}))
                try:
                    return ask(host)
                finally:
                    host.close()
            except OtherHostError as error:
                unreachable = isinstance(error, OtherHostUnreachable)
                return {"problem": str(error).removeprefix(f"{name}: "), "unreachable": unreachable}

        answers = ask_all(hosts, ask_one, forks=self._forks, timeout=self._timeout(len(hosts)))
        found = {host: answer["ansible_facts"] for host, answer in answers.items() if answer.get("ansible_facts")}
        if found:
            with self._store.open() as store:
                store.setdefault("facts", {}).update(found)
        return answers

    def _timeout(self, hosts: int) -> float:
        return self._patience * (LOOK_TIMEOUT + HOST_TIMEOUT * math.ceil(hosts / self._forks))

    def _lease(self) -> float:
        """A mark must not run out before the look is over that it was made for."""
        others = len(self._everyone) - len(self._own)
        return self._timeout(len(self._own)) + self._timeout(others) + LEASE_MARGIN

    def _decide(self, answers: dict[str, Result]) -> Decision:
        seen = [self._seen(host, answers[host]) for host in self._everyone]
        budget = budget_of(self._arguments["max_unavailable"], len(self._fleet))
        settings = GateSettings(
            play_hosts=self._all,
            fleet=self._fleet,
            batch=self._own,
            budget=budget,
            on_event=self._arguments["on_event"],
            settle=self._arguments["settle"],
            resume_within=self._arguments["resume_within"],
            names=self._names,
            owner=f"{self._run.name}/{self._own[0]}",
            new_round=uuid.uuid4().hex,
        )
        with self._store.open() as store:
            memory = _memory(store.get("memory", {}), store.get("round", {}).get(self._play))
            decision = decide(seen, settings, memory=memory, now=time.monotonic())
            store["memory"] = {"events": list(decision.memory.events), "left_at": decision.memory.left_at}
            current = decision.memory.round
            store.setdefault("round", {})[self._play] = current._asdict() if current else None
        return decision

    def _seen(self, host: str, answer: Result) -> Seen:
        asked = host in self._own and not self._simulate
        if "marked" not in answer:
            return Seen(host, reached=not answer.get("unreachable", False), problem=answer["problem"])
        mark, unfinished = answer["mark"], answer["unfinished"]
        if mark and mark["stage"] == HELD and not mark["live"]:
            unfinished = mark
        document = None if answer["events"] is None else {"vm_name": answer["vm_name"], "events": answer["events"]}
        return Seen(
            host=host,
            problem=answer["problem"],
            unmarked=answer["unmarked_because"] if asked else "",
            mark=mark,
            unfinished={} if host in self._to_check else unfinished,
            drained=answer["drained"] or host in (self._arguments["hosts_without_traffic"] or []),
            returning_for=(answer["returning"] or {"holder": ""})["holder"],
            document=document,
            records=answer["records"],
            boot_id=answer["boot_id"],
        )

    def _text(self, decision: Decision) -> str:
        hosts = ", ".join(decision.batch or self._own)
        ahead = "would go ahead" if self._simulate else "goes ahead"
        waits = "would wait for" if self._simulate else "waits for"
        text = f"{hosts}: {ahead}" if decision.open else f"{hosts}: {waits} {'; '.join(decision.waits_for)}"
        if not decision.batch:
            text = f"{hosts}: nothing to do"
        if decision.done:
            text += f" ({', '.join(decision.done)} is done)"
        if decision.skipped:
            text += f" ({', '.join(decision.skipped)} is left out, for its event)"
        return text


def _names_of_maintenances(
    action: ActionBase, task_vars: dict[str, t.Any], *, hosts: list[str], batch: list[str], name: str | None
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
        except AnsibleError:
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


class ActionModule(ActionBase):
    """Wait until a batch may begin. It runs on the control node, and a module on each host of the fleet."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        refuse_slices(variables)
        refuse_unnamed_hosts(self, variables)
        refuse_half_a_balancer("rolling_maintenance", variables)
        arguments = arguments_of(self, ARGUMENTS)
        # A strategy that lets each host go its own way runs this for each, whatever run_once says.
        each = runs_each_host_alone(str(self._task.get_play().strategy))
        own = [variables["inventory_hostname"]] if each else list(variables["ansible_play_batch"])
        gate = Gate(self, variables, arguments, own)
        try:
            return {**result, "changed": False, **gate.wait()}
        except (GateError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from error


def _given(host: FleetHost, options: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any]:
    """The options of a module for which a variable of the host has a value: the first that is set."""
    values = {
        option: next((value for value in map(host.variables.get, names) if value not in (None, "")), None)
        for option, names in options.items()
    }
    return {option: value for option, value in values.items() if value is not None}


def _names(wanted: t.Sequence[str]) -> list[str]:
    return [name.strip() for name in wanted if name.strip()]


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


def _memory(raw: t.Mapping[str, t.Any], current: t.Mapping[str, t.Any] | None) -> Memory:
    return Memory(raw.get("events", ()), raw.get("left_at"), Round(**current) if current else None)


def _say(text: str) -> None:
    Display().display(text)
