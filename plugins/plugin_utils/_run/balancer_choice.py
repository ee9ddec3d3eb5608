# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a role takes the hosts out of their load balancer. Private to the collection.

A role does so if ``load_balancer_provider`` is set, unless its own variable says otherwise.
"""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

PREFIX, PROVIDER = "load_balancer_", "load_balancer_provider"
# What other parts of the collection read, too: the gate, and the endpoint of nginx.
ALSO_READ_BY_OTHERS = ("load_balancer_probe_flag", "load_balancer_nginx_", "load_balancer_state_directory")


def refuse_half_a_balancer(role: str, variables: t.Mapping[str, t.Any]) -> None:
    """Refuse variables of a load balancer that the role would not use.

    :param variables: those of the host, as its inventory and play have them.
    :raises AnsibleActionFail: the owner has described a balancer, but has not chosen whether to use it.
    """
    choice = f"{role}_load_balancer"
    if variables.get(choice) not in (None, "") or PROVIDER in variables:
        return
    described = [name for name in variables if name.startswith(PREFIX) and not name.startswith(ALSO_READ_BY_OTHERS)]
    if described:
        raise AnsibleActionFail(
            f"{', '.join(sorted(described))} describes a load balancer, but {PROVIDER} is not set, so the hosts would "
            f"stay in it. Set {PROVIDER}, for example to health_probe, or set {choice} to false"
        )
