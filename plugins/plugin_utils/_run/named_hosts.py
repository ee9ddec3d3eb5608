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

MARK = "__unnamed_hosts"  # of the playbooks: the variable that would name the hosts, empty if they are named


def refuse_unnamed_hosts(action: ActionBase, variables: t.Mapping[str, t.Any]) -> None:
    """Refuse to run on a control node that stands for hosts which are not named.

    :raises AnsibleActionFail: neither the variable of the playbook nor ``--limit`` names hosts.
    """
    variable = action._templar.template(variables.get(MARK, ""))
    if variable:
        raise AnsibleActionFail(
            f"No hosts are named, expected {variable} in --extra-vars or in the vars of import_playbook, or --limit. "
            f"For all hosts of the inventory, set {variable} to all"
        )
