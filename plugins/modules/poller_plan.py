#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: poller_plan
short_description: "Internal: check the options of the polling unit, and pack its program and its hooks"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Does one step of the role P(maintops.scheduled_events.poller#role) on the control node. The role uses this module.
    Use the role instead.
  - Reads the variables of the role, and writes files into the temporary directory of this run of Ansible.
  - The result can contain secrets, so use C(no_log). A wrong option is in RV(problem), since C(no_log) hides the
    message of a task that fails.
options:
  role:
    description: Directory of the role.
    type: path
    required: true
  python:
    description: Python interpreter of the polling unit on the host.
    type: str
    required: true
  python_version:
    description: Version of this interpreter, such as V(3.11).
    type: str
    required: true
requirements:
  - python >= 3.10 (on the control node)
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
attributes:
  action:
    description: The module runs only on the control node.
    support: full
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - The module changes nothing on the host.
  idempotent:
    support: full
    details:
      - The module changes nothing on the host.
"""

EXAMPLES = r"""
- name: Check the options
  maintops.scheduled_events.poller_plan:
    role: "{{ role_path }}"
    python: /usr/bin/python3
    python_version: "3.11"
  register: plan
  no_log: true
"""

RETURN = r"""
problem:
  description: The first wrong option, and the action to take. Empty if all options are valid.
  returned: always
  type: str
  sample: ''
config:
  description: Configuration of the polling unit.
  returned: if all options are valid
  type: dict
  sample: {interval: 1.0}
controller:
  description: Settings of the controller. Empty without a controller.
  returned: if all options are valid
  type: dict
  sample: {}
webhooks:
  description: Receivers of webhooks.
  returned: if all options are valid
  type: list
  elements: dict
  sample: []
hooks:
  description: All hooks that the role installs.
  returned: if all options are valid
  type: list
  elements: str
  sample: [prepare.d/10-drain]
release:
  description: Name of the release of the program.
  returned: if all options are valid
  type: str
  sample: 0f1e2d3c4b5a6978
archive:
  description: Path of the program on the control node.
  returned: if all options are valid
  type: str
  sample: /home/user/.ansible/tmp/ansible-local-1/scheduled-events-0f1e2d3c4b5a6978.tar
hook_set:
  description: Name of the set of hooks.
  returned: if all options are valid
  type: str
  sample: 8796a5b4c3d2e1f0
hooks_directory:
  description: Directory of the hooks on the control node.
  returned: if all options are valid
  type: str
  sample: /home/user/.ansible/tmp/ansible-local-1/scheduled-events-hooks-x
"""
