# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError

from ..module_utils._module import COMMON_OPTIONS
from ..module_utils._respond.request import OPTIONS, PREPARED
from ..module_utils._respond.turn import Intervals, take_turn
from ..module_utils._scheduled_events.checks import WrongValue
from ..module_utils._scheduled_events.rules import parse_rules
from ..plugin_utils._ansible import lines
from ..plugin_utils._ansible.core import (
    FLUSHES,
    arguments_of,
    flushed,
    forget_temporary_directory,
    is_windows,
    load_filters,
    play_id,
    refuse_empty_options,
    temporary_directory,
)
from ..plugin_utils._ansible.other_host import HostLost, limited
from ..plugin_utils._ansible.run import digest, refuse_ended_run, run_id_of, this_job, this_owner
from ..plugin_utils._ansible.strategy import (
    refuse_late_hosts,
    refuse_sharing,
    runs_each_host_alone,
    warning_of_few_forks,
)
from ..plugin_utils._ansible.tasks_files import TasksFileError, TasksFiles, left_out_by_tags
from ..plugin_utils._ansible.zones import rules_with_offsets
from ..plugin_utils._azure.acknowledgement import AcknowledgementResult, acknowledge, check_ids, scope_of
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError
from ..plugin_utils._gate.store import Store
from ..plugin_utils._respond import ends
from ..plugin_utils._respond.context import Context, Notes, Published
from ..plugin_utils._respond.fallback import SEND_AFTER
from ..plugin_utils._respond.phases import HANDLERS_STEP, PHASES
from ..plugin_utils._respond.play_coordinator import PlayCoordinator
from ..plugin_utils._respond.responding import Responding, looks_cut_off
from ..plugin_utils._respond.role import (
    failed_task,
    files_of_balancer,
    options_of_role,
    refusal_of_role,
    wrong_type,
)
from ..plugin_utils._windows.host import WindowsHost

MODULE = "maintops.scheduled_events.scheduled_events_turn"
# On Windows, each request starts PowerShell, and writing the lease starts it several times.
WINDOWS_INTERVALS = Intervals(poll_gap=3.0, short_lease=600.0)
# Of a task that failed in a phase whose end was reached.
FORGOTTEN = (
    "No rescue section of the tasks file handles it, and the tasks went on, as after meta: clear_host_errors. Handle "
    "the failure in the tasks file itself, or use the strategy ansible.builtin.free"
)
UNMAINTAINED = (
    "did not come to the end of its maintenance: a task such as meta: end_host took it out of the play, and it may be "
    "out of its load balancer. Remove the task, and run the role again"
)
# A later call of a run takes the other options from the first one. Credentials are not kept in a file.
OF_EACH_CALL = ("reached", "fallback_credentials")
TASKS_FILES = [f"{phase}_tasks" for phase in PHASES]
BRIEF = 30.0  # seconds to remove files of a host, or to close its connection

load_filters()


