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
  returned: success and on a timeout
  type: str
  sample: http://169.254.169.254
endpoint_source:
  description:
    - How the endpoint was found. V(given) for one that O(endpoint) names.
    - With O(endpoint=auto), V(default address), or C(DHCP option 245 in PATH) with the path of the lease and the client
      that wrote it.
  returned: success and on a timeout
  type: str
  sample: given
"""

import math
import typing as t

from ansible_collections.maintops.scheduled_events.plugins.module_utils._module import (
    FILTER_OPTIONS,
    ImdsModule,
    run_module,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.endpoint import SettingError
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.waiting import (
    Waited,
    WaitTimeout,
    wait,
)

WAIT_OPTIONS = {
    "state": {"type": "str", "choices": ["absent", "present"], "default": "absent"},
    "timeout": {"type": "float", "default": 900},
    "sleep": {"type": "float", "default": 1},
    "stable_for": {"type": "float", "default": 0},
}


def check_times(run: ImdsModule) -> None:
    run.require_positive("timeout", "sleep")
    stable_for, timeout = run.params["stable_for"], run.params["timeout"]
    if not (math.isfinite(stable_for) and 0 <= stable_for < timeout):
        raise SettingError(
            f"stable_for {stable_for:g} is out of range: expected seconds, 0 or more and less than timeout, "
            f"which is {timeout:g}"
        )


def report(run: ImdsModule, last: t.Optional[Waited], elapsed: float) -> t.Dict[str, t.Any]:
    return {
        "changed": False,
        "events": run.describe(last.events) if last else [],
        "elapsed": round(elapsed, 3),
        "incarnation": last.document.incarnation if last else None,
        **run.where(),
    }


def wait_for_state(run: ImdsModule) -> t.Dict[str, t.Any]:
    check_times(run)
    try:
        waited = wait(
            run.client,
            run.wanted,
            present=run.params["state"] == "present",
            timeout=run.params["timeout"],
            sleep=run.params["sleep"],
            stable_for=run.params["stable_for"],
            request_timeout=run.params["request_timeout"],
        )
    except WaitTimeout as error:
        run.module.fail_json(msg=str(error), **report(run, error.last, error.elapsed))
    return report(run, waited, waited.elapsed)


def main() -> None:
    run_module(dict(FILTER_OPTIONS, **WAIT_OPTIONS), wait_for_state)


if __name__ == "__main__":
    main()
