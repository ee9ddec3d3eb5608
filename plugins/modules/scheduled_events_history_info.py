#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_history_info
short_description: Read what happened to the Scheduled Events of a host
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Reads the history that the polling unit and the roles of this collection keep on the host. Each fact of it says what
    happened to an event, and when.
  - Pass the results of several hosts to M(maintops.scheduled_events.scheduled_events_report) to write a report.
options:
  directories:
    description:
      - Directories of the histories. The defaults are those of the polling unit, and of the roles
        P(maintops.scheduled_events.respond#role) and P(maintops.scheduled_events.rolling_maintenance#role). A directory
        that does not exist has no facts. The module fails if none of them exists.
    type: list
    elements: path
    default:
      - /var/lib/scheduled-events-history
      - /var/lib/maintops
  days:
    description:
      - Days until now, above 0. All facts of an event, or of a maintenance of yours, are returned if one of them is
        within these days. A history is kept for 400 days at most.
    type: float
    default: 90
requirements:
  - python >= 3.6 (on the host)
notes:
  - Only root, and the group that the owner of the host names, can read a history. Use C(become).
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.reads
attributes:
  platform:
    description: Operating systems of the hosts on which the module can run.
    support: full
    platforms: posix
seealso:
  - module: maintops.scheduled_events.scheduled_events_report
"""

EXAMPLES = r"""
- name: Read the history of the last week
  maintops.scheduled_events.scheduled_events_history_info:
    days: 7
  become: true
  register: read

- name: Show when events were acknowledged
  ansible.builtin.debug:
    msg: "{{ item.time }} {{ item.event_type }} {{ item.by }}"
  loop: "{{ read.facts | selectattr('kind', 'eq', 'acknowledged') }}"
"""

RETURN = r"""
facts:
  description:
    - The facts, in the order of their times. A field that is unknown or does not apply is missing.
  returned: success
  type: list
  elements: dict
  contains:
    version:
      description: Version of the format.
      type: int
    kind:
      description:
        - What happened. V(seen), the event was announced, or is back; V(phase_began) and V(phase_ended);
          V(acknowledged) and V(refused); V(started) and V(over), in the document; V(impact).
        - V(held), an event was not acknowledged, a VM not recovered, or a maintenance not begun by the gate, for the
          RV(facts[].reason). V(returned), the VM recovered well, without need, or was cleared by an operator.
          V(drilled), a drill has ended.
      type: str
    time:
      description: When, in UTC.
      type: str
    source:
      description:
        - Who wrote the fact, V(poller), V(respond), V(rolling_maintenance), V(drill), or V(operator) for a command or
          module that acknowledged.
      type: str
    vm_name:
      description: Name of the VM in Azure.
      type: str
    boot_id:
      description: The boot of the VM.
      type: str
    run:
      description: The run of the phase or of the play.
      type: str
    maintenance:
      description: Id and name of your own maintenance, which has no event.
      type: str
    event_id:
      description: Id of the event.
      type: str
    event_type:
      description: Type of the event.
      type: str
    event_status:
      description: Status of the event.
      type: str
    event_source:
      description: Source of the event.
      type: str
    not_before:
      description: NotBefore of the event, in UTC.
      type: str
    resources:
      description: Names of at most 20 VMs of the event.
      type: list
      elements: str
    resource_count:
      description: Number of all VMs of the event.
      type: int
    phase:
      description: >-
        The phase. Those of your own maintenance are V(drain), V(tasks), V(reboot), V(health) and V(return).
      type: str
    outcome:
      description:
        - Of a phase V(ok), V(failed), V(timeout), V(interrupted), or V(nothing) if nothing was prepared; of a drill
          V(passed), V(failed) or V(aborted); of an impact V(paused), V(rebooted) or V(none).
      type: str
    reason:
      description: Why.
      type: str
    by:
      description: Who acknowledged.
      type: str
    via:
      description: Through which service.
      type: str
    rule:
      description: By which rule.
      type: str
    announced_seconds:
      description: Seconds of impact that Azure announced, -1 if unknown.
      type: float
    measured_seconds:
      description: Seconds of impact that were measured.
      type: float
  sample:
    - version: 1
      kind: seen
      time: '2026-01-31T11:50:00.000Z'
      source: poller
      vm_name: web1
      event_id: c7061bac-afdc-4513-b24b-aa5f13a16123
      event_type: Redeploy
problems:
  description: Why facts are missing, such as a file that cannot be read. The list is empty if none are missing.
  returned: success
  type: list
  elements: str
  sample: []
"""

import os
import time

from ..module_utils._checked_module import CheckedModule
from ..module_utils._scheduled_events import history, history_file


def main() -> None:
    module = CheckedModule(
        {
            "directories": {"type": "list", "elements": "path", "default": list(history_file.DIRECTORIES)},
            "days": {"type": "float", "default": 90},
        }
    )
    directories = list(dict.fromkeys(map(os.path.realpath, filter(None, module.params["directories"]))))
    if not any(map(os.path.isdir, directories)):
        names = ", ".join(module.params["directories"]) or "no names"
        module.fail_json(
            msg=f"there is no history on this host: none of {names} is a directory. Install the polling unit"
        )
    now = time.time()
    found = history_file.read(*directories, now=now)
    since = now - module.params["days"] * 86400
    recent = {_about(fact) for fact in found.facts if fact.time >= since}
    facts = [fact for fact in found.facts if fact.time >= since or (_about(fact) and _about(fact) in recent)]
    shown = [history.as_json(fact) for fact in sorted(facts, key=lambda fact: fact.time)]
    module.exit_json(changed=False, facts=shown, problems=list(found.problems))


def _about(fact: history.Fact) -> str:
    """The event or the maintenance; empty if the event has no id."""
    return fact.maintenance or fact.key


if __name__ == "__main__":
    main()
