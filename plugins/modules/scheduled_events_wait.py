#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_wait
short_description: Wait until Scheduled Events are there, or gone
version_added: 0.1.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Polls the Scheduled Events endpoint on the host itself, inside one module call, until there is an event that the
    filters select, or until there is none.
  - An error of the service, a timeout or an empty answer is never taken for "no events". Such polls are tolerated
    until O(timeout). Only a request that the service refuses from the start (a wrong O(api_version), for example)
    fails at once, and a host where nothing ever answers within 10 seconds.
  - Use it as a gate before work that must not meet an event, and after an acknowledgement to learn when the event is
    over. Recover when the event is gone, not when its duration has passed.
extends_documentation_fragment:
  - maintops.scheduled_events.imds
  - maintops.scheduled_events.filters
  - maintops.scheduled_events.imds.attributes
  - maintops.scheduled_events.imds.anywhere
options:
  state:
    description:
      - V(absent) waits until no event is left that the filters select.
      - V(present) waits until there is at least one.
    type: str
    choices: [absent, present]
    default: absent
  timeout:
    description:
      - Seconds after which the module gives up and fails. The message names the request that failed last, if any.
    type: float
    default: 900
  sleep:
    description:
      - Seconds between two polls. After failing polls the module waits longer, up to 5 seconds.
    type: float
    default: 1
  stable_for:
    description:
      - Seconds for which the state must hold, from one successful poll to another. Events can follow one another
        closely; this way the second one is not missed.
    type: float
    default: 0
  retry_for:
    description:
      - Here it is without effect, as failing polls are tolerated until O(timeout) anyway.
notes:
  - For a Windows host the controller polls. The wait takes a fork of the controller the whole time, and each poll takes
    the seconds and the CPU time that PowerShell needs to start on the host. O(sleep=10) is often enough there.
    If such a host is lost after the first poll, because it reboots for example, that counts as a failed poll, and the
    wait goes on.
  - While a task runs, the controller looks every millisecond whether it has ended, for as long as the wait lasts. Where
    many plays wait on one controller, C(internal_poll_interval = 0.1) in C(ansible.cfg) spares most of that CPU time.
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
- name: Go on only while nothing is coming for this VM, nor has been for a minute
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
    - The events that the filters select at the end of the wait, empty for O(state=absent).
    - On a timeout of O(state=absent), the events that stood in the way.
    - See M(maintops.scheduled_events.scheduled_events_info) for what an event contains.
  returned: success and on a timeout
  type: list
  elements: dict
elapsed:
  description: Seconds that the wait took.
  returned: success and on a timeout
  type: float
  sample: 312.4
incarnation:
  description:
    - Incarnation of the last document that could be read.
    - A number; a string only if the service sent one that is not a number. V(null) if no document could be read.
  returned: success and on a timeout
  type: raw
  sample: 8
endpoint:
  description: Base URL of the service that was asked.
  version_added: 1.0.0
  returned: success and on a timeout
  type: str
  sample: http://169.254.169.254
endpoint_source:
  description:
    - How the endpoint was found. V(given) for one that O(endpoint) names.
    - With O(endpoint=auto), V(default address), or C(DHCP option 245 in PATH) with the path of the lease and the client
      that wrote it.
  version_added: 1.0.0
  returned: success and on a timeout
  type: str
  sample: given
"""

from ansible_collections.maintops.scheduled_events.plugins.module_utils._calls import WAIT_OPTIONS, wait_for_state
from ansible_collections.maintops.scheduled_events.plugins.module_utils._module import run_module


def main() -> None:
    run_module(WAIT_OPTIONS, wait_for_state)


if __name__ == "__main__":
    main()
