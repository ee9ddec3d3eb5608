# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: not_from_host
short_description: "Internal: return a value that no fact of the host has chosen"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The roles of this collection use this lookup for the tasks files that they include. Any module can return facts of
    any name, and each is a variable of the host, so a host could choose the file.
  - It fails if a fact of the host has the name of a variable of this collection.
options:
  _terms:
    description: The value, such as the path of a tasks file.
    required: true
requirements:
  - python >= 3.10 (on the control node)
"""

EXAMPLES = r"""
- name: Run the maintenance tasks
  ansible.builtin.include_tasks: "{{ lookup('maintops.scheduled_events.not_from_host', rolling_maintenance_tasks) }}"
"""

RETURN = r"""
_raw:
  description: The value.
  type: list
  elements: raw
"""

import typing as t

from ansible.errors import AnsibleActionFail, AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils._ansible.core import refuse_variables_of_host


class LookupModule(LookupBase):
    """Return values, unless a fact of the host has the name of a variable of this collection."""

    def run(self, terms: list[t.Any], variables: dict[str, t.Any], **_options: t.Any) -> list[t.Any]:
        try:
            refuse_variables_of_host(variables)
        except AnsibleActionFail as error:
            raise AnsibleLookupError(str(error)) from None
        return terms
