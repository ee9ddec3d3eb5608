#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_survey
short_description: Show whether a host can be spared for a rolling maintenance
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Reads in one run all that the gate of the role P(maintops.scheduled_events.rolling_maintenance#role) has to know of
    a host. These are the events that it sees, whether it is drained, whether it is under maintenance, and what was
    done.
  - With O(owner) it marks the host as under maintenance first, unless somebody else has. So of two gates, and of the
    gate and the role P(maintops.scheduled_events.respond#role), one always sees the other.
  - An event source that cannot be read is no failure; see RV(problem).
options:
  directory:
    description: State directory of the roles.
    type: path
    default: /var/lib/maintops
  flag:
    description: File that takes the host out of a load balancer that probes it.
    type: path
    default: /etc/scheduled-events/drained
  owner:
    description: For whom to mark the host. Without it the host is not marked.
    type: str
  by:
    description: What others are to know of the owner.
    type: dict
    default: {}
  lease:
    description: Seconds after which the mark no longer counts unless it is renewed.
    type: float
    default: 180
  dead:
    description: Owners that are known to be dead. Their marks no longer count.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - maintops.scheduled_events.imds
  - maintops.scheduled_events.imds.attributes
  - maintops.scheduled_events.imds.posix
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
- name: Read whether somebody maintains this host
  maintops.scheduled_events.maintenance_survey:
  register: survey

- name: Say who
  ansible.builtin.debug:
    msg: "{{ survey.mark.owner if survey.mark else 'nobody' }}"
"""

RETURN = r"""
marked:
  description: Whether the host is marked for O(owner) now.
  returned: success
  type: bool
  sample: true
unmarked_because:
  description: Why the host could not be marked; empty if it could, or if another's mark is there.
  returned: success
  type: str
  sample: ''
mark:
  description: The mark of somebody else, or of this owner if the host was not to be marked; V(null) if there is none.
  returned: success
  type: dict
  contains:
    owner:
      description: Who marked it; empty if that is not known.
      returned: success
      type: str
      sample: controller1/ansible-local-4711x2y/web1
    by:
      description: What is known of the owner.
      returned: success
      type: dict
      sample: {node: controller1, pid: 4711}
    stage:
      description: V(asking) at the gate, V(held) once it is through.
      returned: success
      type: str
      sample: held
    age:
      description: Seconds since the mark was made or renewed.
      returned: success
      type: float
      sample: 12.5
    lease:
      description: Seconds for which it counts.
      returned: success
      type: float
      sample: 1800
    live:
      description: Whether it still counts.
      returned: success
      type: bool
      sample: true
drained:
  description: Whether the host is out of its load balancer, by one of the roles or by the flag.
  returned: success
  type: bool
  sample: false
records:
  description: What was done on the host, by the name of the maintenance.
  returned: success
  type: dict
  sample: {patch-june: {round: 7d0f, hosts: [web1, web2], since_begin: 61.2, age: 30.1}}
events:
  description:
    - All events that the host sees, each as RV(maintops.scheduled_events.scheduled_events_info#module:events). V(null)
      if they cannot be read.
  returned: success
  type: list
  elements: dict
  sample: []
vm_name:
  description: Name of this VM in Azure; V(null) if it cannot be read.
  returned: success
  type: str
  sample: web_0
problem:
  description: Why the events cannot be read; empty if they can.
  returned: success
  type: str
  sample: ''
boot_id:
  description: What tells this boot of this machine from all others; empty if the system does not tell.
  returned: success
  type: str
  sample: 1e2b2f0e-6a0d-4b43-a4a5-5f0f5d4f4d0b
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.maintops.scheduled_events.plugins.module_utils._maintenance import (
    ASKING,
    Host,
    MaintenanceError,
    moment,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._module import COMMON_OPTIONS, ImdsModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.client import (
    REQUESTS_IMPORT_ERROR,
    ImdsError,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.endpoint import SettingError
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.files import Folder

OPTIONS = {
    "directory": {"type": "path", "default": "/var/lib/maintops"},
    "flag": {"type": "path", "default": "/etc/scheduled-events/drained"},
    "owner": {"type": "str"},
    "by": {"type": "dict", "default": {}},
    "lease": {"type": "float", "default": 180},
    "dead": {"type": "list", "elements": "str", "default": []},
}  # type: t.Dict[str, t.Dict[str, t.Any]]


def claim(module: AnsibleModule, host: Host) -> t.Dict[str, t.Any]:
    """Mark the host if that is wanted, and say whose mark is there."""
    options = module.params
    try:
        if options["owner"] is None or module.check_mode:
            mark, marked = host.mark(), False
        else:
            mark = host.take(
                options["owner"], by=options["by"], stage=ASKING, lease=options["lease"], dead=options["dead"]
            )
            marked = mark is None
    except MaintenanceError as error:
        return {"marked": False, "unmarked_because": str(error), "mark": None}
    return {"marked": marked, "unmarked_because": "", "mark": mark.describe() if mark else None}


def read_events(module: AnsibleModule) -> t.Dict[str, t.Any]:
    unread = {"events": None, "vm_name": None}
    if REQUESTS_IMPORT_ERROR is not None:
        return dict(unread, problem=missing_required_lib("requests"))
    try:
        run = ImdsModule(module)
        document = run.client.fetch()
        return {"events": run.describe(document.events), "vm_name": run.vm_name(), "problem": ""}
    except (ImdsError, SettingError) as error:
        return dict(unread, problem=str(error))


def main() -> None:
    module = AnsibleModule(argument_spec=dict(COMMON_OPTIONS, **OPTIONS), supports_check_mode=True)
    folder = Folder(module.params["directory"])
    host = Host(folder)
    claimed = claim(module, host)  # before the look at the events
    module.exit_json(
        changed=claimed["marked"],
        drained=os.path.lexists(module.params["flag"]) or folder.has("load-balancer.json"),
        records=host.records(),
        boot_id=moment().boot_id,
        **dict(claimed, **read_events(module)),
    )


if __name__ == "__main__":
    main()
