#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_turn
short_description: Decide what a host does next about its Scheduled Events
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - This is the heart of the role P(maintops.scheduled_events.respond#role). Use the role, unless you want to build a
    role of your own.
  - Each call takes the result of what the call before asked for, and returns the one thing that is to be done next.
    Between the calls a file on the host remembers what is prepared, so that a run that was interrupted is finished
    by the next one.
  - When all hosts of the play that an event names are prepared, one of them acknowledges it, through its own
    connection.
  - While there is nothing to do, the module waits on the host, and returns as soon as something changes.
  - Only one run at a time has a host. Another run waits until it has ended or, if it died, until its lease runs out.
extends_documentation_fragment:
  - maintops.scheduled_events.imds
  - maintops.scheduled_events.imds.attributes
  - maintops.scheduled_events.imds.posix
options:
  event_types:
    description: Only events of these types. Empty means all.
    type: list
    elements: str
    default: []
  event_sources:
    description: Only events from these sources. Empty means all.
    type: list
    elements: str
    default: []
  acknowledge:
    description: Whether to acknowledge. Otherwise events start at their NotBefore.
    type: bool
    default: true
  speak_for_others:
    description:
      - Whether to acknowledge events that also name a VM that is not a host of the play. The acknowledgement counts
        for that VM, too. Otherwise such an event is held.
    type: bool
    default: false
  state_directory:
    description: Directory on the host for the file that remembers. It must survive a reboot, and is made if need be.
    type: path
    default: /var/lib/maintops
  maintenance_margin:
    description:
      - A host that is under maintenance by the role P(maintops.scheduled_events.rolling_maintenance#role) is prepared
        when its maintenance has ended, or this many seconds before NotBefore.
    type: float
    default: 60
  wait_timeout:
    description: Seconds to wait until events are over.
    type: float
    default: 3600
  reconnect_timeout:
    description: Seconds to wait for a host to come back that is lost while its event goes on.
    type: float
    default: 900
  phase_timeout:
    description: Seconds that the tasks of one phase may take before another run takes this one for dead.
    type: float
    default: 900
  prepare_tasks:
    description: Tasks file that the caller runs to prepare. Empty means that there is nothing to do.
    type: str
    default: ''
  started_tasks:
    description: Tasks file that the caller runs for an event that has started. Empty means that there is nothing to do.
    type: str
    default: ''
  recover_tasks:
    description: Tasks file that the caller runs to recover. Empty means that there is nothing to do.
    type: str
    default: ''
  load_balancer:
    description: Whether the caller takes the host out of its load balancer before it prepares.
    type: bool
    default: false
  drain_timeout:
    description: Seconds that the load balancer may take at most. NotBefore may leave less.
    type: float
    default: 300
  drain_on_timeout:
    description: What the load balancer is to do when these have passed.
    type: str
    default: fail
  outcome:
    description:
      - What became of the phase that the call before returned. Its C(request_ids) say which phase it was, C(ok) is
        whether it succeeded, and C(reason) says why it did not. In place of C(ok) it may have C(phase_id), and
        C(failure) with C(phase_id) and C(reason) of the last phase that failed.
      - The first call of a run has none.
    type: dict
  again:
    description: Whether the call before returned V(wait). The first call of a run has neither this nor O(outcome).
    type: bool
    default: false
  controller:
    description: What the action plugin tells the module. Leave it out.
    type: dict
attributes:
  action:
    description: The hosts of a play meet on the controller.
    support: full
  check_mode:
    support: full
    details:
      - Returns the phases as they would follow, and neither acknowledges nor remembers anything.
  diff_mode:
    support: none
  idempotent:
    support: none
seealso:
  - module: maintops.scheduled_events.scheduled_event_approve
    description: Acknowledge without the other hosts.
"""

EXAMPLES = r"""
- name: Find out what is to be done first
  maintops.scheduled_events.scheduled_events_turn:
    prepare_tasks: "{{ playbook_dir }}/drain.yml"
  register: turn

- name: Do it
  ansible.builtin.include_tasks: "{{ playbook_dir }}/drain.yml"
  when: turn.next == 'prepare'

- name: Say that it is done, and find out what follows
  maintops.scheduled_events.scheduled_events_turn:
    prepare_tasks: "{{ playbook_dir }}/drain.yml"
    outcome:
      request_ids: "{{ turn.request_ids }}"
      ok: true
"""

RETURN = r"""
next:
  description:
    - What is to be done next. V(prepare), V(started) and V(recover) are phases; their outcome goes into the next call.
    - V(wait) asks for another call with O(again=true), and V(done) for none.
  returned: success
  type: str
  sample: prepare
events:
  description: The events of the phase.
  returned: success
  type: list
  elements: dict
request_ids:
  description: Identity of the phase, for O(outcome).
  returned: success
  type: list
  elements: str
phase_id:
  description: Differs from phase to phase, also where one is repeated.
  returned: success
  type: str
steps:
  description:
    - The tasks files of the phase, in order. V(load_balancer.yml) and V(handlers.yml) stand for files of the caller.
      The first brings the host into the state RV(load_balancer), the second runs the handlers that were notified.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: The tasks file.
      type: str
      sample: /srv/playbooks/drain.yml
    number:
      description: Its place among them.
      type: int
      sample: 1
    of:
      description: All files of the phase.
      type: list
      elements: str
load_balancer:
  description: V(drained) or V(active) if the host is to be brought into that state in this phase. Otherwise empty.
  returned: success
  type: str
drain_timeout:
  description: Seconds that the load balancer may take in this phase.
  returned: success
  type: int
drain_on_timeout:
  description: What it is to do when these have passed.
  returned: success
  type: str
summary:
  description: What happened, in one line.
  returned: when RV(next=done)
  type: str
respond_result:
  description:
    - What happened, as the role P(maintops.scheduled_events.respond#role) leaves it in a fact of the same name.
    - If it has C(failures), the module fails.
  returned: when RV(next=done)
  type: dict
"""

from ansible_collections.maintops.scheduled_events.plugins.module_utils._module import run_module
from ansible_collections.maintops.scheduled_events.plugins.module_utils._turn import OPTIONS
from ansible_collections.maintops.scheduled_events.plugins.module_utils._turn_call import take_turn


def main() -> None:
    run_module(dict(OPTIONS, controller={"type": "dict"}), take_turn)


if __name__ == "__main__":
    main()
