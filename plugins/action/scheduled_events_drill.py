# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.call import ARM_OPTIONS
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.clock import CLOCK
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.document import (
    EVENT_TYPES,
    LEAST_NOTICE,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.action import ArmAction
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.arm import ArmError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._core.arguments import arguments_of
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._drill.azure import (
    OPERATIONS,
    AzureSource,
    read_policy,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._drill.course import (
    HANDLED_WITHIN,
    Drill,
    DrillRefused,
    HostLost,
    Settings,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._drill.load import (
    REQUESTS_IMPORT_ERROR,
    Load,
    Options,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._drill.sources import (
    COMMAND,
    DrilledHost,
    Emulation,
    EmulatorSource,
    Remote,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._drill.verdict import (
    ABORTED,
    FAILED,
    FIGURES,
    PASSED,
    Verdict,
)
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._remote.delegate_host import (
    OtherHost,
    OtherHostError,
)

AZURE_ANNOUNCES_WITHIN, AZURE_TAKES = 900.0, 1800.0  # seconds

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    **ARM_OPTIONS,
    "step": {"type": "str", "choices": ["preview", "drill", "verdict"], "required": True},
    "after": {"type": "dict", "default": {}},
    "source": {"type": "str", "choices": ["emulator", "azure"], "default": "emulator"},
    "event_type": {"type": "str", "choices": list(EVENT_TYPES), "default": "Reboot"},
    "notice": {"type": "float"},
    "started_for": {"type": "float", "default": 15},
    "emulator_host": {"type": "str"},
    "emulator_address": {"type": "str", "default": "127.0.0.1"},
    "emulator_port": {"type": "int", "default": 8179},
    "emulator_python": {"type": "str", "default": "/usr/bin/python3"},
    "emulator_directory": {"type": "str", "default": "/opt/scheduled-events-emulator-drill"},
    "command": {"type": "str", "default": COMMAND},
    "state_directory": {"type": "str", "default": "/var/lib/maintops"},
    "azure_operation": {"type": "str", "choices": list(OPERATIONS), "default": "restart"},
    "azure_resource_id": {"type": "str"},
    "confirm": {"type": "list", "elements": "str", "default": []},
    "probe_urls": {"type": "list", "elements": "str", "default": []},
    "probe_rate": {"type": "float", "default": 10},
    "probe_timeout": {"type": "float", "default": 10},
    "probe_validate_certs": {"type": "bool", "default": True},
    "slow_after": {"type": "float", "default": 1},
    "steady": {"type": "float", "default": 5},
    "stop_after": {"type": "float", "default": 5},
    "limits": {
        "type": "dict",
        "default": {},
        "options": {name: {"type": "float"} for name in FIGURES},
    },
}
DEFAULT_LIMITS = {"hear": 10.0, "margin": 0.0, "lost": 0.0}
POSITIVE = ("notice", "started_for", "probe_rate", "probe_timeout", "slow_after", "steady", "stop_after")

PREVIEWED, REFUSED, SKIPPED = "previewed", "refused", "skipped"  # outcomes without a drill
ARTIFACT = "scheduled_events_drill"

display = Display()


class ActionModule(ArmAction):
    """Show what a drill of the host would run, or carry it out. It runs on the control node."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        self._options = arguments_of(self, ARGUMENTS, required_if=[("source", "azure", ("azure_resource_id",))])
        self._name = self._variables["inventory_hostname"]
        if self._options["step"] == "verdict":
            return {**result, **_verdict_of(self._results(), check=self._task.check_mode)}
        before = self._options["after"]
        if before.get("outcome", PREVIEWED) != PREVIEWED or (before and self._options["step"] == "preview"):
            return {**result, **before, "changed": False}
        failed = [name for name, each in self._results().items() if each.get("outcome") in (FAILED, ABORTED)]
        if failed:
            return {**result, **self._without_drill(SKIPPED, f"the drill of {failed[0]} did not pass")}
        return {**result, **self._worked()}

    def _worked(self) -> dict[str, t.Any]:
        _check(self._options)
        remote = Remote(lambda: self._connect(self._name))
        where = Remote(lambda: self._connect(self._options["emulator_host"] or self._name))
        host = DrilledHost(remote, self._options["command"], self._options["state_directory"])
        try:
            if self._options["source"] != "azure" and not self._options["azure_resource_id"]:
                return self._work(host, where, None)
            with self._arm(self._options, self._variables) as arm:
                return self._work(host, where, arm)
        except (ArmError, DrillRefused, HostLost, OtherHostError) as error:
            return self._without_drill(REFUSED, f"the drill did not begin: {error}")
        finally:
            remote.close()
            where.close()

    def _connect(self, name: str) -> OtherHost:
        return OtherHost(self, name, self._variables, become=bool(self._task.become))

    def _say(self, line: str) -> None:
        display.display(f"{self._name}: {line}")

    def _without_drill(self, outcome: str, problem: str) -> dict[str, t.Any]:
        self._say(f"{outcome}: {problem}")
        verdict = Verdict(outcome, (problem,), dict.fromkeys(FIGURES), 0)
        return {"changed": False, **_shown(verdict, self._options["event_type"])}

    def _results(self) -> dict[str, dict[str, t.Any]]:
        """The result of each host of the play that has one."""
        hostvars = self._variables["hostvars"]
        found = {name: hostvars[name].get("drill_result") for name in self._variables["ansible_play_hosts_all"]}
        return {name: dict(result) for name, result in found.items() if isinstance(result, t.Mapping)}

    def _work(self, host: DrilledHost, where: Remote, arm: t.Any) -> dict[str, t.Any]:
        options, azure = self._options, self._options["source"] == "azure"
        event_type = OPERATIONS[options["azure_operation"]].event_type if azure else options["event_type"]
        preview = host.preview(event_type)
        shown = {"event_type": event_type, **{name: preview[name] for name in SHOWN}}
        lines, source = [*_lines(shown), self._service()], None
        if azure:
            vm_name, operation = str(preview["vm_name"] or ""), options["azure_operation"]
            source = AzureSource(host, arm, options["azure_resource_id"], operation, vm_name)
            lines += source.preview()
        elif options["azure_resource_id"] and options["step"] == "preview":
            lines += read_policy(arm, options["azure_resource_id"]).lines()
        if options["step"] == "preview":
            for line in lines:
                self._say(line)
        refusals = [*preview["refusals"], *_refusals(preview, event_type), *self._unconfirmed(preview, azure)]
        if refusals:
            raise DrillRefused("; ".join(refusals))
        if options["step"] == "preview":
            verdict = Verdict(PREVIEWED, (), dict.fromkeys(FIGURES), 0)
            return {"changed": False, **_shown(verdict, event_type), "preview": shown}
        used = source or EmulatorSource(host, where, self._emulation(preview, event_type), CLOCK)
        verdict = Drill(used, self._load(), self._settings(preview, event_type, azure), CLOCK, self._say).run()
        self._say(verdict.text)
        return {"changed": True, **_shown(verdict, event_type), "preview": shown}

    def _service(self) -> str:
        urls = ", ".join(self._options["probe_urls"])
        return f"service: {urls or 'none, so no request is counted. Set drill_probe_urls'}"

    def _unconfirmed(self, preview: dict[str, t.Any], azure: bool) -> list[str]:
        vm_name, named = str(preview["vm_name"] or ""), [each.lower() for each in self._options["confirm"]]
        if not azure or vm_name.lower() in named:
            return []
        return [
            f"drill_confirm is {self._options['confirm']}, expected the name {vm_name} in it. Azure really carries out "
            f"{self._options['azure_operation']}"
        ]

    def _emulation(self, preview: dict[str, t.Any], event_type: str) -> Emulation:
        options = self._options
        settings = self._settings(preview, event_type, azure=False)
        return Emulation(
            vm_name=preview["vm_name"],
            event_type=event_type,
            notice=options["notice"],
            started_for=options["started_for"],
            directory=options["emulator_directory"],
            python=options["emulator_python"],
            address=options["emulator_address"],
            port=options["emulator_port"],
            longest=settings.patience + settings.recovery + 300.0,
        )

    def _settings(self, preview: dict[str, t.Any], event_type: str, azure: bool) -> Settings:
        hooks = float(preview["hook_timeout"]) + HANDLED_WITHIN
        notice = self._options["notice"] or LEAST_NOTICE[event_type]
        patience = notice + self._options["started_for"] + 2 * hooks
        return Settings(
            host=self._name,
            steady=self._options["steady"],
            stop_after=self._options["stop_after"],
            patience=AZURE_ANNOUNCES_WITHIN + AZURE_TAKES + 2 * hooks if azure else patience,
            recovery=hooks,
            limits={**DEFAULT_LIMITS, **{k: v for k, v in self._options["limits"].items() if v is not None}},
        )

    def _load(self) -> Load | None:
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
            )
        )


SHOWN = ("vm_name", "endpoint", "hooks", "action", "acknowledge", "on_failure", "hook_timeout", "margin")


def _lines(shown: t.Mapping[str, t.Any]) -> list[str]:
    hooks = [f"{phase}: {', '.join(names)}" for phase, names in shown["hooks"].items()]
    return [
        f"a drill announces {shown['event_type']} of the VM {shown['vm_name']}",
        f"hooks: {'; '.join(hooks) or 'none'} ({shown['hook_timeout']:g} s for a phase)",
        f"acknowledge: {shown['acknowledge']}, on_failure: {shown['on_failure']}",
    ]


def _refusals(preview: t.Mapping[str, t.Any], event_type: str) -> list[str]:
    """Why the drill would show nothing."""
    refusals = []
    if preview["action"] not in ("", "prepare"):
        refusals.append(
            f"the rules of the host say {preview['action']} for {event_type}, so nothing would be prepared. Choose "
            "another drill_event_type"
        )
    if "prepare" not in preview["hooks"]:
        refusals.append("the host has no prepare hook. Set poller_hooks")
    return refusals


def _check(options: t.Mapping[str, t.Any]) -> None:
    """Refuse values that mean nothing.

    :raises AnsibleActionFail: there is one.
    """
    for name in POSITIVE:
        value = options[name]
        if value is not None and not (math.isfinite(value) and value > 0):
            raise AnsibleActionFail(f"{name} is {value:g}, expected a number above 0. Correct drill_{name}")
    wrong = [url for url in options["probe_urls"] if not url.startswith(("http://", "https://"))]
    if wrong:
        raise AnsibleActionFail(f"probe_urls has {wrong[0]!r}, expected http:// or https://. Correct drill_probe_urls")


def _verdict_of(results: t.Mapping[str, t.Mapping[str, t.Any]], *, check: bool) -> dict[str, t.Any]:
    """The verdicts of all hosts, for people and for the artifacts of a job, which a task that fails cannot have."""
    verdicts = {name: str(each.get("verdict", "")) for name, each in results.items()}
    for name, text in verdicts.items():
        display.display(f"{name}: {text}")
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
