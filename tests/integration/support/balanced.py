# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host web1 behind a load balancer, on this machine, and the role load_balancer for it."""

import json
import pathlib
from typing import Any

from playbooks import LOCAL, Ansible, Run, StartedRun

ROLE = "maintops.scheduled_events.load_balancer"


class Host:
    """What the tests do with the host.

    :param directory: for the file of the role.
    :param variables: of the role.
    :param balancers: name of each in the inventory → its variables.
    """

    def __init__(
        self,
        ansible: Ansible,
        directory: pathlib.Path,
        variables: dict[str, Any],
        *,
        balancers: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self._ansible = ansible
        self.marker = directory / "state" / "load-balancer.json"
        self._more_hosts: list[str] = []
        self._variables = {"scheduled_events_state_directory": str(directory / "state"), **variables}
        self.inventory = {
            "all": {"hosts": {name: {**LOCAL, **own} for name, own in {"web1": {}, **(balancers or {})}.items()}}
        }

    def set_variables(self, **variables: Any) -> None:
        """Set variables of the role for all runs to come."""
        self._variables.update(variables)

    def add_host(self, name: str) -> None:
        """Add a host to the inventory and to the plays to come, on which the role is not run."""
        self.inventory["all"]["hosts"][name] = dict(LOCAL)
        self._more_hosts.append(name)

    def start(
        self,
        state: str,
        *,
        check: bool = False,
        env: dict[str, str] | None = None,
        play: dict[str, Any] | None = None,
        options: tuple[str, ...] = (),
        **variables: Any,
    ) -> StartedRun:
        """Start the role, with more ``variables``, keywords of the ``play``, and options of the command."""
        return self._ansible.start_playbook(
            [
                {
                    "hosts": ["web1", *self._more_hosts],
                    "gather_facts": False,
                    "roles": [{"role": ROLE, "when": "inventory_hostname == 'web1'"}],
                    **(play or {}),
                }
            ],
            inventory=self.inventory,
            extra_vars={**self._variables, "load_balancer_state": state, **variables},
            check=check,
            env=env,
            options=options,
        )

    def run(self, state: str, *, rc: int = 0, check: bool = False, **variables: Any) -> Run:
        """Run the role to the end, which is to be ``rc``."""
        run = self.start(state, check=check, **variables).result()
        assert run.rc == rc, run.output
        return run

    def holders(self) -> list[str]:
        """For whom the host is drained."""
        return json.loads(self.marker.read_text())["holders"] if self.marker.exists() else []
