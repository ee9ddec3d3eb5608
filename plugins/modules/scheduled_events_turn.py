#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_turn
short_description: "Internal: decide what a host does next about its Scheduled Events"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The role P(maintops.scheduled_events.respond#role) uses this module. Use the role.
  - Each call takes the result of the previous step, and returns the next step. Between the calls a file on the host
    records what is prepared, so that the next run finishes an interrupted one.
  - When all hosts of the play that an event names are prepared, one of them acknowledges the event, through its own
    connection.
  - While there is nothing to do, the module waits on the host. It returns as soon as something changes.
  - Only one run at a time handles a host. Another run waits until the first has ended or, if the first was
    interrupted, until its lease has expired.
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.group
  - maintops.scheduled_events._imds.anywhere
  - maintops.scheduled_events._imds.files
options:
  rules:
    description:
      - Rules for the handling of events. The module applies the first rule whose conditions all match. If no rule
        matches, the action is V(prepare).
    type: list
    elements: dict
    default: []
    suboptions:
      action:
        description:
          - V(prepare) prepares the host, then acknowledges. V(approve) acknowledges at once, without a preparation.
            V(hold) prepares the host and does not acknowledge. V(ignore) does nothing.
        type: str
        required: true
        choices:
          - prepare
          - approve
          - ignore
          - hold
      event_types:
        description: Types of events, such as Freeze. The message for another word lists the known types.
        type: list
        elements: str
      event_sources:
        description: Platform or User.
        type: list
        elements: str
      event_statuses:
        description: Scheduled, Started or Advisory.
        type: list
        elements: str
      min_duration:
        description: Minimum duration of the impact in seconds. An unknown duration never matches.
        type: int
      max_duration:
        description: Maximum duration of the impact in seconds. An unknown duration never matches.
        type: int
      max_resources:
        description: Maximum number of VMs that the event may name.
        type: int
      lead_time:
        description: Seconds before NotBefore at which the preparation begins at the latest, or V(announced).
        type: str
      windows:
        description: Times of the week in which the event may be prepared for and acknowledged before that.
        type: list
        elements: dict
        suboptions:
          days:
            description: Days on which the window opens, of Mon, Tue, Wed, Thu, Fri, Sat and Sun. By default all.
            type: list
            elements: str
          from:
            description: Time at which it opens. By default V("00:00").
            type: str
          to:
            description: Time at which it closes. By default V("24:00").
            type: str
          timezone:
            description: Name of the time zone. By default UTC.
            type: str
          offsets:
            description: Offsets of the time zone. The action plugin sets this option.
            type: str
  acknowledge:
    description:
      - Events to acknowledge. V(prepared) means events of which every VM is prepared by this play, or is in
        O(speak_for). V(any) means all events for which the hosts of the play that it names are prepared. V(never) means
        no events.
    type: str
    choices: [prepared, any, never]
    default: prepared
  speak_for:
    description: Names in Azure of VMs outside the play that need no preparation.
    type: list
    elements: str
    default: []
  state_directory:
    description: Directory on the host for the state file. It must survive a reboot, and is created if missing.
    type: path
    default: /var/lib/maintops
  maintenance_margin:
    description:
      - If a host is under maintenance by the role P(maintops.scheduled_events.rolling_maintenance#role), the module
        waits until the maintenance has ended before the host is prepared. It waits until this many seconds before
        NotBefore at most.
    type: float
    default: 60
  published_events:
    description:
      - Events that Azure has published outside the VMs, each with C(event_id), C(event_status) and C(resources).
      - A host that such an event names waits until its metadata service shows the event, unless the event is
        V(Completed) or V(Canceled). These end the wait for a host that became unreachable.
    type: list
    elements: dict
    default: []
  published_timeout:
    description: Seconds to wait until the metadata service shows the events of O(published_events).
    type: float
    default: 300
  wait_timeout:
    description: Seconds to wait until events are over.
    type: float
    default: 3600
  reconnect_timeout:
    description: Seconds to wait for a host that becomes unreachable during its event.
    type: float
    default: 900
  phase_timeout:
    description: Seconds that the tasks of one phase may take. After this time another run may take over the host.
    type: float
    default: 900
  prepare_tasks:
    description:
      - Tasks file that the caller runs to prepare the host. Without it, there is nothing to do.
      - Without prepare tasks and O(load_balancer) nothing prepares the host, and its events are not acknowledged.
    type: str
  started_tasks:
    description: Tasks file that the caller runs for an event that has started. Without it, there is nothing to do.
    type: str
  recover_tasks:
    description: Tasks file that the caller runs to recover the host. Without it, there is nothing to do.
    type: str
  advised_tasks:
    description:
      - Tasks file that the caller runs once for a hint of Azure, an event in state V(Advisory). Without it, there is
        nothing to do.
    type: str
  load_balancer:
    description: Whether the caller takes the host out of its load balancer before it prepares the host.
    type: bool
  drain_timeout:
    description:
      - Maximum number of seconds that the connections of the host get to end, from the moment when the load balancers
        send no new ones.
    type: float
    default: 300
  drain_on_timeout:
    description: What to do when O(drain_timeout) has passed.
    type: str
    default: fail
  fallback:
    description:
      - How to acknowledge for a prepared host that no longer answers, or whose metadata service no longer answers. With
        V(none) the event of such a host starts at its NotBefore.
      - With V(azure_resource_manager) the control node acknowledges through Azure Resource Manager when the host has
        been silent for 30 seconds, every VM that the event names is prepared, and the last document that this run has
        read on the host showed the event as Scheduled. That document is at most O(fallback_max_age) seconds old, and
        its NotBefore has not passed.
      - Later changes of the event are not known. Azure never uses the id of an event again, and refuses the
        acknowledgement of an event that is not pending. Therefore an event that is over or has started does no harm,
        but a VM that Azure has added to the event meanwhile is acknowledged, too.
      - V(azure_resource_manager) requires the collection C(azure.azcollection) on the control node.
    type: str
    choices: [none, azure_resource_manager]
    default: none
  fallback_max_age:
    description:
      - Seconds for which the last document is valid, from the time of the request for it, at most O(phase_timeout).
        Within this time no other run takes over the host while the outcome of its prepare tasks is not written there.
      - Both must be greater than 30, since the host must be silent for 30 seconds first.
    type: float
    default: 300
  fallback_resource_id:
    description:
      - Id of the VM, of its availability set, or of its scale set in Azure. The inventory plugin
        P(azure.azcollection.azure_rm#inventory) provides this id as C(id).
      - Without this option, it is the id that the metadata service of the host returns when the host first sees its
        event.
    type: str
  fallback_credentials:
    description:
      - Common options of the modules of C(azure.azcollection), such as C(auth_source). Empty means the default sources
        of these modules. The options are not sent to the host.
    type: dict
    default: {}
  fallback_control_node:
    description: Inventory name of the host that gets the token for Azure Resource Manager.
    type: str
    default: localhost
  outcome:
    description:
      - The result of the phase that the previous call returned. The action plugin sets this option itself.
    type: dict
  reached:
    description:
      - Whether the end of the tasks files of the phase was reached that the previous call returned. Give V(true) in the
        task after them, and V(false) in a C(rescue) section. After RV(next=wait), give V(true).
      - Leave this option out in the first call of a run. Later calls take the other options from the first one, except
        for O(fallback_credentials).
    type: bool
  flushes:
    description:
      - Give RV(flushes) of the call before, or V(0), in a call after C(meta=flush_handlers). The call only returns
        whether handlers are still notified.
    type: int
  within_maintenance:
    description:
      - Whether the role C(rolling_maintenance) calls the module for the hosts of a batch. Otherwise a play in batches
        is refused, as well as the strategy P(ansible.builtin.host_pinned#strategy) with fewer forks than hosts, since
        later hosts would not be prepared. A run fails if an event is over before a host that it names has started.
    type: bool
    default: false
  allow_skip_tags:
    description:
      - Whether a run whose tags may leave out tasks of O(prepare_tasks) acknowledges events. Otherwise it prepares the
        host, and acknowledges nothing.
    type: bool
    default: false
  of_role:
    description:
      - Whether the other options are the variables of the role, each with the prefix C(respond_). The module then also
        refuses to begin where the role could not work.
    type: bool
    default: false
  check_only:
    description:
      - Whether to end after the check of the other options, as the first call of a run checks them. The host is not
        reached.
    type: bool
    default: false
  conclude:
    description:
      - Instead of a turn, add O(result) to the artifacts of the job, as M(ansible.builtin.set_stats) does. When all
        hosts of the play have done so, the module shows a summary. With O(within_maintenance), another result of the
        host follows. AWX and Automation Platform show the artifacts on the page of the job, and pass them to the next
        jobs of a workflow as the variable C(scheduled_events_report).
      - Put the task under C(always), so that hosts that failed are reported, too. Unreachable hosts report nothing.
      - V(events) is for the result of M(maintops.scheduled_events.scheduled_events_info), V(maintenance) for the fact
        C(rolling_maintenance_result), and V(respond) for RV(respond_result).
      - V(run) is for a later play, on one of its hosts. The module shows the summary if it has not been shown yet. The
        hosts of the play that have left an earlier play before the end of the tasks of a phase are in RV(left).
    type: str
    choices: [events, maintenance, respond, run]
  result:
    description:
      - The result of the host for O(conclude), except V(run). With V(respond), the module also returns its keys.
    type: dict
  control_node:
    description: Values of the control node. The module sets this option itself.
    type: dict
attributes:
  action:
    description: The hosts of a play are coordinated on the control node.
    support: full
  async:
    support: none
    details: []
  check_mode:
    support: full
    details:
      - The module returns the phases that would follow. It neither acknowledges nor records anything.
  diff_mode:
    support: none
  idempotent:
    support: none
seealso:
  - module: maintops.scheduled_events.scheduled_event_approve
    description: Acknowledge without regard to the other hosts of the play.
  - module: maintops.scheduled_events.scheduled_event_approve_arm
    description: Acknowledge from outside by hand.
"""

EXAMPLES = r"""
- name: Read the first step
  maintops.scheduled_events.scheduled_events_turn:
    prepare_tasks: "{{ playbook_dir }}/drain.yml"
  register: turn

- name: Prepare the host
  ansible.builtin.include_tasks: "{{ playbook_dir }}/drain.yml"
  when: turn.next == 'prepare'

- name: Report the result, and read the next step
  maintops.scheduled_events.scheduled_events_turn:
    reached: true
"""

RETURN = r"""
next:
  description:
    - The next step. V(prepare), V(started), V(recover) and V(advised) are phases. Pass the result of a phase to the
      next call as O(reached).
    - V(wait) means that another call is required. V(done) means that no call is required.
    - V(flush) means that a handler has notified one that is defined before it. Run the file of RV(steps), then call
      again.
  returned: success, without O(conclude) and O(flushes)
  type: str
  sample: prepare
flushes:
  description: How many times the handlers were flushed, if they have to be flushed once more. V(0) otherwise.
  returned: with O(flushes)
  type: int
events:
  description: The events of the phase.
  returned: when RV(next) is a phase
  type: list
  elements: dict
request_ids:
  description: Ids of the runs of the phase, one for each event.
  returned: when RV(next) is a phase
  type: list
  elements: str
steps:
  description:
    - The tasks files of the phase, in order.
    - V(load_balancer.yml) and V(handlers.yml) stand for files of the caller. V(load_balancer.yml) brings the host into
      the state RV(load_balancer). V(handlers.yml) runs the handlers that were notified.
  returned: when RV(next) is a phase or V(flush)
  type: list
  elements: dict
  contains:
    file:
      description: The tasks file.
      type: str
      sample: /srv/playbooks/drain.yml
    number:
      description: Position of the file in RV(steps[].of), from 1.
      type: int
      sample: 1
    of:
      description: All files of the phase.
      type: list
      elements: str
load_balancer:
  description: The state into which the phase brings the host, V(drained) or V(active). Empty if it stays unchanged.
  returned: when RV(next) is a phase
  type: str
drain_timeout:
  description: Seconds that the connections of the host get to end in this phase.
  returned: when RV(next) is a phase
  type: float
drain_deadline:
  description:
    - Time at which the drain must have ended, in seconds since the epoch by the clock of the control node. This is ten
      seconds before NotBefore. V(0) means no such time.
  returned: when RV(next) is a phase
  type: float
  sample: 1790000000.0
drain_on_timeout:
  description: What to do when RV(drain_timeout) has passed.
  returned: when RV(next) is a phase
  type: str
summary:
  description: Summary of the run, in one line. With O(conclude), the lines of the summary that the module shows.
  returned: when RV(next=done), or with O(conclude)
  type: raw
left:
  description: What each host has not come to the end of that has left its play.
  returned: with O(conclude)
  type: list
  elements: str
respond_result:
  description:
    - Result of the run. The role P(maintops.scheduled_events.respond#role) stores it in a fact of the same name.
    - Pass it to a last call with O(conclude=respond). If it contains C(failures), let the host fail with C(msg).
  returned: when RV(next=done)
  type: dict
"""

from ..module_utils._module import run_module
from ..module_utils._respond.request import OPTIONS
from ..module_utils._respond.turn import take_turn


def main() -> None:
    run_module(dict(OPTIONS, control_node={"type": "dict"}), take_turn)


if __name__ == "__main__":
    main()
