# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._load_balancer.call import ON_HOST, OPTIONS, wrong_state
from ..module_utils._load_balancer.record import DrainError
from ..plugin_utils._ansible.core import arguments_of, misspelled, options_of
from ..plugin_utils._ansible.other_host import OtherHostError
from ..plugin_utils._ansible.strategy import refuse_sharing
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError
from ..plugin_utils._balancers.providers import (
    RecordFailed,
    balancers_of,
    behind_haproxy,
    in_pools,
    seconds_of,
    server_of,
    time_left,
)
from ..plugin_utils._windows.modules import HostOrHereAction, run_for


class ActionModule(HostOrHereAction, ArmAction):
    """Take a host out of its load balancers, and put it back."""

    _supports_async = False  # what a balancer is asked is asked from here, before the task ends

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        return {**self._bring(tmp, task_vars or {}), "simulated": bool(self._task.check_mode)}

    def _bring(self, tmp: t.Any, variables: dict[str, t.Any]) -> dict[str, t.Any]:
        options = arguments_of(self, OPTIONS)
        refuse_sharing(self._task, "load_balancer", run_once=False)
        is_new = options["state"] in ("drained", "held") and not options["resume"]  # a return must not fail for a name
        wrong_name = misspelled(variables, options_of("load_balancer"), "load_balancer") if is_new else ""
        problem = wrong_state(options) or wrong_name
        if problem:
            raise AnsibleActionFail(problem)
        unknown = [name for name in options["balancers"] if name not in variables["hostvars"]]
        if unknown and options["provider"] == "health_probe":  # which asks them when the host is out already
            raise AnsibleActionFail(
                f"balancers has {', '.join(unknown)}, expected hosts of the inventory. Correct "
                "load_balancer_haproxy_hosts"
            )
        left = time_left(options)
        try:
            if options["provider"] in ON_HOST:
                result = super().run(tmp, variables)
                if not result.pop("ask", False):
                    return result
                if options["state"] == "active":
                    return {**result, **self._end_return(variables, options)}
                ended = self._end_drain(variables, options, result["resume"], left)
                return {**result, **ended, "changed": result["changed"]}
            return {**ActionBase.run(self, tmp, variables), **self._from_here(variables, options)}
        except (ArmError, DrainError, OtherHostError) as error:
            raise AnsibleActionFail(str(error)) from None
        except RecordFailed as failure:
            return t.cast("dict[str, t.Any]", failure.args[0])

    def _from_here(self, variables: dict[str, t.Any], options: dict[str, t.Any]) -> dict[str, t.Any]:
        if options["provider"] == "haproxy":
            with balancers_of(self, variables, options) as balancers:
                return behind_haproxy(self, variables, options, balancers).bring()
        with self._arm(options, variables, time_left(options)) as arm:
            return in_pools(self, variables, options, arm).bring()

    def _end_drain(
        self,
        variables: dict[str, t.Any],
        options: dict[str, t.Any],
        stage: dict[str, t.Any],
        left: t.Callable[[], float],
    ) -> dict[str, t.Any]:
        """End the drain of a host that fails its probe: its connections count once no balancer sends new ones."""
        with balancers_of(self, variables, {**options, "finish_within": seconds_of(left)}) as balancers:
            timeout = min(options["drain_timeout"], left(), options["wait_at_most"] or math.inf)
            balancers.wait_until_out(server_of(variables, options), options["backends"], timeout=max(0.0, timeout))
        more = {"resume": {**stage, "asked": True}, "finish_within": seconds_of(left)}
        return run_for(self, "load_balancer", {**self._task.args, **more}, variables)

    def _end_return(self, variables: dict[str, t.Any], options: dict[str, t.Any]) -> dict[str, t.Any]:
        """End the return of a host whose service answers: its balancers send it traffic."""
        with balancers_of(self, variables, options) as balancers:
            host, problem, msg = behind_haproxy(self, variables, options, balancers), None, ""
            server, timeout = server_of(variables, options), options["return_timeout"]
            try:
                msg = balancers.wait_until_served(server, options["backends"], timeout=timeout)
            except DrainError as error:
                problem = error
            return {"msg": host.end_return(problem) or msg}
