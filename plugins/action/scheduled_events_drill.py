# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._drill import OPTIONS
from ..module_utils._scheduled_events.checks import refusal_of_probed
from ..module_utils._scheduled_events.clock import CLOCK
from ..module_utils._scheduled_events.document import LEAST_NOTICE
from ..module_utils._scheduled_events.rules import HOLD, PREPARE
from ..module_utils._scheduled_events.terms import NEVER
from ..plugin_utils._ansible.core import arguments_of, misspelled, options_of
from ..plugin_utils._ansible.lines import show
from ..plugin_utils._ansible.other_host import OtherHost
from ..plugin_utils._drill.asked_host import AskedHost, DrillRefused, MayBeOut
from ..plugin_utils._drill.course import HANDLED_WITHIN, OUT_OF_SIGHT, Drill, Settings
from ..plugin_utils._drill.load import REQUESTS_IMPORT_ERROR, Load, Options, without_password
from ..plugin_utils._drill.verdict import ABORTED, FAILED, FIGURES, PASSED, Verdict

AZURE_ANNOUNCES_AND_ENDS_WITHIN = 2700.0  # seconds

DEFAULT_LIMITS = {"hear": 10.0, "margin": 0.0, "lost": 0.0, "redirected": 0.0}

PREVIEWED, REFUSED, UNAVAILABLE, SKIPPED = "previewed", "refused", "unavailable", "skipped"  # without a drill
OUT = (FAILED, ABORTED, UNAVAILABLE)  # after which no other host is drilled: the host may be out of service
ARTIFACT = "scheduled_events_drill"
SHOWN = ("vm_name", "endpoint", "hooks", "action", "acknowledge", "on_failure", "hook_timeout", "margin")

# What has Azure announce an event of a type. A VM of a uniform scale set is named by its set and its number.
AZ_COMMANDS = {"Reboot": "restart", "Redeploy": "redeploy", "Preempt": "simulate-eviction"}


