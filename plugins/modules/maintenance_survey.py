#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_survey
short_description: "Internal: read whether a host can be taken out of service for maintenance"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Reads in one run everything that the gate of the role P(maintops.scheduled_events.rolling_maintenance#role) needs
    to know about a host. This is the events that the host sees, whether the host is drained, whether it is under
    maintenance, and which maintenance has finished.
  - With O(owner) the module first marks the host as under maintenance, unless another owner has marked it. When two
    gates run at the same time, or a gate and the role P(maintops.scheduled_events.respond#role), at least one of them
    sees the mark of the other.
  - The module does not fail when the events cannot be read; see RV(problem).
options:
  directory:
    description: State directory of the roles.
    type: path
    default: /var/lib/maintops
  flag:
    description: File that makes the host fail the health probe of its load balancer.
    type: path
    default: /var/lib/maintops/drained
  owner:
    description: Owner of the mark. Without this option the host is not marked.
    type: str
  by:
    description: Information about the owner that other runs can read.
    type: dict
    default: {}
  lease:
    description: Seconds after which the mark expires unless it is renewed.
    type: float
    default: 180
  ended_owners:
    description: Owners whose runs have ended without removing their marks. These marks are ignored.
    type: list
    elements: str
    default: []
  checked:
    description:
      - Whether an operator has looked at the host. A maintenance that a run did not end then does not count any more.
    type: bool
    default: false
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
    details:
      - The host is not marked.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run with O(owner) renews the mark.
seealso:
  - module: maintops.scheduled_events.maintenance_gate
  - module: maintops.scheduled_events.maintenance_mark
"""

EXAMPLES = r"""
- name: Read whether this host is under maintenance
  maintops.scheduled_events.maintenance_survey:
  register: survey

- name: Show the owner of the mark
  ansible.builtin.debug:
    msg: "{{ survey.mark.owner if survey.mark else 'none' }}"
"""

RETURN = r"""
marked:
  description: Whether this run marked the host for O(owner).
  returned: success
  type: bool
  sample: true
unmarked_because:
  description: Why the host could not be marked. Empty if it was marked, or if another owner has marked it.
  returned: success
  type: str
  sample: ''
mark:
  description:
    - The mark of another owner. Without O(owner) and in check mode, the mark of any owner.
    - V(null) if the host has no such mark.
  returned: success
  type: dict
  contains:
    owner:
      description: Owner of the mark; empty if the owner is not known.
      returned: success
      type: str
      sample: controller1/ansible-local-4711x2y/web1
    by:
      description: Information about the owner.
      returned: success
      type: dict
      sample: {node: controller1, pid: 4711}
    stage:
      description: V(asking) while the owner waits at the gate, V(held) after it has passed the gate.
      returned: success
      type: str
      sample: held
    age:
      description: Seconds since the mark was made or renewed.
      returned: success
      type: float
      sample: 12.5
    lease:
      description: Seconds for which the mark is valid.
      returned: success
      type: float
      sample: 1800
    live:
      description: Whether the mark is still valid.
      returned: success
      type: bool
      sample: true
unfinished:
  description:
    - The RV(mark.owner) and RV(mark.by) of an earlier run that began the maintenance of the host and did not end it.
    - Empty if there is none.
  returned: success
  type: dict
  sample: {}
drained:
  description: Whether one of the roles, or the flag, has taken the host out of its load balancer.
  returned: success
  type: bool
  sample: false
returning:
  description:
    - The holder that puts the host back into its load balancer at this moment.
    - V(null) if the host does not return, or if this has taken longer than it may.
  returned: success
  type: dict
  contains:
    holder:
      description: The holder for whom the host was drained.
      returned: success
      type: str
      sample: respond
    seconds:
      description: Seconds for which others wait at most.
      returned: success
      type: float
      sample: 175.2
records:
  description: Maintenance that has finished on the host, by name.
  returned: success
  type: dict
  sample: {patch-june: {round: 7d0f, hosts: [web1, web2], since_begin: 61.2, age: 30.1}}
events:
  description:
    - All events that the host sees, in the format of RV(maintops.scheduled_events.scheduled_events_info#module:events).
    - V(null) if the events cannot be read.
  returned: success
  type: list
  elements: dict
  sample: []
vm_name:
  description: Name of this VM in Azure; V(null) if it cannot be read.
  returned: success
  type: str
  sample: web_0
drill:
  description: Whether a drill adds an event to those of the service.
  version_added: 1.0.0
  returned: success
  type: bool
  sample: false
problem:
  description: Why the events cannot be read; empty if they can.
  returned: success
  type: str
  sample: ''
boot_id:
  description: Identity of the current boot of this machine; empty if the system does not provide it.
  returned: success
  type: str
  sample: 1e2b2f0e-6a0d-4b43-a4a5-5f0f5d4f4d0b
"""

import typing as t

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.health_probe import Flag
from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance import Host
from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance_calls import (
    SURVEY_OPTIONS,
    read_events,
    survey,
    unread,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._module import COMMON_OPTIONS, ImdsModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._options import CheckedModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.client import (
    REQUESTS_IMPORT_ERROR,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.clock import boot_id
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.files import Folder


def read(module: CheckedModule) -> t.Dict[str, t.Any]:
    if REQUESTS_IMPORT_ERROR is not None:
        return unread(missing_required_lib("requests"))
    return read_events(lambda: ImdsModule(module))


def main() -> None:
    module = CheckedModule(argument_spec=dict(COMMON_OPTIONS, **SURVEY_OPTIONS), supports_check_mode=True)
    folder = Folder(module.params["directory"])
    found = survey(
        module,
        Host(folder),
        folder,
        flag_is_up=Flag(module.params["flag"]).is_up,
        read=lambda: read(module),
    )
    module.exit_json(boot_id=boot_id(), **found)


if __name__ == "__main__":
    main()
