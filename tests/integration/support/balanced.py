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
        self._variables = {"load_balancer_state_directory": str(directory / "state"), **variables}
        self.inventory = {
            "all": {"hosts": {name: {**LOCAL, **own} for name, own in {"web1": {}, **(balancers or {})}.items()}}
        }

    def start(
        self, state: str, *, check: bool = False, env: dict[str, str] | None = None, **variables: Any
    ) -> StartedRun:
        """Start the role, with more ``variables``."""
        return self._ansible.start_playbook(
            [{"hosts": "web1", "gather_facts": False, "roles": [{"role": ROLE}]}],
            inventory=self.inventory,
            extra_vars={**self._variables, "load_balancer_state": state, **variables},
            check=check,
            env=env,
        )

    def run(self, state: str, *, rc: int = 0, check: bool = False, **variables: Any) -> Run:
        """Run the role to the end, which is to be ``rc``."""
        run = self.start(state, check=check, **variables).result()
        assert run.rc == rc, run.output
        return run

    def holders(self) -> list[str]:
        """For whom the host is drained."""
        return json.loads(self.marker.read_text())["holders"] if self.marker.exists() else []
