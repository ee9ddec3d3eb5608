# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks act on hosts that a user has named. Private to the collection.

Ansible needs the hosts of a play before any task runs, and checks the syntax without them. A playbook without named
hosts therefore runs on the control node alone, and the first task refuses this.
"""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MARK = "__named_by"  # of a playbook: the name of the variable that names its hosts
CONTROL_NODE = "127.0.0.1"  # the hosts of a playbook whose hosts are not named


def refuse_unnamed_hosts(action: ActionBase, variables: t.Mapping[str, t.Any]) -> None:
    """Refuse to run on a control node that stands for hosts which are not named.

    :raises AnsibleActionFail: neither the variable of the playbook nor ``--limit`` names hosts.
    """
    variable = variables.get(MARK)
    if variable is None or "ansible_limit" in variables or variables["ansible_play_hosts_all"] != [CONTROL_NODE]:
        return
    if action._templar.template(variables.get(variable)) != CONTROL_NODE:
        raise AnsibleActionFail(
            f"No hosts are named, expected {variable} in --extra-vars or in the vars of import_playbook, or --limit. "
            f"For all hosts of the inventory, set {variable} to all"
        )