class ActionModule(ActionBase):
    """Drill the host, or show in check mode what a drill would run. It runs on the control node."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        self._name = self._variables["inventory_hostname"]
        if self._task.args.get("step") == "verdict":
            return {**result, **_verdict_of(self._results(), check=self._task.check_mode)}
        # One that failed without an outcome was ended from outside.
        ends = {name: each.get("outcome", each.get("failed") and FAILED) for name, each in self._results().items()}
        failed = [name for name, outcome in ends.items() if outcome in OUT]
        if failed and not self._task.check_mode:
            return {**result, **self._without_drill(SKIPPED, f"the drill of {failed[0]} did not pass")}
        try:
            self._options = self._checked()
        except AnsibleError as error:  # of this host alone: the others are drilled
            return {**result, **self._without_drill(REFUSED, f"the drill did not begin: {error}")}
        host = AskedHost(
            lambda: OtherHost(self, self._name, self._variables, become=bool(self._task.become)),
            {name: self._options[name] for name in ("state_directory", "places")},
        )
        try:
            return {**result, **self._work(host)}
        except DrillRefused as error:
            outcome = UNAVAILABLE if isinstance(error, MayBeOut) else REFUSED
            return {**result, **self._without_drill(outcome, f"the drill did not begin: {error}")}
        finally:
            host.close()

    def _checked(self) -> dict[str, t.Any]:
        """The options.

        :raises AnsibleError: one of them is wrong.
        """
        types = {**OPTIONS["event_type"], "choices": list(LEAST_NOTICE)}
        options = arguments_of(self, {**OPTIONS, "event_type": types})
        wrong_name = misspelled(self._variables, options_of("drill"), "drill")
        if wrong_name:
            raise AnsibleActionFail(wrong_name)
        _check_urls(options["probe_urls"])
        return options

    def _say(self, line: str) -> None:
        show(f"{self._name}: {line}")

    def _without_drill(self, outcome: str, problem: str) -> dict[str, t.Any]:
        self._say(f"{outcome}: {problem}")
        verdict = Verdict(outcome, (problem,), dict.fromkeys(FIGURES), 0)
        return {"changed": False, **_shown(verdict, str(self._task.args.get("event_type")))}

    def _results(self) -> dict[str, dict[str, t.Any]]:
        """The result of each host of the play that has one."""
        hostvars = self._variables["hostvars"]
        found = {name: hostvars[name].get("drill_result") for name in self._variables["ansible_play_hosts_all"]}
        return {name: dict(result) for name, result in found.items() if isinstance(result, t.Mapping)}

    def _work(self, host: AskedHost) -> dict[str, t.Any]:
        event_type = self._options["event_type"]
        preview = host.preview(event_type)
        shown = {"event_type": event_type, **{name: preview[name] for name in SHOWN}}
        watch = self._options["watch"]
        for line in (*_lines(shown, watch=watch), self._service(), *(self._az_commands(shown) if watch else ())):
            self._say(line)
        refusals = [*preview["refusals"], *_refusals(preview, event_type)]
        if refusals:
            raise (MayBeOut if preview["pending"] else DrillRefused)("; ".join(refusals))
        if self._task.check_mode:
            verdict = Verdict(PREVIEWED, (), dict.fromkeys(FIGURES), 0)
            return {"changed": False, **_shown(verdict, event_type), "preview": shown}
        settings = self._settings(preview, event_type)
        verdict = Drill(host, self._load(settings.limits), settings, CLOCK, self._say).run()
        self._say(verdict.text)
        return {"changed": True, **_shown(verdict, event_type), "preview": shown}

    def _service(self) -> str:
        urls = ", ".join(map(without_password, self._options["probe_urls"]))
        return f"service: {urls or 'none, so no request is counted. Set drill_probe_urls'}"

    @staticmethod
    def _az_commands(shown: t.Mapping[str, t.Any]) -> list[str]:
        """How the owner has Azure announce the event that is waited for. The name is what the host says."""
        verb = AZ_COMMANDS.get(shown["event_type"])
        if verb is None:
            return [f"no command of az announces {shown['event_type']} without deleting the VM"]
        vm_name = shown["vm_name"]
        scale_set, _underscore, number = vm_name.rpartition("_")
        commands = [f"az vm {verb} --resource-group GROUP --name {shlex.quote(vm_name)}"]
        if scale_set and number.isdecimal():
            id_option = "--instance-id" if verb == "simulate-eviction" else "--instance-ids"
            commands.append(
                f"az vmss {verb} --resource-group GROUP --name {shlex.quote(scale_set)} {id_option} {number}"
            )
        return [f"waits for {shown['event_type']} of Azure. Announce it with: {' or '.join(commands)}"]

    def _settings(self, preview: dict[str, t.Any], event_type: str) -> Settings:
        options, hooks = self._options, float(preview["hook_timeout"]) + HANDLED_WITHIN
        notice = LEAST_NOTICE[event_type] if options["notice"] is None else options["notice"]
        event = AZURE_ANNOUNCES_AND_ENDS_WITHIN if options["watch"] else notice + options["started_for"]
        patience = event + 2 * hooks
        return Settings(
            host=self._name,
            watch=options["watch"],
            acknowledges=preview["acknowledge"] != NEVER and preview["action"] != HOLD,
            notice=notice,
            started_for=options["started_for"],
            steady=options["steady"],
            stop_after=options["stop_after"],
            patience=patience,
            out_of_sight=patience if options["watch"] else OUT_OF_SIGHT,  # Azure may reboot the VM
            recovery=hooks,
            limits={**DEFAULT_LIMITS, **{k: v for k, v in options["limits"].items() if v is not None}},
        )

    def _load(self, limits: t.Mapping[str, float | None]) -> Load | None:
        options = self._options
        if not options["probe_urls"]:
            return None
        if REQUESTS_IMPORT_ERROR:
            raise DrillRefused(
                "the Python library requests is missing on the control node, and drill_probe_urls needs it. Install it"
            )
        return Load(
            Options(
                options["probe_urls"],
                options["probe_rate"],
                timeout=options["probe_timeout"],
                slow_after=options["slow_after"],
                validate_certs=options["probe_validate_certs"],
                redirects=bool(limits["redirected"]),
            )
        )


def _lines(shown: t.Mapping[str, t.Any], *, watch: bool) -> list[str]:
    what = "this waits for a real" if watch else "a drill announces"
    hooks = [f"{phase}: {', '.join(names)}" for phase, names in shown["hooks"].items()]
    return [
        f"{what} {shown['event_type']} of the VM {shown['vm_name']}",
        f"hooks: {'; '.join(hooks) or 'none'} ({shown['hook_timeout']:g} s for a phase)",
        f"acknowledge: {shown['acknowledge']}, on_failure: {shown['on_failure']}",
    ]


def _refusals(preview: t.Mapping[str, t.Any], event_type: str) -> list[str]:
    """Why the drill would show nothing."""
    refusals = []
    if preview["action"] not in (PREPARE, HOLD):
        refusals.append(
            f"the rules of the host say {preview['action']} for {event_type}, so nothing would be prepared. Choose "
            "another drill_event_type"
        )
    if "prepare" not in preview["hooks"]:
        refusals.append("the host has no prepare hook. Set poller_hooks")
    return refusals


def _check_urls(urls: t.Sequence[str]) -> None:
    """Refuse what is not a URL.

    :raises AnsibleActionFail: there is one.
    """
    for refusal in filter(None, map(refusal_of_probed, urls)):
        raise AnsibleActionFail(f"probe_urls has {refusal}. Correct drill_probe_urls")


def _verdict_of(results: t.Mapping[str, t.Mapping[str, t.Any]], *, check: bool) -> dict[str, t.Any]:
    """The verdicts of all hosts, for people and for the artifacts of a job, which a task that fails cannot have."""
    verdicts = {name: str(each.get("verdict") or each.get("msg") or "no drill") for name, each in results.items()}
    for name, text in verdicts.items():
        show(f"{name}: {text}")
    expected = (PASSED, PREVIEWED) if check else (PASSED,)
    wrong = [f"{name}: {verdicts[name]}" for name, each in results.items() if each.get("outcome") not in expected]
    shown = {
        name: {key: each.get(key) for key in ("outcome", "problems", "figures", "requests", "event_type")}
        for name, each in results.items()
    }
    answer = {
        "changed": False,
        "passed": not wrong and bool(results),
        "hosts": shown,
        "ansible_stats": {"data": {ARTIFACT: shown}, "per_host": False, "aggregate": True},
    }
    return {**answer, "msg": "; ".join(wrong) if results else "no host was drilled"}


def _shown(verdict: Verdict, event_type: str) -> dict[str, t.Any]:
    return {
        "outcome": verdict.outcome,
        "passed": verdict.outcome == PASSED,
        "problems": list(verdict.problems),
        "figures": verdict.figures,
        "requests": verdict.requests,
        "event_type": event_type,
        "verdict": verdict.text,
    }