class ActionModule(ArmAction):
    """Take turns on the host until a phase has to run in the play, or all is done."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        options = _given(self, self._variables)
        if options["conclude"]:
            fact = options["result"] if options["conclude"] == "respond" else None
            return {**(fact or {}), **result, "changed": False, **self._conclude(options)}
        host = self._variables["inventory_hostname"]
        refuse_sharing(self._task, "respond")
        self._failed_task = failed_task(self._variables)
        is_first = options["reached"] is None and options["flushes"] is None
        notes = self._play_directory() / "notes" / digest(host)
        self._notes = Notes(notes, fresh=is_first, began=time.monotonic())
        shown = self._without_a_turn(host, options)
        if shown:
            return {**result, "changed": False, **shown}
        self._windows = WindowsHost(self, self._variables) if is_windows(self._connection) else None
        self._extras: dict[str, t.Any] = {}
        self._files = TasksFiles(self)
        self._lockstep = not runs_each_host_alone(str(self._task.get_play().strategy))
        try:
            self._options = options = self._of_run(options)
            self._published = Published(options["published_events"])
        except (TasksFileError, WrongValue) as error:
            raise AnsibleActionFail(str(error)) from None
        if options["check_only"]:
            return {**result, "changed": False}
        options["outcome"] = self._outcome(options["reached"])
        responding = self._responding()
        try:
            following = responding.next_step()
            self._warn_of_few_forks(following)
        except HostLost as error:
            reason = error.original or AnsibleConnectionFailure(str(error))
            following = responding.end_of_lost_host(error)
            if not following:
                raise reason from None
            if isinstance(reason, AnsibleConnectionFailure):  # no task of an unreachable host runs any more
                self._show(self._leave(ends.of_respond(host, following["respond_result"])))
                raise reason from None
        if following.get("next") == "done":  # the role fails the host, where no rescue section takes it for its phase
            following = {name: value for name, value in following.items() if name != "failed"}
            self._notes.keep()  # handlers of a maintenance that follows are of no phase
        if following.get("next") in PHASES:
            self._leave(ends.of_unfinished(host, following), kind=ends.UNFINISHED)
        return {**result, **self._extras, "changed": False, **following}

    def _without_a_turn(self, host: str, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The failure of a turn before, or that handlers have to run again; empty if the host takes a turn."""
        failed, reached = self._failed_task, options["reached"]
        phase = (self._notes["handed_out"] or {}).get("phase")
        if options["flushes"] is not None:
            shown = flushed(self._task, host, options["flushes"])
            # Handlers without an end keep no host from its recovery.
            return {FLUSHES: 0} if phase == "recover" and shown.get("failed") else shown
        if reached is False and failed and failed.action == self._task.action and FLUSHES not in failed.result:
            return {**failed.result}  # no task of the phase: the turn after it
        if reached and phase and not self._notes["flushed"] and flushed(self._task, host, 0)[FLUSHES]:
            self._notes["flushed"] = True
            self._notes.keep()
            return {"next": "flush", "steps": [{"file": HANDLERS_STEP}]}
        return {}

    def _of_run(self, options: dict[str, t.Any]) -> dict[str, t.Any]:
        """The options of the first call of this run, with those of this call that are not kept.

        :raises TasksFileError, WrongValue: they cannot be used.
        """
        kept = self._notes["options"]
        if not kept:
            options = self._checked(options)
            self._notes["options"] = {name: value for name, value in options.items() if name not in OF_EACH_CALL}
            return options
        if kept["of_role"]:
            credentials = self._variables["respond_fallback_credentials"]
            options["fallback_credentials"] = self._templar.template(credentials)
        return {**kept, **{name: options[name] for name in OF_EACH_CALL}}

    def _responding(self) -> Responding:
        host = self._variables["inventory_hostname"]
        hosts = list(self._variables["ansible_play_hosts_all"])
        owner = {**this_owner(), **this_job(self._variables, os.environ)}
        context = Context(
            host=host,
            run=run_id_of(owner),
            owner=owner,
            options=self._options,
            notes=self._notes,
            coordinator=PlayCoordinator(
                self._play_directory(),
                play_hosts=hosts,
                speak_for=self._options["speak_for"] if self._options["acknowledge"] == PREPARED else None,
            ),
            execute=self._execute_turn,
            say=lines.show,
            warn=lines.warn,
            active_hosts=self._variables["ansible_play_hosts"],
            rescued_hosts=self._variables.get("ansible_failed_hosts") or [],
            forks=self._forks(),
            lockstep=self._lockstep,
            has_failed=self._failed_task is not None,
            in_part=bool(left_out_by_tags(self._variables)) and not self._options["allow_skip_tags"],
            check_mode=bool(self._task.check_mode),
            published=self._published,
            send=self._acknowledge_from_here if self._options["fallback"] != "none" else None,
        )
        return Responding(context)

    def _checked(self, options: dict[str, t.Any]) -> dict[str, t.Any]:
        """The options of the first call, complete and checked before anything is prepared."""
        refuse_empty_options(self._task.args.get("rules") or [], "respond_rules")
        checked = {
            **options,
            # Found and read before anything is prepared for which another one is needed later.
            **{name: self._files.path(f"respond_{name}", options[name]) for name in TASKS_FILES},
            "rules": rules_with_offsets(options["rules"], "respond_rules"),
        }
        parse_rules(checked["rules"], place="respond_rules")
        self._check_fallback(checked)
        if not checked["within_maintenance"]:
            play, hosts = self._task.get_play(), len(self._variables["ansible_play_hosts_all"])
            refuse_late_hosts(strategy=str(play.strategy), serial=play.serial or [], hosts=hosts, forks=self._forks())
        return checked

    def _forks(self) -> int:
        """How many hosts of the play may run a task at the same time."""
        forks = int(self._variables.get("ansible_forks") or 1)
        return min(forks, int(self._task.throttle or forks))

    def _warn_of_few_forks(self, following: dict[str, t.Any]) -> None:
        """Warn once in a play. Within a maintenance, the gate takes one host after another."""
        if following.get("next") != "prepare" or self._options["within_maintenance"]:
            return
        hosts = len(self._variables["ansible_play_hosts_all"])
        text = warning_of_few_forks(following["events"], hosts=hosts, forks=self._forks())
        if text:
            with contextlib.suppress(FileExistsError):
                self._play_directory().joinpath("few-forks").mkdir(parents=True)
                lines.warn(text)

    def _play_directory(self) -> Path:
        """Ansible makes the directory above it for each run, and removes it at the end."""
        return Path(constants.DEFAULT_LOCAL_TMP) / f"scheduled-events-{play_id(self._task)}"

    def _conclude(self, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Leave the part of the host in the report of the job, or conclude the previous plays."""
        left: list[str] = []
        if options["conclude"] == "run":
            plays = ends.ends_of_all_plays(Path(constants.DEFAULT_LOCAL_TMP))
            summary = [line for play in plays for line in play.show()]
            part = ends.merge(each for play in plays for each in play.parts().values())
            # Ansible itself shows which hosts failed or became unreachable.
            active = {*self._variables["ansible_play_hosts"]}
            unfinished = sorted({host for play in plays for host in play.unfinished()} & active)
            left = [f"{host} {text}" for host in unfinished for text in part["failures"][host]]
            begun = sorted(Store(Path(constants.DEFAULT_LOCAL_TMP)).begun() & active)
            left += [f"{host} {UNMAINTAINED}" for host in begun]
        else:
            part = ends.KINDS[options["conclude"]](self._variables["inventory_hostname"], options["result"] or {})
            summary = self._leave(part, kind=ends.BEGUN if options["within_maintenance"] else ends.WHOLE)
        self._show(summary)
        artifacts = {name: value for name, value in part.items() if value}
        data = {ends.ARTIFACT: artifacts} if artifacts else {}
        return {
            "summary": summary,
            "left": left,
            # As of the module set_stats, which would cost each host another result.
            "ansible_stats": {"data": data, "per_host": False, "aggregate": True},
        }

    def _leave(self, part: ends.Part, *, kind: str = ends.WHOLE) -> list[str]:
        host, hosts = self._variables["inventory_hostname"], len(self._variables["ansible_play_hosts_all"])
        return ends.Ends(self._play_directory()).add(host, part, hosts=hosts, kind=kind)

    @staticmethod
    def _show(summary: t.Sequence[str]) -> None:
        for line in summary:
            lines.show(line)

    def _check_fallback(self, options: t.Mapping[str, t.Any]) -> None:
        """Refuse what could not work later, before anything has been prepared."""
        if options["fallback"] == "none":
            return
        for name in ("fallback_max_age", "phase_timeout", "reconnect_timeout"):
            seconds = options[name]
            if seconds <= SEND_AFTER:
                raise AnsibleActionFail(
                    f"{name} is {seconds:g}, but the fallback acts after {SEND_AFTER:g} seconds of silence: expected a "
                    f"number above {SEND_AFTER:g}. Raise respond_{name}"
                )
        try:
            if options["fallback_resource_id"]:
                scope_of(options["fallback_resource_id"])
        except ArmError as error:
            raise AnsibleActionFail(f"fallback_{error}") from None
        self._require_azcollection()

    def _acknowledge_from_here(self, scope: str, event_id: str, patience: float) -> AcknowledgementResult:
        give_up_at = time.monotonic() + patience
        names = ("credentials", "control_node")
        arguments = {name: self._options[f"fallback_{name}"] for name in names}
        # A token that comes late must not be used after the time in which the document is valid.
        with self._arm(
            {**arguments, "operation_timeout": patience}, self._variables, lambda: give_up_at - time.monotonic()
        ) as arm:
            return acknowledge(arm, scope, check_ids([event_id]))

    def _outcome(self, reached: bool | None) -> dict[str, t.Any] | None:
        """What became of the phase that was handed out, from what the play knows; None if none was.

        :param reached: whether the tasks of the phase came to their end. A failure may be forgotten meanwhile.
        """
        handed_out, self._notes["handed_out"], self._notes["flushed"] = self._notes["handed_out"], None, False
        if handed_out is None:
            return None
        failed = self._failed_task
        if failed is None:
            return {**handed_out, "ok": bool(reached), "reason": ""}
        if FLUSHES in failed.result:
            return {**handed_out, "ok": False, "reason": failed.reason}
        phase = handed_out["phase"]
        balances = self._options["load_balancer"]
        files = files_of_balancer(self._variables, self._templar.template, phase) if balances else []
        own = self._options.get(f"{phase}_tasks") or ""
        every = [step for path in filter(None, [own, *files]) for step in self._files.steps(path)]
        named = [step for step in every if step.is_of(failed.name, failed.action)]
        steps = [step for step in named if step.has(failed.args)] or named
        place = steps[0].place if steps else "a role, a handler, or an included file"
        text = f'the task "{failed.name or failed.action}" ({place}) failed: {failed.reason}'
        if not reached:
            return {**handed_out, "ok": False, "reason": text}
        certain = [step.rescued for step in steps if not step.is_templated]
        hidden = not steps and (not self._lockstep or any(step.rescued and step.is_closed for step in every))
        if hidden or (all(certain) if certain else any(step.rescued for step in steps)):
            return {**handed_out, "ok": True, "reason": ""}
        return {**handed_out, "ok": False, "reason": f"{text.rstrip('.')}. {FORGOTTEN}"}

    def _execute_turn(
        self, control_node: dict[str, t.Any], outcome: dict[str, t.Any] | None, within: float
    ) -> dict[str, t.Any]:
        refuse_ended_run()
        # The host has no use for them, and must not see credentials of Azure.
        given = {name: value for name, value in self._options.items() if value is not None}
        own = {name: value for name, value in given.items() if not name.startswith(("fallback", "published"))}
        arguments = {**own, "outcome": outcome, "control_node": control_node}
        if self._windows:
            return self._execute_here(self._windows, arguments)
        try:
            with limited(self._task, within):
                answer: dict[str, t.Any] = self._execute_module(
                    module_name=MODULE, module_args=arguments, task_vars=self._variables
                )
        except (AnsibleError, TimeoutError) as error:
            self._reset_connection()
            raise HostLost(str(error), error if isinstance(error, AnsibleError) else None) from error
        if "next" not in answer and looks_cut_off(answer):
            self._reset_connection()
            if not control_node["first"]:
                raise HostLost(str(answer.get("module_stderr") or answer.get("msg") or "no answer").strip())
        self._keep_what_ansible_wants(answer)
        # The host may reboot as soon as it has answered, which must not lose the answer.
        with self._brief():
            self._remove_tmp_path(temporary_directory(self._connection))
        forget_temporary_directory(self._connection)
        return answer

    def _execute_here(self, host: WindowsHost, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Take the turn on the control node, which lets the host send requests and keep files."""
        options = {**COMMON_OPTIONS, **OPTIONS, "control_node": {"type": "dict"}}
        folder = host.folder(arguments["state_directory"])
        answer = host.run_module(
            options, arguments, lambda run: take_turn(run, folder=folder, intervals=WINDOWS_INTERVALS), losable=True
        )
        self._keep_what_ansible_wants(answer)
        return answer

    def _reset_connection(self) -> None:
        forget_temporary_directory(self._connection)
        with contextlib.suppress(AttributeError, NotImplementedError), self._brief():
            self._connection.reset()

    @contextlib.contextmanager
    def _brief(self) -> t.Iterator[None]:
        """Give up after a while what need not succeed."""
        with contextlib.suppress(AnsibleError, TimeoutError), limited(self._task, BRIEF):
            yield

    def _keep_what_ansible_wants(self, answer: dict[str, t.Any]) -> None:
        for name in ("warnings", "deprecations"):
            if answer.get(name):
                self._extras[name] = [*self._extras.get(name, []), *answer[name]]
        if "ansible_facts" in answer:  # the interpreter that was discovered
            self._extras["ansible_facts"] = answer["ansible_facts"]


def _given(action: ArmAction, variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The options of this call: of the task, or of the variables of the role.

    :raises AnsibleActionFail: one of them is wrong, or the role could not work.
    """
    task, template = action._task, action._templar.template
    options: dict[str, t.Any] = {}
    if task.args.get("of_role"):
        refusal = refusal_of_role(variables, template, TasksFiles(action).path)
        if refusal:
            raise AnsibleActionFail(refusal)
        options = options_of_role(variables, template)
        task.args = {**options, **task.args}
    try:
        return arguments_of(action, {**COMMON_OPTIONS, **OPTIONS})
    except AnsibleError:
        wrong = wrong_type(options)
        if wrong:
            raise AnsibleActionFail(wrong) from None
        raise
