#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: maintenance_gate
short_description: "Internal: let a batch of a rolling maintenance begin, and mark its hosts"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The role P(maintops.scheduled_events.rolling_maintenance#role) uses this module. The module belongs to the role, and
    may change with it in any release.
  - With O(step=wait) an action plugin runs the module with O(step=survey) on each host of the fleet, on as many hosts
    at the same time as the number of forks allows, until the batch may begin. Each host is reached over its own
    connection, with its own variables.
  - The mark of a host belongs to the run of Ansible that sets it. Another run replaces it only after its lease has
    expired, or when it knows that the first run has ended.
options:
  step:
    description:
      - V(check) fails for what the role would only notice too late.
      - V(wait) waits until the batch may begin. Use it in a task with C(run_once).
      - V(decision) reads what V(wait) decided for this host. With C(run_once), Ansible registers each result for all
        hosts. Under a strategy that runs the gate for each host, such as C(free), that result may belong to another
        host.
      - V(survey) reads on a host everything that the gate needs to know. With O(owner) it first marks the host.
      - V(withdraw) removes the mark of O(owner).
      - V(hold) sets or renews the mark of a host whose maintenance may begin. It fails if another run has marked the
        host.
      - V(note) records on the control node that O(phase) begins. The next mark writes this into the history of the
        host.
      - V(done) records that the maintenance of the host has finished, and removes the mark.
      - V(failed) removes the mark and records on the control node that the maintenance failed. The gate then opens for
        no further host.
    type: str
    choices: [check, wait, decision, survey, withdraw, hold, note, done, failed]
    required: true
  fleet:
    description: The hosts that share O(max_unavailable). Empty means all hosts of the play.
    type: list
    elements: str
    default: []
  max_unavailable:
    description: Number or percentage of hosts that may be unavailable at the same time.
    type: str
    default: '1'
  on_event:
    description: Handling of a host of the batch that an event names.
    type: str
    choices: [wait, skip, respond, fail]
    default: wait
  timeout:
    description: Seconds to wait until the gate opens.
    type: float
    default: 3600
  settle:
    description: Seconds for which the gate stays shut after an event has ended.
    type: float
    default: 60
  name:
    description: Name of the maintenance. Without this option, it is a digest of its tasks files.
    type: str
  resume_within:
    description: Seconds for which the next run leaves out the hosts that an interrupted run has maintained.
    type: float
    default: 86400
  maintenance_windows:
    description: Times of the week in which a batch may begin, as in the rules of the polling unit. Empty is any time.
    type: list
    elements: dict
    default: []
  hosts_without_traffic:
    description:
      - Hosts that receive no traffic from a load balancer. When this option is set, the gate returns at intervals with
        RV(open=false), so that the caller can read the list again.
    type: list
    elements: str
  checked_hosts:
    description:
      - Hosts whose maintenance was interrupted, and at which an operator has looked. They no longer count as
        unavailable for this reason.
    type: list
    elements: str
    default: []
  allow_skip_tags:
    description:
      - Whether a run whose tags may leave out tasks counts as the maintenance. Otherwise it is a separate maintenance,
        and a later run without these tags maintains the hosts again.
    type: bool
    default: false
  directory:
    description: State directory of the roles, an absolute path.
    type: path
    default: /var/lib/maintops
  flag:
    description: File that makes the host fail the health probe of its load balancer.
    type: path
    default: /var/lib/maintops/drained
  lease:
    description: Seconds after which the mark expires unless it is renewed.
    type: float
    default: 1800
  phase:
    description:
      - The phase of the maintenance that begins, for the history of the host. The phase before it ends well, or fails
        with O(step=failed).
    type: str
    choices: [drain, tasks, reboot, health, return]
  reason:
    description: Why the maintenance failed, for the history of the host.
    type: str
    default: ''
  owner:
    description: Owner of the mark. The action plugin sets this option.
    type: str
  by:
    description: Information about the owner that other runs can read. The action plugin sets this option.
    type: dict
    default: {}
  ended_owners:
    description:
      - Owners whose runs have ended without removing their marks. The action plugin sets this option.
    type: list
    elements: str
    default: []
  checked:
    description:
      - Whether an operator has looked at the host. What an interrupted run began there then does not count any more.
        The action plugin sets this option.
    type: bool
    default: false
  round:
    description: The maintenance that has finished. The action plugin sets this option.
    type: dict
    default: {}
  history:
    description: Facts for the history of the host. The action plugin sets this option.
    type: dict
    default: {}
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
    details:
      - The gate examines the fleet once and does not wait. No host is marked.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - A mark is renewed each time.
"""

EXAMPLES = r"""
- name: Wait until the batch may begin
  maintops.scheduled_events.maintenance_gate:
    step: wait
    fleet: "{{ groups['web'] }}"
    max_unavailable: 25%
  run_once: true

- name: Read the decision for this host
  maintops.scheduled_events.maintenance_gate:
    step: decision
  register: gate
"""

RETURN = r"""
open:
  description: Whether the batch may begin.
  returned: with O(step=wait)
  type: bool
  sample: true
batch:
  description: The hosts of the batch that are to be maintained.
  returned: with O(step=wait)
  type: list
  elements: str
  sample: [web1]
done:
  description: The hosts of the batch that an earlier, interrupted run has maintained.
  returned: with O(step=wait)
  type: list
  elements: str
  sample: []
left_out:
  description: The hosts of the batch that are left out because of an event.
  returned: with O(step=wait)
  type: list
  elements: str
  sample: []
respond:
  description: The hosts of the batch that must respond to events before they are maintained.
  returned: with O(step=wait)
  type: list
  elements: str
  sample: []
waits_for:
  description: The reasons that keep the gate shut.
  returned: with O(step=wait)
  type: list
  elements: str
  sample: ['web2 (Reboot Scheduled, NotBefore 2026-11-21T09:00:00Z)']
in_part:
  description: The options of this run that may leave out tasks; empty without such options.
  returned: with O(step=wait)
  type: str
  sample: ''
msg:
  description: The decision as a sentence.
  returned: with O(step=wait)
  type: str
  sample: 'web1: goes ahead'
decision:
  description: What O(step=wait) returned for the batch of this host; V(null) if the host did not come to the gate.
  returned: with O(step=decision)
  type: dict
  sample: {open: true, batch: [web1], done: [], left_out: [], respond: [], waits_for: [], msg: 'web1: goes ahead'}
simulated:
  description: Whether the gate decided in check mode.
  returned: with O(step=decision)
  type: bool
  sample: false
windows:
  description: Whether the host is a Windows host.
  returned: with O(step=hold), O(step=done) and O(step=failed)
  type: bool
  sample: false
history:
  description:
    - The facts that this run has written into the history of the host so far. For a Windows host, only this list has
      them.
  returned: with O(step=hold), O(step=done) and O(step=failed)
  type: list
  elements: dict
  sample: []
mark:
  description:
    - The mark of another owner, with C(owner), C(by), C(stage) (V(asking) at the gate, V(held) after
      it), its C(age) and C(lease) in seconds, and whether it is C(live).
    - V(null) if the host has no such mark.
  returned: with O(step=survey)
  type: dict
  sample: {owner: controller1/ansible-local-4711x2y/web1, by: {node: controller1, pid: 4711}, stage: held, age: 12.5,
           lease: 1800, live: true, unfinished: {}}
marked:
  description: Whether this run marked the host for O(owner).
  returned: with O(step=survey)
  type: bool
  sample: true
unmarked_because:
  description: Why the host could not be marked. Empty if it was marked, or if another owner has marked it.
  returned: with O(step=survey)
  type: str
  sample: ''
unfinished:
  description:
    - The owner, and information about it, of an earlier run that began the maintenance of the host and did not end it.
    - Empty if there is none.
  returned: with O(step=survey)
  type: dict
  sample: {}
drained:
  description:
    - Whether one of the roles, or the flag, has taken the host out of its load balancer, or the polling unit has
      prepared the host and has not recovered it yet.
  returned: with O(step=survey)
  type: bool
  sample: false
drained_because:
  description: Why RV(drained) cannot be determined, so that the host counts as drained; empty if it can.
  returned: with O(step=survey)
  type: str
  sample: ''
returning:
  description:
    - The C(holder) that puts the host back into its load balancer at this moment, and the C(seconds) for which others
      wait at most.
    - V(null) if the host does not return, or if this has taken longer than it may.
  returned: with O(step=survey)
  type: dict
  sample: {holder: respond, seconds: 175.2}
waiting:
  description: The ids of the events that the polling unit of the host does not prepare for yet.
  returned: with O(step=survey)
  type: list
  elements: str
  sample: []
records:
  description: Maintenance that has finished on the host, by name.
  returned: with O(step=survey)
  type: dict
  sample: {patch-june: {round: 7d0f, hosts: [web1, web2], since_begin: 61.2, age: 30.1}}
events:
  description:
    - All events that the host sees, in the format of RV(maintops.scheduled_events.scheduled_events_info#module:events).
    - V(null) if the events cannot be read.
  returned: with O(step=survey)
  type: list
  elements: dict
  sample: []
vm_name:
  description: Name of this VM in Azure; V(null) if it cannot be read.
  returned: with O(step=survey)
  type: str
  sample: web_0
drill:
  description: Whether a drill adds an event to those of the service.
  returned: with O(step=survey)
  type: bool
  sample: false
problem:
  description: Why the events cannot be read; empty if they can.
  returned: with O(step=survey)
  type: str
  sample: ''
remarks:
  description: Warnings about the host, which the control node shows.
  returned: with O(step=survey)
  type: list
  elements: str
  sample: []
boot_id:
  description: Identity of the current boot of this machine; empty if the system does not provide it.
  returned: with O(step=survey)
  type: str
  sample: 1e2b2f0e-6a0d-4b43-a4a5-5f0f5d4f4d0b
"""

import typing as t

from ..module_utils._checked_module import CheckedModule
from ..module_utils._load_balancer.health_probe import Flag
from ..module_utils._maintenance import MaintenanceError
from ..module_utils._maintenance_calls import OPTIONS, read_events, take_step
from ..module_utils._module import COMMON_OPTIONS, ImdsModule
from ..module_utils._scheduled_events.clock import boot_id
from ..module_utils._scheduled_events.files import Folder


def main() -> None:
    module = CheckedModule(dict(COMMON_OPTIONS, **OPTIONS))

    def read() -> t.Dict[str, t.Any]:
        return dict(read_events(lambda warn: ImdsModule(module, warn=warn)), boot_id=boot_id())

    folder, flag = Folder(module.params["directory"]), Flag(module.params["flag"])
    module.finish(lambda: take_step(module, folder, flag_is_up=flag.is_up, read=read), MaintenanceError)


if __name__ == "__main__":
    main()
