#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_mark
short_description: Mark a host as under maintenance
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The mark shows other runs, and the role P(maintops.scheduled_events.respond#role), that the host is under
    maintenance.
  - The mark belongs to the run of Ansible that sets it. The mark of another run is only replaced after its lease has
    expired.
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module.
options:
  state:
    description:
      - V(held) sets or renews the mark. The module fails if another run has marked the host.
      - V(noted) records on the control node that O(phase) begins. The next mark writes this into the history of
        the host.
      - V(done) records that the maintenance of the host has finished, and removes the mark.
      - V(absent) removes the mark.
      - V(failed) removes the mark and records on the control node that the maintenance failed. The gate then opens for
        no further host.
    type: str
    choices: [held, noted, done, absent, failed]
    required: true
  directory:
    description: State directory of the roles.
    type: path
    default: /var/lib/maintops
  lease:
    description: Seconds after which the mark expires unless it is renewed.
    type: float
    default: 1800
  phase:
    description:
      - The phase of the maintenance that begins, for the history of the host. The phase before it ends well, or fails
        with O(state=failed).
    type: str
    choices: [drain, tasks, reboot, health, return]
  reason:
    description: Why the maintenance failed, for the history of the host.
    type: str
    default: ''
  round:
    description:
      - The maintenance that has finished, for O(state=done). The module sets this option itself.
    type: dict
    default: {}
  owner:
    description: Owner of the mark, which is this run. The module sets this option itself.
    type: str
  by:
    description:
      - Information about the owner that other runs can read. The module sets this option itself.
    type: dict
    default: {}
  history:
    description: Facts for the history of the host. The action plugin sets this option. Do not set it.
    type: dict
    default: {}
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run with O(state=held) renews the mark.
seealso:
  - module: maintops.scheduled_events.maintenance_gate
  - module: maintops.scheduled_events.maintenance_survey
"""

EXAMPLES = r"""
- name: Keep the mark while the disks are checked
  maintops.scheduled_events.maintenance_mark:
    state: held
    lease: 7200
"""

RETURN = r"""
windows:
  description: Whether the host is a Windows host.
  returned: success
  type: bool
  sample: false
history:
  description:
    - The facts that this run has written into the history of the host so far. For a Windows host, only this list has
      them.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance import Host, MaintenanceError
from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance_calls import MARK_OPTIONS, mark
from ansible_collections.maintops.scheduled_events.plugins.module_utils._options import CheckedModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.files import Folder


def main() -> None:
    module = CheckedModule(argument_spec=MARK_OPTIONS, supports_check_mode=True)
    try:
        result = mark(module, Host(Folder(module.params["directory"])))
    except MaintenanceError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
