#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_wait
short_description: Wait until Scheduled Events are present or absent
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Polls the Scheduled Events endpoint on the host itself, within one module run, until there is an event that the
    filters select, or until there is none.
  - An error of the service, a timeout or an empty answer never counts as "no events". The module tolerates such polls
    until O(timeout), or for O(retry_for) if that is set. It fails at once only if the service refuses the request from
    the start, for example because of a wrong O(api_version). It fails within 10 seconds if there is no connection.
  - After the first document, a poll fails without an answer within 30 seconds, also with a greater O(request_timeout).
  - An event with the status V(Advisory) is a hint that never starts. It counts only if O(event_id), O(event_types) or
    O(event_statuses) select it.
  - Use this module as a gate before work that must not be interrupted by an event. Use it after an acknowledgement to
    find out when the event is over. Recover when the event is absent, not when its duration has passed.
extends_documentation_fragment:
  - maintops.scheduled_events._imds
  - maintops.scheduled_events._imds.filters
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.group
  - maintops.scheduled_events._imds.anywhere
options:
  state:
    description:
      - V(absent) waits until there is no event that the filters select.
      - V(present) waits until there is at least one.
    type: str
    choices: [absent, present]
    default: absent
  timeout:
    description:
      - Seconds after which the module fails. More than O(stable_for). The message names the last request that failed,
        if any.
    type: float
    default: 900
  sleep:
    description:
      - Seconds between two polls. More than 0. After failed polls the module waits longer, up to 5 seconds.
    type: float
    default: 1
  stable_for:
    description:
      - Seconds for which the state must last, from one successful poll to another. Use it when one event can follow
        closely after another, so that the second event is not missed.
    type: float
    default: 0
  retry_for:
    description:
      - Seconds for which polls may fail in a row. More than 0. After this time the module fails. If it is not set, the
        module tolerates failed polls until O(timeout).
    type: float
    default: null
notes:
  - For a Windows host the control node polls. The wait uses a fork of the control node the whole time. Each poll starts
    PowerShell on the host, which takes seconds and CPU time. O(sleep=10) is often sufficient there. If the host becomes
    unreachable after the first poll, for example because it reboots, this counts as a failed poll, and the wait
    continues.
  - While a task runs, the control node checks every millisecond whether the task has ended. If many plays wait on one
    control node, set C(internal_poll_interval = 0.1) in C(ansible.cfg) to save most of this CPU time.
attributes:
  check_mode:
    support: full
    details:
      - The module only reads, and waits in check mode too.
  diff_mode:
    support: N/A
    details:
      - The module changes nothing.
  idempotent:
    support: full
    details:
      - The module changes nothing.
seealso:
  - module: maintops.scheduled_events.scheduled_events_info
  - module: maintops.scheduled_events.scheduled_event_approve
"""

EXAMPLES = r"""
- name: Wait until no event has named this VM for a minute
  maintops.scheduled_events.scheduled_events_wait:
    stable_for: 60
    timeout: 3600

- name: Wait until an event that was acknowledged is over
  maintops.scheduled_events.scheduled_events_wait:
    event_id: "{{ maintenance.events | map(attribute='event_id') }}"
    timeout: 1800

- name: Wait for a Spot eviction
  maintops.scheduled_events.scheduled_events_wait:
    state: present
    event_types: [Preempt]
    timeout: 86400
  async: 86460
  poll: 30
"""

RETURN = r"""
events:
  description:
    - The events that the filters select at the end of the wait. Empty for O(state=absent).
    - If the wait fails with O(state=absent), the events that are still present.
    - See M(maintops.scheduled_events.scheduled_events_info) for what an event contains.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: list
  elements: dict
elapsed:
  description: Seconds that the wait took.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: float
  sample: 312.4
drill:
  description: Whether a drill adds an event to those of the service.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: bool
  sample: false
incarnation:
  description:
    - Incarnation of the last document that was read.
    - A number. A string only if the service sent a value that is not a number. V(null) if no document was read.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: raw
  sample: 8
endpoint:
  description: Base URL of the service that was asked.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: str
  sample: http://169.254.169.254
endpoint_source:
  description:
    - How the endpoint was found. V(given) if O(endpoint) names it.
    - With O(endpoint=auto), V(default address), or C(DHCP option 245 in PATH) with the path of the lease and the DHCP
      client that wrote it.
  returned: success, and when O(timeout) or O(retry_for) ends the wait
  type: str
  sample: given
"""

from ..module_utils._calls import WAIT_OPTIONS, wait_for_state
from ..module_utils._module import run_module


def main() -> None:
    run_module(WAIT_OPTIONS, wait_for_state)


if __name__ == "__main__":
    main()
